// Metrics of docs/experiments.md §3: per client, then over clients.
#pragma once

#include <functional>
#include <span>
#include <string>
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
  double balanced_accuracy = 0;  // mean recall over the classes present
  double auroc = 0;              // one class against the rest, mean over classes that have both
  double ece = 0;                // expected calibration error of the predicted class

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(n); }
};
/// By a name of base/metric.hpp.
double value_of(const ClientMetrics& metrics, const std::string& metric);

/// How often which class was taken for which: counts[truth · classes + predicted].
struct Confusion {
  int64_t classes = 0;
  std::vector<int64_t> counts;

  int64_t at(int64_t truth, int64_t predicted) const {
    return counts[static_cast<size_t>(truth * classes + predicted)];
  }
  bool operator==(const Confusion&) const = default;
};
/// Of more classes there is none: nobody could read it.
inline constexpr int64_t kMostConfusionClasses = 100;

/// What a model says of a part, sample by sample.
struct Predictions {
  int64_t classes = 0;
  std::vector<int64_t> predicted, truth;  // 0 … classes−1
  /// [n · classes], row by row: softmax, or with the multi-label loss each class's own sigmoid.
  std::vector<double> scores;
  double loss = 0;  // mean; NaN without samples

  std::span<const double> scores_of(size_t sample) const {
    const auto width = static_cast<size_t>(classes);
    return std::span(scores).subspan(sample * width, width);
  }
};
/// Predicts a whole part in batches.
Predictions predict_part(const std::function<Tensor(const Tensor&)>& predict,
                         const ClientData& data, Part part, const Loss& loss);

/// From predicted and true classes (0 … classes−1); loss, AUROC and calibration are NaN.
ClientMetrics class_metrics(std::span<const int64_t> predicted, std::span<const int64_t> truth,
                            int64_t classes);
ClientMetrics metrics_of(const Predictions& predictions);
Confusion confusion_of(const Predictions& predictions);

/// metrics_of(predict_part(…)).
ClientMetrics measure(const std::function<Tensor(const Tensor&)>& predict, const ClientData& data,
                      Part part, const Loss& loss);

/// The chance that a random positive has a higher score than a random negative, ties half. NaN
/// without either, or with a score that is not finite.
double auroc_of(std::span<const double> scores, const std::vector<bool>& positive);
/// Sum over 15 equal bins of the confidence (0 … 1) of |hits − confidences| / n. NaN without
/// samples, or with a confidence that is not finite.
double calibration_error(std::span<const double> confidence, const std::vector<bool>& hit);

/// Over clients: unweighted, population standard deviation; micro counts samples.
struct Summary {
  double mean = 0, std = 0, micro = 0, min = 0, max = 0;
  double worst10 = 0, best10 = 0;  // mean of the worst and best tenth of clients (at least one)
  double precision_macro = 0, f1_macro = 0, f1_remap = 0, loss = 0;
  double balanced_accuracy = 0, auroc = 0, ece = 0;  // over the clients where they are defined
};
/// Clients without samples do not count; all NaN when none has any.
Summary summarize(std::span<const ClientMetrics> clients);
/// The mean of a metric, by a name of base/metric.hpp.
double value_of(const Summary& summary, const std::string& metric);

}  // namespace tessera
