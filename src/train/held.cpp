#include "train/held.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace tessera {

Held::Held(const Tensor& only, const Tensor& values) : values_(values.contiguous()) {
  const auto mask = only.contiguous();
  TORCH_CHECK(mask.scalar_type() == at::kBool && mask.numel() == values.numel(),
              "a mask needs a bool for every coordinate");
  const bool* const first = mask.data_ptr<bool>();
  const bool* const last = first + mask.numel();
  for (const bool* at = std::find(first, last, false); at != last;) {
    const bool* const end = std::find(at, last, true);
    ranges_.emplace_back(at - first, end - first);
    at = std::find(end, last, false);
  }
}

void Held::put_back(Tensor& w) const {
  if (ranges_.empty()) return;
  TORCH_CHECK(
      w.is_contiguous() && w.scalar_type() == values_.scalar_type() && w.numel() == values_.numel(),
      "held coordinates are of another vector");
  const auto size = static_cast<int64_t>(w.element_size());
  auto* const to = static_cast<char*>(w.data_ptr());
  const auto* const from = static_cast<const char*>(values_.data_ptr());
  for (const auto& [begin, end] : ranges_)
    std::memcpy(to + begin * size, from + begin * size, static_cast<size_t>((end - begin) * size));
}

}  // namespace tessera
