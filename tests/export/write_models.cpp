// usage: write_models DIR: every network of src/export/test_cases.hpp as ONNX and TorchScript, with
// samples and what our own code says to them, for programs that know nothing of ours.
//
// DIR/cases.json lists {name, opencv, classes, batches: [{shape, x, y}]}; x and y are files of
// float32, row by row.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "export/test_cases.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

Status write(const std::string& path, const Result<Bytes>& bytes) {
  if (!bytes.ok()) return at_place(bytes.status(), path);
  return write_file_atomic(path, *bytes);
}

Status write_numbers(const std::string& path, const Tensor& values) {
  const Tensor dense = values.contiguous();
  return write_file_atomic(path, {static_cast<const uint8_t*>(dense.data_ptr()), dense.nbytes()});
}

Status write_all(const std::string& dir) {
  auto list = nlohmann::json::array();
  for (const auto& each : testing::export_cases()) {
    const auto stem = dir + "/" + each.name;
    const auto model = each.exported();
    TESSERA_RETURN_IF_ERROR(write(stem + ".onnx", to_onnx(model)));
    TESSERA_RETURN_IF_ERROR(write(stem + ".pt", to_torchscript(model)));
    nlohmann::json entry{
        {"name", each.name}, {"opencv", each.opencv}, {"classes", each.shape.classes}};
    for (const int64_t n : {1, 7}) {
      const auto [x, y] = each.samples_and_logits(n);
      const auto file = [&](const char* what) {
        return fmt::format("{}.{}.{}", each.name, n, what);
      };
      TESSERA_RETURN_IF_ERROR(write_numbers(dir + "/" + file("x"), x));
      TESSERA_RETURN_IF_ERROR(write_numbers(dir + "/" + file("y"), y));
      entry["batches"].push_back({{"shape", x.sizes().vec()}, {"x", file("x")}, {"y", file("y")}});
    }
    list.push_back(entry);
  }
  return write_file_atomic(dir + "/cases.json", bytes_of(list.dump()));
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: write_models DIR\n";
    return 2;
  }
  const auto status = tessera::write_all(arguments[1]);
  if (!status.ok()) std::cerr << tessera::message(status) << "\n";
  return status.ok() ? 0 : 1;
}
