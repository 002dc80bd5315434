#include "report/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/metric.hpp"

namespace tessera {
namespace {

void add(double& sum, double value) {
  if (std::isfinite(value)) sum += value;
}

}  // namespace

std::string client_name(const ClientRow& client) {
  return client.name.empty() ? fmt::format("client {}", client.id) : client.name;
}

std::string parameters_text(const RunMeta& meta) {
  if (meta.parameters == 0) return "";
  if (meta.parameters < 1000) return fmt::format("{} parameters", meta.parameters);
  return fmt::format("{:.4g} k parameters", static_cast<double>(meta.parameters) / 1e3);
}

std::string class_name(const RunMeta& meta, int64_t label) {
  const auto index = static_cast<size_t>(label);
  return index < meta.class_names.size() ? meta.class_names[index] : fmt::format("{}", label);
}

Spending::Spending(const RunHistory& run) {
  Spent spent;
  for (const auto& row : run.rounds) {
    spent.bytes_down += static_cast<double>(row.bytes_down);
    spent.bytes_up += static_cast<double>(row.bytes_up);
    add(spent.sim_seconds, row.sim_seconds);
    add(spent.wall_seconds, row.wall_seconds);
    sums_.emplace_back(row.round, spent);
  }
}

Spent Spending::until(int64_t round) const {
  const auto after = std::upper_bound(sums_.begin(), sums_.end(), round,
                                      [](int64_t r, const auto& sum) { return r < sum.first; });
  return after == sums_.begin() ? Spent{} : std::prev(after)->second;
}

Spent spent_until(const RunHistory& run, int64_t round) { return Spending(run).until(round); }

std::vector<EvalRow> evals_of(const RunHistory& run, const std::string& who,
                              const std::string& view, const std::string& part) {
  std::vector<EvalRow> out;
  for (const auto& row : run.evals)
    if (row.who == who && row.view == view && row.part == part) out.push_back(row);
  return out;
}

const EvalRow* eval_at(const RunHistory& run, int64_t round, const std::string& who,
                       const std::string& view, const std::string& part) {
  for (const auto& row : run.evals)
    if (row.round == round && row.who == who && row.view == view && row.part == part) return &row;
  return nullptr;
}

double value_of(const EvalRow& row, const std::string& metric) {
  return metric_in(row, metric, row.mean);
}

double value_of(const ClientEvalRow& row, const std::string& metric) {
  return metric_in(row, metric, row.accuracy());
}

std::vector<double> client_accuracy(const RunHistory& run, int64_t round, const std::string& view) {
  return client_values(run, round, view, "accuracy");
}

std::vector<double> client_values(const RunHistory& run, int64_t round, const std::string& view,
                                  const std::string& metric) {
  std::unordered_map<int64_t, double> by_client;
  for (const auto& row : run.client_evals)
    if (row.round == round && row.view == view && row.part == "test")
      by_client[row.client] = value_of(row, metric);
  std::vector<double> out;
  for (const auto& client : run.clients) {
    const auto found = by_client.find(client.id);
    out.push_back(found == by_client.end() ? kAbsent : found->second);
  }
  return out;
}

MetricSpread spread_of(const RunHistory& run, int64_t round, bool newcomers,
                       const std::string& view, const std::string& metric) {
  const auto all = client_values(run, round, view, metric);
  std::vector<double> values;
  for (size_t i = 0; i < all.size(); ++i)
    if (run.clients[i].newcomer == newcomers) values.push_back(all[i]);
  auto out = spread_of(metric_of(metric), std::move(values));
  if (!metric_of(metric).pooled) return out;
  const auto* row = eval_at(run, round, newcomers ? "newcomers" : "clients", view, "test");
  out.mean = row ? value_of(*row, metric) : kAbsent;
  return out;
}

std::vector<std::vector<int64_t>> confusion_at(const RunHistory& run, int64_t round,
                                               const std::string& view) {
  std::unordered_set<int64_t> newcomers;
  // Of many classes there is no matrix, whatever their names promise.
  size_t classes = run.meta.class_names.size() <= 100 ? run.meta.class_names.size() : 0;
  for (const auto& client : run.clients)
    if (client.newcomer) newcomers.insert(client.id);
  std::vector<const ConfusionRow*> rows;
  for (const auto& row : run.confusions) {
    if (row.round != round || row.view != view || newcomers.contains(row.client)) continue;
    classes = std::max(classes, static_cast<size_t>(std::max(row.truth, row.predicted)) + 1);
    rows.push_back(&row);
  }
  if (rows.empty()) return {};
  std::vector<std::vector<int64_t>> out(classes, std::vector<int64_t>(classes));
  for (const auto* row : rows)
    out[static_cast<size_t>(row->truth)][static_cast<size_t>(row->predicted)] += row->n;
  return out;
}

int64_t last_evaluated_round(const RunHistory& run) {
  int64_t last = -1;
  for (const auto& row : run.evals) last = std::max(last, row.round);
  return last;
}

std::optional<int64_t> best_validation_round(const RunHistory& run) {
  const auto& metric = metric_of(run.meta.metric);
  const EvalRow* best = nullptr;
  for (const auto& row : run.evals) {
    if (row.who != "clients" || row.view != run.meta.headline || row.part != "val") continue;
    if (metric.better(value_of(row, metric.name), best ? value_of(*best, metric.name) : kAbsent))
      best = &row;
  }
  return best ? std::optional(best->round) : std::nullopt;
}

}  // namespace tessera
