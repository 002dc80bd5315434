#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/key.hpp"
#include "data/sources.hpp"
#include "io/npy.hpp"

namespace tessera {
namespace {

constexpr const char* kPrefix = "client-";
constexpr int64_t kMaxClasses = 100000;

using Arrays = std::map<std::string, Npy>;

struct Split {
  std::vector<float> x;
  std::vector<int64_t> y, shape;
};

template <class T>
T item(const Npy& array, size_t i) {
  T value;
  std::memcpy(&value, array.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

double number(const Npy& array, size_t i) {
  switch (array.dtype) {
    case DType::kU8:
      return array.data[i];
    case DType::kI32:
      return item<int32_t>(array, i);
    case DType::kI64:
      return static_cast<double>(item<int64_t>(array, i));
    case DType::kF32:
      return item<float>(array, i);
    default:
      return item<double>(array, i);
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

Status read_features(const Npy& array, const std::string& place, Split& out) {
  if (array.shape.size() < 2 || array.shape.size() > 4)
    return fail(Error::kInvalid,
                "{}: shape {} is not NxF (vectors), NxTxF (sequences) or NxCxHxW (images)", place,
                shape_text(array.shape));
  out.shape.assign(array.shape.begin() + 1, array.shape.end());
  size_t sample = 1;
  for (const int64_t size : out.shape) sample *= static_cast<size_t>(size);
  if (sample == 0)
    return fail(Error::kInvalid, "{}: samples of shape {} are empty", place, shape_text(out.shape));
  const size_t count = static_cast<size_t>(array.shape[0]) * sample;
  const bool pixels = array.dtype == DType::kU8 && array.shape.size() == 4;
  out.x.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(pixels ? number(array, i) / 255.0 : number(array, i));
    if (!std::isfinite(value))
      return fail(Error::kInvalid,
                  "{}: row {} has a value that is not a finite number; remove or repair it", place,
                  i / sample);
    out.x.push_back(value);
  }
  return ok();
}

Status read_labels(const Npy& array, size_t rows, const std::string& place, Split& out) {
  if (array.shape.size() != 1 || static_cast<size_t>(array.shape[0]) != rows)
    return fail(Error::kInvalid, "{}: shape {} is not one label for each of {} rows", place,
                shape_text(array.shape), rows);
  for (size_t i = 0; i < rows; ++i) {
    const double value = number(array, i);
    if (!(value >= 0.0) || value >= static_cast<double>(kMaxClasses) || value != std::floor(value))
      return fail(Error::kInvalid, "{}: row {} has label {}; labels are whole numbers from 0 to {}",
                  place, i, value, kMaxClasses - 1);
    out.y.push_back(static_cast<int64_t>(value));
  }
  return ok();
}

Result<Split> read_part(const Arrays& arrays, const std::string& part, const std::string& path) {
  const auto get = [&](const std::string& name) {
    const auto it = arrays.find(name);
    return it == arrays.end() ? nullptr : &it->second;
  };
  const Npy *x = get("x_" + part), *y = get("y_" + part);
  Split out;
  if (part == "val" && !x && !y) return out;
  if (!x || !y)
    return fail(Error::kInvalid,
                "{}: there is no array {}_{}; a file needs x_train, y_train, "
                "x_test and y_test (x_val and y_val may be there)",
                path, x ? "y" : "x", part);
  TESSERA_RETURN_IF_ERROR(read_features(*x, fmt::format("{}, x_{}", path, part), out));
  TESSERA_RETURN_IF_ERROR(
      read_labels(*y, static_cast<size_t>(x->shape[0]), fmt::format("{}, y_{}", path, part), out));
  if (part != "val" && out.y.empty())
    return fail(Error::kInvalid, "{}, x_{}: has no samples; each client needs at least one", path,
                part);
  return out;
}

struct OwnClient {
  std::string name;
  std::vector<float> x;
  std::vector<int64_t> y, shape;
  ClientRows parts;
};

Result<OwnClient> read_client(const std::string& name, const std::string& path) {
  TESSERA_ASSIGN(const auto arrays, read_npz(path));
  OwnClient out;
  out.name = name;
  for (const char* part : {"train", "val", "test"}) {
    TESSERA_ASSIGN(const auto got, read_part(arrays, part, path));
    if (got.y.empty()) continue;
    if (out.shape.empty()) out.shape = got.shape;
    if (got.shape != out.shape)
      return fail(Error::kInvalid, "{}, x_{}: samples are {}, those of x_train {}", path, part,
                  shape_text(got.shape), shape_text(out.shape));
    auto& rows = *part == 'v' ? out.parts.val : part[1] == 'r' ? out.parts.train : out.parts.test;
    for (size_t i = 0; i < got.y.size(); ++i)
      rows.push_back(static_cast<int64_t>(out.y.size() + i));
    out.x.insert(out.x.end(), got.x.begin(), got.x.end());
    out.y.insert(out.y.end(), got.y.begin(), got.y.end());
  }
  return out;
}

// Names with their files, in the order of the names.
Result<std::map<std::string, std::string>> list_clients(const std::string& dir) {
  std::map<std::string, std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const auto stem = it->path().stem().string();
    if (it->path().extension() == ".npz" && stem.starts_with(kPrefix))
      out.emplace(stem.substr(std::strlen(kPrefix)), it->path().string());
  }
  if (error) return fail(Error::kNotFound, "data_dir = \"{}\": {}", dir, error.message());
  if (out.empty())
    return fail(Error::kNotFound, "data_dir = \"{}\" holds no {}NAME.npz file", dir, kPrefix);
  return out;
}

std::shared_ptr<const Pool> make_own_pool(const OwnClient& client, int64_t classes) {
  std::vector<int64_t> shape{static_cast<int64_t>(client.y.size())};
  shape.insert(shape.end(), client.shape.begin(), client.shape.end());
  auto x = at::empty(shape, at::kFloat);
  std::memcpy(x.data_ptr<float>(), client.x.data(), client.x.size() * sizeof(float));
  auto y = at::empty({shape[0]}, at::kLong);
  std::memcpy(y.data_ptr<int64_t>(), client.y.data(), client.y.size() * sizeof(int64_t));
  return std::make_shared<const Pool>(Pool{x, y, classes});
}

}  // namespace

Result<Federation> load_npz(const DataOptions& options, uint64_t key) {
  TESSERA_ASSIGN(const auto listed, list_clients(options.data_dir));
  const std::vector<std::pair<std::string, std::string>> files(listed.begin(), listed.end());
  TESSERA_ASSIGN(const auto picked, pick_clients(files.size(), options, key));
  std::vector<OwnClient> clients;
  int64_t classes = 2;
  for (const auto* group : {&picked.clients, &picked.newcomers}) {
    for (const size_t k : *group) {
      TESSERA_ASSIGN(auto client, read_client(files[k].first, files[k].second));
      if (!clients.empty() && client.shape != clients.front().shape)
        return fail(Error::kInvalid, "{}: samples are {}, but those of client '{}' are {}",
                    files[k].second, shape_text(client.shape), clients.front().name,
                    shape_text(clients.front().shape));
      classes = std::max(classes, *std::max_element(client.y.begin(), client.y.end()) + 1);
      clients.push_back(std::move(client));
    }
  }
  Federation out;
  out.set = options.set;
  out.sample_shape = clients.front().shape;
  out.classes = classes;
  out.class_names = class_names_of(options.set, classes);
  out.notes.push_back(fmt::format("npz: {} clients from {}", clients.size(), options.data_dir));
  for (size_t k = 0; k < clients.size(); ++k) {
    auto& own = clients[k];
    auto& group = k < picked.clients.size() ? out.clients : out.newcomers;
    const double val = own.parts.val.empty() ? options.val : 0.0;
    group.push_back(natural_client(own.name, make_own_pool(own, classes), own.parts, val,
                                   options.samples, derive(key, Purpose::kPartition, k)));
    own = {};
  }
  out.digest = digest_of(out);
  return out;
}

}  // namespace tessera
