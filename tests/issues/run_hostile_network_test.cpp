// Issue 27: a network's file is code. A file that would write, or that another file or a server
// points at, is not run: not by `check`, nor by anything that opens a saved model.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "io/file.hpp"
#include "io/npy.hpp"
#include "io/script_archive_testing.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HostileNetwork : public Playground {
 protected:
  void network(const std::string& name, const HandMadeScript& script) const {
    ASSERT_TRUE(write_file_atomic(path(name), script.file()).ok());
  }
  /// The toy experiment with the network of this file.
  std::string experiment_with(const std::string& file) const {
    experiment();
    auto text = slurp(path("e.toml"));
    const std::string before = "name = \"mlp100\"";
    text.replace(text.find(before), before.size(), "file = \"" + file + "\"");
    write("e.toml", text);
    return path("e.toml");
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  void write_rows() const {
    const auto arrays = read_npz(path("data/client-a.npz"));
    ASSERT_TRUE(write_npz(path("x.npz"), {{"x", arrays->at("x_test")}}).ok());
  }
  /// Each with the model of client a of run r.
  std::vector<std::vector<std::string>> uses_of_a_model() const {
    return {{"predict", path("r"), "--client", "a", "--data", path("x.npz")},
            {"predict", path("r/models/client-a.safetensors"), "--data", path("x.npz")},
            {"export", path("r"), "--client", "a", "--to", "npz", "--out", path("x")},
            {"export", path("r"), "--client", "a", "--to", "torchscript", "--out", path("x")},
            {"audit", path("r"), "--budget", "1s", "--out", path("x"), "--quiet"}};
  }
};

TEST_F(HostileNetwork, WritesNothingWhenItIsChecked) {
  const std::map<std::string, std::string> hostile{
      {"torch.save(x, \"" + path("victim") + "\")", "calls torch.save, "},
      {"_1 = torch.from_file(\"" + path("victim") + "\", True, 9)", "calls torch.from_file, "},
      {"print(\"hello\")", "calls print, "},
      {"_1 = ops.prim.rpc_sync(\"evil\", \"f\", [])", "calls prim::rpc_sync, "}};
  experiment_with("net.pt");
  write("victim", "of the user");
  for (const auto& [line, words] : hostile) {
    network("net.pt", {line});
    const auto before = names();
    const auto checked = tessera({"check", path("e.toml")});
    EXPECT_EQ(checked.code, 2) << line;
    EXPECT_EQ(error_lines(checked), 1) << checked.err;
    EXPECT_THAT(checked.err, HasSubstr("net.pt: the network " + words));
    EXPECT_THAT(checked.err, HasSubstr("docs/own-network.md"));
    EXPECT_EQ(checked.out, "") << line;
    EXPECT_EQ(names(), before) << line;
    EXPECT_EQ(run("r").code, 2) << line;
    EXPECT_EQ(slurp(path("victim")), "of the user") << line;
  }
}

TEST_F(HostileNetwork, IsNotRunBecauseASavedModelNamesIt) {
  network("net.pt", {});
  experiment_with("net.pt");
  const auto trained = run("r");
  ASSERT_EQ(trained.code, 0) << trained.err;
  write_rows();
  for (const auto& words : uses_of_a_model()) {
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 2) << words[0];
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr("names the network's file '" + path("net.pt") + "'"));
    EXPECT_THAT(done.err, HasSubstr("get it from somebody you trust and add --model FILE"));
  }
  // Not even when it is gone or another one: it was not looked for.
  network("net.pt", {"torch.save(x, \"" + path("victim") + "\")"});
  for (const auto& words : uses_of_a_model()) EXPECT_EQ(tessera(words).code, 2) << words[0];
  EXPECT_FALSE(exists("victim"));
}

TEST_F(HostileNetwork, IsRunWhereTheUserNamesIt) {
  network("net.pt", {});
  experiment_with("net.pt");
  ASSERT_EQ(run("r").code, 0);
  fs::rename(path("net.pt"), path("moved.pt"));
  write_rows();
  for (auto words : uses_of_a_model()) {
    words.insert(words.end(), {"--model", path("moved.pt")});
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 0) << words[0] << ": " << done.err;
  }
  network("other.pt", {"_1 = 2"});
  auto words = uses_of_a_model()[0];
  words.insert(words.end(), {"--model", path("other.pt")});
  const auto other = tessera(words);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("its network is another file than " + path("other.pt")));
}

TEST_F(HostileNetwork, IsNotAskedForWhereThereIsNone) {
  ASSERT_EQ(run("r").code, 0);
  write_rows();
  auto words = uses_of_a_model()[0];
  EXPECT_EQ(tessera(words).code, 0);
  words.insert(words.end(), {"--model", path("x.npz")});
  const auto done = tessera(words);
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("its network is 'mlp100', which needs no file"));
}

}  // namespace
}  // namespace tessera::testing
