#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/text.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

using Arrays = std::map<std::string, Npy>;
constexpr double kMaxLabel = 1e15;  // whole numbers are exact in a double up to here

const Npy* find(const Arrays& arrays, const std::string& name) {
  const auto it = arrays.find(name);
  return it == arrays.end() ? nullptr : &it->second;
}

// One label a row: shape (N,) or (N, 1).
Status read_labels(const Npy& array, size_t rows, const std::string& place, OwnLabels& out) {
  const auto& shape = array.shape;
  const bool column = shape.size() == 2 && shape[1] == 1;
  if ((shape.size() != 1 && !column) || static_cast<size_t>(shape[0]) != rows)
    return fail(Error::kInvalid, "{}: shape {} is not one label for each of {} rows{}", place,
                shape_text(shape), rows,
                shape.size() == 2 && shape[1] > 1 ? "; of one-hot labels give .argmax(1)" : "");
  if (out.size() > 0 && out.is_text != array.is_text)
    return fail(Error::kInvalid, "{}: holds {}, the other labels of the file are {}", place,
                array.is_text ? "text" : "numbers", array.is_text ? "numbers" : "text");
  out.is_text = array.is_text;
  out.texts.insert(out.texts.end(), array.texts.begin(), array.texts.end());
  for (size_t i = 0; i < rows && !array.is_text; ++i) {
    const double value = number_at(array, i);
    if (!(std::abs(value) <= kMaxLabel) || value != std::floor(value))
      return fail(Error::kInvalid, "{}: row {} has label {}, neither a whole number nor text",
                  place, i, value);
    out.numbers.push_back(static_cast<int64_t>(value));
  }
  return ok();
}

// Appends the rows of arrays x and y to a client; which is a part of it, or all.
Status add_rows(const Arrays& arrays, const std::string& suffix, const std::string& path,
                OwnClient& out, std::vector<int64_t>& rows) {
  const Npy *x = find(arrays, "x" + suffix), *y = find(arrays, "y" + suffix);
  if (!x || !y)
    return fail(Error::kInvalid,
                "{}: there is no array {}{}; a file needs x and y, or x_train and y_train with "
                "x_test and y_test, x_val and y_val beside them if there are such parts",
                path, x ? "y" : "x", suffix);
  const auto place = fmt::format("{}, x{}", path, suffix);
  TESSERA_ASSIGN(const auto samples, samples_of(*x, place));
  const std::vector<int64_t> shape(x->shape.begin() + 1, x->shape.end());
  if (out.shape.empty()) out.shape = shape;
  if (shape != out.shape)
    return fail(Error::kInvalid, "{}: samples are {}, those of x_train {}", place,
                shape_text(shape), shape_text(out.shape));
  const auto count = static_cast<size_t>(x->shape[0]), first = out.labels.size();
  if (count == 0 && suffix != "_val")
    return fail(Error::kInvalid, "{}: has no samples; each client needs at least one", place);
  const auto labels = fmt::format("{}, y{}", path, suffix);
  TESSERA_RETURN_IF_ERROR(read_labels(*y, count, labels, out.labels));
  out.x.insert(out.x.end(), samples.begin(), samples.end());
  out.stretches.push_back({first, labels + ": row"});
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(static_cast<int64_t>(first + i));
    out.numbers.push_back(static_cast<uint32_t>(i));
  }
  if (shape.size() == 3) ++(is_bytes_of_pictures(*x) ? out.byte_arrays : out.other_arrays);
  return ok();
}

}  // namespace

bool is_bytes_of_pictures(const Npy& array) {
  return !array.is_text && array.dtype == DType::kU8 && array.shape.size() == 4;
}

Result<std::vector<float>> samples_of(const Npy& array, const std::string& place) {
  if (array.is_text)
    return fail(Error::kInvalid,
                "{}: holds text; inputs are numbers (a table with text columns may be a .csv)",
                place);
  if (array.shape.size() < 2 || array.shape.size() > 4)
    return fail(Error::kInvalid,
                "{}: shape {} is not NxF (vectors), NxTxF (sequences) or NxCxHxW (pictures)", place,
                shape_text(array.shape));
  size_t sample = 1;
  for (size_t d = 1; d < array.shape.size(); ++d) sample *= static_cast<size_t>(array.shape[d]);
  if (sample == 0)
    return fail(Error::kInvalid, "{}: samples of shape {} are empty", place,
                shape_text({array.shape.begin() + 1, array.shape.end()}));
  const size_t count = static_cast<size_t>(array.shape[0]) * sample;
  const double unit = is_bytes_of_pictures(array) ? 255.0 : 1.0;
  std::vector<float> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(number_at(array, i) / unit);
    if (!std::isfinite(value))
      return fail(Error::kInvalid,
                  "{}: row {} has a value that is not a finite number; remove or repair it", place,
                  i / sample);
    out.push_back(value);
  }
  return out;
}

Result<OwnClient> read_own_npz(const std::string& name, const std::string& path) {
  TESSERA_ASSIGN(const auto arrays, read_npz(path));
  OwnClient out;
  out.name = name;
  const auto has = [&](const std::string& suffix) {
    return find(arrays, "x" + suffix) || find(arrays, "y" + suffix);
  };
  const bool whole = has("");
  if (whole && (has("_train") || has("_test") || has("_val")))
    return fail(Error::kInvalid, "{}: has x or y and parts like x_train too; keep one of the two",
                path);
  TESSERA_RETURN_IF_ERROR(add_rows(arrays, whole ? "" : "_train", path, out, out.parts.train));
  if (has("_val")) TESSERA_RETURN_IF_ERROR(add_rows(arrays, "_val", path, out, out.parts.val));
  if (has("_test")) TESSERA_RETURN_IF_ERROR(add_rows(arrays, "_test", path, out, out.parts.test));
  for (const auto& [array, unused] : arrays) {
    const auto rest = array.empty() ? "?" : array.substr(1);
    const bool known = (array[0] == 'x' || array[0] == 'y') &&
                       (rest.empty() || rest == "_train" || rest == "_val" || rest == "_test");
    if (!known) out.unread.push_back(array);
  }
  return out;
}

Result<OwnTable> read_own_arrays(const std::string& path, const std::string& client) {
  TESSERA_ASSIGN(const auto arrays, read_npz(path));
  OwnTable out;
  TESSERA_RETURN_IF_ERROR(add_rows(arrays, "", path, out.all, out.all.parts.train));
  const Npy* whose = find(arrays, client);
  std::vector<std::string> names;
  for (const auto& [name, unused] : arrays) {
    if (name != "x" && name != "y") names.push_back(name);
    if (name != "x" && name != "y" && name != client) out.all.unread.push_back(name);
  }
  if (!whose || client == "x" || client == "y")
    return fail(Error::kInvalid, "{}: no array '{}' that tells whose row each is (key client){}",
                path, client, suggestion(client, names));
  OwnLabels labels;
  TESSERA_RETURN_IF_ERROR(
      read_labels(*whose, out.all.rows(), fmt::format("{}, {}", path, client), labels));
  for (size_t row = 0; row < labels.size(); ++row) out.owners.push_back(labels.text(row));
  return out;
}

}  // namespace tessera
