#include "data/inputs.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

Tensor tensor_of(const std::vector<float>& values, std::vector<int64_t> shape) {
  auto out = at::empty(shape, at::kFloat);
  std::memcpy(out.data_ptr<float>(), values.data(), values.size() * sizeof(float));
  return out;
}

bool has_category(const TableColumn& column) { return !column.categories.empty(); }

Result<Inputs> read_csv(const std::string& path, const InputSchema& schema) {
  if (schema.columns.empty())
    return fail(Error::kInvalid,
                "{}: the model was trained on arrays of {}, without column names; give a .npz",
                path, shape_text(schema.sample_shape));
  TESSERA_ASSIGN(const auto csv, read_table(path));
  std::vector<size_t> which;
  std::vector<std::string> categorical;
  for (const auto& column : schema.columns) {
    TESSERA_ASSIGN(const size_t at, csv.column(column.name));
    which.push_back(at);
    if (has_category(column)) categorical.push_back(column.name);
  }
  TESSERA_ASSIGN(const auto columns, read_columns(csv, which, categorical));
  TESSERA_ASSIGN(const auto values, encode(schema, columns, [&](size_t row, size_t column) {
                   return csv.place(row, which[column]);
                 }));
  Inputs out{tensor_of(values, {static_cast<int64_t>(csv.rows()), schema.sample_shape[0]}), {}};
  for (size_t column = 0; column < csv.header().size(); ++column)
    if (std::find(which.begin(), which.end(), column) == which.end())
      out.unused.push_back(csv.header()[column]);
  return out;
}

// Pictures that were bytes in training and are not now: unless they are 0 … 1 they would be wrong.
Status check_pixels(const Npy& x, const std::vector<float>& values, const std::string& place) {
  if (is_bytes_of_pictures(x)) return ok();
  const auto most = std::max_element(values.begin(), values.end());
  if (most == values.end() || *most <= 1.0f) return ok();
  return fail(Error::kInvalid,
              "{}: the model was trained on bytes divided by 255, but this is {} up to {}; give "
              "uint8, or numbers from 0 to 1",
              place, element_name(x), *most);
}

Result<Inputs> read_arrays(const std::string& path, const InputSchema& schema) {
  TESSERA_ASSIGN(const auto arrays, read_npz(path));
  auto found = arrays.find("x");
  if (found == arrays.end() && arrays.size() == 1) found = arrays.begin();
  if (found == arrays.end()) return fail(Error::kInvalid, "{}: there is no array x", path);
  const auto place = fmt::format("{}, {}", path, printable(found->first));
  const Npy& x = found->second;
  TESSERA_ASSIGN(const auto values, samples_of(x, place));
  const std::vector<int64_t> shape(x.shape.begin() + 1, x.shape.end());
  if (shape != schema.sample_shape)
    return fail(Error::kInvalid, "{}: samples are {}, the model takes {}", place, shape_text(shape),
                shape_text(schema.sample_shape));
  if (x.shape[0] == 0) return fail(Error::kInvalid, "{}: has no rows", place);
  if (schema.pixels) TESSERA_RETURN_IF_ERROR(check_pixels(x, values, place));
  Inputs out{tensor_of(values, x.shape), {}};
  for (const auto& [name, array] : arrays)
    if (name != found->first) out.unused.push_back(name);
  return out;
}

}  // namespace

Result<Inputs> read_inputs(const std::string& path, const InputSchema& schema) {
  if (const auto problem = schema_problem(schema); !problem.empty() || schema.sample_shape.empty())
    return fail(Error::kInvalid, "the model does not say what its inputs are: {}",
                problem.empty() ? "it has no sample_shape" : problem);
  if (lower(path).ends_with(".csv")) return read_csv(path, schema);
  if (lower(path).ends_with(".npz")) return read_arrays(path, schema);
  return fail(Error::kInvalid, "{}: is neither a .csv nor a .npz file", path);
}

}  // namespace tessera
