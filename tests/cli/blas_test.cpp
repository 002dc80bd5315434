// The program starts again, once, when OpenBLAS runs on a lesser core type than the processor can.
#include "base/blas.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "process.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// `tessera -v models` by execv, with OpenBLAS saying that it took Prescott's kernels.
Finished with_false_core(const char* chosen_by_user) {
  setenv("LD_PRELOAD", FALSE_CORE, 1);
  if (chosen_by_user) setenv(kCoreVariable, chosen_by_user, 1);
  std::vector<std::string> unset{kAgainVariable};
  if (!chosen_by_user) unset.push_back(kCoreVariable);
  const auto done = tessera({"models", "-v"}, {.unset = unset, .fresh = true});
  unsetenv("LD_PRELOAD");
  if (chosen_by_user) unsetenv(kCoreVariable);
  return done;
}

std::string wanted() {
  return better_core(this_processor(), "Prescott", [](const char*) { return nullptr; });
}

TEST(RightBlas, TheProgramStartsAgainOnceAndSaysSo) {
  if (wanted().empty()) GTEST_SKIP() << "this processor can run nothing better than Prescott's";
  const auto done = with_false_core(nullptr);
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("starting again with OPENBLAS_CORETYPE=" + wanted()));
  // Said by the second start, which found the false name again and went on.
  EXPECT_THAT(done.err, HasSubstr("OpenBLAS Prescott"));
  EXPECT_EQ(done.err.find("starting again"), done.err.rfind("starting again"));
  EXPECT_THAT(done.out, HasSubstr("facnn"));
}

TEST(RightBlas, WhatTheUserSetStays) {
  const auto done = with_false_core("Haswell");
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, Not(HasSubstr("starting again")));
}

TEST(RightBlas, VersionNamesKernelsAndBlas) {
  const auto done = tessera({"--version"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, HasSubstr("\nkernels "));
  EXPECT_THAT(done.out, HasSubstr("BLAS"));
  EXPECT_THAT(done.out, HasSubstr(this_processor().name));
}

TEST(Bench, PrintsATableAndTheSameAsJson) {
  const std::vector<std::string> quick{"bench",    "--seconds", "0.0001", "--kernels",
                                       "portable", "--only",    "mlp100"};
  const auto text = tessera(quick);
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("kernels portable, OpenBLAS"));
  EXPECT_THAT(text.out, HasSubstr("mlp100 predict"));
  EXPECT_THAT(text.err, HasSubstr("measuring 1 of 3: mlp100 step, batch 10\n"));
  auto words = quick;
  words.insert(words.end(), {"--json", "--quiet"});
  const auto done = tessera(words);
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.err, "");
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json["kernels"], "portable");
  ASSERT_EQ(json["lines"].size(), 3U);
  EXPECT_EQ(json["lines"][0]["what"], "mlp100 step");
  EXPECT_EQ(json["lines"][0]["goal"], 0.7);
  EXPECT_GT(json["lines"][0]["samples_per_second"], 0);
}

}  // namespace
}  // namespace tessera::testing
