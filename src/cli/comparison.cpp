#include "cli/comparison.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/significance.hpp"

namespace tessera {
namespace {

using nlohmann::json;

/// A number of the summary by path; kInvalid names the path.
Result<double> number_at(const json& summary, const std::string& path) {
  const json::json_pointer pointer("/" + path);
  if (summary.contains(pointer) && summary[pointer].is_number())
    return summary[pointer].get<double>();
  return fail(Error::kInvalid, "summary.json: '{}' is missing or not a number", path);
}

double mean_of(const std::vector<const RunFigures*>& cells, double RunFigures::*field) {
  double sum = 0;
  for (const auto* cell : cells) sum += cell->*field;
  return sum / static_cast<double>(cells.size());
}

std::vector<const RunFigures*> with_label(const std::vector<RunFigures>& cells,
                                          const std::string& label) {
  std::vector<const RunFigures*> out;
  for (const auto& cell : cells)
    if (cell.label == label) out.push_back(&cell);
  return out;
}

std::optional<double> deviation(const std::vector<const RunFigures*>& cells) {
  if (cells.size() < 2) return std::nullopt;
  const double mean = mean_of(cells, &RunFigures::accuracy);
  double squares = 0;
  for (const auto* cell : cells) squares += (cell->accuracy - mean) * (cell->accuracy - mean);
  return std::sqrt(squares / static_cast<double>(cells.size() - 1));
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

ComparisonRow make_row(const std::string& label, const std::vector<const RunFigures*>& cells) {
  ComparisonRow row;
  row.label = label;
  for (const auto* cell : cells) {
    if (cell->failed.empty())
      row.runs.push_back(cell->run);
    else if (row.failed.empty())
      row.failed = cell->left_out ? "left out: " + one_line(cell->failed)
                                  : fmt::format("{}: {}", cell->run, one_line(cell->failed));
    row.left_out = row.left_out || cell->left_out;
    if (row.note.empty()) row.note = cell->note;
  }
  if (!row.failed.empty()) return row;
  row.accuracy = mean_of(cells, &RunFigures::accuracy);
  row.over_seeds = deviation(cells);
  row.over_clients = mean_of(cells, &RunFigures::over_clients);
  row.pre = mean_of(cells, &RunFigures::pre), row.post = mean_of(cells, &RunFigures::post);
  row.worst10 = mean_of(cells, &RunFigures::worst10);
  row.bytes_down = mean_of(cells, &RunFigures::bytes_down),
  row.bytes_up = mean_of(cells, &RunFigures::bytes_up);
  row.sim_seconds = mean_of(cells, &RunFigures::sim_seconds);
  row.wall_seconds = mean_of(cells, &RunFigures::wall_seconds);
  return row;
}

/// Differences of pairs: seeds that both have, or the clients of the one seed.
std::vector<double> pairs(const std::vector<const RunFigures*>& ours,
                          const std::vector<const RunFigures*>& theirs, bool by_seed) {
  std::vector<double> out;
  for (const auto* a : ours) {
    for (const auto* b : theirs) {
      if (a->seed != b->seed) continue;
      if (by_seed)
        out.push_back(a->accuracy - b->accuracy);
      else if (a->partition == b->partition && a->clients.size() == b->clients.size())
        for (size_t i = 0; i < a->clients.size(); ++i)
          if (const double d = a->clients[i] - b->clients[i]; std::isfinite(d)) out.push_back(d);
    }
  }
  return out;
}

std::string p_text(double p) {
  return std::isnan(p) ? "–" : p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p);
}
std::string signed_text(const MetricInfo& metric, double value) {
  return metric.fraction ? fmt::format("{:+.1f}", value * 100) : fmt::format("{:+.3g}", value);
}
std::string interval_text(const MetricInfo& metric, double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return "–";
  return fmt::format("{} … {}", signed_text(metric, low), signed_text(metric, high));
}
/// Clients are as many as there are; seeds one can add.
std::string needed_text(const ComparisonRow& row, bool by_seed) {
  if (!by_seed || !std::isfinite(row.p)) return "–";
  return row.needed > 0 ? fmt::format("{} seeds", row.needed)
                        : fmt::format("> {} seeds", kMostPairs);
}
std::string capital(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}
json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

/// Said first where it is so: what was learned is worth less than the simplest forecast.
std::string below_persistence(const Comparison& comparison) {
  const auto& led = metric_of(comparison.metric);
  const auto better = [&](const ComparisonRow& a, const ComparisonRow& b) {
    return led.smaller_is_better ? a.accuracy < b.accuracy : a.accuracy > b.accuracy;
  };
  const ComparisonRow *rule = nullptr, *best = nullptr;
  for (const auto& row : comparison.rows) {
    if (!row.failed.empty()) continue;
    if (row.label == "persistence")
      rule = &row;
    else if (row.label != "majority" && (!best || better(row, *best)))
      best = &row;
  }
  if (!rule || !best || !better(*rule, *best)) return "";
  return fmt::format(
      "Every model stays below persistence, the last known class again: {}, best of "
      "the models {} with {}.\n",
      led.text(rule->accuracy), best->label, led.text(best->accuracy));
}

}  // namespace

Result<RunFigures> make_cell(const json& summary, const RunHistory& history,
                             const std::string& view, const std::string& metric) {
  RunFigures cell;
  if (summary.contains("failed") && summary["failed"].is_string())
    cell.failed = summary["failed"].get<std::string>();
  const auto number = [&](const json& from, const std::string& path) -> Result<double> {
    auto found = number_at(from, path);
    if (!found.ok() && !cell.failed.empty()) return std::nan("");
    return found;
  };
  const auto block = view.empty() ? std::string("accuracy") : "accuracy_" + view;
  TESSERA_ASSIGN(cell.accuracy, number(summary, block + "/mean"));
  TESSERA_ASSIGN(cell.over_clients, number(summary, block + "/std"));
  TESSERA_ASSIGN(cell.worst10, number(summary, block + "/worst10"));
  TESSERA_ASSIGN(cell.pre, number(summary, "accuracy_pre/mean"));
  TESSERA_ASSIGN(cell.post, number(summary, "accuracy_post/mean"));
  TESSERA_ASSIGN(cell.bytes_down, number(summary, "bytes_down"));
  TESSERA_ASSIGN(cell.bytes_up, number(summary, "bytes_up"));
  TESSERA_ASSIGN(cell.sim_seconds, number(summary, "sim_seconds"));
  TESSERA_ASSIGN(cell.wall_seconds, number(summary, "wall_seconds"));
  TESSERA_ASSIGN(const double seed, number(summary, "seed"));
  cell.seed = static_cast<int64_t>(seed);
  cell.label = view.empty() ? history.meta.method : history.meta.method + " (" + view + ")";
  cell.partition = history.meta.partition_digest;
  cell.validation = std::nan("");
  for (const auto& row : history.evals)  // by round: the last one counts
    if (row.who == "clients" && row.part == "val" &&
        row.view == (view.empty() ? history.meta.headline : view))
      cell.validation = value_of(row, metric);
  // The summary is of the last evaluation, so the clients are too.
  const int64_t last = history.evals.empty() ? 0 : history.evals.back().round;
  const auto shown = view.empty() ? history.meta.headline : view;
  if (metric != "accuracy") {
    const auto spread = spread_of(history, last, false, shown, metric);
    cell.accuracy = spread.mean, cell.over_clients = spread.std, cell.worst10 = spread.worst10;
    cell.pre = spread_of(history, last, false, "pre", metric).mean;
    cell.post = spread_of(history, last, false, "post", metric).mean;
  }
  cell.clients = client_values(history, last, shown, metric);
  size_t kept = 0;
  for (size_t i = 0; i < cell.clients.size(); ++i)
    if (!history.clients[i].newcomer) cell.clients[kept++] = cell.clients[i];
  cell.clients.resize(kept);
  return cell;
}

Comparison compare_cells(const std::vector<RunFigures>& cells, const std::string& metric) {
  Comparison out;
  out.metric = metric;
  for (const auto& cell : cells) {
    const auto same = with_label(cells, cell.label);
    if (same.front() != &cell) continue;  // a row stands where its first cell does
    out.rows.push_back(make_row(cell.label, same));
    out.seeds = std::max(out.seeds, static_cast<int64_t>(same.size()));
  }
  for (auto& row : out.rows) {
    if (!row.failed.empty()) continue;
    const ComparisonRow* best = nullptr;
    for (const auto& other : out.rows) {
      if (&other == &row || !other.failed.empty()) continue;
      if (with_label(cells, other.label).front()->reference) continue;
      if (!best || metric_of(metric).better(other.accuracy, best->accuracy)) best = &other;
    }
    if (!best) continue;
    const auto test = paired_test(
        pairs(with_label(cells, row.label), with_label(cells, best->label), out.by_seed()));
    row.best_other = best->label, row.difference = test.difference, row.p = test.p;
    row.low = test.low, row.high = test.high, row.needed = test.needed;
  }
  return out;
}

Table Comparison::table() const {
  const auto& led = metric_of(metric);
  const auto text = [&](double value) { return led.text(value); };
  std::vector<std::string> header{"method",
                                  fmt::format("{}{} (± {})", led.title, led.fraction ? " %" : "",
                                              by_seed() ? "seeds" : "clients"),
                                  "before",
                                  "after",
                                  "worst 10 %",
                                  "traffic",
                                  "simulated",
                                  "wall",
                                  "difference",
                                  "95 % interval",
                                  "to",
                                  "p",
                                  "decided by"};
  const auto columns = header.size();
  Table table(std::move(header));
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.label, row.left_out ? "–" : "failed"};
    if (row.failed.empty()) {
      const double spread = by_seed() ? row.over_seeds.value_or(0) : row.over_clients;
      const bool compared = !row.best_other.empty() && std::isfinite(row.difference);
      cells = {row.label,
               text(row.accuracy) + " ± " + text(spread),
               text(row.pre),
               text(row.post),
               text(row.worst10),
               human_bytes(row.bytes_down + row.bytes_up),
               human_seconds(row.sim_seconds),
               human_seconds(row.wall_seconds),
               compared ? signed_text(led, row.difference) : "–",
               compared ? interval_text(led, row.low, row.high) : "–",
               compared ? row.best_other : "–",
               compared ? p_text(row.p) : "–",
               compared ? needed_text(row, by_seed()) : "–"};
    }
    cells.resize(columns, "–");
    table.row(std::move(cells));
  }
  return table;
}

size_t Comparison::failures() const {
  return static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [](const auto& row) {
    return !row.failed.empty() && !row.left_out;
  }));
}

Status Comparison::verdict() const {
  for (const auto& row : rows)
    if (!row.failed.empty() && !row.left_out)
      return fail(Error::kInternal, "{} of {} rows failed, first '{}': {}", failures(), rows.size(),
                  row.label, row.failed);
  return ok();
}

std::string Comparison::caption() const {
  auto reasons = below_persistence(*this);
  for (const auto& row : rows)
    if (!row.failed.empty()) reasons += fmt::format("{}: {}\n", row.label, row.failed);
  for (const auto& row : rows)
    if (row.failed.empty() && !row.note.empty())
      reasons += fmt::format("{}: {}\n", row.label, row.note);
  return reasons +
         fmt::format(
             "{} is the mean over clients of the view that leads each method{}, ± the "
             "standard deviation "
             "over {}; before and after are without and with personalization. "
             "Differences are {} the best "
             "other method, with the 95 % interval of Student's t, p is a paired t-test over "
             "{}{}.",
             capital(metric_of(metric).title),
             metric_of(metric).smaller_is_better ? " (the smaller the better)" : "",
             by_seed() ? fmt::format("{} seeds", seeds) : "clients (one seed)",
             metric_of(metric).fraction ? "points to" : "those to", by_seed() ? "seeds" : "clients",
             by_seed() ? "; decided by: how many seeds would put the interval on one side "
                         "of 0 at this spread"
                       : "");
}

json Comparison::json() const {
  auto out = nlohmann::json::array();
  for (const auto& row : rows) {
    const bool compared = !row.best_other.empty() && std::isfinite(row.difference);
    if (!row.failed.empty()) {  // every number is absent
      out.push_back({{"method", row.label},
                     {"seeds", row.runs.size()},
                     {"runs", row.runs},
                     {"left_out", row.left_out},
                     {"failed", row.failed}});
      continue;
    }
    out.push_back({{"method", row.label},
                   {"seeds", row.runs.size()},
                   {"runs", row.runs},
                   {"metric", metric},
                   {"accuracy_mean", finite(row.accuracy)},
                   {"accuracy_std", row.over_seeds ? finite(*row.over_seeds) : nullptr},
                   {"accuracy_std_clients", finite(row.over_clients)},
                   {"pre_mean", finite(row.pre)},
                   {"post_mean", finite(row.post)},
                   {"worst10", finite(row.worst10)},
                   {"bytes_down", finite(row.bytes_down)},
                   {"bytes_up", finite(row.bytes_up)},
                   {"sim_seconds", finite(row.sim_seconds)},
                   {"wall_seconds", finite(row.wall_seconds)},
                   {"best_baseline", compared ? nlohmann::json(row.best_other) : nullptr},
                   {"difference", compared ? finite(row.difference) : nullptr},
                   {"difference_low", compared ? finite(row.low) : nullptr},
                   {"difference_high", compared ? finite(row.high) : nullptr},
                   {"p_value", compared ? finite(row.p) : nullptr},
                   {"seeds_to_decide",
                    compared && by_seed() && row.needed > 0 ? nlohmann::json(row.needed) : nullptr},
                   {"note", row.note.empty() ? nlohmann::json() : nlohmann::json(row.note)},
                   {"paired_by", by_seed() ? "seeds" : "clients"}});
  }
  return out;
}

}  // namespace tessera
