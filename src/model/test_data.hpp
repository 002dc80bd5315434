// Numbers for tests of this folder and of methods.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "model/model.hpp"

namespace tessera::testing {

inline const Shape kDigits{{1, 28, 28}, 10}, kPhotos{{3, 32, 32}, 10};

/// Float64, standard normal.
inline Tensor normal(std::vector<int64_t> shape, uint64_t key) {
  Tensor out = at::empty(shape, at::kDouble);
  Rng rng(key);
  for (int64_t i = 0; i < out.numel(); ++i) out.data_ptr<double>()[i] = rng.normal();
  return out;
}

/// How far a is from b, as a share of b's norm; in float64.
inline double distance(const Tensor& a, const Tensor& b) {
  const Tensor truth = b.to(at::kDouble);
  return ((a.to(at::kDouble) - truth).norm() / (truth.norm() + 1e-30)).item<double>();
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline Tensor labels(int64_t n, int64_t classes, uint64_t key) {
  Tensor out = at::empty({n}, at::kLong);
  Rng rng(key);
  for (int64_t i = 0; i < n; ++i) {
    out.data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(static_cast<uint64_t>(classes)));
  }
  return out;
}

inline Tensor batch(const Shape& shape, int64_t n, uint64_t key) {
  std::vector<int64_t> sizes{n};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  return normal(sizes, key);
}

inline std::unique_ptr<Model> made(const std::string& name, const Shape& shape,
                                   Init init = Init::kHe0) {
  auto model = make_model(name, shape, init);
  if (!model.ok()) throw std::runtime_error(message(model.status()));
  return std::move(*model);
}

/// Float64 weights near the initial ones, with biases and batch norm away from 0 and 1.
inline Weights moved(const Model& model, uint64_t key) {
  const Weights start = model.init(key);
  const Tensor noise = normal({model.layout().numel()}, derive(key, 1));
  return {start.w.to(at::kDouble) + 0.05 * noise, start.b.to(at::kDouble)};
}

}  // namespace tessera::testing
