// The metric that leads a run, as pages speak of it and draw it.
#pragma once

#include <string>
#include <vector>

#include "report/axis.hpp"
#include "report/history.hpp"

namespace tessera {

struct Leading {
  const MetricInfo& metric;
  std::string word;   // "accuracy"
  std::string title;  // "Accuracy"
  svg::Quantity quantity;

  bool is_accuracy() const { return metric.name == "accuracy"; }
  /// The mean over clients.
  double of(const EvalRow& row) const { return value_of(row, metric.name); }
  /// How it is spread over the clients of the row.
  MetricSpread spread(const RunHistory& run, const EvalRow& row) const;
  /// Of every client at a round, in the order of run.clients.
  std::vector<double> clients(const RunHistory& run, int64_t round, const std::string& view) const {
    return client_values(run, round, view, metric.name);
  }
  std::string text(double value) const { return svg::value_text(quantity, value); }
  /// "84.2 ± 1.3 %"
  std::string plus_minus(double mean, double std) const;
  /// Points, or a plain difference where the metric is no fraction.
  std::string difference(double value) const;
};
Leading leading_of(const RunMeta& meta);
/// The same of any metric.
Leading leading_of(const MetricInfo& metric);

}  // namespace tessera
