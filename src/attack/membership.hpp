// Was this sample among those a model was trained on? Scores, higher for likelier members, and how
// well they tell members from others. Only probabilities and labels are needed: what a user of a
// prediction interface sees.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "train/site.hpp"
#include "train/train_options.hpp"

namespace tessera {

using at::Tensor;

/// What a model said of samples: probabilities [n, classes] in fp64, true labels int64 [n].
struct Answers {
  Tensor probabilities, y;
};
/// A model's answers to samples, by cross-entropy's softmax.
Answers answers_of(const Model& model, const Weights& at, const Examples& samples);

/// kLoss: log p_y. kConfidence: the largest p. kEntropy: the sum of p log p. kModifiedEntropy: that
/// of Song and Mittal, which knows the label: (1 − p_y) log p_y + Σ_{c≠y} p_c log(1 − p_c).
enum class MembershipSignal { kLoss, kConfidence, kEntropy, kModifiedEntropy };
/// "loss", "confidence", "entropy", "modified-entropy".
std::string name_of(MembershipSignal signal);
/// One score a sample, finite.
std::vector<double> membership_scores(MembershipSignal signal, const Answers& answers);

/// How well scores tell members from others. The threshold is the one with the best balanced
/// accuracy on these very samples: the worst case, slightly above 0.5 by chance alone. NaN where
/// there are no members or no others.
struct MembershipMetrics {
  double auc = 0;                // the chance that a member has the higher score, ties half
  double balanced_accuracy = 0;  // (TPR + TNR) / 2
  double advantage = 0;          // 2 (balanced accuracy − 0.5) = TPR − FPR
  double tpr_at_low_fpr = 0;     // the largest TPR where at most 1 % of the others are accused
};
MembershipMetrics measure_membership(std::span<const double> members,
                                     std::span<const double> others);

/// P(1 | x) = σ(<coefficients, x standardised> + offset).
struct Logistic {
  std::vector<double> mean, scale, coefficients;
  double offset = 0;

  double score(std::span<const double> x) const;  // before the sigmoid
};
/// Least log-loss + ridge/2 · |coefficients|² / n by Newton's method; x [n, k] in fp64. Features
/// that never vary count for nothing.
Logistic fit_logistic(const Tensor& x, const std::vector<bool>& positive, double ridge = 1);

/// A model somebody trained on data of their own, asked about samples it was trained on and about
/// others.
struct Shadow {
  Weights model;
  Answers members, others;
};
/// Trained on the site's training rows from the network's own start at `site.key`; the others are
/// its test rows. Equal numbers of both: the first ones.
Shadow train_shadow(const Site& site, const TrainOptions& options);

/// Logistic regression on the three largest probabilities, sorted, and the loss; from shadows of
/// the same distribution as the target (1 to 4 of them, on disjoint data).
class ShadowAttack {
 public:
  explicit ShadowAttack(std::span<const Shadow> shadows);
  std::vector<double> scores(const Answers& answers) const;

 private:
  Logistic rule_;
};

/// log(p_y / (1 − p_y)), the scale on which confidences are about normal.
std::vector<double> logit_confidences(const Answers& answers);
/// The offline likelihood-ratio attack (Carlini et al., S&P 2022, §VI.C): how far the target's
/// confidence of a sample lies above those of shadow models that never saw it, in deviations.
/// `shadows` are one list per model (at least two), each as long as `target`. The deviation is that
/// of all samples together, as the authors advise for few shadows, unless `own_deviation`.
std::vector<double> likelihood_ratios(std::span<const double> target,
                                      const std::vector<std::vector<double>>& shadows,
                                      bool own_deviation = false);

}  // namespace tessera
