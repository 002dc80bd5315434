// What goes wrong on one rank ends the run on all, in one sentence that names the rank.
#include <csignal>
#include <filesystem>

#include "ranks_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(Ranks, ARankThatDiesEndsTheRunAndItGoesOnToTheSameDigest) {
  experiment("fedper", 120);
  ASSERT_EQ(run("one").code, 0);
  auto words = run_words("many", {"--threads", "1"});
  Process process(mpirun_words(3, words, 1), mpirun());
  ASSERT_TRUE(process.wait_until([&] { return rounds_done("many") >= 5; })) << process.err();
  ASSERT_EQ(kill(std::stoi(slurp(path("pid"))), SIGKILL), 0);
  const auto died = process.wait(std::chrono::seconds(30));
  EXPECT_GT(died.code, 0) << died.err;
  EXPECT_THAT(spoken(died), StartsWith("tessera: rank 1 ("));
  EXPECT_THAT(spoken(died), EndsWith("has died, so the run ends here; continue with the same "
                                     "command and --resume\n"));
  EXPECT_EQ(error_lines(died), 1) << died.err;
  EXPECT_FALSE(exists("many/summary.json"));

  const auto resumed = run_on(3, "many", {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(digest("many"), digest("one"));
}

TEST_F(Ranks, AServerHalfThatThrowsCostsTheSameRoundOnRanks) {
  experiment("fragile", 4);
  const std::vector<std::string> more{"--plugin", TROUBLED_PLUGIN};
  ASSERT_EQ(run("one", more).code, 0);
  const auto many = run_on(3, "many", more);
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(json("many/summary.json")["rounds_counted"], 3);
  EXPECT_EQ(digest("many"), digest("one"));
}

TEST_F(Ranks, StatesAreLookedForWhereTheyWereAndMissedIfTheyAreNotThere) {
  experiment("fedper", 120);
  auto words = run_words("many", {"--threads", "1"});
  {
    Process process(mpirun_words(2, words, 0), mpirun());
    ASSERT_TRUE(process.wait_until([&] { return rounds_done("many") >= 3; })) << process.err();
    process.signal(SIGTERM);  // as mpirun is told to end by a batch system
    EXPECT_NE(process.wait(std::chrono::seconds(30)).code, 0);
  }
  const auto alone = run("many", {"--resume"});
  EXPECT_EQ(alone.code, 2) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("was played by 2 ranks"));
  EXPECT_THAT(alone.err, HasSubstr("continue it with mpirun -n 2"));
  const auto more = run_on(3, "many", {"--resume"});
  EXPECT_EQ(more.code, 2) << more.err;
  EXPECT_THAT(spoken(more), HasSubstr("continue it with mpirun -n 2"));

  std::filesystem::rename(path("many/checkpoint/rank-1.sqlite"), path("kept.sqlite"));
  for (const char* beside : {"-wal", "-shm"})
    std::filesystem::remove(path("many/checkpoint/rank-1.sqlite") + beside);
  const auto missing = run_on(2, "many", {"--resume"});
  EXPECT_EQ(missing.code, 2) << missing.err;
  EXPECT_THAT(spoken(missing), StartsWith("tessera: rank 1 ("));
  EXPECT_THAT(spoken(missing), HasSubstr("rank-1.sqlite: missing, and with it the states of this "
                                         "rank's clients (they were in "));
  EXPECT_EQ(error_lines(missing), 1) << missing.err;
}

TEST_F(Ranks, ARankThatCannotReadItsDataIsNamed) {
  write("data/client-d.npz", "no archive");  // of rank 1; rank 0 does not look at it
  const auto words = run_words("many", {"--threads", "1", "--set", "data.class_names=a,b,c"});
  const auto bad = play(2, words);
  EXPECT_EQ(bad.code, 2) << bad.err;
  EXPECT_THAT(spoken(bad), StartsWith("tessera: rank 1 ("));
  EXPECT_THAT(spoken(bad), HasSubstr("client-d.npz"));
  EXPECT_EQ(error_lines(bad), 1) << bad.err;
}

TEST_F(Ranks, WhatIsWrongEverywhereIsSaidOnce) {
  const auto unknown = play(2, {"run", path("none.toml")});
  EXPECT_EQ(unknown.code, 2) << unknown.err;
  EXPECT_EQ(error_lines(unknown), 1) << unknown.err;
  const auto listing = play(2, {"methods"});
  EXPECT_EQ(listing.code, 2) << listing.err;
  EXPECT_EQ(spoken(listing),
            "tessera: `tessera methods` runs in one process, but mpirun has started 2; start it "
            "without mpirun\n");
  const auto pooled = run_on(2, "many", {"--method", "centralized"});
  EXPECT_EQ(pooled.code, 2) << pooled.err;
  EXPECT_EQ(spoken(pooled),
            "tessera: method centralized trains on everybody's data in one place; start it without "
            "mpirun\n");
}

// Each rank has its own clients' files alone. One that was quicker than rank 0's refusal pooled the
// others' data, which it does not have, and died of it.
TEST_F(Ranks, NoRankPoolsDataThatItDoesNotHave) {
  for (int i = 0; i < 3; ++i) {
    auto more = read_alone();
    more.insert(more.end(), {"--method", "centralized"});
    const auto pooled = run_on(2, "many", more);
    EXPECT_EQ(pooled.code, 2) << pooled.err;
    EXPECT_THAT(pooled.err, Not(HasSubstr("signal")));
  }
}

TEST_F(Ranks, ARunOfOneProcessIsNotTakenUpByRanks) {
  auto process = long_run("many", 3);
  process->signal(SIGKILL), process->wait();
  const auto taken = run_on(2, "many", {"--resume"});
  EXPECT_EQ(taken.code, 2) << taken.err;
  EXPECT_THAT(spoken(taken), HasSubstr("was played by one process"));
}

}  // namespace
}  // namespace tessera::testing
