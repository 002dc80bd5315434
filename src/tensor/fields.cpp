#include "tensor/fields.hpp"

#include <ATen/ATen.h>

#include <charconv>
#include <cmath>
#include <sstream>

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

Weight to_weight(const Tensor& tensor, const std::string& name) {
  const double value = to_double(tensor, name);
  if (!std::isfinite(value) || value < 0)
    throw std::invalid_argument("message: '" + name + "' is " + std::to_string(value) +
                                "; a weight is finite and at least 0");
  return value;
}

std::string entry_name(const std::string& name, ClientId id) {
  return name + "@" + std::to_string(id);
}

ClientId entry_id(const std::string& entry, const std::string& name) {
  ClientId id = 0;
  const char* first = entry.data() + name.size() + 1;
  const auto [end, error] = std::from_chars(first, entry.data() + entry.size(), id);
  // One spelling per client, else two entries could be the same client's.
  if (error != std::errc() || id < 0 ||
      !std::string_view(entry).starts_with(entry_name(name, id)) || (*end != '\0' && *end != '.'))
    unexpected(entry);
  return id;
}

void same_shape(const Tensor& form, const Tensor& value, const std::string& name) {
  if (form.scalar_type() == value.scalar_type() && form.sizes() == value.sizes()) return;
  std::ostringstream text;
  text << "message: '" << name << "' is " << value.scalar_type() << " " << value.sizes()
       << ", expected " << form.scalar_type() << " " << form.sizes();
  throw std::invalid_argument(text.str());
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
