// A real server and real clients over TLS give the numbers of the simulator, and survive kills.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
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
  const std::string method = GetParam();
  if (method == "pfedht") model_ = "vit-s28";
  if (method == "fedbn") model_ = "lenet16-bn";
  if (model_ != "mlp100") pictures();
  federation(method, 4);
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
                         ::testing::Values("fedavg", "fedper", "fedacs", "fedham",
                                           "fedmetaper-maml", "pfedht", "ditto", "fedbn", "mosaic",
                                           "scaffold", "ifca"));

/// The same with a newcomer, which never trains: FedMeta-Per lets it choose among heads, FedACS
/// exchanges a message with it first.
class NewcomersToo : public FederationPlay, public ::testing::WithParamInterface<const char*> {
 protected:
  /// A line for each of their evaluations: who, when, which view and part, how it did.
  std::string newcomers_rows(const std::string& out) const {
    return rows(out,
                "SELECT c.name, round, view, part, n, correct, printf('%!.17g', loss) FROM "
                "client_evals e JOIN clients c ON c.id = e.client WHERE c.newcomer "
                "ORDER BY round, client, view, part");
  }
};

TEST_P(NewcomersToo, AsTheSimulator) {
  // Else there are no heads to choose from.
  if (std::string(GetParam()).starts_with("fedmetaper")) method_options_ = "head_bank = true\n";
  federation(GetParam(), 4, "", "b");
  make_identities();
  start_server();
  ASSERT_NO_FATAL_FAILURE(start_and_enroll("b"));  // else the first evaluation might be without it
  for (const auto* name : {"a", "c", "d"}) start_client(name);
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
  const auto real = newcomers_rows("state");
  EXPECT_EQ(real, newcomers_rows("simulated"));
  // Two evaluations, two views, two parts.
  EXPECT_EQ(std::count(real.begin(), real.end(), '\n'), 8) << real;
  EXPECT_THAT(real, HasSubstr("b "));
}
INSTANTIATE_TEST_SUITE_P(Methods, NewcomersToo,
                         ::testing::Values("fedmetaper-maml", "fedmetaper-metasgd", "fedacs"));

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

/// How often kill tests kill: 20 times, or TESSERA_KILLS times.
int wanted_kills() {
  const char* said = std::getenv("TESSERA_KILLS");
  return said ? std::atoi(said) : 20;
}

/// A federation that is long enough to be killed so often, and for how long it may take.
class Killed : public FederationPlay {
 protected:
  /// Waits for a moment that depends on `rng`: after the next round or before it, early or late in
  /// whatever is going on then. False once the federation has ended.
  bool wait_for_a_moment(Rng& rng) {
    if (rng.below(3) != 0) {
      const auto before = rounds_done("state");
      server_->wait_until([&] { return rounds_done("state") > before; });
    }
    let_pass(std::chrono::milliseconds(rng.below(40)));
    return server_->running();
  }
  void expect_the_simulators_numbers() {
    const auto served = wait_for_end(std::chrono::seconds(120 + 2 * kills_));
    ASSERT_EQ(served.code, 0) << served.err;
    EXPECT_EQ(rounds_digest("state"), simulated_digest());
    const auto summary = json("state/summary.json");
    EXPECT_EQ(summary["rounds_counted"], rounds());
    EXPECT_EQ(summary["rejected"], 0);
  }
  int rounds() const { return 12 * kills_ + 20; }

  const int kills_ = wanted_kills();
};

TEST_F(Killed, ServerAtAnyMoment) {
  federation("fedper", rounds());
  make_identities();
  start_everybody();
  Rng rng(derive(2026, 11));
  for (int kill = 0; kill < kills_; ++kill) {
    ASSERT_TRUE(wait_for_a_moment(rng)) << "ended after " << kill << " kills: " << server_->err();
    server_->signal(SIGKILL);
    server_->wait();
    start_server();
  }
  expect_the_simulators_numbers();
}

TEST_F(Killed, ClientsAtAnyMoment) {
  federation("ditto", rounds());
  make_identities();
  start_everybody();
  Rng rng(derive(2026, 12));
  for (int kill = 0; kill < kills_; ++kill) {
    ASSERT_TRUE(wait_for_a_moment(rng)) << "ended after " << kill << " kills: " << server_->err();
    const auto& name = names_[rng.below(4)];
    clients_[name]->signal(SIGKILL);
    clients_[name]->wait();
    start_client(name);
  }
  expect_the_simulators_numbers();
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
  // Preflight asks the server, too, and changes nothing there.
  const auto asked = tessera({"preflight", "--server", address_, "--identity",
                              identities_ + "/id-c", "--data", path("bad.npz")});
  EXPECT_EQ(asked.code, 2) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("WRONG enrolment"));
  EXPECT_THAT(asked.err, HasSubstr("its samples are 2, those of the federation (by client a) 6"));
  const auto fine = tessera({"preflight", "--server", address_, "--identity", identities_ + "/id-c",
                             "--data", path("data/client-c.npz")});
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_FALSE(logged(server_->err(), "enrolled", {{"client", "c"}}));
}

TEST_F(Federation, TheServerIsToldWhyAClientCannotTakePart) {
  federation("fedbn", 3, "start_deadline = 30\n");  // mlp100 has no batch norms
  make_identities();
  start_server();
  const auto refused = tessera(join_words("a"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("fedbn"));
  EXPECT_TRUE(waits_for(*server_, "refused", {{"client", "a"}})) << server_->err();
  EXPECT_THAT(server_->err(), HasSubstr("it cannot take part: "));
  EXPECT_THAT(slurp(path("state-a/audit.jsonl")), HasSubstr("\"trouble\""));
  // Who wants to be asked, and is not there to say yes, sends not even that.
  EXPECT_EQ(tessera(join_words("b", {"--ask"})).code, 2);
  EXPECT_FALSE(logged(server_->err(), "refused", {{"client", "b"}})) << server_->err();
}

TEST_F(Federation, TheServersIdentityMayBeInItsState) {
  federation("fedavg", 3, "start_deadline = 30\n");
  make_identities();
  auto words = serve_words();
  words.erase(words.begin() + 6, words.begin() + 8);
  const auto lacking = tessera(words);
  EXPECT_EQ(lacking.code, 2);
  EXPECT_THAT(lacking.err, HasSubstr("state/identity: no such directory"));
  std::filesystem::create_directories(path("state"));
  std::filesystem::copy(identities_ + "/id-server", path("state/identity"));
  server_ = std::make_unique<Process>(words, Process::Options{});
  for (const auto& name : names_) start_client(name);
  EXPECT_EQ(wait_for_end().code, 0) << server_->err();
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
