// Named tensors as safetensors bytes: the one codec for checkpoints, saved models and the wire.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "io/safetensors.hpp"
#include "tensor/fields.hpp"

namespace tessera {

using Metadata = std::map<std::string, std::string>;

struct Decoded {
  TensorDict tensors;
  Metadata metadata;
  bool verified = false;  // load_tensors found a digest, and it is right
};

/// Any dense CPU tensors of bool, integer or float type.
Bytes encode(const TensorDict& tensors, const Metadata& metadata = {});
/// Tensors refer to the bytes, which are kept alive by them; nothing is copied.
/// kInvalid names what is wrong with the bytes; `name` stands for them in the message.
Result<Decoded> decode(std::shared_ptr<const Bytes> bytes, const std::string& name,
                       const SafeTensorsLimits& limits = {});
/// The tensors of a file that was parsed, in the same way; `bytes` is what it was parsed from.
TensorDict tensors_of(const SafeTensors& parsed, std::shared_ptr<const Bytes> bytes);
/// Size of encode(tensors), computed without encoding.
int64_t encoded_size(const TensorDict& tensors);

/// Whole files, as bytes or written atomically: with a digest of all tensors and metadata, which is
/// checked when read, so that a damaged file never loads as the one that was saved. Files without
/// one are foreign and load unverified.
Bytes encode_file(const TensorDict& tensors, Metadata metadata = {});
Status save_tensors(const std::string& path, const TensorDict& tensors, Metadata metadata = {});
Result<Decoded> load_tensors(const std::string& path);

}  // namespace tessera
