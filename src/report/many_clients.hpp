// What a report shows of more clients than anybody reads one by one: distributions.
#pragma once

#include <string>
#include <vector>

#include "report/history.hpp"
#include "report/leading.hpp"

namespace tessera {

/// From here on clients are shown together. Pages then do not grow with their number.
inline constexpr size_t kMostShownClients = 200;

/// Values such that a share q of `values` is at most the result: linear between neighbours, as
/// numpy has it. Those that are not finite do not count; NaN without any.
double quantile_over(std::vector<double> values, double q);

/// How the leading metric is spread over the clients that were evaluated: before and after
/// personalization at a round, and after each evaluation.
std::string spread_figures(const RunHistory& run, int64_t round);
/// The share of clients up to each value, a curve for each of these.
struct ClientValues {
  std::string name;
  int colour = 0;
  std::vector<double> values;
};
std::string share_chart(const Leading& lead, const std::vector<ClientValues>& all);
/// How many clients have how many samples, and, where they were counted, samples of every class.
std::string sizes_figures(const RunHistory& run);
/// Quantiles over all clients, and the worst of them by name.
std::string spread_table(const RunHistory& run, int64_t round);

}  // namespace tessera
