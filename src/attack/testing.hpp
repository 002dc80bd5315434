// Real pictures for tests of this folder. For tests only.
#pragma once

#include <ATen/ATen.h>

#include "data/images.hpp"
#include "data/testing.hpp"
#include "model/test_data.hpp"
#include "train/local_sgd.hpp"

namespace tessera::testing {

/// The first n training pictures of MNIST as pixels [n, 1, 28, 28] and their labels; call below
/// TESSERA_NEED_SET("mnist").
inline Examples digits(int64_t n, int64_t begin = 0) {
  static const auto set = load_images("mnist", test_data_dir());
  if (!set.ok()) throw std::runtime_error(message(set.status()));
  const auto bytes = at::from_blob(const_cast<uint8_t*>(set->image(begin)), {n, 1, 28, 28},
                                   at::TensorOptions(at::kByte));
  auto y = at::empty({n}, at::kLong);
  for (int64_t i = 0; i < n; ++i)
    y.data_ptr<int64_t>()[i] = set->labels.train[static_cast<size_t>(begin + i)];
  return {bytes.to(at::kFloat) / 255, y};
}

/// The victim's flat gradient, in the dtype of its weights.
inline Tensor gradient(const Model& model, Weights at, const Examples& batch) {
  auto out = at::empty_like(at.w);
  batch_gradient(model, at, batch, Loss::kCrossEntropy, 0, out);
  return out;
}

inline Weights doubled(const Weights& at) { return {at.w.to(at::kDouble), at.b.to(at::kDouble)}; }

}  // namespace tessera::testing
