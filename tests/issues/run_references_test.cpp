// Tables had no rows that say what can be had without learning: a model could look good and be
// worse than a guess.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class References : public Playground {};

// Every client of the playground has two classes in turns, so the majority is right in half of the
// cases; no sample shows what its label was before.
TEST_F(References, StandInTheTableOrSayWhyNot) {
  const auto done = tessera({"compare", path("e.toml"), "--methods", "majority,persistence,fedavg",
                             "--quiet", "--out", path("c")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("left out: persistence: "));
  EXPECT_THAT(done.err, HasSubstr("use majority here"));
  const auto table = json("c/table.json");
  EXPECT_EQ(table[0]["method"], "majority");
  EXPECT_EQ(table[0]["accuracy_mean"], 0.5);
  EXPECT_EQ(table[0]["bytes_down"], 0);
}

TEST_F(References, ARunIsRefusedInOneSentence) {
  const auto done = run("a", {"--method", "persistence"});
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(error_lines(done), 1) << done.err;
  EXPECT_THAT(done.err, HasSubstr("persistence needs samples that show what their label was last"));
}

}  // namespace
}  // namespace tessera::testing
