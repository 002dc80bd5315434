// What a sample of own data is made of, and reading raw rows of the same kind later: for `predict`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/client_data.hpp"
#include "data/schema.hpp"

namespace tessera {

/// Rows read for a model. x float32 [n, sample_shape…], not scaled yet.
struct Inputs {
  Tensor x;
  std::vector<std::string> unused;  // columns or arrays of the file that are no inputs
};

/// Reads rows from a .csv (columns by name, in any order; further ones are unused) or a .npz (array
/// `x`, or the only array; for a table its columns are the inputs, one-hot done). kNotFound, or
/// kInvalid with file, line and column: a missing cell, a category that the model does not know,
/// another shape, no rows.
Result<Inputs> read_inputs(const std::string& path, const InputSchema& schema);

/// (x − mean) · scale per feature, or per channel of pictures: a new tensor; x itself where scaling
/// is empty. x float32 [n, F], [n, T, F] or [n, C, H, W] with as many features as scaling has, else
/// throws.
Tensor apply_scaling(const Tensor& x, const Scaling& scaling);

}  // namespace tessera
