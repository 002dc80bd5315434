#include "report/run_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/text.hpp"
#include "report/exhibit_section.hpp"
#include "report/html.hpp"
#include "report/leading.hpp"
#include "report/many_clients.hpp"
#include "report/run_problems.hpp"
#include "report/run_tables.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using svg::Quantity;
using svg::value_text;

constexpr int kPreColour = 0, kPostColour = 1, kGlobalColour = 2, kNewcomerColour = 3,
              kWorstColour = 6;
constexpr double kThird = 310;         // width of a chart that shares its row with two others
constexpr size_t kMaxCells = 200'000;  // of clients × classes; a picture holds them all
constexpr size_t kMaxDiscs = 10'000;   // more are a picture

std::string view_name(const std::string& view) {
  if (view == "post") return "after personalization";
  return view == "pre" ? "before personalization" : "global model";
}

int view_colour(const std::string& view) {
  return view == "post" ? kPostColour : view == "pre" ? kPreColour : kGlobalColour;
}

std::string percent(double fraction) { return value_text(Quantity::kFraction, fraction); }

// What the sections share, looked up once.
struct Facts {
  const RunHistory& run;
  int64_t judged = -1;            // the last evaluated round
  std::optional<int64_t> best{};  // on validation
  int64_t last_round = 0;         // trained so far
  const EvalRow* headline = nullptr;

  std::string when() const {
    return judged < 0 ? "not evaluated yet" : fmt::format("round {}", judged);
  }
};

Facts gather(const RunHistory& run) {
  Facts facts{run};
  facts.judged = last_evaluated_round(run);
  facts.best = best_validation_round(run);
  for (const auto& row : run.rounds) facts.last_round = std::max(facts.last_round, row.round);
  facts.headline = eval_at(run, facts.judged, "clients", run.meta.headline, "test");
  return facts;
}

std::string header(const Facts& facts) {
  const auto& meta = facts.run.meta;
  std::vector<std::string> line;
  const auto add = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) line.push_back(label + value);
  };
  add("", meta.name);
  add("partition ", meta.partition);
  add("", fmt::format("{} clients", meta.clients));
  add("", fmt::format("{} of {} rounds", facts.last_round, meta.rounds));
  if (meta.newcomers > 0) add("", fmt::format("{} newcomers", meta.newcomers));
  if (meta.parameters > 0) add("", parameters_text(meta));
  add("seed ", meta.seed);
  std::string badge;
  if (meta.state != "finished")
    badge = fmt::format(" <span class=\"badge\">{} · round {} of {}</span>", escape(meta.state),
                        facts.last_round, meta.rounds);
  return fmt::format(
      "<header>\n<h1>{} <span class=\"dim\">· {} · {}</span></h1>\n<p>{}{}</p>\n"
      "</header>\n",
      escape(meta.method), escape(meta.dataset), escape(meta.model), escape(join(line, " · ")),
      badge);
}

std::string tiles(const Facts& facts) {
  const auto& run = facts.run;
  const auto spent = spent_until(run, facts.last_round);
  const EvalRow none{};
  const auto& row = facts.headline ? *facts.headline : none;
  const auto lead = leading_of(run.meta);
  const auto spread = lead.spread(run, row);
  std::vector<Tile> out;
  out.push_back({lead.title + ", " + view_name(run.meta.headline),
                 lead.plus_minus(spread.mean, spread.std),
                 "mean ± std over clients, " + facts.when(), true});
  const auto* best =
      facts.best ? eval_at(run, *facts.best, "clients", run.meta.headline, "test") : nullptr;
  if (best)
    out.push_back({"Best on validation", lead.text(lead.of(*best)),
                   fmt::format("test {} of round {}", lead.word, *facts.best)});
  out.push_back({"Worst 10 %", lead.text(spread.worst10),
                 fmt::format("of clients; best: {}", lead.text(spread.best10))});
  if (lead.is_accuracy())
    out.push_back({"Per sample", percent(row.micro), "all test samples pooled"});
  else
    out.push_back({"Accuracy", percent(row.mean), "mean over clients"});
  if (const auto* late = eval_at(run, facts.judged, "newcomers", run.meta.headline, "test"))
    out.push_back({"Newcomers", lead.text(lead.of(*late)),
                   fmt::format("{} clients that never trained", run.meta.newcomers)});
  out.push_back(
      {"Traffic", human_bytes(spent.bytes_down + spent.bytes_up),
       fmt::format("{} down, {} up", human_bytes(spent.bytes_down), human_bytes(spent.bytes_up))});
  out.push_back({"Simulated time", human_seconds(spent.sim_seconds),
                 fmt::format("computed in {}", human_seconds(spent.wall_seconds))});
  return tile_row(out);
}

svg::Series leading_series(const Leading& lead, const std::vector<EvalRow>& rows, std::string name,
                           int colour, bool band) {
  svg::Series series{std::move(name), colour, {}};
  for (const auto& row : rows) {
    svg::Point point{static_cast<double>(row.round), lead.of(row)};
    if (band && lead.is_accuracy() && std::isfinite(row.std)) {
      point.low = std::max(0.0, row.mean - row.std);
      point.high = std::min(1.0, row.mean + row.std);
    }
    series.points.push_back(point);
  }
  return series;
}

std::string leading_figure(const Facts& facts) {
  const auto& run = facts.run;
  const auto lead = leading_of(run.meta);
  svg::LineChart chart;
  chart.label = fmt::format("Test {} over rounds", lead.word);
  chart.x = {"Round", Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Test " + lead.word, lead.quantity};
  for (const char* view : {"global", "pre", "post"}) {
    const auto rows = evals_of(run, "clients", view, "test");
    const bool band = view == run.meta.headline;
    if (!rows.empty())
      chart.series.push_back(leading_series(lead, rows, view_name(view), view_colour(view), band));
  }
  if (lead.is_accuracy()) {
    svg::Series worst{"worst 10 % of clients", kWorstColour, {}};
    worst.dashed = true, worst.dots = false;
    for (const auto& row : evals_of(run, "clients", run.meta.headline, "test"))
      worst.points.push_back({static_cast<double>(row.round), row.worst10});
    chart.series.push_back(std::move(worst));
  }
  auto newcomers = evals_of(run, "newcomers", run.meta.headline, "test");
  if (!newcomers.empty()) {
    chart.series.push_back(leading_series(lead, newcomers, "newcomers", kNewcomerColour, false));
    chart.series.back().dashed = true;
  }
  if (facts.best)
    chart.marks.push_back({static_cast<double>(*facts.best),
                           fmt::format("best on validation: round {}", *facts.best)});
  auto caption = fmt::format("Mean over clients of each client's test {}.", lead.word);
  if (lead.is_accuracy() && svg::in_words(chart).empty())
    caption += fmt::format(" The band is ± one standard deviation over clients, {}.",
                           view_name(run.meta.headline));
  return figure(lead.title + " over rounds", svg::line_chart(chart), caption);
}

// The metric of every view against what was spent when it was reached. Empty where there is no
// curve: nothing was spent, or there was one evaluation.
std::string cost_figure(const Facts& facts, const svg::Axis& x, const std::string& caption,
                        const std::function<double(const Spent&)>& cost) {
  const auto lead = leading_of(facts.run.meta);
  svg::LineChart chart;
  chart.label = fmt::format("Test {} against {}", lead.word, lower(x.title));
  chart.x = x;
  chart.x.tight = true;
  chart.y = {"Test " + lead.word, lead.quantity};
  chart.direct_labels = false;
  chart.width = kThird, chart.height = 290;
  const Spending spending(facts.run);
  for (const char* view : {"pre", "post"}) {
    svg::Series series{view == std::string("pre") ? "before" : "after", view_colour(view), {}};
    series.dots = false;
    for (const auto& row : evals_of(facts.run, "clients", view, "test"))
      series.points.push_back({cost(spending.until(row.round)), lead.of(row)});
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  const bool free = std::all_of(chart.series.begin(), chart.series.end(), [](const auto& series) {
    return std::all_of(series.points.begin(), series.points.end(),
                       [](const svg::Point& p) { return p.x <= 0; });
  });
  if (free || !svg::in_words(chart).empty()) return "";
  return figure(fmt::format("{} against {}", lead.title, lower(x.title)), svg::line_chart(chart),
                caption);
}

std::string cost_figures(const Facts& facts) {
  std::vector<std::string> all{
      cost_figure(facts, {"Traffic", Quantity::kBytes},
                  "Tensor bytes down and up, all clients, cumulated.",
                  [](const Spent& s) { return s.bytes_down + s.bytes_up; }),
      cost_figure(facts, {"Simulated time", Quantity::kSeconds},
                  "The clock of the simulated network: the slowest participant of each round.",
                  [](const Spent& s) { return s.sim_seconds; }),
      cost_figure(facts, {"Wall time", Quantity::kSeconds}, "What this computer took.",
                  [](const Spent& s) { return s.wall_seconds; })};
  std::erase(all, "");
  return all.empty() ? "" : side_by_side(all);
}

std::string loss_figure(const Facts& facts) {
  const auto& run = facts.run;
  svg::LineChart chart;
  chart.label = "Loss over rounds";
  chart.x = {"Round", Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Loss", Quantity::kNumber};
  chart.height = 300;
  svg::Series training{"training", 6, {}};
  for (const auto& row : run.rounds)
    training.points.push_back({static_cast<double>(row.round), row.loss});
  chart.series.push_back(std::move(training));
  for (const char* part : {"val", "test"}) {
    svg::Series series{part == std::string("val") ? "validation" : "test",
                       part == std::string("val") ? 2 : view_colour(run.meta.headline),
                       {}};
    for (const auto& row : evals_of(run, "clients", run.meta.headline, part))
      series.points.push_back({static_cast<double>(row.round), row.loss});
    chart.series.push_back(std::move(series));
  }
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& series : chart.series)
    for (const auto& p : series.points)
      if (p.y > 0 && std::isfinite(p.y)) least = std::min(least, p.y), most = std::max(most, p.y);
  if (most > 30 * least) chart.y.scale = svg::Scale::kLog;
  return figure("Loss over rounds", svg::line_chart(chart),
                fmt::format("Training loss is the mean over the clients of a round; validation and "
                            "test are {}.",
                            view_name(run.meta.headline)));
}

std::string client_figure(const Facts& facts) {
  const auto& run = facts.run;
  if (run.clients.size() > kMostShownClients) return spread_figures(run, facts.judged);
  const auto lead = leading_of(run.meta);
  const auto before = lead.clients(run, facts.judged, "pre");
  const auto after = lead.clients(run, facts.judged, "post");
  svg::DumbbellChart chart;
  chart.label = fmt::format("Test {} of every client before and after personalization", lead.word);
  chart.value = {"Test " + lead.word, lead.quantity};
  chart.before_name = "before personalization", chart.after_name = "after personalization";
  chart.item_title = "Clients, by " + lead.word;
  size_t better = 0, both = 0;
  for (size_t i = 0; i < run.clients.size(); ++i) {
    const auto& client = run.clients[i];
    chart.pairs.push_back(
        {client_name(client) + (client.newcomer ? " (new)" : ""), before[i], after[i]});
    both += std::isfinite(before[i]) && std::isfinite(after[i]);
    better += std::isfinite(before[i]) && lead.metric.better(after[i], before[i]);
  }
  const auto key = [](const svg::Pair& p) {
    const double value = std::isfinite(p.after) ? p.after : p.before;
    return std::isfinite(value) ? value : -1.0;
  };
  std::stable_sort(chart.pairs.begin(), chart.pairs.end(),
                   [&](const svg::Pair& a, const svg::Pair& b) { return key(a) > key(b); });
  auto caption = fmt::format("Each client's test {}, {}.", lead.word, facts.when());
  if (both > 0) caption += fmt::format(" Personalization helps {} of {} clients.", better, both);
  return figure(lead.title + " of every client", svg::dumbbell_chart(chart), caption);
}

std::vector<std::string> client_names(const RunHistory& run) {
  std::vector<std::string> names;
  for (const auto& client : run.clients) names.push_back(client_name(client));
  return names;
}

std::set<int64_t> classes_of(const RunHistory& run) {
  std::set<int64_t> classes;
  for (const auto& client : run.clients)
    for (const auto& [part, counts] : client.labels)
      for (const auto& [label, n] : counts) classes.insert(label);
  return classes;
}

svg::Matrix class_matrix(const RunHistory& run, const std::set<int64_t>& classes) {
  svg::Matrix matrix;
  matrix.label = "Training samples of every class at every client";
  matrix.row_title = "Class", matrix.column_title = "Client";
  matrix.columns = client_names(run);
  matrix.quantity = Quantity::kCount;
  for (const int64_t label : classes) {
    matrix.rows.push_back(class_name(run.meta, label));
    matrix.values.emplace_back();
    for (const auto& client : run.clients) {
      const auto part = client.labels.find("train");
      const bool held = part != client.labels.end() && part->second.contains(label);
      matrix.values.back().push_back(held ? static_cast<double>(part->second.at(label)) : kAbsent);
    }
  }
  return matrix;
}

svg::StackedBars sample_bars(const RunHistory& run) {
  svg::StackedBars bars;
  bars.label = "Samples of every client for training, validation and test";
  bars.value = {"Samples", Quantity::kCount};
  bars.columns = client_names(run);
  bars.parts = {{"training", 0, {}}, {"validation", 4, {}}, {"test", 6, {}}};
  for (const auto& client : run.clients) {
    bars.parts[0].values.push_back(static_cast<double>(client.train));
    bars.parts[1].values.push_back(static_cast<double>(client.val));
    bars.parts[2].values.push_back(static_cast<double>(client.test));
  }
  bars.height = 170;
  return bars;
}

std::string partition_figure(const Facts& facts) {
  if (facts.run.clients.size() > kMostShownClients) return sizes_figures(facts.run);
  const auto classes = classes_of(facts.run);
  auto bars = sample_bars(facts.run);
  if (classes.empty() || classes.size() > kMaxCells / std::max<size_t>(1, bars.columns.size()))
    return figure("How the data are dealt", svg::stacked_bars(bars),
                  classes.empty() ? "How many samples each client holds."
                                  : "How many samples each client holds; there are too many "
                                    "classes and clients to draw who holds which.");
  auto matrix = class_matrix(facts.run, classes);
  bars.column_names = false;
  bars.left = matrix.left = std::max(60.0, svg::name_margin(matrix.rows, matrix.width));
  // Discs of many classes would all be specks.
  const bool many =
      matrix.rows.size() > 40 || matrix.rows.size() * matrix.columns.size() > kMaxDiscs;
  matrix.tooltips = kMaxDiscs;
  const auto picture = many ? svg::heat_map(matrix, {0, kAbsent, 0.5}) : svg::bubble_matrix(matrix);
  return figure("How the data are dealt", svg::stacked_bars(bars) + picture,
                fmt::format("Above: how many samples each client holds. Below: {} is the number of "
                            "its training samples of that class.",
                            many ? "the strength of a cell" : "the area of a disc"));
}

std::string client_table(const Facts& facts) {
  const auto& run = facts.run;
  if (run.clients.size() > kMostShownClients) return spread_table(run, facts.judged);
  const auto lead = leading_of(run.meta);
  const auto before = lead.clients(run, facts.judged, "pre");
  const auto after = lead.clients(run, facts.judged, "post");
  HtmlTable table;
  table.header = {"Client", "Train", "Validation", "Test", "Classes", "Before", "After", "Gain"};
  for (size_t i = 0; i < run.clients.size(); ++i) {
    const auto& client = run.clients[i];
    const auto part = client.labels.find("train");
    const double gain = after[i] - before[i];
    table.rows.push_back(
        {client_name(client) + (client.newcomer ? " (newcomer)" : ""),
         fmt::format("{}", client.train), fmt::format("{}", client.val),
         fmt::format("{}", client.test),
         part == client.labels.end() ? "–" : fmt::format("{}", part->second.size()),
         lead.text(before[i]), lead.text(after[i]), lead.difference(gain)});
  }
  table.caption = fmt::format("Test {} at {}; gain{}.", lead.word, facts.when(),
                              lead.metric.fraction ? " in points" : " below 0 is better");
  return fmt::format("<details{}>\n<summary>{} clients</summary>\n{}</details>\n",
                     run.clients.size() <= 40 ? " open=\"open\"" : "", run.clients.size(),
                     html_table(table));
}

std::string privacy_section(const RunMeta& meta) {
  if (meta.privacy.empty()) return "";
  std::string out = "<section>\n<h2>Differential privacy</h2>\n";
  for (const auto& sentence : meta.privacy) out += fmt::format("<p>{}</p>\n", escape(sentence));
  return out + "</section>\n";
}

std::string configuration(const RunMeta& meta) {
  std::string out;
  if (!meta.config.empty())
    out += fmt::format(
        "<details open=\"open\">\n<summary>Configuration, resolved</summary>\n"
        "<pre>{}</pre>\n</details>\n",
        escape(meta.config));
  if (!meta.partition_digest.empty())
    out += fmt::format(
        "<footer>Partition {}. Two runs with equal digests saw the same data."
        "</footer>\n",
        escape(meta.partition_digest));
  return out;
}

}  // namespace

Result<std::string> run_report(const RunHistory& run) {
  if (run.rounds.empty() && run.evals.empty() && run.clients.empty())
    return fail(
        Error::kInvalid,
        "run '{}' has no clients, rounds or evaluations yet; make the report once its first "
        "round is done",
        run.meta.name);
  const auto facts = gather(run);
  std::string body = header(facts) + tiles(facts) + problems_section(run);
  body += "<section>\n<h2>" + leading_of(run.meta).title + "</h2>\n" + leading_figure(facts) +
          client_figure(facts) + metrics_table(run, facts.judged) + "</section>\n" +
          exhibit_section(run) + "<section>\n<h2>Cost and convergence</h2>\n" +
          cost_figures(facts) + loss_figure(facts) + traffic_table(run) +
          "</section>\n<section>\n<h2>Clients and data</h2>\n" + partition_figure(facts) +
          client_table(facts) + "</section>\n" + privacy_section(run.meta) +
          "<section>\n<h2>Configuration</h2>\n" + configuration(run.meta) + "</section>\n";
  return html_page(fmt::format("{} · {} · {}", run.meta.method, run.meta.dataset, run.meta.model),
                   body);
}

}  // namespace tessera
