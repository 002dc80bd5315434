// A graph of ONNX operations, and its file; written without ONNX's own library.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

using OnnxAttribute = std::variant<int64_t, double, std::vector<int64_t>>;

struct OnnxNode {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<std::pair<std::string, OnnxAttribute>> attributes;
};

class OnnxGraph {
 public:
  /// Adds the tensor (float32 or int64) and gives its name; one that is there already stays.
  std::string constant(const std::string& name, const at::Tensor& value);
  /// Adds an operation and gives the name of its only output.
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<std::pair<std::string, OnnxAttribute>> attributes = {});

  struct Interface {
    std::vector<int64_t> sample;  // of the input "x"
    int64_t classes = 0;          // of the output "logits", which is the last node's
    std::map<std::string, std::string> metadata;
  };
  /// kInvalid if it would be larger than the 2 GB that protocol buffers allow.
  Result<Bytes> file(const Interface& interface) const;

 private:
  std::map<std::string, at::Tensor> constants_;
  std::vector<OnnxNode> nodes_;
};

}  // namespace tessera
