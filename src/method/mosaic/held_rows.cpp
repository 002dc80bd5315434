#include "method/mosaic/held_rows.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

/// Which positions are held. The rows of class 0, then those of class 1, … stand in a line, each
/// class in random order, and of the line every (1 / share)-th is taken from a random start.
std::vector<bool> stratified(const ClientData& data, double share, uint64_t key) {
  Rng rng(key);
  auto line = rng.permutation(data.train_size());
  const auto y = data.pool->y.index_select(0, at::tensor(data.train, at::kLong)).contiguous();
  const auto* label = y.data_ptr<int64_t>();
  std::stable_sort(line.begin(), line.end(),
                   [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  std::vector<bool> out(line.size());
  double due = rng.uniform();
  for (const int64_t position : line) {
    due += share;
    out[static_cast<size_t>(position)] = due >= 1;
    due -= std::floor(due);
  }
  return out;
}

}  // namespace

HeldRows hold_rows(const ClientData& data, double share, uint64_t key) {
  HeldRows out{data, data};
  const int64_t n = data.train_size();
  if (data.order.chronological && n > 0) {
    const auto count = static_cast<int64_t>(share * static_cast<double>(n));
    const auto cut = data.cut(std::min(count, n - 1));
    out.kept.train.assign(data.train.begin(), data.train.begin() + cut.early);
    out.held.train.assign(data.train.begin() + cut.late, data.train.end());
    return out;
  }
  out.kept.train.clear(), out.held.train.clear();
  if (n == 0) return out;
  const auto held = stratified(data, share, key);
  for (size_t i = 0; i < held.size(); ++i)
    (held[i] ? out.held : out.kept).train.push_back(data.train[i]);
  if (out.kept.train.empty()) std::swap(out.kept.train, out.held.train);
  return out;
}

}  // namespace tessera
