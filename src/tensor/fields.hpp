// States and messages are structs that list their fields once; their dictionary form is derived.
//
// A field is a Tensor, double, int64_t, bool, another such struct, std::optional of one of them, or
// std::vector of one of them. Names nest with dots: "value.w". Scalars become 0-d tensors; a vector
// adds its length as "<name>.size".
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera {

using at::Tensor;
using TensorDict = std::map<std::string, Tensor>;

namespace detail {

Tensor scalar(double value);
Tensor scalar(int64_t value);
double to_double(const Tensor& tensor, const std::string& name);
int64_t to_int(const Tensor& tensor, const std::string& name);
[[noreturn]] void missing(const std::string& name);
[[noreturn]] void unexpected(const std::string& name);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
void put(TensorDict& dict, const std::string& name, const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!value.defined()) missing(name);
    dict.emplace(name, value);
  } else if constexpr (std::is_same_v<T, double>) {
    dict.emplace(name, scalar(value));
  } else if constexpr (std::is_integral_v<T>) {
    dict.emplace(name, scalar(static_cast<int64_t>(value)));
  } else if constexpr (IsOptional<T>::value) {
    if (value) put(dict, name, *value);
  } else if constexpr (IsVector<T>::value) {
    dict.emplace(name + ".size", scalar(static_cast<int64_t>(value.size())));
    for (size_t i = 0; i < value.size(); ++i) put(dict, name + "." + std::to_string(i), value[i]);
  } else {
    T::fields(value, [&](const char* field, const auto& member) {
      put(dict, name.empty() ? field : name + "." + field, member);
    });
  }
}

/// Takes entries out of `dict`, so that what is left over afterwards was not expected.
template <class T>
void take(TensorDict& dict, const std::string& name, T& value) {
  if constexpr (IsOptional<T>::value) {
    const auto at = dict.lower_bound(name);
    const bool there =
        at != dict.end() && (at->first == name || at->first.rfind(name + ".", 0) == 0);
    value.reset();
    if (there) take(dict, name, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    int64_t size = 0;
    take(dict, name + ".size", size);
    if (size < 0 || size > static_cast<int64_t>(dict.size())) unexpected(name + ".size");
    value.resize(static_cast<size_t>(size));
    for (size_t i = 0; i < value.size(); ++i) take(dict, name + "." + std::to_string(i), value[i]);
  } else if constexpr (std::is_same_v<T, Tensor> || std::is_arithmetic_v<T>) {
    const auto node = dict.extract(name);
    if (node.empty()) missing(name);
    if constexpr (std::is_same_v<T, Tensor>)
      value = node.mapped();
    else if constexpr (std::is_same_v<T, double>)
      value = to_double(node.mapped(), name);
    else
      value = static_cast<T>(to_int(node.mapped(), name));
  } else {
    T::fields(value, [&](const char* field, auto& member) {
      take(dict, name.empty() ? field : name + "." + field, member);
    });
  }
}

}  // namespace detail

/// O(fields): tensors are handles, not copied.
template <class T>
TensorDict pack(const T& value) {
  TensorDict dict;
  detail::put(dict, "", value);
  return dict;
}

/// Throws std::invalid_argument naming a missing, extra or misshapen entry.
template <class T>
T unpack(TensorDict dict) {
  T value{};
  detail::take(dict, "", value);
  if (!dict.empty()) detail::unexpected(dict.begin()->first);
  return value;
}

/// Bytes of all tensors that are not scalars: the traffic of methods.md §8, headers excluded.
int64_t payload_bytes(const TensorDict& dict);

}  // namespace tessera
