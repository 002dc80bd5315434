// TorchScript files written by hand: what torch would never write, and what it would. For tests
// only; needs no torch.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/bytes.hpp"
#include "io/zip.hpp"

namespace tessera::testing {

/// Instructions of a pickle, as text to be put together.
namespace pickled {

inline std::string text(const std::string& value) {
  Bytes size;
  append_little_endian(size, static_cast<uint32_t>(value.size()));
  return "X" + std::string(text_of(size)) + value;
}
inline std::string whole(int32_t value) {
  Bytes bytes;
  append_little_endian(bytes, static_cast<uint32_t>(value));
  return "J" + std::string(text_of(bytes));
}
inline std::string wholes(const std::vector<int32_t>& values) {
  std::string out = "(";
  for (const auto value : values) out += whole(value);
  return out + "t";
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string yes() { return "\x88"; }
/// A float32 tensor of these sizes at `offset` of the storage `key`, which has `values`.
inline std::string tensor(const std::string& key, int32_t values, const std::vector<int32_t>& sizes,
                          const std::vector<int32_t>& strides, int32_t offset = 0) {
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
         global("torch", "FloatStorage") + text(key) + text("cpu") + whole(values) + "tQ" +
         whole(offset) + wholes(sizes) + wholes(strides) + yes() +
         global("collections", "OrderedDict") + ")RtR";
}
inline std::string object(const std::string& type,
                          const std::vector<std::pair<std::string, std::string>>& slots) {
  std::string out = global("__torch__", type) + ")\x81}(";
  for (const auto& [name, value] : slots) out += text(name) + value;
  return out + "ub";
}
/// The whole of one.
inline std::string of(const std::string& body) { return "\x80\x02" + body + "."; }

}  // namespace pickled

/// One linear layer `fc` from 6 to 3 values, float32, all 0.25. `line` is a line of its forward,
/// which has x [n, 6], or of several with their indentation of four; `more` are lines of its class.
struct HandMadeScript {
  std::string line = "_1 = 1", more = {};

  std::string code() const {
    return "class Net(Module):\n"
           "  __parameters__ = []\n"
           "  __buffers__ = []\n"
           "  training : bool\n"
           "  fc : __torch__.Linear\n" +
           more +
           "  def forward(self: __torch__.Net,\n"
           "    x: Tensor) -> Tensor:\n"
           "    " +
           line +
           "\n"
           "    fc = self.fc\n"
           "    return (fc).forward(x, )\n"
           "class Linear(Module):\n"
           "  __parameters__ = [\"weight\", \"bias\", ]\n"
           "  __buffers__ = []\n"
           "  weight : Tensor\n"
           "  bias : Tensor\n"
           "  training : bool\n"
           "  def forward(self: __torch__.Linear,\n"
           "    x: Tensor) -> Tensor:\n"
           "    bias = self.bias\n"
           "    weight = self.weight\n"
           "    return torch.linear(x, weight, bias)\n";
  }
  std::string data() const {
    const auto layer =
        pickled::object("Linear", {{"weight", pickled::tensor("0", 18, {3, 6}, {6, 1})},
                                   {"bias", pickled::tensor("1", 3, {3}, {1})},
                                   {"training", pickled::yes()}});
    return pickled::of(pickled::object("Net", {{"training", pickled::yes()}, {"fc", layer}}));
  }
  std::map<std::string, std::string> members() const {
    const auto numbers = [](size_t count) {
      std::string out;
      for (size_t i = 0; i < count; ++i) out += std::string("\0\0\x80\x3e", 4);
      return out;
    };
    return {{"net/code/__torch__.py", code()},
            {"net/data.pkl", data()},
            {"net/constants.pkl", pickled::of(")")},
            {"net/data/0", numbers(18)},
            {"net/data/1", numbers(3)},
            {"net/version", "3\n"}};
  }
  /// The file with these members over its own.
  Bytes file(const std::map<std::string, std::string>& changed = {}) const {
    auto all = members();
    for (const auto& [name, data] : changed) all[name] = data;
    std::vector<std::pair<std::string, ByteSpan>> parts;
    for (const auto& [name, data] : all) parts.emplace_back(name, bytes_of(data));
    return *write_zip(parts);
  }
};

}  // namespace tessera::testing
