#include "attack/labels.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "attack/pixels.hpp"

namespace tessera {

Tensor head_bias_gradient(const LinearHead& head, const Tensor& gradient) {
  return gradient.narrow(0, head.begin + head.classes * head.width, head.classes);
}

Tensor head_weight_gradient(const LinearHead& head, const Tensor& gradient) {
  return gradient.narrow(0, head.begin, head.classes * head.width).view({head.classes, head.width});
}

std::optional<int64_t> label_by_sign(const Tensor& bias_gradient) {
  const auto below = at::nonzero(bias_gradient < 0).flatten();
  if (below.numel() != 1) return {};
  return below.item<int64_t>();
}

std::optional<int64_t> label_by_rows(const Tensor& weight_gradient, double feature_sign) {
  return label_by_sign(weight_gradient.to(at::kDouble).sum(1) * feature_sign);
}

std::vector<double> estimated_counts(const Tensor& bias_gradient, const Tensor& pbar, int64_t m) {
  const auto counts = (pbar.to(at::kDouble) - bias_gradient.to(at::kDouble)) * m;
  const auto plain = counts.contiguous();
  return {plain.data_ptr<double>(), plain.data_ptr<double>() + plain.numel()};
}

std::vector<int64_t> whole_counts(const std::vector<double>& estimated, int64_t m) {
  std::vector<int64_t> out, order(estimated.size());
  for (const double value : estimated)
    out.push_back(static_cast<int64_t>(std::floor(std::max(value, 0.0))));
  int64_t missing = m - std::accumulate(out.begin(), out.end(), int64_t{0});
  const auto rest = [&](int64_t c) {
    const auto i = static_cast<size_t>(c);
    return estimated[i] - static_cast<double>(out[i]);
  };
  // One at a time: with noise the counts may be far from m, and the next remainder then differs.
  std::iota(order.begin(), order.end(), 0);
  for (; missing > 0; --missing)
    ++out[static_cast<size_t>(*std::max_element(
        order.begin(), order.end(), [&](int64_t a, int64_t b) { return rest(a) < rest(b); }))];
  for (; missing < 0; ++missing) {
    std::erase_if(order, [&](int64_t c) { return out[static_cast<size_t>(c)] == 0; });
    --out[static_cast<size_t>(*std::min_element(
        order.begin(), order.end(), [&](int64_t a, int64_t b) { return rest(a) < rest(b); }))];
  }
  return out;
}

std::vector<int64_t> labels_of_counts(const std::vector<int64_t>& counts) {
  std::vector<int64_t> out;
  for (size_t c = 0; c < counts.size(); ++c)
    out.insert(out.end(), static_cast<size_t>(counts[c]), static_cast<int64_t>(c));
  return out;
}

Tensor mean_probabilities(const Model& model, const Weights& at, const std::vector<int64_t>& sample,
                          int64_t n, uint64_t key) {
  std::vector<int64_t> shape{n};
  shape.insert(shape.end(), sample.begin(), sample.end());
  const auto logits = model.predict(at, gaussian_noise(shape, key));
  return class_probabilities(Loss::Kind::kCrossEntropy, logits).mean(0);
}

LabelScore score_labels(const std::vector<int64_t>& counts, const Tensor& truth) {
  std::vector<int64_t> real(counts.size(), 0);
  const auto plain = truth.contiguous();
  for (int64_t i = 0; i < plain.numel(); ++i)
    ++real.at(static_cast<size_t>(plain.data_ptr<int64_t>()[i]));
  LabelScore out;
  for (size_t c = 0; c < counts.size(); ++c) {
    out.accuracy += static_cast<double>(std::min(counts[c], real[c]));
    out.l1 += static_cast<double>(std::abs(counts[c] - real[c]));
  }
  out.accuracy /= static_cast<double>(plain.numel());
  return out;
}

}  // namespace tessera
