// A real server and real clients over TLS give the numbers of the simulator, and survive kills.
#include <gmock/gmock.h>

#include <csignal>
#include <cstring>

#include "base/key.hpp"
#include "federation_play.hpp"
#include "io/npy.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Federation : public FederationPlay {};

void write_small_client(const std::string& path) {
  constexpr int64_t kRows = 8;
  const std::vector<float> x(2 * kRows, 0.5F);
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kRows; ++i) y.push_back(i % 2);
  Npy features{DType::kF32, {kRows, 2}, Bytes(x.size() * sizeof(float))};
  Npy labels{DType::kI64, {kRows}, Bytes(y.size() * sizeof(int64_t))};
  std::memcpy(features.data.data(), x.data(), features.data.size());
  std::memcpy(labels.data.data(), y.data(), labels.data.size());
  ASSERT_TRUE(write_npz(path, {{"x", features}, {"y", labels}}).ok());
}

/// The methods of the issue; each has another kind of state on one of the two sides.
class SameNumbers : public FederationPlay, public ::testing::WithParamInterface<const char*> {};

TEST_P(SameNumbers, AsTheSimulator) {
  federation(GetParam(), 4);
  make_identities();
  start_everybody();
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
  for (const auto& name : names_) EXPECT_TRUE(exists("state-" + name + "/audit.jsonl"));
  EXPECT_TRUE(exists("state/report.html"));
  EXPECT_FALSE(exists("state/models"));
}
INSTANTIATE_TEST_SUITE_P(Methods, SameNumbers,
                         ::testing::Values("fedavg", "fedper", "fedacs", "fedham", "pfedht",
                                           "ditto", "fedbn"));

TEST_F(Federation, EachClientEndsWithTheModelThatTheSimulatorSaves) {
  federation("fedper", 3);
  make_identities();
  start_everybody();
  ASSERT_EQ(wait_for_end().code, 0);
  simulated_digest();
  for (const auto& name : names_) {
    ASSERT_TRUE(exists("state-" + name + "/model.safetensors"));
    EXPECT_EQ(slurp(path("state-" + name + "/model.safetensors")),
              slurp(path("simulated/models/client-" + name + ".safetensors")));
  }
}

TEST_F(Federation, ServerKilledAtAnyMoment) {
  federation("fedper", 12);
  make_identities();
  start_everybody();
  Rng rng(derive(2026, 11));
  int kills = 0;
  for (; kills < 20 && server_->running(); ++kills) {
    // Some moments lie in a start, some in a transfer, some in a save.
    const auto pause = std::chrono::milliseconds(150 + rng.below(700));
    const auto until = std::chrono::steady_clock::now() + pause;
    server_->wait_until([&] { return std::chrono::steady_clock::now() >= until; });
    if (!server_->running()) break;
    server_->signal(SIGKILL);
    server_->wait();
    start_server();
  }
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_GE(kills, 3);
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

TEST_F(Federation, ClientsKilledAtAnyMoment) {
  federation("ditto", 12);
  make_identities();
  start_everybody();
  Rng rng(derive(2026, 12));
  int kills = 0;
  for (; kills < 20 && server_->running(); ++kills) {
    const auto& name = names_[static_cast<size_t>(rng.below(4))];
    const auto pause = std::chrono::milliseconds(50 + rng.below(500));
    const auto until = std::chrono::steady_clock::now() + pause;
    server_->wait_until([&] { return std::chrono::steady_clock::now() >= until; });
    if (!server_->running()) break;
    clients_[name]->signal(SIGKILL);
    clients_[name]->wait();
    start_client(name);
  }
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_GE(kills, 3);
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

TEST_F(Federation, ClientsThatComeLaterOrNeverAreOutcomes) {
  federation("fedavg", 3, "wait_for = 2\ndeadline = 20\n");
  make_identities();
  start_server();
  start_client("a"), start_client("c");
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  const auto summary = json("state/summary.json");
  EXPECT_EQ(summary["rounds_counted"], 3);
  EXPECT_EQ(summary["rejected"], 6);  // b and d, three rounds
}

TEST_F(Federation, DataThatDoNotFitAreRefusedWithTheDifference) {
  federation("fedavg", 3, "wait_for = 4\nstart_deadline = 30\n");
  make_identities();
  start_server();
  start_client("a");
  ASSERT_TRUE(server_->wait_until([&] { return exists("state-a/federation.json"); }));
  write_small_client(path("bad.npz"));  // two features where a has six
  auto words = join_words("b");
  words[6] = path("bad.npz");
  const auto refused = tessera(words);
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("its samples are 2, those of the federation (by client a) 6"));
}

TEST_F(Federation, MistakesAreOneSentenceEach) {
  federation("fedavg", 3, "start_deadline = 2\n");
  make_identities();
  auto served = tessera(serve_words());
  EXPECT_EQ(served.code, 1) << served.err;
  EXPECT_THAT(served.err, HasSubstr("missing: a, b, c, d"));
  // Nobody is there.
  const auto lonely = tessera({"preflight", "--server", address_, "--identity",
                               identities_ + "/id-a", "--data", path("data/client-a.npz")});
  EXPECT_NE(lonely.code, 0);
  EXPECT_THAT(lonely.out, HasSubstr("WRONG"));
  EXPECT_EQ(error_lines(lonely), 1) << lonely.err;
  // A pooled reference has no place to be.
  federation("global", 3);
  served = tessera(serve_words());
  EXPECT_EQ(served.code, 2);
}

}  // namespace
}  // namespace tessera::testing
