#include "attack/membership.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "eval/metrics.hpp"
#include "train/local_sgd.hpp"

namespace tessera {
namespace {

constexpr double kLowFpr = 0.01;

/// Below it a logarithm would be infinite; no softmax in fp64 gives a smaller one but 0.
constexpr double kLeast = std::numeric_limits<double>::min();

Tensor safe_log(const Tensor& p) { return p.clamp_min(kLeast).log(); }

std::vector<double> plain_numbers(const Tensor& x) {
  const auto exact = x.to(at::kDouble).contiguous();
  return {exact.data_ptr<double>(), exact.data_ptr<double>() + exact.numel()};
}

Tensor of_label(const Answers& answers, const Tensor& x) {
  return x.gather(1, answers.y.unsqueeze(1)).squeeze(1);
}

/// How many of sorted values are at or above `from`.
double share_above(const std::vector<double>& sorted, double from) {
  const auto place = std::lower_bound(sorted.begin(), sorted.end(), from);
  return static_cast<double>(sorted.end() - place) / static_cast<double>(sorted.size());
}

/// The features of ShadowAttack [n, 4]: missing probabilities of fewer classes are 0.
Tensor shadow_features(const Answers& answers) {
  const int64_t n = answers.probabilities.size(0), classes = answers.probabilities.size(1);
  auto out = at::zeros({n, 4}, at::kDouble);
  const int64_t k = std::min<int64_t>(3, classes);
  out.narrow(1, 0, k).copy_(std::get<0>(answers.probabilities.topk(k, 1)));
  out.select(1, 3).copy_(-of_label(answers, safe_log(answers.probabilities)));
  return out;
}

}  // namespace

Answers answers_of(const Model& model, const Weights& at, const Examples& samples) {
  return {class_probabilities(Loss::Kind::kCrossEntropy, model.predict(at, samples.x)), samples.y};
}

std::string name_of(MembershipSignal signal) {
  switch (signal) {
    case MembershipSignal::kLoss:
      return "loss";
    case MembershipSignal::kConfidence:
      return "confidence";
    case MembershipSignal::kEntropy:
      return "entropy";
    case MembershipSignal::kModifiedEntropy:
      return "modified-entropy";
  }
  return "";
}

std::vector<double> membership_scores(MembershipSignal signal, const Answers& answers) {
  const auto& p = answers.probabilities;
  switch (signal) {
    case MembershipSignal::kLoss:
      return plain_numbers(of_label(answers, safe_log(p)));
    case MembershipSignal::kConfidence:
      return plain_numbers(p.amax(1));
    case MembershipSignal::kEntropy:
      return plain_numbers((p * safe_log(p)).sum(1));
    case MembershipSignal::kModifiedEntropy: {
      const auto wrong = p * safe_log(1 - p);
      const auto right = of_label(answers, (1 - p) * safe_log(p));
      return plain_numbers(right + wrong.sum(1) - of_label(answers, wrong));
    }
  }
  return {};
}

MembershipMetrics measure_membership(std::span<const double> members,
                                     std::span<const double> others) {
  const double none = std::nan("");
  if (members.empty() || others.empty()) return {none, none, none, none};
  std::vector<double> all(members.begin(), members.end());
  all.insert(all.end(), others.begin(), others.end());
  std::vector<bool> positive(all.size(), false);
  std::fill_n(positive.begin(), members.size(), true);
  MembershipMetrics out;
  out.auc = auroc_of(all, positive);
  std::vector<double> in(members.begin(), members.end()), not_in(others.begin(), others.end());
  std::sort(in.begin(), in.end()), std::sort(not_in.begin(), not_in.end());
  for (const double threshold : all) {
    const double tpr = share_above(in, threshold), fpr = share_above(not_in, threshold);
    out.advantage = std::max(out.advantage, tpr - fpr);
    if (fpr <= kLowFpr) out.tpr_at_low_fpr = std::max(out.tpr_at_low_fpr, tpr);
  }
  out.balanced_accuracy = 0.5 + out.advantage / 2;
  return out;
}

double Logistic::score(std::span<const double> x) const {
  double out = offset;
  for (size_t i = 0; i < coefficients.size(); ++i)
    out += coefficients[i] * (x[i] - mean[i]) * scale[i];
  return out;
}

Logistic fit_logistic(const Tensor& x, const std::vector<bool>& positive, double ridge) {
  constexpr int kSteps = 50;
  const int64_t n = x.size(0), k = x.size(1);
  if (n == 0 || static_cast<size_t>(n) != positive.size())
    throw std::invalid_argument("fit_logistic: needs samples and as many labels");
  const auto mean = x.mean(0), spread = x.std(0, false);
  const auto scale = at::where(spread > 1e-12, 1 / spread.clamp_min(1e-12), at::zeros_like(spread));
  const auto design = at::cat({(x - mean) * scale, at::ones({n, 1}, at::kDouble)}, 1);
  auto truth = at::empty({n}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) truth[i] = positive[static_cast<size_t>(i)] ? 1.0 : 0.0;
  auto penalty = at::full({k + 1}, ridge, at::kDouble);
  penalty[k] = 1e-9;  // the offset is free, but one-sided data must not send it to infinity
  auto beta = at::zeros({k + 1}, at::kDouble);
  for (int step = 0; step < kSteps; ++step) {
    const auto p = at::sigmoid(design.matmul(beta));
    const auto slope = design.t().matmul(p - truth) + penalty * beta;
    const auto weighted = design * (p * (1 - p)).unsqueeze(1);
    const auto hessian = design.t().matmul(weighted) + at::diag(penalty);
    const auto move = at::linalg_solve(hessian, slope.unsqueeze(1)).squeeze(1);
    // Newton's step may shoot far where the curve is flat: no coefficient moves by more than 2.
    const double most = move.abs().max().item<double>();
    beta = beta - move * std::min(1.0, 2 / std::max(most, 1e-300));
    if (most < 1e-10) break;
  }
  return {plain_numbers(mean), plain_numbers(scale), plain_numbers(beta.narrow(0, 0, k)),
          beta[k].item<double>()};
}

Shadow train_shadow(const Site& site, const TrainOptions& options) {
  auto model = local_sgd(site.model.init(site.key), site, options).weights;
  const int64_t n = std::min(site.data.size(Part::kTrain), site.data.size(Part::kTest));
  auto in = answers_of(site.model, model, site.data.range(Part::kTrain, 0, n));
  auto out = answers_of(site.model, model, site.data.range(Part::kTest, 0, n));
  return {std::move(model), std::move(in), std::move(out)};
}

ShadowAttack::ShadowAttack(std::span<const Shadow> shadows) {
  if (shadows.empty()) throw std::invalid_argument("ShadowAttack: needs a shadow model");
  std::vector<Tensor> features;
  std::vector<bool> positive;
  for (const auto& shadow : shadows) {
    for (const auto* answers : {&shadow.members, &shadow.others}) {
      features.push_back(shadow_features(*answers));
      positive.insert(positive.end(), static_cast<size_t>(features.back().size(0)),
                      answers == &shadow.members);
    }
  }
  rule_ = fit_logistic(at::cat(features), positive);
}

std::vector<double> ShadowAttack::scores(const Answers& answers) const {
  const auto features = shadow_features(answers).contiguous();
  std::vector<double> out;
  for (int64_t i = 0; i < features.size(0); ++i)
    out.push_back(rule_.score(std::span(features.data_ptr<double>() + 4 * i, 4)));
  return out;
}

std::vector<double> logit_confidences(const Answers& answers) {
  const auto p = of_label(answers, answers.probabilities);
  // 1 − p_y as a sum of the others: near 1 the difference would lose all its digits.
  const auto rest = answers.probabilities.scatter(1, answers.y.unsqueeze(1), 0.0).sum(1);
  return plain_numbers(safe_log(p) - safe_log(rest));
}

std::vector<double> likelihood_ratios(std::span<const double> target,
                                      const std::vector<std::vector<double>>& shadows,
                                      bool own_deviation) {
  const auto k = static_cast<double>(shadows.size());
  if (shadows.size() < 2) throw std::invalid_argument("likelihood_ratios: needs two shadow models");
  for (const auto& shadow : shadows)
    if (shadow.size() != target.size())
      throw std::invalid_argument("likelihood_ratios: a shadow model without all samples");
  std::vector<double> means(target.size()), variances(target.size());
  double pooled = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    for (const auto& shadow : shadows) means[i] += shadow[i] / k;
    for (const auto& shadow : shadows)
      variances[i] += (shadow[i] - means[i]) * (shadow[i] - means[i]) / (k - 1);
    pooled += variances[i] / static_cast<double>(target.size());
  }
  std::vector<double> out;
  for (size_t i = 0; i < target.size(); ++i) {
    const double variance = own_deviation ? variances[i] : pooled;
    out.push_back((target[i] - means[i]) / std::sqrt(variance + 1e-12));
  }
  return out;
}

}  // namespace tessera
