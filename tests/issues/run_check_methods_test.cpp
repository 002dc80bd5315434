// `check` tried an evaluation with the download of a training round. A method that sends more for
// an evaluation (mosaic: weights and temperatures) broke off with "bad optional access".
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class CheckMethods : public Playground {};

TEST_F(CheckMethods, AnEvaluationGetsWhatItIsSent) {
  for (const char* method : {"mosaic", "mosaic-groups", "prior", "fedper"}) {
    const auto done = tessera({"check", path("e.toml"), "--method", method});
    EXPECT_EQ(done.code, 0) << method << ": " << done.err;
    EXPECT_THAT(done.out, HasSubstr(method));
  }
}

}  // namespace
}  // namespace tessera::testing
