#include "method/mosaic/class_prior.hpp"

#include <ATen/ATen.h>

namespace tessera {

Tensor class_totals(const ClientData& data) {
  return at::tensor(data.class_counts(Part::kTrain), at::kDouble);
}

Tensor log_own_shares(const Tensor& counts, const Tensor& pi, double a) {
  constexpr double kLeast = 1e-12;
  return ((counts + a * pi) / (counts.sum() + a)).clamp_min(kLeast).log();
}

Tensor prior_shift(const Tensor& counts, const Tensor& pi, double a) {
  constexpr double kRare = 1e-3;
  return log_own_shares(counts, pi, a) - (pi + kRare).log();
}

Tensor balanced_shift(const Tensor& counts, double a) {
  return log_own_shares(counts, at::full_like(counts, 1.0 / static_cast<double>(counts.numel())),
                        a);
}

Weights shifted(const Weights& model, const Tensor& shift) {
  auto out = model.clone();
  out.w.slice(0, out.w.numel() - shift.numel()).add_(shift);
  return out;
}

}  // namespace tessera
