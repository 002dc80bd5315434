// docs/protocol.md lists what a round sends of every method: the table and the program must agree.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/text.hpp"
#include "io/dtype.hpp"
#include "io/safetensors.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/layout_digest.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

std::string protocol_page() {
  const auto root = std::filesystem::path(__FILE__).parent_path() / "../..";
  std::ifstream in(root / "docs/protocol.md");
  EXPECT_TRUE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Sizes by the names that the page gives them, those of the toy's network; none is there twice.
class SizeNames {
 public:
  SizeNames(const Model& model, int64_t classes)
      : buffers_(model.buffers().numel()), classes_(classes) {
    const auto& layout = model.layout();
    const int64_t d = layout.numel();
    add("d", d), add("2 d", 2 * d), add("C", classes);
    for (const auto& [name, size] : {std::pair{"H", layout.trailing(1).numel()},
                                     {"A", layout.mask(Role::kAttention).sum().item<int64_t>()},
                                     {"N", layout.mask(Role::kNorm).sum().item<int64_t>()}})
      if (size > 0)
        add(fmt::format("d_{}", name), size), add(fmt::format("d − d_{}", name), d - size),
            add(fmt::format("2 (d − d_{})", name), 2 * (d - size));
  }

  std::string text(const std::string& name, int64_t size) const {
    if (name == "b" || name.ends_with(".b")) {
      if (size == buffers_) return "d_b";
      if (size == buffers_ + classes_) return "d_b + C";
    }
    const auto at = names_.find(size);
    return at == names_.end() ? std::to_string(size) : at->second;
  }

 private:
  void add(const std::string& name, int64_t size) { names_.emplace(size, name); }

  int64_t buffers_, classes_;
  std::map<int64_t, std::string> names_;
};

/// "`value.w` [d], `weight` F64 []", as the message is encoded.
std::string entries_of(const TensorDict& message, const SizeNames& sizes) {
  const auto bytes = encode(message);
  const auto parsed = *parse_safetensors(bytes, "message");
  std::map<std::string, std::string> by_name;
  for (const auto& entry : parsed.entries) {
    std::vector<std::string> shape;
    for (const int64_t size : entry.shape) shape.push_back(sizes.text(entry.name, size));
    const auto type = entry.dtype == DType::kF32 ? "" : fmt::format(" {}", dtype_name(entry.dtype));
    by_name[entry.name] = fmt::format("`{}`{} [{}]", entry.name, type, join(shape, ", "));
  }
  std::vector<std::string> out;
  for (const auto& [name, text] : by_name) out.push_back(text);
  return out.empty() ? "nothing" : join(out, ", ");
}

TEST(Protocol, ThePageListsTheMessagesOfEveryMethod) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;  // messages, and whose
  for (const auto& info : methods()) {
    if (info.pooled) continue;  // no federation: everybody's data are in one place
    const auto toy = make_toy({.method = info.name}, 4, 0);
    const SizeNames sizes(*toy.model, toy.federation.classes);
    const auto down = toy.download(toy.server(), 0);
    const auto up = toy.method->expected(*toy.typed(toy.server()), Why::kTrain, toy.setup(1));
    const auto messages = fmt::format("{} | {}", entries_of(down, sizes), entries_of(up, sizes));
    auto at = std::find_if(rows.begin(), rows.end(),
                           [&](const auto& row) { return row.first == messages; });
    if (at == rows.end()) at = rows.insert(at, {messages, {}});
    at->second.push_back("`" + info.name + "`");
  }
  std::string table;
  for (const auto& [messages, names] : rows)
    table += fmt::format("| {} | {} |\n", join(names, ", "), messages);
  EXPECT_NE(protocol_page().find(table), std::string::npos) << "docs/protocol.md lacks\n" << table;
}

// The example of the page, by its own rule.
TEST(Protocol, TheLayoutDigestIsTheOneThatThePageDefines) {
  const auto model = *make_model("mlp100", {{6}, 3});
  const std::string text =
      "fc1.weight 100x6\nfc1.bias 100\nhead.weight 3x100\nhead.bias 3\n--\n--\n";
  EXPECT_EQ(layout_digest(*model), sha256_hex(bytes_of(text)));
  EXPECT_NE(protocol_page().find("`" + layout_digest(*model) + "`"), std::string::npos);
}

}  // namespace
}  // namespace tessera::test
