#include <ATen/ATen.h>

#include "export/parameters.hpp"
#include "io/npy.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/zip.hpp"

namespace tessera {

Result<Bytes> to_safetensors(const ExportedModel& model) {
  TESSERA_ASSIGN(const auto parameters, parameters_of(model));
  auto notes = notes_of(model);
  notes.emplace("format", "pt");  // what PyTorch's readers ask for
  return encode(parameters, notes);
}

Result<Bytes> to_npz(const ExportedModel& model) {
  TESSERA_ASSIGN(const auto parameters, parameters_of(model));
  std::map<std::string, Npy> arrays;
  for (const auto& [name, value] : parameters) {
    const auto* data = static_cast<const uint8_t*>(value.data_ptr());
    arrays.emplace(name, Npy{DType::kF32, value.sizes().vec(), Bytes(data, data + value.nbytes())});
  }
  const auto notes = notes_json(model);
  arrays.emplace(
      kNotesFile,
      Npy{DType::kU8, {static_cast<int64_t>(notes.size())}, Bytes(notes.begin(), notes.end())});
  std::vector<Bytes> files;
  files.reserve(arrays.size());  // the members refer to them
  std::vector<std::pair<std::string, ByteSpan>> members;
  for (const auto& [name, array] : arrays) {
    TESSERA_ASSIGN(auto file, write_npy(array));
    files.push_back(std::move(file));
    members.emplace_back(name + ".npy", files.back());
  }
  return write_zip(members);
}

}  // namespace tessera
