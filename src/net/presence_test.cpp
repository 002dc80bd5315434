#include "net/presence.hpp"

#include <gmock/gmock.h>

#include "io/testing.hpp"

namespace tessera {
namespace {

using std::chrono::seconds;
using testing::FailsWith;
using testing::Succeeds;

class Presence : public ::testing::Test {
 protected:
  Status admit(const CallingProcess& who, bool busy = false, int64_t member = 0) {
    return presences_.admit(member, who, busy);
  }
  Presences::Time now_{};
  Presences presences_{seconds(30), [this] { return now_; }};
};

TEST_F(Presence, OneProcessSpeaksForAMember) {
  EXPECT_THAT(admit({"s", "1"}), Succeeds());
  EXPECT_THAT(admit({"s", "1"}, true), Succeeds());
  EXPECT_THAT(admit({"t", "9"}, false, 1), Succeeds());  // another member's
  EXPECT_THAT(admit({"u", "2"}), FailsWith(Error::kInvalid, "another --state"));
  EXPECT_THAT(admit({"s", "1"}), Succeeds());
}

TEST_F(Presence, ARestartTakesThePlaceAndACopyIsToldSo) {
  ASSERT_THAT(admit({"s", "1"}, true), Succeeds());
  EXPECT_THAT(admit({"s", "2"}, true), Succeeds());
  // The first lives: there are two copies of one state.
  EXPECT_THAT(admit({"s", "1"}), FailsWith(Error::kInvalid, "has taken its place"));
  EXPECT_THAT(admit({"s", "2"}), Succeeds());
}

TEST_F(Presence, AnotherStateWaitsUntilTheFirstIsGone) {
  ASSERT_THAT(admit({"s", "1"}), Succeeds());
  now_ += seconds(30);
  EXPECT_FALSE(admit({"u", "2"}).ok());
  now_ += seconds(1);
  EXPECT_FALSE(admit({"u", "2"}, true).ok());  // it may be computing: a task is out to it
  EXPECT_THAT(admit({"u", "2"}), Succeeds());
  EXPECT_FALSE(admit({"s", "1"}).ok());
}

}  // namespace
}  // namespace tessera
