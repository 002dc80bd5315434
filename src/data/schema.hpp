// What a sample of own data is made of. Needs no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// A column of a raw table that is an input. With categories it is text and becomes one input of 0
/// or 1 for each of them, in this order; without, it is one number.
struct TableColumn {
  std::string name;
  std::vector<std::string> categories;
};

/// How a raw row becomes a sample, before any scaling. A plain value; survives schema_json.
struct InputSchema {
  std::vector<int64_t> sample_shape;  // after one-hot: {F}, {T, F} or {C, H, W}; empty: unknown
  bool pixels = false;                // arrays of bytes were divided by 255
  std::vector<TableColumn> columns;   // of a table, in the order of the inputs; none: arrays
};

/// The inputs by name, in order: "age", "sex=f", "sex=m". Empty for arrays.
std::vector<std::string> input_names(const InputSchema& schema);

/// For a model's metadata, as one line of JSON; and back. kInvalid names `name` and says what is
/// wrong: columns and sample_shape must fit.
std::string schema_json(const InputSchema& schema);
Result<InputSchema> parse_schema(const std::string& json, const std::string& name);
/// Empty if shape and columns fit each other, or neither is known; else what is wrong.
std::string schema_problem(const InputSchema& schema);

}  // namespace tessera
