#include "report/compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/text.hpp"
#include "report/compare_settings.hpp"
#include "report/compare_table.hpp"
#include "report/html.hpp"
#include "report/many_clients.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using svg::Quantity;

// A method, its place in the palette and its runs.
struct Method {
  std::string name;
  int colour = 0;
  std::vector<const RunHistory*> runs;
};

// Best first: the leaders get the plain colours, the rest share them with dashes. Methods that only
// the runs know come last. Rows that failed are not drawn: those of their seeds that went well
// would look like the method.
std::vector<Method> group(const std::vector<RunHistory>& runs, std::vector<CompareRow> rows) {
  const auto& metric = leading_of(rows).metric;
  std::stable_sort(rows.begin(), rows.end(), [&](const CompareRow& a, const CompareRow& b) {
    return metric.better(a.at("accuracy_mean"), b.at("accuracy_mean"));
  });
  std::vector<Method> methods;
  const auto find = [&](const std::string& name) -> Method& {
    for (auto& method : methods)
      if (method.name == name) return method;
    methods.push_back({name, static_cast<int>(methods.size()), {}});
    return methods.back();
  };
  const auto failed = [&](const std::string& name) {
    return std::any_of(rows.begin(), rows.end(), [&](const CompareRow& row) {
      return row.method == name && !row.failed.empty();
    });
  };
  for (const auto& row : rows)
    if (row.failed.empty()) find(row.method);
  for (const auto& run : runs)
    if (!failed(run.display())) find(run.display()).runs.push_back(&run);
  return methods;
}

double mean(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values)
    if (std::isfinite(value)) sum += value, ++count;
  return count > 0 ? sum / count : kAbsent;
}

// Over seeds: divided by n − 1, as in the table.
double deviation(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0, count = 0;
  for (const double value : values)
    if (std::isfinite(value)) sum += (value - centre) * (value - centre), ++count;
  return count > 1 ? std::sqrt(sum / (count - 1)) : kAbsent;
}

std::string seed_figure(const std::vector<Method>& methods, const std::vector<CompareRow>& rows) {
  const auto lead = leading_of(rows);
  svg::StripChart chart;
  chart.label = fmt::format("Test {} of every method, a dot for each seed", lead.word);
  chart.value = {"Test " + lead.word, lead.quantity};
  for (const auto& method : methods) {
    svg::StripRow row{method.name, method.colour, {}};
    std::vector<double> values;
    for (const auto* run : method.runs) {
      const auto* eval =
          eval_at(*run, last_evaluated_round(*run), "clients", run->meta.headline, "test");
      if (!eval) continue;
      values.push_back(lead.of(*eval));
      row.samples.push_back({"seed " + run->meta.seed, values.back()});
    }
    row.centre = mean(values), row.spread = deviation(values);
    for (const auto& listed : rows)
      if (listed.method == method.name && values.empty())
        row.centre = listed.at("accuracy_mean"), row.spread = listed.at("accuracy_std");
    chart.rows.push_back(std::move(row));
  }
  return figure(lead.title, svg::strip_chart(chart),
                "A dot is a seed, the bar their mean, the line ± one standard deviation.");
}

// The mean over a method's seeds at every evaluated round.
svg::Series curve(const Method& method, const Leading& lead,
                  const std::function<double(const Spending&, int64_t)>& x) {
  struct Sums {
    std::vector<double> x, y;
  };
  std::map<int64_t, Sums> by_round;
  for (const auto* run : method.runs) {
    const Spending spending(*run);
    for (const auto& row : evals_of(*run, "clients", run->meta.headline, "test")) {
      by_round[row.round].x.push_back(x(spending, row.round));
      by_round[row.round].y.push_back(lead.of(row));
    }
  }
  svg::Series series{method.name, method.colour, {}};
  series.dots = false;
  for (const auto& [round, sums] : by_round) series.points.push_back({mean(sums.x), mean(sums.y)});
  return series;
}

std::string round_figure(const std::vector<Method>& methods, const Leading& lead) {
  svg::LineChart chart;
  chart.label = fmt::format("Test {} over rounds, every method", lead.word);
  chart.x = {"Round", Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Test " + lead.word, lead.quantity};
  chart.height = 460;
  for (const auto& method : methods)
    chart.series.push_back(curve(
        method, lead, [](const Spending&, int64_t round) { return static_cast<double>(round); }));
  return figure(lead.title + " over rounds", svg::line_chart(chart),
                "Mean over clients, then over seeds.");
}

std::string cost_figure(const std::vector<Method>& methods, const Leading& lead, const svg::Axis& x,
                        const std::string& caption, double (*cost)(const Spent&)) {
  svg::LineChart chart;
  chart.label = fmt::format("Test {} against {}, every method", lead.word, lower(x.title));
  chart.x = x;
  chart.x.tight = true;
  chart.y = {"Test " + lead.word, lead.quantity};
  chart.direct_labels = false;
  chart.width = 510, chart.height = 380;
  for (const auto& method : methods) {
    auto series = curve(method, lead, [&](const Spending& spending, int64_t round) {
      return cost(spending.until(round));
    });
    // A method that costs nothing has no curve; its level is one point at the left edge.
    const bool free = std::all_of(series.points.begin(), series.points.end(),
                                  [](const svg::Point& p) { return p.x <= 0; });
    if (free && !series.points.empty())
      series.points.erase(series.points.begin(), series.points.end() - 1);
    chart.series.push_back(std::move(series));
  }
  return figure(fmt::format("{} against {}", lead.title, lower(x.title)), svg::line_chart(chart),
                caption);
}

// The metric of every client, mean over the seeds of a method; clients by id.
std::map<int64_t, double> per_client(const Method& method, const Leading& lead,
                                     std::map<int64_t, std::string>& names) {
  std::map<int64_t, std::vector<double>> values;
  for (const auto* run : method.runs) {
    const auto own = lead.clients(*run, last_evaluated_round(*run), run->meta.headline);
    for (size_t i = 0; i < run->clients.size(); ++i) {
      const auto& client = run->clients[i];
      if (client.newcomer) continue;
      values[client.id].push_back(own[i]);
      names[client.id] = client_name(client);
    }
  }
  std::map<int64_t, double> out;
  for (const auto& [id, seeds] : values) out[id] = mean(seeds);
  return out;
}

std::string client_figures(const std::vector<Method>& methods, const Leading& lead) {
  svg::StripChart strip;
  strip.label = fmt::format("Test {} of every client under every method", lead.word);
  strip.value = {fmt::format("Test {} of a client", lead.word), lead.quantity};
  strip.row_height = 44;
  svg::Matrix matrix;
  matrix.label = fmt::format("Test {}, methods by clients", lead.word);
  matrix.row_title = "Method", matrix.column_title = "Client";
  matrix.quantity = lead.quantity;
  std::map<int64_t, std::string> names;
  std::vector<std::map<int64_t, double>> accuracies;
  for (const auto& method : methods) accuracies.push_back(per_client(method, lead, names));
  for (const auto& [id, name] : names) matrix.columns.push_back(name);
  for (size_t i = 0; i < methods.size(); ++i) {
    svg::StripRow row{methods[i].name, methods[i].colour, {}};
    std::vector<double> values;
    for (const auto& [id, name] : names) {
      const auto found = accuracies[i].find(id);
      values.push_back(found == accuracies[i].end() ? kAbsent : found->second);
      row.samples.push_back({name, values.back()});
    }
    row.centre = mean(values);
    strip.rows.push_back(std::move(row));
    matrix.rows.push_back(methods[i].name);
    matrix.values.push_back(std::move(values));
  }
  if (names.size() > kMostShownClients) {
    std::vector<ClientValues> all;
    for (size_t i = 0; i < methods.size(); ++i)
      all.push_back({methods[i].name, methods[i].colour, matrix.values[i]});
    return figure(
        "Spread over clients", share_chart(lead, all),
        fmt::format("The share of clients whose test {} (mean over seeds) is at most that "
                    "of the axis.",
                    lead.word));
  }
  const bool falls = lead.metric.smaller_is_better;
  return figure("Spread over clients", svg::strip_chart(strip),
                "A dot is a client (mean over seeds), the bar the mean over clients.") +
         figure("Client by client", svg::heat_map(matrix),
                fmt::format("The same numbers{}: the stronger the colour, the higher. A {} column "
                            "is an easy client, a {} cell in it a method that fails there.",
                            lead.metric.fraction ? " in %" : "", falls ? "faint" : "strong",
                            falls ? "strong" : "faint"));
}

}  // namespace

Result<std::string> compare_report(const std::string& title, const std::vector<RunHistory>& runs,
                                   const json& table) {
  TESSERA_ASSIGN(const auto rows, read_compare_table(table));
  if (rows.empty() && runs.empty())
    return fail(Error::kInvalid, "comparison '{}' has neither runs nor table rows", title);
  const auto methods = group(runs, rows);
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n<p>{} methods · {} runs</p>\n</header>\n",
                                 escape(title), std::max(rows.size(), methods.size()), runs.size());
  body += compare_tiles(runs) + "<section>\n<h2>Result</h2>\n" + seed_figure(methods, rows) +
          compare_table(rows, runs) + "</section>\n";
  const auto lead = leading_of(rows);
  if (!runs.empty()) {
    body += "<section>\n<h2>Training</h2>\n" + round_figure(methods, lead) +
            side_by_side(
                {cost_figure(
                     methods, lead, {"Traffic", Quantity::kBytes},
                     "Tensor bytes down and up, all clients, cumulated. A single dot at the left: "
                     "a method without traffic.",
                     [](const Spent& s) { return s.bytes_down + s.bytes_up; }),
                 cost_figure(methods, lead, {"Simulated time", Quantity::kSeconds},
                             "The slowest participant of each round, cumulated.",
                             [](const Spent& s) { return s.sim_seconds; })}) +
            "</section>\n<section>\n<h2>Clients</h2>\n" + client_figures(methods, lead) +
            "</section>\n";
  }
  body += compare_settings(runs) + sort_script();
  return html_page(title, body);
}

}  // namespace tessera
