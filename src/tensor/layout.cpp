#include "tensor/layout.hpp"

#include <ATen/ATen.h>

#include <numeric>
#include <set>
#include <stdexcept>

#include "base/key.hpp"

namespace tessera {

int64_t Slice::numel() const {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

std::string Slice::block() const { return name.substr(0, name.rfind('.')); }

Layout::Layout(std::vector<Slice> slices) : slices_(std::move(slices)) {
  std::set<std::string> names;
  for (const auto& slice : slices_) {
    if (!names.insert(slice.name).second)
      throw std::invalid_argument("layout: two slices named '" + slice.name + "'");
    offsets_.push_back(numel_);
    numel_ += slice.numel();
  }
}

std::vector<Tensor> Layout::views(const Tensor& flat) const {
  if (flat.dim() != 1 || flat.numel() != numel_)
    throw std::invalid_argument("layout: expected " + std::to_string(numel_) + " numbers, got " +
                                std::to_string(flat.numel()));
  std::vector<int64_t> sizes;
  for (const auto& slice : slices_) sizes.push_back(slice.numel());
  auto parts = flat.split_with_sizes(sizes);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].view(slices_[i].shape);
  return parts;
}

Tensor Layout::mask(Role role) const {
  auto mask = at::zeros({numel_}, at::kBool);
  for (size_t i = 0; i < slices_.size(); ++i)
    if (slices_[i].role == role) mask.narrow(0, offsets_[i], slices_[i].numel()).fill_(true);
  return mask;
}

Tensor Layout::positions_of(const std::vector<bool>& kept) const {
  std::vector<Tensor> parts{at::empty({0}, at::kLong)};
  for (size_t i = 0; i < slices_.size(); ++i)
    if (kept[i])
      parts.push_back(at::arange(offsets_[i], offsets_[i] + slices_[i].numel(), at::kLong));
  return at::cat(parts);
}

std::vector<Block> Layout::blocks() const {
  std::vector<Block> out;
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (out.empty() || out.back().name != slices_[i].block())
      out.push_back({slices_[i].block(), offsets_[i], 0});
    out.back().size += slices_[i].numel();
  }
  return out;
}

Tensor Layout::trailing(int64_t modules) const {
  std::vector<bool> kept(slices_.size(), false);
  std::string block;
  for (size_t i = slices_.size(); i-- > 0;) {
    if (slices_[i].block() != block) {
      if (modules-- == 0) break;
      block = slices_[i].block();
    }
    kept[i] = true;
  }
  return positions_of(kept);
}

Tensor Layout::others(const Tensor& part) const {
  // By hand: every client of a method with a part of its own asks in every round.
  const auto taken = part.contiguous();
  auto out = at::empty({numel_ - taken.numel()}, at::kLong);
  auto* to = out.data_ptr<int64_t>();
  int64_t next = 0;
  const auto fill_until = [&](int64_t end) {
    std::iota(to, to + (end - next), next);
    to += end - next;
  };
  for (int64_t i = 0; i < taken.numel(); ++i) {
    const auto position = taken.data_ptr<int64_t>()[i];
    if (position < next || position >= numel_)
      throw std::logic_error("positions of a part must ascend within the vector");
    fill_until(position);
    next = position + 1;
  }
  fill_until(numel_);
  return out;
}

uint64_t Layout::fingerprint() const {
  uint64_t key = derive(0, slices_.size());
  for (const auto& slice : slices_) {
    for (const char c : slice.name) key = derive(key, static_cast<unsigned char>(c));
    for (const int64_t size : slice.shape) key = derive(key, size);
    key = derive(key, slice.shape.size(), static_cast<uint64_t>(slice.role), slice.features);
  }
  return key;
}

}  // namespace tessera
