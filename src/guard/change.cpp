#include "guard/change.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "guard/coding.hpp"

namespace tessera {
namespace {

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

// Summed in order and in double: neither threads nor vector units may choose another neighbour.
double distance(const Tensor& a, const Tensor* b) {
  const auto x = a.contiguous(), y = b ? b->contiguous() : x;
  const auto *p = x.data_ptr<float>(), *q = y.data_ptr<float>();
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d = b ? static_cast<double>(p[i]) - q[i] : p[i];
    sum += d * d;
  }
  return sum;
}

}  // namespace

int64_t nearest_of(const std::vector<Tensor>& candidates, const Tensor& tensor) {
  int64_t out = 0;
  double least = candidates.empty() ? 0 : distance(tensor, nullptr);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double here = distance(tensor, &candidates[i]);
    if (here < least) least = here, out = static_cast<int64_t>(i) + 1;
  }
  return out;
}

std::vector<Moved> trained_in(const TensorDict& up, const TensorDict& down,
                              const MessageParts& parts, StartBy start) {
  std::vector<Moved> out;
  for (const auto& [name, tensor] : up) {
    const auto* part = parts.find(name);
    if (!part || part->meaning != Meaning::kTrained || tensor.scalar_type() != at::kFloat) continue;
    const auto starts = starts_in(*part, down, tensor);
    auto from = starts.empty() ? Tensor() : starts.front();
    if (starts.size() > 1 && start == StartBy::kNearest)
      if (const auto at = nearest_of(starts, tensor); at > 0)
        from = starts[static_cast<size_t>(at - 1)];
    out.push_back({name, from});
  }
  return out;
}

std::vector<std::string> whole_models(const TensorDict& up, const TensorDict& down,
                                      const MessageParts& parts) {
  std::vector<std::string> out;
  for (const auto& [name, from] : trained_in(up, down, parts)) {
    const auto before = parts.find(name)->before;
    if (!from.defined() && (before == Before::kSent || before == Before::kOwn)) out.push_back(name);
  }
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

namespace {

void each_count(TensorDict& up, const MessageParts& parts, const std::function<double(double)>& f) {
  for (auto& [name, tensor] : up)
    if (const auto* part = parts.find(name);
        part && part->meaning == Meaning::kCount && tensor.dim() == 0)
      tensor = at::full_like(tensor, f(tensor.item<double>()));
}

}  // namespace

void set_counts(TensorDict& up, double value, const MessageParts& parts) {
  each_count(up, parts, [&](double) { return value; });
}

void round_counts(TensorDict& up, int64_t digits, const MessageParts& parts) {
  each_count(up, parts, [&](double count) { return rounded_to(count, digits); });
}

double rounded_to(double value, int64_t digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - digits + 1.0);
  return std::round(value / unit) * unit;
}

}  // namespace tessera
