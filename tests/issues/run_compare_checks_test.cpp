// `compare` found out that a method cannot run only when its turn came, after hours of others.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class CompareChecks : public Playground {
 protected:
  Finished compare(const std::string& methods, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"compare", path("e.toml"), "--methods", methods,
                                   "--quiet", "--out",        path("c")};
    words.insert(words.end(), more.begin(), more.end());
    return tessera(words);
  }
};

// pfedht needs a Transformer, fedbn a network with batch norms; the data want mlp100.
TEST_F(CompareChecks, WhatCannotRunIsLeftOutWithItsReason) {
  const auto done = compare("local,pfedht,fedavg");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("left out: pfedht: "));
  EXPECT_THAT(done.out, HasSubstr("left out: "));
  auto table = json("c/table.json");
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[1]["method"], "pfedht");
  EXPECT_EQ(table[1]["left_out"], true);
  EXPECT_FALSE(exists("c/pfedht-s1"));
  EXPECT_TRUE(table[2]["accuracy_mean"].is_number());
}

TEST_F(CompareChecks, OrRefusedBeforeAnythingRuns) {
  const auto strict = compare("local,pfedht", {"--strict"});
  EXPECT_EQ(strict.code, 2);
  EXPECT_THAT(strict.err, HasSubstr("pfedht: "));
  EXPECT_FALSE(exists("c/local-s1"));
  const auto none = compare("pfedht");
  EXPECT_EQ(none.code, 2);
  EXPECT_FALSE(exists("c"));
}

}  // namespace
}  // namespace tessera::testing
