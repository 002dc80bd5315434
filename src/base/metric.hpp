// The metrics that can lead tables and decide which round or setting is best.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct MetricInfo {
  std::string name;   // as in eval.metric and in the columns of the history
  std::string title;  // for people: "AUROC"
  bool smaller_is_better = false;
  bool fraction = true;  // of 0 … 1, shown in %; else a plain number
  bool pooled = false;   // over clients every sample counts the same, not every client

  /// Whether `a` beats `b`. NaN beats nothing and is beaten by any number.
  bool better(double a, double b) const;
  /// The worst and the best last, as better() sees it: for sorting.
  double rank(double value) const { return smaller_is_better ? -value : value; }
  /// "81.2", in % for a fraction; "–" for NaN.
  std::string text(double value) const;
};

/// accuracy, acc_micro, balanced_accuracy, auroc, f1_macro, precision_macro, loss, ece.
const std::vector<MetricInfo>& metrics();
std::vector<std::string> metric_names();
/// By name; accuracy for one that is none.
const MetricInfo& metric_of(const std::string& name);

/// The metric of a name in anything that has fields of these names; `accuracy` stands for the one
/// that each calls differently, and for names that are none. acc_micro is `micro` where there is
/// one; of a single client it is its accuracy.
template <class Row>
double metric_in(const Row& row, const std::string& metric, double accuracy) {
  if constexpr (requires { row.micro; })
    if (metric == "acc_micro") return row.micro;
  if (metric == "balanced_accuracy") return row.balanced_accuracy;
  if (metric == "auroc") return row.auroc;
  if (metric == "f1_macro") return row.f1_macro;
  if (metric == "precision_macro") return row.precision_macro;
  if (metric == "loss") return row.loss;
  if (metric == "ece") return row.ece;
  return accuracy;
}

/// One metric over clients: unweighted, population standard deviation. All NaN over nobody.
struct MetricSpread {
  double mean, std, min, max;
  double worst10, best10;  // mean of the worst and best tenth of clients (at least one)
};
/// Values that are NaN do not count.
MetricSpread spread_of(const MetricInfo& metric, std::vector<double> values);

}  // namespace tessera
