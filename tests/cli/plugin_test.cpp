// Files that `--plugin` must refuse, each with its own sentence. tests/own_method loads a good one.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Plugin : public Playground {
 protected:
  void expect_refused(const std::string& file, const std::string& expected) {
    const std::vector<std::vector<std::string>> commands{
        {"--plugin", file, "methods"},
        {"methods", "--plugin", file},
        {"check", path("e.toml"), "--plugin", file},
        {"compare", path("e.toml"), "--methods", "fedavg", "--plugin", file}};
    for (const auto& words : commands) {
      const auto done = tessera(words, {.directory = root_});
      EXPECT_EQ(done.code, 2);
      EXPECT_EQ(done.out, "");
      EXPECT_EQ(error_lines(done), 1);
      EXPECT_THAT(done.err, HasSubstr("tessera: --plugin: " + expected));
    }
  }
};

TEST_F(Plugin, AMissingFile) {
  expect_refused(path("none.so"), "there is no file " + path("none.so"));
  expect_refused("none.so", "there is no file ./none.so");
  expect_refused(path("data"), path("data") + " is not a file");
}

TEST_F(Plugin, NoLibrary) {
  write("text.so",
        "not a library, though long enough to hold the header of one: " + std::string(200, 'x'));
  expect_refused(path("text.so"),
                 path("text.so") + " is not a shared library that can be loaded here (");
  write("empty.so", "");
  expect_refused("empty.so", "./empty.so is not a shared library that can be loaded here (");
}

TEST_F(Plugin, ALibraryThatIsNoPlugin) {
  expect_refused(TESSERA_LIBRARY,
                 TESSERA_LIBRARY " is a library but no plugin: it has no tessera_plugin_version");
}

TEST_F(Plugin, AnotherVersion) {
  expect_refused(PLUGIN_OF_THE_PAST, PLUGIN_OF_THE_PAST
                 " was built for Tessera 0.1.0, this is " TESSERA_VERSION_HERE "; build it again");
}

TEST_F(Plugin, NothingInIt) { expect_refused(EMPTY_PLUGIN, EMPTY_PLUGIN " registers no method"); }

}  // namespace
}  // namespace tessera::testing
