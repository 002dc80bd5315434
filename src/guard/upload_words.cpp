#include "guard/upload_words.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "guard/change.hpp"
#include "privacy/fixed_point.hpp"

namespace tessera {
namespace {

bool is_weight(const std::string& name, const Tensor& tensor) {
  return is_count(name) && tensor.dim() == 0 && tensor.scalar_type() == at::kDouble;
}

/// All numbers but the weight, entry after entry.
std::vector<float> numbers_of(const TensorDict& up) {
  std::vector<float> out;
  for (const auto& [name, tensor] : up) {
    if (is_weight(name, tensor)) continue;
    const auto flat = tensor.contiguous();
    const auto* from = flat.data_ptr<float>();
    out.insert(out.end(), from, from + flat.numel());
  }
  return out;
}

Result<FixedPoint> fixed_point(const WordScale& scale) {
  return FixedPoint::create({.clip = scale.guard.range,
                             .fraction_bits = static_cast<int>(scale.guard.bits),
                             .max_weight = std::ldexp(1.0, static_cast<int>(scale.exponent)),
                             .clients = scale.clients});
}

Status out_of_range(const std::string& what, double value, const WordScale& scale) {
  return fail(Error::kInvalid,
              "{} holds {:.3g}, which guard 'secure-aggregation' does not send: beyond {:.6g}; "
              "raise guard.secure-aggregation.range",
              what, value, scale.guard.range);
}

Status check_range(const TensorDict& up, double weight, const WordScale& scale) {
  const double factor = std::ldexp(weight, -static_cast<int>(scale.exponent));
  for (const auto& [name, tensor] : up) {
    if (is_weight(name, tensor) || tensor.numel() == 0) continue;
    const auto [low, high] = at::aminmax(tensor);
    const double most = std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
    if (!std::isfinite(most)) return fail(Error::kInvalid, "'{}' is not finite", name);
    if (most * factor > scale.guard.range)
      return out_of_range("'" + name + "'", most * factor, scale);
  }
  return ok();
}

}  // namespace

Status check_upload_form(const TensorDict& form, const std::string& method) {
  int weights = 0;
  for (const auto& [name, tensor] : form) {
    weights += is_weight(name, tensor);
    if (!is_weight(name, tensor) && tensor.scalar_type() != at::kFloat)
      return fail(Error::kInvalid,
                  "guard 'secure-aggregation' does not go with {}: its upload '{}' is no float32, "
                  "which alone is summed; remove the guard, or choose another method",
                  method, name);
  }
  if (weights == 1) return ok();
  return fail(Error::kInvalid,
              "guard 'secure-aggregation' does not go with {}: its uploads have {} weights, and a "
              "sum needs one; remove the guard, or choose another method",
              method, weights);
}

uint64_t upload_words(const TensorDict& form) {
  uint64_t out = 2;  // weight and loss
  for (const auto& [name, tensor] : form)
    if (!is_weight(name, tensor)) out += static_cast<uint64_t>(tensor.numel());
  return out;
}

double weight_in(const TensorDict& up) {
  for (const auto& [name, tensor] : up)
    if (is_weight(name, tensor)) return tensor.item<double>();
  return 0;
}

Result<int64_t> weight_exponent(double weight) {
  for (int64_t exponent = 0; weight >= 0 && exponent <= kMostExponent; ++exponent)
    if (weight <= std::ldexp(1.0, static_cast<int>(exponent))) return exponent;
  return fail(Error::kInvalid, "its weight {} is not from 0 to 2^{}", weight, kMostExponent);
}

Result<std::vector<uint64_t>> to_words(const TensorDict& up, double loss, const WordScale& scale) {
  TESSERA_ASSIGN(const auto coder, fixed_point(scale));
  TESSERA_RETURN_IF_ERROR(check_range(up, weight_in(up), scale));
  if (!std::isfinite(loss)) return fail(Error::kInvalid, "its training loss is not finite");
  if (std::abs(loss) > scale.guard.range) return out_of_range("its training loss", loss, scale);
  TESSERA_ASSIGN(auto out, coder.encode(numbers_of(up), weight_in(up)));
  const double scaled = std::ldexp(loss, static_cast<int>(scale.guard.bits));
  out.push_back(static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(scaled))));
  return out;
}

Result<SummedUploads> from_words(std::vector<uint64_t> sum, const TensorDict& form,
                                 const WordScale& scale) {
  if (sum.size() != upload_words(form))
    return fail(Error::kInvalid, "a sum of {} words is none of {}", sum.size(), upload_words(form));
  TESSERA_ASSIGN(const auto coder, fixed_point(scale));
  SummedUploads out;
  out.loss = std::ldexp(static_cast<double>(static_cast<int64_t>(sum.back())),
                        -static_cast<int>(scale.guard.bits));
  sum.pop_back();
  TESSERA_ASSIGN(const auto mean, coder.decode(sum));
  if (mean.weight == 0) return fail(Error::kInvalid, "all uploads have weight 0");
  const auto* from = mean.values.data();
  for (const auto& [name, tensor] : form) {
    if (is_weight(name, tensor)) {
      out.mean.emplace(name, at::full({}, mean.weight, tensor.options()));
      continue;
    }
    auto to = at::empty(tensor.sizes(), at::kFloat);
    auto* numbers = to.data_ptr<float>();
    for (int64_t i = 0; i < to.numel(); ++i) numbers[i] = static_cast<float>(*from++);
    out.mean.emplace(name, to);
  }
  return out;
}

TensorDict one_of_many(const TensorDict& mean, int64_t count) {
  auto out = mean;
  for (auto& [name, tensor] : out)
    if (is_weight(name, tensor)) tensor = tensor / static_cast<double>(count);
  return out;
}

}  // namespace tessera
