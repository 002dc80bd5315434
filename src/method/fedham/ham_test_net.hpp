// A smooth network of 41 numbers in three blocks, in float64: finite differences mean something.
#pragma once

#include <ATen/ATen.h>

#include "model/test_data.hpp"
#include "train/local_sgd.hpp"

namespace tessera::testing {

class SmallNet final : public Model {
 public:
  static constexpr int64_t kIn = 3, kHidden = 4, kClasses = 3;
  SmallNet()
      : layout_({{"a.weight", {kIn, kHidden}},
                 {"a.bias", {kHidden}},
                 {"b.weight", {kHidden}},  // shorter than a sketch
                 {"c.weight", {kHidden, kClasses}},
                 {"c.bias", {kClasses}}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override {
    return {normal({layout_.numel()}, key), at::empty({0}, at::kDouble)};
  }
  Output forward(const Weights& at, const Tensor& x, const Pass&) const override {
    const auto w = layout_.views(at.w);
    const auto z = at::tanh(x.to(at::kDouble).matmul(w[0]) + w[1]) * w[2];
    return {z.matmul(w[3]) + w[4], z, at.b};
  }
  /// Models around a common start.
  Weights moved(uint64_t key) const {
    const auto start = init(0);
    return {start.w + 0.5 * normal({layout_.numel()}, derive(99, key)), start.b};
  }
  Examples batch(int64_t n, uint64_t key) const {
    Examples out{normal({n, kIn}, key).to(at::kFloat), at::empty({n}, at::kLong)};
    Rng rng(derive(key, 1));
    for (int64_t i = 0; i < n; ++i)
      out.y.data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(kClasses));
    return out;
  }
  /// n samples: the first three quarters for training, the others for validation.
  ClientData client(int64_t n, uint64_t key) const {
    const auto all = batch(n, key);
    auto pool = std::make_shared<Pool>();
    pool->x = all.x, pool->y = all.y, pool->classes = kClasses;
    ClientData out;
    out.pool = pool;
    for (int64_t i = 0; i < n; ++i) (4 * i < 3 * n ? out.train : out.val).push_back(i);
    return out;
  }

 private:
  Layout layout_, buffers_;
};

}  // namespace tessera::testing
