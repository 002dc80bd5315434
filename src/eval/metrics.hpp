// Metrics of docs/experiments.md §3: per client, then over clients.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// One client, one part of its data. Fractions in 0…1; NaN where there is nothing to measure.
struct ClientMetrics {
  int64_t n = 0, correct = 0;
  double loss = 0;
  double precision_macro = 0;  // over the classes present in the part
  double f1_macro = 0;         // over the classes present or predicted
  double f1_remap = 0;  // predictions outside the part's classes count as a wrong class inside

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(n); }
};

/// From predicted and true classes (0 … classes−1).
ClientMetrics class_metrics(std::span<const int64_t> predicted, std::span<const int64_t> truth,
                            int64_t classes);

/// Predicts a whole part in batches and measures.
ClientMetrics measure(const std::function<Tensor(const Tensor&)>& predict, const ClientData& data,
                      Part part, Loss loss);

/// Over clients: unweighted, population standard deviation; micro counts samples.
struct Summary {
  double mean = 0, std = 0, micro = 0, min = 0, max = 0;
  double worst10 = 0, best10 = 0;  // mean of the worst and best tenth of clients (at least one)
  double precision_macro = 0, f1_macro = 0, f1_remap = 0, loss = 0;
};
/// Clients without samples do not count; all NaN when none has any.
Summary summarize(std::span<const ClientMetrics> clients);

}  // namespace tessera
