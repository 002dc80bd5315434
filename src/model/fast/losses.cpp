#include "model/fast/losses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace tessera::fast {
namespace {

// `weight` is what the sample counts for; times 1 nothing changes, bit for bit.
double cross_entropy(int64_t n, int64_t classes, int64_t label, float weight, float* z) {
  const float top = *std::max_element(z, z + classes);
  const float true_score = z[label] - top;
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += z[c] = std::exp(z[c] - top);
  const float scale = weight / (sum * static_cast<float>(n));
  for (int64_t c = 0; c < classes; ++c) z[c] *= scale;
  z[label] -= weight / static_cast<float>(n);
  return weight * (std::log(static_cast<double>(sum)) - true_score);
}

double multi_label(int64_t n, int64_t classes, int64_t label, float weight, float* z) {
  double sum = 0;
  const float scale = weight / static_cast<float>(n * classes);
  for (int64_t c = 0; c < classes; ++c) {
    const float target = c == label ? 1.0f : 0.0f;
    const float tail = std::exp(-std::abs(z[c]));  // never overflows
    sum += std::max(z[c], 0.0f) - z[c] * target + std::log1p(tail);
    const float sigmoid = (z[c] >= 0 ? 1.0f : tail) / (1.0f + tail);
    z[c] = (sigmoid - target) * scale;
  }
  return weight * (sum / static_cast<double>(classes));
}

void check_labels(int64_t n, int64_t classes, const int64_t* y) {
  for (int64_t i = 0; i < n; ++i) {
    if (y[i] < 0 || y[i] >= classes) {
      throw std::out_of_range(
          fmt::format("label {} of sample {} is outside 0..{}: the model has "
                      "{} classes",
                      y[i], i, classes - 1, classes));
    }
  }
}

}  // namespace

double loss_and_grad(const Loss& loss, int64_t n, int64_t classes, const int64_t* y,
                     float* logits) {
  check_labels(n, classes, y);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) {
    float* z = logits + i * classes;
    const float weight = loss.weight(y[i]);
    total += loss.kind == Loss::Kind::kCrossEntropy ? cross_entropy(n, classes, y[i], weight, z)
                                                    : multi_label(n, classes, y[i], weight, z);
  }
  return total / static_cast<double>(n);
}

void loss_grad_along(const Loss& loss, int64_t n, int64_t classes, const int64_t* y,
                     const float* logits, float* change) {
  check_labels(n, classes, y);
  std::vector<float> share(static_cast<size_t>(classes));
  for (int64_t i = 0; i < n; ++i, logits += classes, change += classes) {
    const float weight = loss.weight(y[i]);
    if (loss.kind == Loss::Kind::kCrossEntropy) {  // (diag(p) − p pᵀ) change / n
      const float top = *std::max_element(logits, logits + classes);
      float sum = 0, mean = 0;
      for (int64_t c = 0; c < classes; ++c) {
        auto& p = share[static_cast<size_t>(c)];
        p = std::exp(logits[c] - top);
        sum += p, mean += p * change[c];
      }
      mean /= sum;
      const float scale = weight / (sum * static_cast<float>(n));
      for (int64_t c = 0; c < classes; ++c)
        change[c] = share[static_cast<size_t>(c)] * (change[c] - mean) * scale;
    } else {  // σ (1 − σ) change / (n · classes)
      for (int64_t c = 0; c < classes; ++c) {
        const float tail = std::exp(-std::abs(logits[c]));
        change[c] *=
            weight * tail / ((1.0f + tail) * (1.0f + tail) * static_cast<float>(n * classes));
      }
    }
  }
}

}  // namespace tessera::fast
