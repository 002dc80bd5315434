// The numbers of a model, and the one kind of upload that may be summed unseen.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "tensor/fields.hpp"

namespace tessera {

using at::Tensor;

/// Trained parameters `w` [d] and buffers `b` [d_b] (running statistics; empty without BatchNorm).
/// Buffers are apart because they must not enter norms, clipping or similarity.
struct Weights {
  Tensor w, b;
  static void fields(auto& m, auto&& f) { f("w", m.w), f("b", m.b); }
  Weights clone() const;
};

/// A value and its weight. Closed under weighted averaging, hence safe for secure aggregation
/// (tensor/trie_sum.hpp). Not premultiplied: the mean of a single upload is then that upload, bit
/// for bit.
struct Weighted {
  Weights value;
  Weight weight = 0;
  static void fields(auto& m, auto&& f) { f("value", m.value), f("weight", m.weight); }
};

/// Weighted mean in fp64, in the order given; weights are renormalised over what is there.
/// `parts` must not be empty and the weights must sum to more than 0.
Weights mean(std::span<const Weighted> parts);
/// The same over plain vectors of equal length.
Tensor mean(std::span<const Tensor> parts, std::span<const double> weights);

/// <a, b> accumulated in fp64.
double dot64(const Tensor& a, const Tensor& b);
double norm64(const Tensor& a);

/// `whole` with the entries at `positions` replaced by `part`.
Tensor replaced(const Tensor& whole, const Tensor& positions, const Tensor& part);

}  // namespace tessera
