#include "engine/grpc/stream_watch.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using std::chrono::seconds;

struct WatchedStreams {
  std::unique_ptr<StreamWatch::Stream> begin(
      int64_t member, StreamWatch::Direction way = StreamWatch::Direction::kDeliver) {
    return watch.begin(member, way, [this] { ++ended; });
  }
  StreamWatch::Time now{seconds(1000)};
  int ended = 0;
  StreamWatch watch{{.idle = seconds(60), .least_rate = 100, .grace = seconds(30)},
                    [this] { return now; }};
};

TEST(StreamWatch, AStreamThatSendsNothingIsEnded) {
  WatchedStreams s;
  const auto idle = s.begin(0), busy = s.begin(1);
  s.now += seconds(20);
  busy->moved(1'000'000);
  s.now += seconds(40) - std::chrono::milliseconds(1);
  s.watch.check();
  EXPECT_EQ(s.ended, 1) << "the idle one is below the rate by now";
  s.now += std::chrono::milliseconds(1);
  s.watch.check();
  EXPECT_EQ(s.ended, 1) << "nobody is ended twice";
  s.now += seconds(20);
  s.watch.check();
  EXPECT_EQ(s.ended, 2);
  EXPECT_EQ(busy->cut(), "nothing moved for 1 min 00 s");
  EXPECT_EQ(idle->cut(), "slower than 100 bytes a second");
}

TEST(StreamWatch, DripsAreNotEnoughAfterTheGrace) {
  WatchedStreams s;
  const auto drip = s.begin(0), stream = s.begin(1);
  for (int second = 1; second <= 40; ++second) {
    s.now += seconds(1);
    drip->moved(1);     // 40 bytes in the end
    stream->moved(25);  // 1000 bytes: 100 a second for the 10 seconds behind the grace
    s.watch.check();
  }
  EXPECT_EQ(drip->cut(), "slower than 100 bytes a second");
  EXPECT_EQ(stream->cut(), "");
  EXPECT_EQ(s.watch.under_way(), 1);
}

TEST(StreamWatch, AMemberHasOneStreamInEachDirection) {
  WatchedStreams s;
  auto first = s.begin(0);
  const auto other = s.begin(1), fetch = s.begin(0, StreamWatch::Direction::kFetch);
  EXPECT_EQ(s.ended, 0);
  const auto second = s.begin(0);
  EXPECT_EQ(s.ended, 1);
  EXPECT_EQ(first->cut(), "the same member began another transfer");
  first.reset();
  EXPECT_EQ(s.watch.under_way(), 3) << "the first's end takes nothing away from the second";
  EXPECT_EQ(second->cut(), "");
  EXPECT_EQ(other->cut(), "");
  EXPECT_EQ(fetch->cut(), "");
}

TEST(StreamWatch, WhatHasEndedIsNotLookedAt) {
  WatchedStreams s;
  s.begin(0).reset();
  s.now += seconds(1000);
  s.watch.check();
  EXPECT_EQ(s.ended, 0);
  EXPECT_EQ(s.watch.under_way(), 0);
}

}  // namespace
}  // namespace tessera
