#include "io/tensor/tensor_codec.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <stdexcept>

#include "io/file.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

constexpr const char* kDigestKey = "tessera_sha256";

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    default:
      throw std::invalid_argument("cannot encode tensors of this type");
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
  }
  throw std::invalid_argument("unknown dtype");
}

ByteSpan bytes_of_tensor(const Tensor& dense) {
  return {static_cast<const uint8_t*>(dense.data_ptr()), dense.nbytes()};
}

// Of everything a reader may rely on; lengths go first, so that no two contents look alike.
std::string digest_of(const TensorDict& tensors, const Metadata& metadata) {
  Sha256 digest;
  const auto text = [&](std::string_view part) {
    digest.add(std::to_string(part.size()) + " ").add(part);
  };
  for (const auto& [key, value] : metadata)
    if (key != kDigestKey) text(key), text(value);
  for (const auto& [name, tensor] : tensors) {
    text(name);
    text(dtype_name(dtype_of(tensor.scalar_type())));
    text(fmt::format("{}", fmt::join(tensor.sizes(), ",")));
    digest.add(bytes_of_tensor(tensor.contiguous()));
  }
  return digest.hex();
}

}  // namespace

Bytes encode(const TensorDict& tensors, const Metadata& metadata) {
  std::vector<Tensor> dense;
  std::vector<TensorToWrite> out;
  for (const auto& [name, tensor] : tensors) {
    dense.push_back(tensor.detach().contiguous());
    out.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(),
                   bytes_of_tensor(dense.back())});
  }
  auto bytes = write_safetensors(std::move(out), metadata);
  if (!bytes.ok()) throw std::invalid_argument(message(bytes.status()));
  return *std::move(bytes);
}

int64_t encoded_size(const TensorDict& tensors) {
  std::vector<TensorToWrite> out;
  for (const auto& [name, tensor] : tensors)
    out.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(),
                   ByteSpan(static_cast<const uint8_t*>(tensor.data_ptr()), tensor.nbytes())});
  return static_cast<int64_t>(safetensors_size(std::move(out)));
}

TensorDict tensors_of(const SafeTensors& parsed, std::shared_ptr<const Bytes> bytes) {
  TensorDict out;
  for (const auto& entry : parsed.entries) {
    auto* data = const_cast<uint8_t*>(bytes->data() + entry.begin);
    const auto options = at::TensorOptions().dtype(scalar_type_of(entry.dtype));
    auto tensor = at::from_blob(
        data, entry.shape, [bytes](void*) {}, options);
    // Files of others need not be aligned; our kernels assume that tensors are.
    if (reinterpret_cast<uintptr_t>(data) % item_size(entry.dtype) != 0) {
      auto aligned = at::empty(entry.shape, options);
      std::memcpy(aligned.data_ptr(), data, aligned.nbytes());
      tensor = aligned;
    }
    out.emplace(entry.name, std::move(tensor));
  }
  return out;
}

Result<Decoded> decode(std::shared_ptr<const Bytes> bytes, const std::string& name,
                       const SafeTensorsLimits& limits) {
  TESSERA_ASSIGN(auto parsed, parse_safetensors(*bytes, name, limits));
  auto tensors = tensors_of(parsed, std::move(bytes));
  return Decoded{std::move(tensors), std::move(parsed.metadata)};
}

Bytes encode_file(const TensorDict& tensors, Metadata metadata) {
  metadata[kDigestKey] = digest_of(tensors, metadata);
  return encode(tensors, metadata);
}

Status save_tensors(const std::string& path, const TensorDict& tensors, Metadata metadata) {
  return write_file_atomic(path, encode_file(tensors, std::move(metadata)));
}

Result<Decoded> load_tensors(const std::string& path) {
  TESSERA_ASSIGN(auto bytes, read_file(path));
  TESSERA_ASSIGN(auto decoded, decode(std::make_shared<const Bytes>(std::move(bytes)), path));
  const auto stated = decoded.metadata.find(kDigestKey);
  if (stated == decoded.metadata.end()) return decoded;  // written by another program
  if (stated->second != digest_of(decoded.tensors, decoded.metadata))
    return fail(Error::kInvalid, "{}: damaged (its contents do not match its digest)", path);
  decoded.verified = true;
  return decoded;
}

}  // namespace tessera
