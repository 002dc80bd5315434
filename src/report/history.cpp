#include "report/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tessera {
namespace {

void add(double& sum, double value) {
  if (std::isfinite(value)) sum += value;
}

}  // namespace

std::string client_name(const ClientRow& client) {
  return client.name.empty() ? fmt::format("client {}", client.id) : client.name;
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

std::vector<double> client_accuracy(const RunHistory& run, int64_t round, const std::string& view) {
  std::unordered_map<int64_t, double> by_client;
  for (const auto& row : run.client_evals)
    if (row.round == round && row.view == view && row.part == "test")
      by_client[row.client] = row.accuracy();
  std::vector<double> out;
  for (const auto& client : run.clients) {
    const auto found = by_client.find(client.id);
    out.push_back(found == by_client.end() ? kAbsent : found->second);
  }
  return out;
}

int64_t last_evaluated_round(const RunHistory& run) {
  int64_t last = -1;
  for (const auto& row : run.evals) last = std::max(last, row.round);
  return last;
}

std::optional<int64_t> best_validation_round(const RunHistory& run) {
  const EvalRow* best = nullptr;
  for (const auto& row : run.evals) {
    if (row.who != "clients" || row.view != run.meta.headline || row.part != "val") continue;
    if (std::isnan(row.mean)) continue;
    if (!best || row.mean > best->mean) best = &row;
  }
  return best ? std::optional(best->round) : std::nullopt;
}

}  // namespace tessera
