// `tessera new`: what it writes can be run as it is.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class New : public Playground {};

TEST_F(New, EveryKindRunsAndLearns) {
  for (const std::string kind : {"table", "pictures", "series"}) {
    const auto made = tessera({"new", path(kind), "--from", kind, "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    const auto written = nlohmann::json::parse(made.out);
    EXPECT_EQ(written["experiment"], path(kind) + "/experiment.toml");
    EXPECT_EQ(written["data"].size(), 6U);
    // From another directory than the file's: data_dir is from where the file is.
    const auto done = tessera({"run", path(kind) + "/experiment.toml", "--quiet", "--json", "-o",
                               path(kind + "-run"), "--set", "rounds=10"},
                              {.directory = "/tmp"});
    ASSERT_EQ(done.code, 0) << done.err;
    const auto summary = nlohmann::json::parse(done.out);
    EXPECT_EQ(summary["name"], kind) << "named after its directory";
    EXPECT_EQ(summary["clients"], 6);
    // Better than always saying the most frequent class, and not so easy that nothing is left.
    EXPECT_GT(summary["accuracy_post"]["mean"].get<double>(), 0.6) << kind;
  }
}

TEST_F(New, TheSameFilesAlways) {
  ASSERT_EQ(tessera({"new", path("a")}).code, 0);
  ASSERT_EQ(tessera({"new", path("b")}).code, 0);
  for (const auto& entry : fs::directory_iterator(path("a/data"))) {
    const auto text = slurp(entry.path());
    EXPECT_EQ(text, slurp(path("b/data/" + entry.path().filename().string())));
    EXPECT_THAT(text, ::testing::StartsWith("age,sex,pressure,pulse,sugar,outcome\n"));
  }
}

TEST_F(New, RefusesWhatIsThere) {
  for (const auto& [dir, reason] :
       {std::pair{path("data"), "is not empty"}, {path("e.toml"), "is there and no directory"}}) {
    const auto before = slurp(path("e.toml"));
    const auto done = tessera({"new", dir});
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(error_lines(done), 1);
    EXPECT_THAT(done.err, HasSubstr(dir + " " + reason));
    EXPECT_EQ(slurp(path("e.toml")), before);
    EXPECT_FALSE(exists("data/experiment.toml"));
  }
  fs::create_directory(path("empty"));
  EXPECT_EQ(tessera({"new", path("empty")}).code, 0);
  const auto kind = tessera({"new", path("x"), "--from", "tabel"});
  EXPECT_EQ(kind.code, 2);
  EXPECT_THAT(kind.err, HasSubstr("--from"));
  EXPECT_FALSE(exists("x"));
}

}  // namespace
}  // namespace tessera::testing
