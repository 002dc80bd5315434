// Numbers for the tests of this folder.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "model/model.hpp"

namespace tessera::testing {

/// Float64, standard normal.
inline Tensor normal(std::vector<int64_t> shape, uint64_t key) {
  Tensor out = at::empty(shape, at::kDouble);
  Rng rng(key);
  for (int64_t i = 0; i < out.numel(); ++i) out.data_ptr<double>()[i] = rng.normal();
  return out;
}

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
