// A client with a true identity that sends too much, and figures that cannot be: what a reply may
// be is known before it comes, so nothing larger is held on the disk or in memory; the rest is
// refused with its reason and costs nobody else.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/grpc/transport.hpp"
#include "engine/task.hpp"
#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr size_t kFlood = 1'260'000'000;

/// Kilobytes of a line of /proc/PID/status.
int64_t memory_of(pid_t pid, const std::string& key) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  return -1;
}

int64_t bytes_below(const std::string& dir) {
  int64_t out = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir, ignored))
    if (entry.is_regular_file(ignored)) out += static_cast<int64_t>(entry.file_size(ignored));
  return out;
}

/// A task, and what is known of who asks.
struct Question {
  Transport& transport;
  std::string ticket;
  Task task;

  Reply empty() const { return refused(task, ok()); }
  /// As an honest client with one sample would answer a round.
  Reply trained() const {
    auto reply = empty();
    reply.up = pack(Weighted{unpack<Weights>(task.down), 1});
    return reply;
  }
  /// As one would answer an evaluation that has 4 of 4 samples right.
  Reply evaluated() const {
    auto reply = empty();
    const ClientMetrics fine{4, 4, 0.5, 1, 1, 1, 1, 1, 0};
    reply.evaluation = Evaluation{task.client, fine, fine, fine, fine};
    if (task.global) reply.evaluation->global_test = reply.evaluation->global_val = fine;
    return reply;
  }
  Status send(const Reply& reply) const { return transport.deliver(ticket, encode_reply(reply)); }
};

/// Clients a, b and c are honest; d is this process.
class Bounds : public FederationPlay {
 protected:
  void federate(int rounds, const std::vector<std::string>& more = {}) {
    federation("fedavg", rounds, "deadline = 60\n");
    make_identities();
    start_server(more);
    start_and_enroll("d");
    clients_["d"]->signal(SIGKILL);
    clients_.erase("d");
    for (const auto* name : {"a", "b", "c"}) start_client(name);
  }

  /// Takes part as d until the federation has ended; `answer` is for rounds and evaluations.
  void play(const std::function<void(const Question&)>& answer) {
    const auto identity = identities_ + "/id-d";
    auto transport = Transport::create({.server = address_, .identity_dir = identity});
    ASSERT_TRUE(transport.ok()) << transport.status();
    (*transport)->introduce(slurp(path("state-d/state-id")));  // as if it had been started again
    ASSERT_TRUE((*transport)->describe().ok());
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(150);
    while (std::chrono::steady_clock::now() < until) {
      const auto polled = (*transport)->poll();
      ASSERT_TRUE(polled.ok()) << polled.status();
      if (polled->kind == Polled::Kind::kFinished) return;
      if (polled->kind != Polled::Kind::kTask) continue;
      auto bytes = (*transport)->fetch(polled->offer);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      auto task = decode_task(std::make_shared<const Bytes>(*std::move(bytes)));
      ASSERT_TRUE(task.ok()) << task.status();
      const Question question{**transport, polled->offer.ticket, *std::move(task)};
      if (question.task.kind == TaskKind::kSettle)
        EXPECT_TRUE(question.send(question.empty()).ok());
      else
        answer(question);
    }
    FAIL() << "the federation did not end: " << server_->err();
  }

  /// Reasons of d's problems, a line each: "ROUND KIND REASON".
  std::string reasons() const {
    return rows("state",
                "SELECT round, kind, reason FROM problems WHERE client = 3 ORDER BY round, kind");
  }
};

TEST_F(Bounds, AFloodIsNeitherStoredNorHeld) {
  federate(3);
  const auto server = server_->pid();
  int64_t before = 0, after = 0, on_disk = 0;
  Status answer;
  play([&](const Question& question) {
    const bool evaluate = question.task.kind == TaskKind::kEvaluate;
    if (evaluate || question.task.round != 2) {
      const auto status = question.send(evaluate ? question.evaluated() : question.trained());
      EXPECT_TRUE(status.ok()) << status;
      return;
    }
    before = memory_of(server, "VmHWM");
    answer = question.transport.deliver(question.ticket, Bytes(kFlood));
    on_disk = bytes_below(path("state/spool"));
    after = memory_of(server, "VmHWM");
  });
  const auto served = wait_for_end();
  EXPECT_EQ(served.code, 0) << served.err;
  std::cout << "[ figures  ] peak of the server before " << before / 1024 << " MB, after "
            << after / 1024 << " MB; " << on_disk << " bytes in its spool\n";
  EXPECT_FALSE(answer.ok());
  EXPECT_THAT(message(answer), HasSubstr("a reply of more than"));
  ASSERT_GT(before, 0);
  EXPECT_LT(after - before, 64 << 10) << "kilobytes";
  EXPECT_LT(on_disk, 1 << 20);
  EXPECT_THAT(reasons(), HasSubstr("2 upload reply: a reply of more than"));
  EXPECT_EQ(json("state/summary.json")["rounds_counted"], 3);
  EXPECT_TRUE(json("state/summary.json")["failed"].is_null());
}

TEST_F(Bounds, FiguresAndTextsThatCannotBeAreRefused) {
  federate(9);  // evaluations after rounds 3, 6 and 9
  play([&](const Question& question) {
    const auto round = question.task.round;
    if (question.task.kind == TaskKind::kEvaluate) {
      auto reply = question.evaluated();
      if (round == 4) reply.evaluation->post_test.auroc = 1e300;
      if (round == 7) reply.evaluation->pre_test.loss = std::nan("");
      if (round == 10) reply.evaluation->notes["a"] = at::zeros({20 << 20}, at::kByte);
      const auto status = question.send(reply);
      EXPECT_EQ(status.ok(), round != 10) << status;
      return;
    }
    auto reply = question.trained();
    if (round == 1) reply.up.emplace(std::string(10'000'000, 'n'), at::zeros({1}));
    if (round == 2) reply.up.emplace(std::string(5'000, 'n'), at::zeros({1}));
    if (round == 3) reply.up.emplace("\x1b[31m\nred", at::zeros({1}));
    if (round == 4) reply.loss = std::nan("");
    if (round == 5) reply.cpu_seconds = INFINITY;
    if (round == 6) reply.loss = 1e300;
    EXPECT_EQ(question.send(reply).ok(), round != 1);
  });
  const auto served = wait_for_end();
  EXPECT_EQ(served.code, 0) << served.err;
  const auto told = reasons();
  EXPECT_THAT(told, HasSubstr("1 upload reply: a reply of more than "));
  EXPECT_THAT(told, HasSubstr("2 upload reply: not a valid safetensors file: a name has 5003 "));
  EXPECT_THAT(told, HasSubstr("3 evaluation reply: row 1 of 'metrics': its AUROC is 1e+300, not"));
  EXPECT_THAT(told, HasSubstr("3 upload message: '?[31m"));
  EXPECT_THAT(told, HasSubstr("4 upload its loss is nan, which is not finite"));
  EXPECT_THAT(told, HasSubstr("5 upload reply: its work took inf seconds, not 0"));
  EXPECT_THAT(told, HasSubstr("6 upload reply: its loss is 1e+300; numbers beyond 1e+15"));
  EXPECT_THAT(told, HasSubstr("6 evaluation the model of the pre view diverged"));
  EXPECT_THAT(told, HasSubstr("9 evaluation reply: a reply of more than "));
  EXPECT_LT(told.size(), 4000u);
  const auto summary = json("state/summary.json");
  EXPECT_EQ(summary["rounds_counted"], 9);
  EXPECT_TRUE(summary["failed"].is_null()) << "a liar fails itself and not the run";
}

TEST_F(Bounds, ClaimsAtEnrolmentAreBounded) {
  federation("fedavg", 1, "deadline = 60\n");
  make_identities();
  start_server();
  const auto identity = identities_ + "/id-d";
  auto transport = Transport::create({.server = address_, .identity_dir = identity});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const auto facts = (*transport)->describe();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EnrollFacts honest{.config_digest = facts->config_digest,
                     .sample_shape = {6},
                     .classes = 3,
                     .class_names = {"x", "y", "z"},
                     .layout_digest = std::string(64, 'a'),
                     .data_digest = std::string(64, 'b'),
                     .only_ask = true};
  const auto told = [&](const std::function<void(EnrollFacts&)>& change) {
    auto claims = honest;
    change(claims);
    const auto status = (*transport)->enroll(claims);
    EXPECT_EQ(error_of(status), Error::kInvalid) << status;
    return message(status);
  };
  EXPECT_THAT(told([](EnrollFacts&) {}), HasSubstr("its model has other tensors"));
  const auto digests = HasSubstr("64 lower-case hex digits");
  EXPECT_THAT(told([](auto& f) { f.data_digest = std::string(4'000'000, '\1'); }), digests);
  EXPECT_THAT(told([](auto& f) { f.only_ask = false, f.data_digest = ""; }), digests);
  EXPECT_THAT(told([](auto& f) { f.layout_digest = std::string(64, 'A'); }), digests);
  EXPECT_THAT(told([](auto& f) { f.class_names[1] = std::string(257, '\x1b'); }),
              AllOf(HasSubstr("one of its class names has 257 bytes"), HasSubstr("'????")));
  EXPECT_THAT(told([](auto& f) { f.columns.assign(1'000'001, ""); }),
              HasSubstr("its 1000001 columns have 0 bytes"));
  EXPECT_LT(bytes_below(path("state")), 1 << 20);
  EXPECT_LT(server_->err().size(), 20'000u);
}

TEST_F(Bounds, AServerWhoseRunFailedSaysSoByItsExitCode) {
  federate(3, {"--set", "federation.min_replies=4"});
  play([](const Question& question) {
    const bool evaluate = question.task.kind == TaskKind::kEvaluate;
    const auto lost = refused(question.task, fail(Error::kInternal, "lost"));
    EXPECT_TRUE(question.send(evaluate ? question.evaluated() : lost).ok());
  });
  const auto served = wait_for_end();
  EXPECT_EQ(served.code, 1) << served.err;
  EXPECT_THAT(served.err, HasSubstr("no round counted: client d in round 1: lost"));
  EXPECT_TRUE(json("state/summary.json")["failed"].is_string());
}

TEST_F(Bounds, AServerWhoseStateVanishesSaysSoOnceAndStops) {
  federation("fedavg", 1000, "deadline = 60\n");
  make_identities();
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 2; })) << server_->err();
  std::filesystem::rename(path("state"), path("moved"));
  const auto served = server_->wait(std::chrono::seconds(20));
  EXPECT_EQ(served.code, 1) << served.err;
  EXPECT_THAT(served.err, ContainsRegex("state: the state was removed or replaced"));
  // After the last round that it has told of there are few lines.
  const auto last = served.err.rfind("\"event\":\"round\"");
  const auto rest = served.err.substr(last == std::string::npos ? 0 : last);
  EXPECT_LT(std::count(rest.begin(), rest.end(), '\n'), 60) << rest.substr(0, 4000);
  for (auto& [name, client] : clients_) client->signal(SIGTERM);
}

}  // namespace
}  // namespace tessera::testing
