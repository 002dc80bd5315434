// A flag that does not exist was answered by one that merely looks alike: `--seed` by `--set`.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expect_hint(const std::vector<std::string>& words, const std::string& expected) {
  const auto done = tessera(words);
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(error_lines(done), 1);
  EXPECT_THAT(done.err, HasSubstr(expected));
  EXPECT_THAT(done.err, Not(HasSubstr("did you mean '--set'")));
}

// Two dashes are no part of a name: "seed" is two letters of four away from "set".
TEST(FlagHints, AFlagOfAnotherCommandIsSaidToBeOne) {
  expect_hint({"report", "runs/x", "--seed", "3"},
              "unknown flag '--seed' (a flag of `tessera run`");
  expect_hint({"models", "--threads", "2"}, "unknown flag '--threads' (a flag of `tessera run`");
}

TEST(FlagHints, AKeyOfTheFileIsSet) {
  expect_hint({"run", "x.toml", "--rounds", "3"},
              "unknown flag '--rounds' (a key of the file: --set rounds=…)");
  expect_hint({"run", "x.toml", "--lr=0.1"},
              "unknown flag '--lr=0.1' (a key of the file: --set train.lr=…)");
  expect_hint({"check", "x.toml", "--drop-rate", "0.1"},
              "unknown flag '--drop-rate' (a key of the file: --set federation.drop_rate=…)");
}

TEST(FlagHints, ATypoIsStillATypo) {
  expect_hint({"compare", "x.toml", "--seed", "3"}, "(did you mean '--seeds'?)");
  expect_hint({"run", "x.toml", "--treads", "2"}, "(did you mean '--threads'?)");
  expect_hint({"run", "x.toml", "--qiuet"}, "(did you mean '--quiet'?)");
}

}  // namespace
}  // namespace tessera::testing
