#include "report/compare_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/text.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using svg::Quantity;
using svg::value_text;

struct Row {
  std::string method, best_baseline, paired_by;
  std::map<std::string, double> numbers;  // absent = kAbsent
  double at(const char* field) const { return numbers.at(field); }
};

// A method, its place in the palette and its runs.
struct Method {
  std::string name;
  int colour = 0;
  std::vector<const RunHistory*> runs;
};

Result<std::vector<Row>> read_table(const json& table) {
  if (!table.is_array())
    return fail(Error::kInvalid, "table.json: an array of rows is expected, one a method");
  std::vector<Row> rows;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto& item = table[i];
    if (!item.is_object() || !item.contains("method") || !item["method"].is_string())
      return fail(Error::kInvalid, "table.json: row {} has no text 'method'", i);
    Row row;
    row.method = item["method"].get<std::string>();
    if (item.contains("best_baseline") && item["best_baseline"].is_string())
      row.best_baseline = item["best_baseline"].get<std::string>();
    if (item.contains("paired_by") && item["paired_by"].is_string())
      row.paired_by = item["paired_by"].get<std::string>();
    for (const char* field :
         {"seeds", "accuracy_mean", "accuracy_std", "pre_mean", "post_mean", "worst10",
          "bytes_down", "bytes_up", "sim_seconds", "wall_seconds", "difference", "p_value"}) {
      row.numbers[field] = kAbsent;
      if (!item.contains(field) || item[field].is_null()) continue;
      if (!item[field].is_number())
        return fail(Error::kInvalid, "table.json: '{}' of row {} ({}) is not a number", field, i,
                    row.method);
      row.numbers[field] = item[field].get<double>();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Best first: the leaders get the plain colours, the rest share them with dashes. Methods that only
// the runs know come last.
std::vector<Method> group(const std::vector<RunHistory>& runs, std::vector<Row> rows) {
  const auto rank = [](const Row& row) {
    const double accuracy = row.at("accuracy_mean");
    return std::isfinite(accuracy) ? accuracy : -1;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return rank(a) > rank(b); });
  std::vector<Method> methods;
  const auto find = [&](const std::string& name) -> Method& {
    for (auto& method : methods)
      if (method.name == name) return method;
    methods.push_back({name, static_cast<int>(methods.size()), {}});
    return methods.back();
  };
  for (const auto& row : rows) find(row.method);
  for (const auto& run : runs) find(run.display()).runs.push_back(&run);
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

std::string table_section(const std::vector<Row>& rows) {
  HtmlTable table;
  table.header = {"Method",  "Seeds",     "Accuracy",  "Worst 10 %", "Before", "After",
                  "Traffic", "Sim. time", "Wall time", "Difference", "to",     "p"};
  const auto percent = [](double fraction) { return value_text(Quantity::kFraction, fraction); };
  std::string pairs;
  bool spread = false;  // some row has several seeds
  double best = -1;
  for (const auto& row : rows)
    best = std::max(best, std::isfinite(row.at("accuracy_mean")) ? row.at("accuracy_mean") : -1);
  for (const auto& row : rows) {
    auto accuracy = percent(row.at("accuracy_mean"));
    if (std::isfinite(row.at("accuracy_std"))) {
      spread = true;
      accuracy = fmt::format("{:.1f} ± {:.1f} %", row.at("accuracy_mean") * 100,
                             row.at("accuracy_std") * 100);
    }
    const double difference = row.at("difference"), p = row.at("p_value");
    if (!row.best_baseline.empty()) pairs = row.paired_by.empty() ? "seeds" : row.paired_by;
    if (row.at("accuracy_mean") == best) table.bold.push_back(table.rows.size());
    table.rows.push_back(
        {row.method, value_text(Quantity::kCount, row.at("seeds")), accuracy,
         percent(row.at("worst10")), percent(row.at("pre_mean")), percent(row.at("post_mean")),
         value_text(Quantity::kBytes, row.at("bytes_down") + row.at("bytes_up")),
         value_text(Quantity::kSeconds, row.at("sim_seconds")),
         value_text(Quantity::kSeconds, row.at("wall_seconds")), svg::points_text(difference),
         row.best_baseline.empty() ? "–" : row.best_baseline,
         !std::isfinite(p) ? "–"
         : p < 0.001       ? "< 0.001"
                           : fmt::format("{:.3f}", p)});
  }
  table.caption = fmt::format(
      "Accuracy is the mean over clients{}; before and after are without and with "
      "personalization.",
      spread ? ", ± the standard deviation over seeds" : "");
  if (!pairs.empty())
    table.caption += fmt::format(
        " Differences are points to the best other method; p is a paired t-test over {}.", pairs);
  return html_table(table);
}

std::string seed_figure(const std::vector<Method>& methods, const std::vector<Row>& rows) {
  svg::StripChart chart;
  chart.label = "Test accuracy of every method, a dot for each seed";
  chart.value = {"Test accuracy", Quantity::kFraction};
  for (const auto& method : methods) {
    svg::StripRow row{method.name, method.colour, {}};
    std::vector<double> values;
    for (const auto* run : method.runs) {
      const auto* eval =
          eval_at(*run, last_evaluated_round(*run), "clients", run->meta.headline, "test");
      if (!eval) continue;
      values.push_back(eval->mean);
      row.samples.push_back({"seed " + run->meta.seed, eval->mean});
    }
    row.centre = mean(values), row.spread = deviation(values);
    for (const auto& listed : rows)
      if (listed.method == method.name && values.empty())
        row.centre = listed.at("accuracy_mean"), row.spread = listed.at("accuracy_std");
    chart.rows.push_back(std::move(row));
  }
  return figure("Accuracy", svg::strip_chart(chart),
                "A dot is a seed, the bar their mean, the line ± one standard deviation.");
}

// The mean over a method's seeds at every evaluated round.
svg::Series curve(const Method& method, const std::function<double(const Spending&, int64_t)>& x) {
  struct Sums {
    std::vector<double> x, y;
  };
  std::map<int64_t, Sums> by_round;
  for (const auto* run : method.runs) {
    const Spending spending(*run);
    for (const auto& row : evals_of(*run, "clients", run->meta.headline, "test")) {
      by_round[row.round].x.push_back(x(spending, row.round));
      by_round[row.round].y.push_back(row.mean);
    }
  }
  svg::Series series{method.name, method.colour, {}};
  series.dots = false;
  for (const auto& [round, sums] : by_round) series.points.push_back({mean(sums.x), mean(sums.y)});
  return series;
}

std::string round_figure(const std::vector<Method>& methods) {
  svg::LineChart chart;
  chart.label = "Test accuracy over rounds, every method";
  chart.x = {"Round", Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Test accuracy", Quantity::kFraction};
  chart.height = 460;
  for (const auto& method : methods)
    chart.series.push_back(
        curve(method, [](const Spending&, int64_t round) { return static_cast<double>(round); }));
  return figure("Accuracy over rounds", svg::line_chart(chart),
                "Mean over clients, then over seeds.");
}

std::string cost_figure(const std::vector<Method>& methods, const svg::Axis& x,
                        const std::string& caption, double (*cost)(const Spent&)) {
  svg::LineChart chart;
  chart.label = "Test accuracy against " + lower(x.title) + ", every method";
  chart.x = x;
  chart.x.tight = true;
  chart.y = {"Test accuracy", Quantity::kFraction};
  chart.direct_labels = false;
  chart.width = 510, chart.height = 380;
  for (const auto& method : methods) {
    auto series = curve(method, [&](const Spending& spending, int64_t round) {
      return cost(spending.until(round));
    });
    // A method that costs nothing has no curve; its level is one point at the left edge.
    const bool free = std::all_of(series.points.begin(), series.points.end(),
                                  [](const svg::Point& p) { return p.x <= 0; });
    if (free && !series.points.empty())
      series.points.erase(series.points.begin(), series.points.end() - 1);
    chart.series.push_back(std::move(series));
  }
  return figure("Accuracy against " + lower(x.title), svg::line_chart(chart), caption);
}

// Every client's accuracy, mean over the seeds of a method; clients by id.
std::map<int64_t, double> per_client(const Method& method, std::map<int64_t, std::string>& names) {
  std::map<int64_t, std::vector<double>> values;
  for (const auto* run : method.runs) {
    const auto accuracy = client_accuracy(*run, last_evaluated_round(*run), run->meta.headline);
    for (size_t i = 0; i < run->clients.size(); ++i) {
      const auto& client = run->clients[i];
      if (client.newcomer) continue;
      values[client.id].push_back(accuracy[i]);
      names[client.id] = client.name.empty() ? fmt::format("client {}", client.id) : client.name;
    }
  }
  std::map<int64_t, double> out;
  for (const auto& [id, seeds] : values) out[id] = mean(seeds);
  return out;
}

std::string client_figures(const std::vector<Method>& methods) {
  svg::StripChart strip;
  strip.label = "Test accuracy of every client under every method";
  strip.value = {"Test accuracy of a client", Quantity::kFraction};
  strip.row_height = 44;
  svg::Matrix matrix;
  matrix.label = "Test accuracy, methods by clients";
  matrix.row_title = "Method", matrix.column_title = "Client";
  matrix.quantity = Quantity::kFraction;
  std::map<int64_t, std::string> names;
  std::vector<std::map<int64_t, double>> accuracies;
  for (const auto& method : methods) accuracies.push_back(per_client(method, names));
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
  return figure("Spread over clients", svg::strip_chart(strip),
                "A dot is a client (mean over seeds), the bar the mean over clients.") +
         figure("Client by client", svg::heat_map(matrix),
                "The same numbers in %: a strong column is an easy client, a "
                "pale cell in it a method that fails there.");
}

}  // namespace

Result<std::string> compare_report(const std::string& title, const std::vector<RunHistory>& runs,
                                   const json& table) {
  TESSERA_ASSIGN(const auto rows, read_table(table));
  if (rows.empty() && runs.empty())
    return fail(Error::kInvalid, "comparison '{}' has neither runs nor table rows", title);
  const auto methods = group(runs, rows);
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n<p>{} methods · {} runs</p>\n</header>\n",
                                 escape(title), methods.size(), runs.size());
  body += "<section>\n<h2>Result</h2>\n" + seed_figure(methods, rows) + table_section(rows) +
          "</section>\n";
  if (!runs.empty()) {
    body += "<section>\n<h2>Training</h2>\n" + round_figure(methods) +
            side_by_side(
                {cost_figure(
                     methods, {"Traffic", Quantity::kBytes},
                     "Tensor bytes down and up, all clients, cumulated. A single dot at the left: "
                     "a method without traffic.",
                     [](const Spent& s) { return s.bytes_down + s.bytes_up; }),
                 cost_figure(methods, {"Simulated time", Quantity::kSeconds},
                             "The slowest participant of each round, cumulated.",
                             [](const Spent& s) { return s.sim_seconds; })}) +
            "</section>\n<section>\n<h2>Clients</h2>\n" + client_figures(methods) + "</section>\n";
  }
  return html_page(title, body);
}

}  // namespace tessera
