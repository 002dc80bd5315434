// Models that had diverged (not a number anywhere) were scored as if they predicted class 0, and
// the run ended with exit code 0.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Diverged : public Playground {};

TEST_F(Diverged, ARunSaysSoAndFails) {
  experiment("local");
  const auto done = run("a", {"--set", "train.lr=1e30"});
  EXPECT_EQ(done.code, 1) << done.out;
  EXPECT_EQ(error_lines(done), 1) << done.err;
  EXPECT_THAT(done.err, HasSubstr("the evaluation of 4 clients failed, first client a"));
  auto summary = json("a/summary.json");
  EXPECT_TRUE(summary["failed"].is_string());
  EXPECT_TRUE(summary["accuracy_post"]["mean"].is_null());
  ASSERT_GE(summary["problems"].size(), 4u);
  EXPECT_EQ(summary["problems"][0]["kind"], "evaluation");
  EXPECT_TRUE(exists("a/report.html"));
  const auto again = run("a", {"--set", "train.lr=1e30", "--resume"});
  EXPECT_EQ(again.code, 1) << "it is finished, and still failed";
}

TEST_F(Diverged, ARunThatIsFineHasNoProblems) {
  ASSERT_EQ(run("a").code, 0);
  auto summary = json("a/summary.json");
  EXPECT_TRUE(summary["failed"].is_null());
  EXPECT_EQ(summary["problems"], nlohmann::json::array());
  EXPECT_EQ(summary["rounds_counted"], 6);
}

TEST_F(Diverged, AComparisonMarksTheRowAndGoesOn) {
  const std::vector<std::string> words{
      "compare", path("e.toml"), "--methods", "local:train.lr=1e30,fedper,fedavg",
      "--quiet", "--out",        path("c")};
  for (const char* what : {"run", "read again"}) {
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 1) << what;
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr("1 of 4 rows failed, first 'local train.lr=1e30'"));
    EXPECT_THAT(done.out, HasSubstr("the evaluation of 4 clients failed"));
    auto table = json("c/table.json");
    ASSERT_EQ(table.size(), 4u);
    EXPECT_THAT(table[0]["failed"].dump(),
                HasSubstr("local-train.lr=1e30-s1: the evaluation of 4"));
    EXPECT_FALSE(table[0].contains("accuracy_mean"));
    EXPECT_TRUE(table[1]["accuracy_mean"].is_number());
    EXPECT_THAT(table[1]["best_baseline"].dump(), Not(HasSubstr("local")));
    EXPECT_TRUE(exists("c/report.html"));
  }
}

}  // namespace
}  // namespace tessera::testing
