// Guard 'secure-aggregation' between real processes: the numbers of the simulator, also after kills
// of the server; and a client that was killed in the middle of a round is lost to it.
#include <gmock/gmock.h>

#include <csignal>

#include "base/key.hpp"
#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class SecureFederation : public FederationPlay {
 protected:
  void SetUp() override {
    FederationPlay::SetUp();
    method_options_ = "[[guard]]\nname = \"secure-aggregation\"\n";
  }
};

TEST_F(SecureFederation, AsTheSimulator) {
  federation("fedper", 4);
  make_identities();
  start_everybody();
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
  EXPECT_EQ(json("state/summary.json")["rounds_counted"], 4);
  const std::string traffic = "SELECT round, bytes_up, bytes_down, wire_up, wire_down FROM rounds";
  EXPECT_EQ(rows("state", traffic), rows("simulated", traffic));
  EXPECT_THAT(slurp(path("state-a/audit.jsonl")), HasSubstr("\"guard\""));
}

// Tasks of a repeated round are the same to the byte, and the clients' answers are in the spool.
TEST_F(SecureFederation, AServerThatIsKilledAsksForTheSameSums) {
  constexpr int kKills = 6;
  federation("fedavg", 12 * kKills);
  make_identities();
  start_everybody();
  Rng rng(derive(2026, 13));
  for (int kill = 0; kill < kKills; ++kill) {
    const auto before = rounds_done("state");
    server_->wait_until([&] { return rounds_done("state") > before; });
    let_pass(std::chrono::milliseconds(rng.below(40)));
    ASSERT_TRUE(server_->running()) << "ended after " << kill << " kills: " << server_->err();
    server_->signal(SIGKILL);
    server_->wait();
    start_server();
  }
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
  EXPECT_EQ(json("state/summary.json")["rejected"], 0);
}

// c sleeps, so that the round cannot go on before d is back; without its secrets.
TEST_F(SecureFederation, AClientThatIsKilledInARoundIsLostToIt) {
  federation("fedavg", 3, "deadline = 60\n");
  make_identities();
  start_server();
  ASSERT_NO_FATAL_FAILURE(start_and_enroll("c"));
  clients_["c"]->signal(SIGSTOP);
  for (const auto* name : {"a", "b", "d"}) start_client(name);
  ASSERT_TRUE(waits_for(*clients_["d"], "sent", {{"kind", "train"}, {"round", 1}}));
  clients_["d"]->signal(SIGKILL);
  clients_["d"]->wait();
  start_client("d");
  ASSERT_TRUE(waits_for(*clients_["d"], "joined", {}));
  clients_["c"]->signal(SIGCONT);
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  const auto summary = json("state/summary.json");
  EXPECT_EQ(summary["rounds_counted"], 3);  // three of four suffice
  EXPECT_EQ(summary["rejected"], 1);
  EXPECT_TRUE(logged(served.err, "not counted", {{"client", "d"}, {"round", 1}})) << served.err;
  EXPECT_THAT(served.err, HasSubstr("it was started again since it trained"));
}

}  // namespace
}  // namespace tessera::testing
