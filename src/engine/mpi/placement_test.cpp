#include "engine/mpi/placement.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Placement, EveryIdHasOneRankAndRangesFollowEachOther) {
  for (const int ranks : {1, 2, 3, 7, 64})
    for (const int64_t clients : {1, 2, 5, 20, 100, 9000, 100000})
      for (const int64_t newcomers : {0, 1, 50}) {
        const Placement placement(ranks, clients, newcomers);
        int64_t next = 0, most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto range = placement.clients_of(rank);
          EXPECT_EQ(range.first, next);
          EXPECT_LE(range.first, range.end);
          most = std::max(most, range.end - range.first);
          next = range.end;
        }
        EXPECT_EQ(next, clients);
        // Nobody has more than a sixteenth above the fair share, or one client.
        EXPECT_LE(most, clients / ranks + std::max<int64_t>(1, clients / ranks / 16 + 1));
        for (ClientId id = 0; id < clients + newcomers; id += 1 + clients / 50) {
          const int rank = placement.rank_of(id);
          EXPECT_TRUE(placement.hosts(rank, id));
          EXPECT_EQ(
              (id < clients ? placement.clients_of(rank) : placement.newcomers_of(rank)).holds(id),
              true);
        }
        EXPECT_THROW(placement.rank_of(clients + newcomers), std::out_of_range);
      }
}

// By hand: 20 clients on 3 ranks are cut at 6 and 13; of 1,000 on 4, 250 each, at the
// multiples of 8 nearest to 250, 500 and 750: it is the largest power of two up to 250 / 16.
TEST(Placement, CutsAreMultiplesOfAPowerOfTwo) {
  const Placement few(3, 20, 4);
  EXPECT_EQ(few.clients_of(0), (IdRange{0, 6}));
  EXPECT_EQ(few.clients_of(1), (IdRange{6, 13}));
  EXPECT_EQ(few.clients_of(2), (IdRange{13, 20}));
  EXPECT_EQ(few.newcomers_of(0), (IdRange{20, 21}));
  EXPECT_EQ(few.newcomers_of(2), (IdRange{22, 24}));
  const Placement many(4, 1000, 0);
  EXPECT_EQ(many.clients_of(0), (IdRange{0, 248}));
  EXPECT_EQ(many.clients_of(1), (IdRange{248, 504}));
  EXPECT_EQ(many.clients_of(3).end, 1000);
}

}  // namespace
}  // namespace tessera
