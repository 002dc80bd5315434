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

// A number about a client's samples, beside a model that gets noise: the epsilon would be a lie.
TEST_F(Plugin, ABareStatisticIsRefusedByGuardsThatPromise) {
  for (const std::string guard : {"dp.sigma=1", "dp-sgd.sigma=1"}) {
    experiment("leaky");
    const auto done = run("out", {"--plugin", TROUBLED_PLUGIN, "--set", "guard." + guard});
    EXPECT_EQ(done.code, 2) << guard;
    EXPECT_THAT(done.err, HasSubstr("does not go with leaky: its upload 'value.labels' is a "
                                    "statistic of a client's samples"));
    EXPECT_FALSE(exists("out/summary.json"));
  }
  const auto open = run("open", {"--plugin", TROUBLED_PLUGIN});
  EXPECT_EQ(open.code, 0) << open.err;
}

// The server's half throws on one upload in round 2: that round does not count, and the run goes
// on.
TEST_F(Plugin, AServerHalfThatThrowsCostsTheRound) {
  experiment("fragile", 4);
  const auto once = run("once", {"--plugin", TROUBLED_PLUGIN});
  EXPECT_EQ(once.code, 0) << once.err;
  const auto summary = json("once/summary.json");
  EXPECT_EQ(summary["rounds_counted"], 3);
  // Everybody who was in it is named in the record.
  EXPECT_EQ(summary["problems_total"], 4);
  EXPECT_EQ(summary["problems"][0]["kind"], "server");
  EXPECT_EQ(summary["problems"][0]["reason"],
            "method fragile, server: the upload of client 1 is too much");
}

TEST_F(Plugin, ThreeSuchRoundsEndTheRunAndSoTheyDoAfterAnInterruption) {
  experiment("fragile", 9);
  const std::vector<std::string> always{"--plugin", TROUBLED_PLUGIN, "--set", "method.last=9"};
  const auto whole = run("whole", always);
  EXPECT_EQ(whole.code, 1);
  EXPECT_EQ(error_lines(whole), 1) << whole.err;
  EXPECT_THAT(whole.err,
              HasSubstr("rounds 2 to 4 failed one after the other, the last with: method "
                        "fragile, server: the upload of client 1 is too much"));
  EXPECT_EQ(rounds_done("whole"), 4);
  // Taken up again it fails again, one round later, because the two before it are remembered.
  auto more = always;
  more.push_back("--resume");
  EXPECT_EQ(run("whole", more).code, 1);
  EXPECT_EQ(rounds_done("whole"), 5);
}

TEST_F(Plugin, NothingInIt) { expect_refused(EMPTY_PLUGIN, EMPTY_PLUGIN " registers no method"); }

}  // namespace
}  // namespace tessera::testing
