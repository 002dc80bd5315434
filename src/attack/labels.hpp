// Labels read off the gradient of a last linear layer under cross-entropy.
//
// For one sample dL/db_c = p_c − [c = y]: the one negative entry is its label. Over a batch of m
// the entries are means, so class c was there m (mean p_c − dL/db_c) times. Soft labels break the
// sign rule by construction; then there is no answer, which is what one should report.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/model.hpp"
#include "tensor/linear_head.hpp"

namespace tessera {

/// The gradient of the head's bias [classes] inside a flat gradient [d].
Tensor head_bias_gradient(const LinearHead& head, const Tensor& gradient);
/// The gradient of the head's weight [classes, width].
Tensor head_weight_gradient(const LinearHead& head, const Tensor& gradient);

/// The label of a single sample from the bias gradient [classes]; none unless exactly one entry is
/// negative.
std::optional<int64_t> label_by_sign(const Tensor& bias_gradient);
/// The same without a bias, from the weight gradient [classes, width] and the sign that all
/// features have (+1 behind ReLU and sigmoid): rows are p_c − [c = y] times the features.
std::optional<int64_t> label_by_rows(const Tensor& weight_gradient, double feature_sign = 1);

/// How often each class was in a batch of m, as estimated: m (pbar_c − dL/db_c), not rounded.
/// pbar [classes] are mean probabilities, of random inputs or of the previous model.
std::vector<double> estimated_counts(const Tensor& bias_gradient, const Tensor& pbar, int64_t m);
/// The nearest whole counts ≥ 0 that sum to m: rounded down, the largest remainders up.
std::vector<int64_t> whole_counts(const std::vector<double>& estimated, int64_t m);
/// Every class as often as it was counted, ascending: the labels an inversion starts from.
std::vector<int64_t> labels_of_counts(const std::vector<int64_t>& counts);

/// Mean class probabilities [classes] (fp64) of `n` inputs drawn from N(0, 1): what somebody
/// without data knows of pbar.
Tensor mean_probabilities(const Model& model, const Weights& at, const std::vector<int64_t>& sample,
                          int64_t n, uint64_t key);

/// Against the true labels: the fraction of samples whose label was counted, and the sum over
/// classes of |estimated − true|.
struct LabelScore {
  double accuracy = 0, l1 = 0;
};
LabelScore score_labels(const std::vector<int64_t>& counts, const Tensor& truth);

}  // namespace tessera
