// Own data of tests: files in a directory, and arrays for them. For tests only.
#pragma once

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <map>

#include "data/federation.hpp"
#include "data/testing.hpp"
#include "io/npy.hpp"

namespace tessera {

template <class T>
Npy array_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Npy out{dtype, std::move(shape), Bytes(values.size() * sizeof(T))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}
inline Npy floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return array_of<float>(DType::kF32, std::move(shape), values);
}
inline Npy longs(const std::vector<int64_t>& values) {
  return array_of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}
inline Npy texts(const std::vector<std::string>& values) {
  return {DType::kU8, {static_cast<int64_t>(values.size())}, {}, true, values};
}

inline void put_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline void put_npz(const std::string& path, const std::map<std::string, Npy>& arrays) {
  const auto status = write_npz(path, arrays);
  EXPECT_TRUE(status.ok()) << status;
}

/// Options of set own; rows are neither standardised nor set aside for validation.
inline DataOptions own(const std::string& dir) {
  auto options = natural("own", dir);
  options.standardize = "none", options.val = 0;
  return options;
}

inline std::string error_of_loading(const DataOptions& options) {
  const auto fed = load_federation(options, 1);
  EXPECT_FALSE(fed.ok());
  return fed.ok() ? "" : message(fed.status());
}

inline std::string notes_of(const Federation& federation) {
  std::string out;
  for (const auto& note : federation.notes) out += note + "\n";
  return out;
}

/// Row `row` of a client's pool.
inline std::vector<float> sample(const ClientData& client, int64_t row) {
  const auto x = client.pool->x[row].contiguous();
  return {x.data_ptr<float>(), x.data_ptr<float>() + x.numel()};
}
inline std::vector<int64_t> labels_of(const ClientData& client) {
  const auto& y = client.pool->y;
  return {y.data_ptr<int64_t>(), y.data_ptr<int64_t>() + y.numel()};
}

}  // namespace tessera
