#include "tensor/weights.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tessera {
namespace {

// Accumulators of one block stay in the first-level cache while every part streams through once.
constexpr int64_t kBlock = 2048;

// Several parts a pass, the next ones on their way: memory answers many requests as fast as one.
// Not more than four: parts tend to lie whole pages apart, where eight would fill a cache set.
constexpr size_t kStreams = 4;

/// sums += weights · parts over `size` numbers, each sum in the order of the parts; `next` is what
/// the following call reads (of as many parts, or null).
template <size_t kParts, class T>
void add_parts(double* __restrict sums, const T* const* parts, const T* const* next,
               const double* weights, int64_t begin, int64_t size) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const T* from[kParts];
  double weight[kParts];
  for (size_t p = 0; p < kParts; ++p) from[p] = parts[p] + begin, weight[p] = weights[p];
  for (int64_t line = 0; line < size; line += kLine) {
    if (next != nullptr)
      for (size_t p = 0; p < kParts; ++p) __builtin_prefetch(next[p] + begin + line, 0, 2);
    const int64_t end = std::min(line + kLine, size);
    for (int64_t i = line; i < end; ++i) {
      double sum = sums[i];
#pragma GCC unroll 4
      for (size_t p = 0; p < kParts; ++p) sum += weight[p] * static_cast<double>(from[p][i]);
      sums[i] = sum;
    }
  }
}

template <class T>
void mean_into(T* out, std::span<const T* const> parts, std::span<const double> weights,
               double total, int64_t n) {
  double sums[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    std::fill(sums, sums + size, 0.0);
    // Summed in the order given: float addition is not associative.
    size_t p = 0;
    for (; p + kStreams <= parts.size(); p += kStreams) {
      const T* const* next = p + 2 * kStreams <= parts.size() ? &parts[p + kStreams] : nullptr;
      add_parts<kStreams, T>(sums, &parts[p], next, &weights[p], begin, size);
    }
    for (; p < parts.size(); ++p)
      add_parts<1, T>(sums, &parts[p], nullptr, &weights[p], begin, size);
    // Divided at the end: with whole-number weights the mean of equal vectors is then exact.
    for (int64_t i = 0; i < size; ++i) out[begin + i] = static_cast<T>(sums[i] / total);
  }
}

template <class T>
Tensor typed_mean(std::span<const Tensor> parts, std::span<const double> weights, double total) {
  auto out = at::empty_like(parts.front(), at::MemoryFormat::Contiguous);
  std::vector<Tensor> held;
  std::vector<const T*> from;
  for (const auto& part : parts) {
    held.push_back(part.contiguous());
    from.push_back(held.back().template data_ptr<T>());
  }
  mean_into<T>(out.template data_ptr<T>(), from, weights, total, out.numel());
  return out;
}

}  // namespace

Weights Weights::clone() const { return {w.clone(), b.clone()}; }

Tensor mean(std::span<const Tensor> parts, std::span<const double> weights) {
  if (parts.empty()) throw std::invalid_argument("mean of no vectors");
  double total = 0;
  for (const double weight : weights) total += weight;
  if (!(total > 0)) throw std::invalid_argument("mean: the weights must sum to more than 0");
  for (const auto& part : parts)
    if (part.sizes() != parts.front().sizes() || part.scalar_type() != parts.front().scalar_type())
      throw std::invalid_argument("mean: vectors of different shapes");
  return parts.front().scalar_type() == at::kDouble ? typed_mean<double>(parts, weights, total)
                                                    : typed_mean<float>(parts, weights, total);
}

Weights mean(std::span<const Weighted> parts) {
  std::vector<Tensor> w, b;
  std::vector<double> weights;
  for (const auto& part : parts) {
    w.push_back(part.value.w);
    b.push_back(part.value.b);
    weights.push_back(part.weight);
  }
  return {mean(w, weights), mean(b, weights)};
}

double dot64(const Tensor& a, const Tensor& b) {
  return at::dot(a.to(at::kDouble).flatten(), b.to(at::kDouble).flatten()).item<double>();
}

double norm64(const Tensor& a) { return std::sqrt(dot64(a, a)); }

Tensor replaced(const Tensor& whole, const Tensor& positions, const Tensor& part) {
  return whole.index_copy(0, positions, part);
}

}  // namespace tessera
