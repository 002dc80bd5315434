#include "method/similarity/attention.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "method/similarity/collaborate.hpp"
#include "tensor/gram.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = 0.9;  // of a mixture that is others': the own share stays positive

double own_share(const AttentionRule& rule, int64_t models) {
  return rule.own > 0 ? rule.own : 1 / static_cast<double>(models);
}

}  // namespace

double Attraction::alpha() const { return sigma * std::exp(log_strength); }

Attraction fit_attraction(const Tensor& squared_distances, double sigma, double alpha) {
  const int64_t n = squared_distances.size(0);
  if (n < 2 || squared_distances.max().item<double>() == 0) return {};
  if (sigma == 0) sigma = similarity_threshold(squared_distances, 0.5, false);
  if (sigma == 0)  // most models are equal
    sigma = squared_distances.sum().item<double>() / static_cast<double>(n * (n - 1));
  auto logs = squared_distances.div(-sigma);
  logs.diagonal().fill_(-kInfinity);
  const double most = std::log(kMost) - at::logsumexp(logs, 1).max().item<double>();
  return {sigma, alpha > 0 ? std::min(std::log(alpha / sigma), most) : most};
}

Tensor attracted(const Attraction& attraction, const Tensor& squared_distances) {
  if (attraction.sigma == 0) return at::zeros_like(squared_distances);
  const auto shares = squared_distances.div(-attraction.sigma).add_(attraction.log_strength).exp_();
  const auto total = shares.sum(-1, true);
  return at::where(total > kMost, shares.mul(kMost / total), shares);
}

Tensor attended(const Tensor& cosines, double own, double sharpness) {
  // Masked after scaling: 0 times infinity is no number. Nor is the softmax of an empty row.
  const auto logits = cosines.mul(sharpness).masked_fill_(cosines == -kInfinity, -kInfinity);
  return at::softmax(logits, -1).nan_to_num_(0).mul_(1 - own);
}

Attention attention_among(std::span<const Tensor> models, const AttentionRule& rule) {
  // Centred: what cosines are meant to be of, and distances lose fewer digits.
  std::optional<Tensor> centre;
  if (!models.empty()) centre = mean(models, std::vector<double>(models.size(), 1));
  const auto products = gram(models, centre);
  Attention out;
  if (rule.exact) {
    auto distances = squared_distances(products);
    out.attraction = fit_attraction(distances, rule.sigma, rule.alpha);
    distances.diagonal().fill_(kInfinity);
    out.shares = attracted(out.attraction, distances);
  } else {
    auto cosine = cosines(products);
    cosine.diagonal().fill_(-kInfinity);
    out.shares = attended(cosine, own_share(rule, cosine.size(0)), rule.sharpness);
  }
  out.shares.diagonal().copy_((1 - out.shares.sum(1)).clamp_min_(0));
  return out;
}

std::vector<double> attention_of(const Tensor& one, std::span<const Tensor> models,
                                 const Tensor& centre, const Attraction& attraction,
                                 const AttentionRule& rule) {
  const auto n = static_cast<int64_t>(models.size());
  const auto others =
      rule.exact ? attracted(attraction, squared_distances(one, models))
                 : attended(cosines(one, models, centre), own_share(rule, n + 1), rule.sharpness);
  std::vector<double> out(others.data_ptr<double>(), others.data_ptr<double>() + n);
  out.push_back(std::max(0.0, 1 - others.sum().item<double>()));
  return out;
}

}  // namespace tessera
