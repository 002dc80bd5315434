#include "guard/coding.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/key.hpp"

namespace tessera {
namespace {

constexpr int kMostSteps = 127;

// The smallest scale by which the largest number is at most 127 steps: with one that is rounded
// down it would be cut off, and its mean with it.
float scale_for(float largest) {
  auto scale = static_cast<float>(static_cast<double>(largest) / kMostSteps);
  while (static_cast<double>(scale) * kMostSteps < static_cast<double>(largest))
    scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
  return scale;
}

}  // namespace

Result<Tensor> to_half(const Tensor& x) {
  auto half = x.to(at::kHalf);
  if (!at::isfinite(half).all().item<bool>())
    return fail(Error::kInvalid,
                "a number is beyond the 65504 that fp16 can hold; lower the rates of training, or "
                "use guard.compress.to = \"int8\"");
  return half;
}

Int8Numbers to_int8(const Tensor& x, uint64_t key) {
  const auto from = x.contiguous();
  const int64_t n = from.numel(), blocks = (n + kInt8Block - 1) / kInt8Block;
  Int8Numbers out{at::empty({n}, at::kChar), at::empty({blocks}, at::kFloat)};
  const auto* numbers = from.data_ptr<float>();
  auto* steps = out.steps.data_ptr<int8_t>();
  auto* scales = out.scale.data_ptr<float>();
  Rng rng(key);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kInt8Block, end = std::min(n, begin + kInt8Block);
    float most = 0;
    for (int64_t i = begin; i < end; ++i) most = std::max(most, std::abs(numbers[i]));
    const double scale = scales[block] = scale_for(most);
    for (int64_t i = begin; i < end; ++i) {
      const double exact = scale > 0 ? numbers[i] / scale : 0;
      steps[i] =
          static_cast<int8_t>(std::min<double>(std::floor(exact + rng.uniform()), kMostSteps));
    }
  }
  return out;
}

Result<Tensor> from_int8(const Int8Numbers& coded) {
  const auto steps = coded.steps.contiguous(), scale = coded.scale.contiguous();
  const int64_t n = steps.numel();
  const auto* from = steps.data_ptr<int8_t>();
  const auto* scales = scale.data_ptr<float>();
  for (int64_t block = 0; block < scale.numel(); ++block)
    if (!std::isfinite(scales[block]) || scales[block] < 0)
      return fail(Error::kInvalid, "the scale of block {} is {}", block, scales[block]);
  auto out = at::empty({n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    if (from[i] < -kMostSteps) return fail(Error::kInvalid, "number {} has −128 steps", i);
    to[i] = static_cast<float>(from[i]) * scales[i / kInt8Block];
  }
  return out;
}

int64_t sparse_count(double share, int64_t n) {
  // 0.01 · 300 is 3 although the product of doubles is a little more.
  const auto count = static_cast<int64_t>(std::ceil(share * static_cast<double>(n) - 1e-9));
  return std::clamp<int64_t>(count, 1, n);
}

SparseNumbers largest(const Tensor& x, int64_t k) {
  const auto from = x.contiguous();
  const int64_t n = from.numel();
  const auto* numbers = from.data_ptr<float>();
  std::vector<float> sizes(static_cast<size_t>(n));
  std::transform(numbers, numbers + n, sizes.begin(), [](float v) { return std::abs(v); });
  std::nth_element(sizes.begin(), sizes.begin() + (k - 1), sizes.end(), std::greater<>());
  const float least = sizes[static_cast<size_t>(k - 1)];
  int64_t equal = k;  // of those as large as the smallest that is sent, so many
  for (int64_t i = 0; i < n; ++i)
    if (std::abs(numbers[i]) > least) --equal;
  SparseNumbers out{at::empty({k}, at::kInt), at::empty({k}, at::kFloat)};
  auto* index = out.index.data_ptr<int32_t>();
  auto* value = out.value.data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const float size = std::abs(numbers[i]);
    if (size < least || (size == least && equal-- <= 0)) continue;
    *index++ = static_cast<int32_t>(i), *value++ = numbers[i];
  }
  return out;
}

Result<Tensor> from_sparse(const SparseNumbers& coded, int64_t n) {
  const auto index = coded.index.contiguous(), value = coded.value.contiguous();
  const auto* places = index.data_ptr<int32_t>();
  const auto* numbers = value.data_ptr<float>();
  auto out = at::zeros({n}, at::kFloat);
  auto* to = out.data_ptr<float>();
  int64_t before = -1;
  for (int64_t i = 0; i < index.numel(); ++i) {
    if (places[i] < 0 || places[i] >= n)
      return fail(Error::kInvalid, "index {} is not in 0 … {}", places[i], n - 1);
    if (places[i] <= before)
      return fail(Error::kInvalid, "index {} comes after {}: they must ascend", places[i], before);
    before = places[i];
    to[places[i]] = numbers[i];
  }
  return out;
}

}  // namespace tessera
