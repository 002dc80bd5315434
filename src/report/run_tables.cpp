#include "report/run_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "report/html.hpp"
#include "report/leading.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

std::string percent_text(double fraction) {
  return svg::value_text(svg::Quantity::kFraction, fraction);
}

std::string sum_text(double down, double up) { return human_bytes(down + up); }

struct Shown {
  const char *view, *name;
};
constexpr Shown kViews[] = {{"pre", "before"}, {"post", "after"}, {"global", "global model"}};

// How the leading metric is spread over clients.
std::string leading_table(const RunHistory& run, int64_t round) {
  const auto lead = leading_of(run.meta);
  HtmlTable table;
  table.left = 2;
  table.header = {"Who", "Personalization", "Mean", "Std", "Worst 10 %", "Best 10 %", "Per sample"};
  if (!lead.is_accuracy()) table.header.pop_back();
  for (const char* who : {"clients", "newcomers"}) {
    for (const auto& [view, name] : kViews) {
      const auto* row = eval_at(run, round, who, view, "test");
      if (!row) continue;
      const auto s = lead.spread(run, *row);
      if (view == run.meta.headline) table.bold.push_back(table.rows.size());
      table.rows.push_back({who, name, lead.text(s.mean), lead.text(s.std), lead.text(s.worst10),
                            lead.text(s.best10)});
      if (lead.is_accuracy()) table.rows.back().push_back(percent_text(row->micro));
    }
  }
  table.caption =
      fmt::format("Test {} at round {}, over clients; bold: the view that leads.{}", lead.word,
                  round, run.meta.newcomers > 0 ? " Newcomers never took part in training." : "");
  return html_table(table);
}

std::string other_metrics(const RunHistory& run, int64_t round) {
  HtmlTable table;
  table.left = 2;
  table.header = {"Who", "Personalization"};
  std::vector<Leading> all;
  for (const auto& metric : metrics()) all.push_back(leading_of(metric));
  for (const auto& one : all) table.header.push_back(one.title);
  table.header.emplace_back("F1 (remapped)");
  for (const char* who : {"clients", "newcomers"}) {
    for (const auto& [view, name] : kViews) {
      const auto* row = eval_at(run, round, who, view, "test");
      if (!row) continue;
      if (view == run.meta.headline) table.bold.push_back(table.rows.size());
      std::vector<std::string> cells{who, name};
      for (const auto& one : all) cells.push_back(one.text(one.of(*row)));
      cells.push_back(percent_text(row->f1_remap));
      table.rows.push_back(std::move(cells));
    }
  }
  table.caption =
      "Means over the clients that have them. AUROC: one class against the rest; the calibration "
      "error is that of the predicted class, over 15 bins.";
  return html_table(table);
}

// What was taken for what, and recall and precision of every class, all clients together.
std::string class_section(const RunHistory& run, int64_t round) {
  constexpr size_t kMostClasses = 20;  // more would be specks
  const auto counts = confusion_at(run, round, run.meta.headline);
  if (counts.empty() || counts.size() > kMostClasses) return "";
  svg::Matrix matrix;
  matrix.label = "Confusion matrix: classes by what they were taken for";
  matrix.row_title = "Truth", matrix.column_title = "Predicted";
  matrix.quantity = svg::Quantity::kCount;
  matrix.width = std::clamp(220.0 + 70.0 * static_cast<double>(counts.size()), 620.0, 1040.0);
  HtmlTable table;
  table.header = {"Class", "Samples", "Recall", "Precision"};
  for (size_t k = 0; k < counts.size(); ++k) {
    const auto name = class_name(run.meta, static_cast<int64_t>(k));
    matrix.rows.push_back(name), matrix.columns.push_back(name);
    matrix.values.emplace_back(counts[k].begin(), counts[k].end());
    double truth = 0, predicted = 0;
    for (size_t other = 0; other < counts.size(); ++other) {
      truth += static_cast<double>(counts[k][other]);
      predicted += static_cast<double>(counts[other][k]);
    }
    const auto hit = static_cast<double>(counts[k][k]);
    table.rows.push_back({name, svg::value_text(svg::Quantity::kCount, truth),
                          percent_text(hit / truth), percent_text(hit / predicted)});
  }
  const auto view = run.meta.headline == "pre" ? "before" : "after";
  table.caption = fmt::format(
      "Recall and precision of each class over the test samples of all clients, {} "
      "personalization, round {}.",
      view, round);
  return figure("Confusion matrix", svg::heat_map(matrix, {0, kAbsent, 0.5}),
                fmt::format("Test samples of all clients, {} personalization, round {}: a row is a "
                            "true class, a column what it was taken for.",
                            view, round)) +
         html_table(table);
}

}  // namespace

std::string metrics_table(const RunHistory& run, int64_t round) {
  const bool any = std::any_of(run.evals.begin(), run.evals.end(), [&](const EvalRow& row) {
    return row.round == round && row.part == "test";
  });
  if (!any) return "";
  return leading_table(run, round) + other_metrics(run, round) + class_section(run, round);
}

std::string traffic_table(const RunHistory& run) {
  HtmlTable table;
  table.header = {"Traffic", "Down", "Up", "Together"};
  const auto add = [&](const std::string& name, double down, double up) {
    table.rows.push_back({name, human_bytes(down), human_bytes(up), sum_text(down, up)});
  };
  const auto spent = spent_until(run, std::numeric_limits<int64_t>::max());
  add(fmt::format("Training, {} rounds", run.rounds.size()), spent.bytes_down, spent.bytes_up);
  if (!run.eval_traffic.empty()) {
    const auto& last = run.eval_traffic.back();
    add("Evaluating all clients once", static_cast<double>(last.eval_down),
        static_cast<double>(last.eval_up));
    if (const auto newcomers = static_cast<double>(run.meta.newcomers); newcomers > 0)
      add(last.exchanges == 0 ? "Getting a newcomer its model"
                              : fmt::format("Getting a newcomer its model, {} exchange{} before it",
                                            last.exchanges, last.exchanges == 1 ? "" : "s"),
          static_cast<double>(last.onboard_down) / newcomers,
          static_cast<double>(last.onboard_up) / newcomers);
  }
  table.caption = "Tensor bytes. Curves and tiles count training alone.";
  return html_table(table);
}

}  // namespace tessera
