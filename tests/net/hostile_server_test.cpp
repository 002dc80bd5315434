// A server with a true certificate that asks for what it must not get, over TLS, of a client that
// is the real program: every such task is refused by the client itself, with its reason, and
// nothing of an upload leaves with the refusal.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <mutex>

#include "engine/grpc/server.hpp"
#include "engine/task.hpp"
#include "federation_play.hpp"
#include "guard/frame.hpp"
#include "net/task_board.hpp"
#include "net/ticket.hpp"
#include "run/config_text.hpp"
#include "run/simulation.hpp"

namespace tessera::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A federation of four in which only client "a", number 0, is looked at.
class Liar final : public ServiceHost {
 public:
  Liar(const std::string& dir, std::string toml, std::string digest)
      : toml_(std::move(toml)), digest_(std::move(digest)) {
    auto board = TaskBoard::open(dir, {.members = 4});
    if (!board.ok()) throw std::runtime_error(message(board.status()));
    board_ = *std::move(board);
  }
  std::optional<int64_t> member_of(const std::string& name) override {
    return name == "a" ? std::optional<int64_t>(member_) : std::nullopt;
  }
  Result<bool> revoked(const std::string&) override { return false; }
  FederationFacts describe(int64_t member) override {
    return {.id = "f",
            .title = "a trap",
            .member = member,
            .name = "a",
            .clients = 4 - newcomers_,
            .newcomers = newcomers_,
            .experiment = toml_,
            .config_digest = digest_};
  }
  Status enroll(int64_t, const EnrollFacts& facts) override {
    const std::scoped_lock guard(mutex_);
    enrolled_ = facts.trouble.empty() && !facts.only_ask;
    return ok();
  }
  bool enrolled(int64_t) override {
    const std::scoped_lock guard(mutex_);
    return enrolled_;
  }
  Status leave(int64_t) override { return ok(); }
  std::string status_json() override { return "{}"; }
  TaskBoard& board() override { return *board_; }
  void on_event(const ServiceEvent&) override {}

  /// As if client a came to meet the others, not to train with them.
  void call_it_a_newcomer() { newcomers_ = 1, member_ = 3; }
  int64_t member() const { return member_; }

 private:
  const std::string toml_, digest_;
  std::unique_ptr<TaskBoard> board_;
  int64_t newcomers_ = 0, member_ = 0;
  std::mutex mutex_;
  bool enrolled_ = false;
};

class HostileServer : public FederationPlay {
 protected:
  /// Makes the experiment, and a server of it that does nothing by itself.
  void lure(const std::string& method, int rounds = 6, bool newcomer = false) {
    federation(method, rounds);
    make_identities();
    const auto experiment = load_experiment(path("e.toml"), {});
    ASSERT_TRUE(experiment.ok()) << experiment.status();
    auto session = make_session(*experiment, SessionFacts{.sample_shape = {6},
                                                          .classes = 3,
                                                          .clients = newcomer ? 3 : 4,
                                                          .newcomers = newcomer ? 1 : 0});
    ASSERT_TRUE(session.ok()) << session.status();
    session_.emplace(*std::move(session));
    const auto toml = experiment->toml();
    host_ = std::make_unique<Liar>(path("spool"), toml, config_digest(toml));
    if (newcomer) host_->call_it_a_newcomer();
    ServerOptions options{.listen = "127.0.0.1:0", .identity_dir = identities_ + "/id-server"};
    options.retry.hold = std::chrono::milliseconds(200);
    auto server = FederationServer::start(options, *host_);
    ASSERT_TRUE(server.ok()) << server.status();
    net_ = *std::move(server);
    address_ = net_->address();
  }
  void TearDown() override {
    clients_.clear();
    if (host_) host_->board().finish(), host_->board().wake();
    net_.reset();
    FederationPlay::TearDown();
  }
  /// What an honest server would send in this round.
  Task task(TaskKind kind, int64_t round, int64_t attempt = 1) const {
    Task out{.client = host_->member(), .kind = kind, .round = round, .attempt = attempt};
    if (kind == TaskKind::kEvaluate) out.attempt = 0;
    if (kind == TaskKind::kGuard || kind == TaskKind::kSettle) return out;
    const auto state = session_->method().init_server(session_->client_setup(0));
    const Ask<TensorDict> ask{0, Why::kTrain};
    session_->method().broadcast(*state, std::span(&ask, 1), session_->client_setup(round),
                                 [&](const auto&, TensorDict down) { out.down = std::move(down); });
    return out;
  }
  /// The client's answer; a reply with kBusy if there is none in time.
  Reply ask(const Task& task) {
    const auto bytes = std::make_shared<const Bytes>(encode_task(task));
    EXPECT_TRUE(host_->board().post(task.client, bytes).ok());
    net_->wake(task.client);
    const auto answer = host_->board().next(std::chrono::steady_clock::now() + seconds(20));
    if (!answer) return refused(task, fail(Error::kBusy, "no answer"));
    auto reply = decode_reply(answer->bytes);
    return reply.ok() ? *std::move(reply) : refused(task, reply.status());
  }
  void expect_refused(const Task& bad, const std::string& why) {
    const auto reply = ask(bad);
    EXPECT_THAT(message(reply.status), HasSubstr(why)) << name_of(bad.kind) << " " << bad.round;
    EXPECT_THAT(reply.up, IsEmpty());
    EXPECT_FALSE(reply.evaluation.has_value());
    EXPECT_EQ(reply.loss, 0);
  }
  /// All files of the client's states, name and content.
  std::map<std::string, std::string> kept() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path("state-a/client")))
      out[entry.path().filename()] = slurp(entry.path());
    return out;
  }
  /// A client that ends by itself.
  Finished joined() { return tessera(join_words("a")); }

  std::optional<Session> session_;
  std::unique_ptr<Liar> host_;
  std::unique_ptr<FederationServer> net_;
};

TEST_F(HostileServer, AJoinIsNoWayAroundSecureAggregation) {
  method_options_ = "[[guard]]\nname = \"secure-aggregation\"\n";
  lure("fedavg");
  start_client("a");
  expect_refused(task(TaskKind::kJoin, 1), "it is no newcomer");
  // What is in order works: the weight to a factor of two, and no upload.
  const auto reply = ask(task(TaskKind::kTrain, 1));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  ASSERT_EQ(reply.up.size(), 1);
  EXPECT_EQ(reply.up.begin()->first, "exponent");
  EXPECT_EQ(reply.loss, 0);
}

TEST_F(HostileServer, ANewcomerBehindGuardsSendsNoExchange) {
  lure("pfedhn", 6, true);  // a method whose newcomers introduce themselves
  start_client("a");
  auto meeting = task(TaskKind::kJoin, 1);
  ASSERT_TRUE(ask(meeting).status.ok());
  expect_refused(task(TaskKind::kTrain, 1), "newcomers do not train");
  expect_refused(task(TaskKind::kJoin, 2, 1000), "exchange 1000");
}

TEST_F(HostileServer, NoMessageDeletesAState) {
  lure("fedper");
  start_client("a");
  ASSERT_TRUE(ask(task(TaskKind::kTrain, 1)).status.ok());
  auto settle = task(TaskKind::kSettle, 1);
  settle.accepted = true;
  ASSERT_TRUE(ask(settle).status.ok());
  const auto before = kept();
  ASSERT_FALSE(before.empty());
  for (const int64_t round : {1, 2, 6, 7}) expect_refused(task(TaskKind::kJoin, round), "newcomer");
  EXPECT_EQ(kept(), before);
}

TEST_F(HostileServer, ARoundIsAskedForOnce) {
  lure("fedavg");
  start_client("a");
  const auto first = ask(task(TaskKind::kTrain, 1));
  ASSERT_TRUE(first.status.ok()) << first.status;
  for (const int64_t attempt : {2, 3})
    expect_refused(task(TaskKind::kTrain, 1, attempt), "a served round has one");
  auto other = task(TaskKind::kTrain, 1);
  other.down["w"] = other.down.at("w") + 1;
  expect_refused(other, "on another download");
  for (const int64_t round : {0, 7, 1000})
    expect_refused(task(TaskKind::kTrain, round), "this experiment has 1 to 6");
  ASSERT_TRUE(ask(task(TaskKind::kTrain, 4)).status.ok());
  expect_refused(task(TaskKind::kTrain, 2), "it has trained in round 4 since");
  expect_refused(task(TaskKind::kGuard, 4), "no secure aggregation");
  // A restart is no second chance.
  clients_["a"]->signal(SIGKILL);
  clients_["a"]->wait(seconds(10));
  start_client("a");
  expect_refused(task(TaskKind::kTrain, 3), "it has trained in round 4 since");
}

TEST_F(HostileServer, DownloadsHaveTheMethodsFormAndSize) {
  lure("fedavg");
  start_client("a");
  auto bad = task(TaskKind::kTrain, 1);
  bad.down["w"] = at::zeros({3});
  expect_refused(bad, "'w'");
  bad = task(TaskKind::kTrain, 1);
  bad.down["w"] = bad.down.at("w").to(at::kDouble);
  expect_refused(bad, "'w'");
  bad = task(TaskKind::kTrain, 1);
  bad.down["x"] = at::zeros({1});
  expect_refused(bad, "'x'");
  // 64 MiB of zeros in some kilobytes.
  bad.down = *in_frame({{"w", at::zeros({int64_t{1} << 24})}, {"b", at::empty({0})}}, 3);
  expect_refused(bad, "zstd frame announces");
  ASSERT_TRUE(ask(task(TaskKind::kTrain, 1)).status.ok());
}

TEST_F(HostileServer, AnEvaluationIsOfOneDownload) {
  lure("fedavg");
  start_client("a");
  ASSERT_TRUE(ask(task(TaskKind::kEvaluate, 2)).status.ok());
  ASSERT_TRUE(ask(task(TaskKind::kEvaluate, 2)).status.ok());
  auto other = task(TaskKind::kEvaluate, 2);
  other.down["w"] = other.down.at("w") + 1;
  expect_refused(other, "with another content");
  other = task(TaskKind::kEvaluate, 3);
  other.last = true;
  expect_refused(other, "not the last");
}

TEST_F(HostileServer, NoiseThatEverybodyCouldSubtractIsNoGuard) {
  method_options_ = "[[guard]]\nname = \"dp\"\n";
  lure("fedavg");
  const auto refused = joined();
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("the server's experiment"), HasSubstr("guard 'dp'"),
                                 HasSubstr("entropy = \"system\"")));
}

}  // namespace
}  // namespace tessera::testing
