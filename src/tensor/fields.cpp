#include "tensor/fields.hpp"

#include <ATen/ATen.h>

namespace tessera {
namespace detail {
namespace {

void require_scalar(const Tensor& tensor, const std::string& name, at::ScalarType type) {
  if (tensor.dim() != 0 || tensor.scalar_type() != type)
    throw std::invalid_argument("message: '" + name + "' must be one number");
}

}  // namespace

Tensor scalar(double value) { return at::scalar_tensor(value, at::kDouble); }
Tensor scalar(int64_t value) { return at::scalar_tensor(value, at::kLong); }

double to_double(const Tensor& tensor, const std::string& name) {
  require_scalar(tensor, name, at::kDouble);
  return tensor.item<double>();
}

int64_t to_int(const Tensor& tensor, const std::string& name) {
  require_scalar(tensor, name, at::kLong);
  return tensor.item<int64_t>();
}

void missing(const std::string& name) {
  throw std::invalid_argument("message: '" + name + "' is missing");
}

void unexpected(const std::string& name) {
  throw std::invalid_argument("message: '" + name + "' is not expected");
}

}  // namespace detail

int64_t payload_bytes(const TensorDict& dict) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : dict)
    if (tensor.dim() > 0) bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  return bytes;
}

}  // namespace tessera
