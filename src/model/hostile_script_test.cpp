// TorchScript files that would do something: refused before they do.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "io/script_archive_testing.hpp"
#include "io/testing.hpp"
#include "model/script_code.hpp"
#include "model/script_model.hpp"
#include "model/script_testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::HandMadeScript;
using ::testing::HasSubstr;

class HostileScript : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Model>> load(const Bytes& file) {
    testing::put(dir_.file("net.pt"), file);
    return load_script_model(dir_.file("net.pt"), "", {{6}, 3});
  }
  /// What is said of a network with this line; nothing may have been written besides its file.
  std::string said_of(const HandMadeScript& script) {
    const auto model = load(script.file());
    EXPECT_EQ(dir_.names(), std::vector<std::string>{"net.pt"});
    return model.ok() ? "" : message(model.status());
  }
  std::string victim() const { return dir_.file("victim"); }

  testing::TempDir dir_;
};

TEST_F(HostileScript, WhatIsWrittenByHandIsANetwork) {
  const auto model = load(HandMadeScript().file());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->layout().numel(), 21);
  EXPECT_TRUE(at::equal((*model)->init(1).w, at::full({21}, 0.25)));
  const auto x = at::ones({2, 6});
  EXPECT_TRUE(at::equal((*model)->predict((*model)->init(1), x), at::full({2, 3}, 1.75)));
}

TEST_F(HostileScript, FilesAreNeitherWrittenNorRead) {
  EXPECT_THAT(said_of({fmt::format("torch.save(x, \"{}\")", victim())}),
              HasSubstr("the network calls torch.save, which is not among the operators"));
  EXPECT_THAT(said_of({fmt::format("_1 = torch.from_file(\"{}\", True, 9)", victim())}),
              HasSubstr("calls torch.from_file"));
}

/// A class may call its parts as it likes, and a tensor's `save` is torch's.
TEST_F(HostileScript, ADeclaredNameHidesNoOperator) {
  const auto said =
      said_of({.line = fmt::format("x.save(\"{}\")", victim()), .more = "  save : int\n"});
  EXPECT_THAT(said, HasSubstr("calls something of its own 'save', as torch calls an operator"));
  EXPECT_THAT(said, HasSubstr("rename it"));
}

TEST_F(HostileScript, NoMemoryBesideTheNumbersIsRead) {
  const auto plain = HandMadeScript();
  auto data = plain.data();
  const auto bias = testing::pickled::tensor("1", 3, {3}, {1});
  ASSERT_NE(data.find(bias), std::string::npos);
  data.replace(data.find(bias), bias.size(), testing::pickled::tensor("1", 3, {3}, {1000}));
  const auto model = load(plain.file({{"net/data.pkl", data}}));
  EXPECT_THAT(message(model.status()), HasSubstr("a tensor that reaches beyond its numbers"));
}

TEST_F(HostileScript, WarningsAreNeitherSaidNorInTheWay) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(said_of({R"(torch.warn("buy now"))"}), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::Not(HasSubstr("buy now")));
}

/// The list holds for what torch understood, too, whatever the text looked like.
TEST(HostileCode, IsRefusedAsTorchReadsIt) {
  const auto said_of = [](const std::string& line) -> std::string {
    const auto module = testing::two_layers(line);
    auto holdings = script::holdings_of(module);
    try {
      script::lower(module, true, holdings);
      return "";
    } catch (const std::exception& problem) {
      return problem.what();
    }
  };
  EXPECT_EQ(said_of("h = torch.relu(h)"), "");
  EXPECT_THAT(said_of("print(h)"), HasSubstr("calls prim::Print"));
  EXPECT_THAT(said_of("torch.save(h, \"/nonexistent/x\")"), HasSubstr("calls aten::save"));
  EXPECT_THAT(said_of("h = h + torch.from_file(\"/nonexistent/x\", False, 5)"),
              HasSubstr("calls aten::from_file"));
}

}  // namespace
}  // namespace tessera
