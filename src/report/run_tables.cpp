#include "report/run_tables.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/text.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

std::string percent(double fraction) { return svg::value_text(svg::Quantity::kFraction, fraction); }

std::vector<std::string> metrics_row(const std::string& who, const std::string& view,
                                     const EvalRow& row) {
  return {who,
          view,
          percent(row.mean),
          percent(row.std),
          percent(row.micro),
          percent(row.worst10),
          percent(row.best10),
          percent(row.precision_macro),
          percent(row.f1_macro),
          percent(row.f1_remap),
          svg::value_text(svg::Quantity::kNumber, row.loss)};
}

std::string sum_text(double down, double up) { return human_bytes(down + up); }

}  // namespace

std::string metrics_table(const RunHistory& run, int64_t round) {
  HtmlTable table;
  table.left = 2;
  table.header = {"Who",        "Personalization", "Mean",      "Std",
                  "Per sample", "Worst 10 %",      "Best 10 %", "Precision",
                  "F1 (macro)", "F1 (remapped)",   "Loss"};
  for (const char* who : {"clients", "newcomers"}) {
    for (const auto& [view, name] :
         {std::pair{"pre", "before"}, {"post", "after"}, {"global", "global model"}}) {
      const auto* row = eval_at(run, round, who, view, "test");
      if (!row) continue;
      if (view == run.meta.headline) table.bold.push_back(table.rows.size());
      table.rows.push_back(metrics_row(who, name, *row));
    }
  }
  if (table.rows.empty()) return "";
  table.caption = fmt::format(
      "Test metrics at round {}, over clients; bold: the view the method is judged by.{}", round,
      run.meta.newcomers > 0 ? " Newcomers never took part in training." : "");
  return html_table(table);
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
