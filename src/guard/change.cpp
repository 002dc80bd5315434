#include "guard/change.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "guard/coding.hpp"

namespace tessera {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// A mean travels as "base.value.w" beside "base.weight"; what was sent for it is "base.w".
std::string without_value(const std::string& name) {
  const auto at = name.find("value.");
  return at == std::string::npos ? name : name.substr(0, at) + name.substr(at + 6);
}

bool describes_data(const std::string& name) { return last_part(name) == "b"; }

// A change says so by its name, whatever the rest of the upload is.
bool is_change(const std::string& name) { return name.starts_with("delta"); }

Tensor start_of(const std::string& name, const Tensor& tensor, const TensorDict& down) {
  const auto wanted = without_value(name), kind = last_part(name);
  std::vector<Tensor> alike;
  for (const auto& [other, one] : down) {
    if (one.scalar_type() != tensor.scalar_type() || one.sizes() != tensor.sizes() ||
        last_part(other) != kind)
      continue;
    if (other == wanted || other == "g." + kind) return one;
    alike.push_back(one);
  }
  return alike.size() == 1 ? alike.front() : Tensor();
}

/// Calls f(change) for every number; what it leaves there is the new change.
void for_each_change(TensorDict& up, const std::vector<Moved>& trained,
                     const std::function<double(double)>& f) {
  for (const auto& [name, from] : trained) {
    auto& tensor = up.at(name);
    auto out = tensor.contiguous().clone();
    const auto start = from.defined() ? from.contiguous() : Tensor();
    auto* numbers = out.data_ptr<float>();
    const auto* base = start.defined() ? start.data_ptr<float>() : nullptr;
    for (int64_t i = 0; i < out.numel(); ++i) {
      const double at = base ? base[i] : 0;
      numbers[i] = static_cast<float>(at + f(numbers[i] - at));
    }
    tensor = out;
  }
}

}  // namespace

bool is_trained(const std::string& name, const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.dim() > 0 && !describes_data(name);
}

std::vector<Moved> trained_in(const TensorDict& up, const TensorDict& down, bool changes) {
  std::vector<Moved> out;
  for (const auto& [name, tensor] : up)
    if (is_trained(name, tensor))
      out.push_back({name, changes || is_change(name) ? Tensor() : start_of(name, tensor, down)});
  return out;
}

std::vector<std::string> whole_models(const TensorDict& up, const TensorDict& down, bool changes) {
  std::vector<std::string> out;
  if (changes) return out;
  for (const auto& [name, from] : trained_in(up, down, false))
    if (!from.defined() && !is_change(name)) out.push_back(name);
  return out;
}

double norm_of(const TensorDict& up, const std::vector<Moved>& trained) {
  double sum = 0;
  for (const auto& [name, from] : trained) {
    const auto numbers = up.at(name).contiguous();
    const auto start = from.defined() ? from.contiguous() : Tensor();
    const auto* p = numbers.data_ptr<float>();
    const auto* base = start.defined() ? start.data_ptr<float>() : nullptr;
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      const double d = p[i] - static_cast<double>(base ? base[i] : 0.f);
      sum += d * d;
    }
  }
  return std::sqrt(sum);
}

void scale(TensorDict& up, const std::vector<Moved>& trained, double factor) {
  for_each_change(up, trained, [&](double change) { return change * factor; });
}

void clip(TensorDict& up, const std::vector<Moved>& trained, double bound) {
  const double norm = norm_of(up, trained);
  if (norm > bound && std::isfinite(norm)) scale(up, trained, bound / norm);
}

void add_noise(TensorDict& up, const std::vector<Moved>& trained,
               const std::function<double()>& draw) {
  for_each_change(up, trained, [&](double change) { return change + draw(); });
}

void prune(TensorDict& up, const std::vector<Moved>& trained, const PruneGuard& options) {
  for (const auto& one : trained) {
    auto& tensor = up.at(one.name);
    if (tensor.numel() == 0 || (options.share == 1 && !options.sign)) continue;
    const auto change = (one.from.defined() ? tensor - one.from : tensor).reshape({-1});
    auto kept = largest(change, sparse_count(options.share, change.numel()));
    if (options.sign)
      kept.value = kept.value.sign() * kept.value.abs().to(at::kDouble).mean().to(at::kFloat);
    const auto out = at::zeros_like(change).index_put_({kept.index.to(at::kLong)}, kept.value);
    const auto shaped = out.view(tensor.sizes());
    tensor = one.from.defined() ? one.from + shaped : shaped;
  }
}

bool is_count(const std::string& name) {
  const auto kind = last_part(name);
  return kind == "weight" || kind == "samples";
}

void set_counts(TensorDict& up, double value) {
  for (auto& [name, tensor] : up)
    if (is_count(name) && tensor.dim() == 0) tensor = at::full_like(tensor, value);
}

void round_counts(TensorDict& up, int64_t digits) {
  for (auto& [name, tensor] : up)
    if (is_count(name) && tensor.dim() == 0)
      tensor = at::full_like(tensor, rounded_to(tensor.item<double>(), digits));
}

double rounded_to(double value, int64_t digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - digits + 1.0);
  return std::round(value / unit) * unit;
}

}  // namespace tessera
