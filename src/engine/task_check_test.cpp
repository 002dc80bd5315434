#include "engine/task_check.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/key.hpp"
#include "engine/task_ledger.hpp"
#include "engine/testing.hpp"
#include "guard/frame.hpp"
#include "io/file.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;
using testing::Trio;
using testing::updates;

/// A trio whose client 2 is a newcomer, behind these guards.
Session guarded(const Trio& trio, const GuardOptions& options) {
  return trio.session->with_guard(
      Guard(options, {.parts = trio.session->method().parts(), .clients = 2}));
}

GuardOptions secure() {
  GuardOptions out;
  out.secure.emplace();
  return out;
}

Task join(ClientId id, int64_t round = 1, int64_t exchange = 1) {
  return {.client = id, .kind = TaskKind::kJoin, .round = round, .attempt = exchange};
}

TEST(TaskCheck, RoundsAndAttemptsAreThoseOfTheExperiment) {
  const Trio trio;  // five rounds
  const auto& session = *trio.session;
  for (const int64_t round : {1, 5})
    EXPECT_THAT(check_task(session, trio.train(0, round), 5), Succeeds());
  for (const int64_t round : {-1, 0, 6, 1000})
    EXPECT_THAT(check_task(session, trio.train(0, round), 5),
                FailsWith(Error::kInvalid, "this experiment has 1 to 5"));
  EXPECT_THAT(check_task(session, trio.train(0, 1, 0), 5), FailsWith(Error::kInvalid, "attempt 0"));
  EXPECT_THAT(check_task(session, trio.evaluate(0, 6), 5), Succeeds());
  EXPECT_THAT(check_task(session, trio.evaluate(0, 7), 5), FailsWith(Error::kInvalid, "1 to 6"));
  auto last = trio.evaluate(0, 5);
  last.last = true;
  EXPECT_THAT(check_task(session, last, 5), FailsWith(Error::kInvalid, "not the last of 5 rounds"));
}

TEST(TaskCheck, KindsAreForThoseWhomTheyAreFor) {
  const Trio trio({}, 1);
  const auto& session = *trio.session;
  EXPECT_THAT(check_task(session, join(0), 5), FailsWith(Error::kInvalid, "it is no newcomer"));
  EXPECT_THAT(check_task(session, trio.train(2, 1), 5),
              FailsWith(Error::kInvalid, "newcomers do not train"));
  // Counting knows no exchanges.
  EXPECT_THAT(check_task(session, join(2), 5),
              FailsWith(Error::kInvalid, "no exchange with newcomers"));
  const Task guard{.client = 0, .kind = TaskKind::kGuard, .round = 1, .attempt = 1};
  EXPECT_THAT(check_task(session, guard, 5), FailsWith(Error::kInvalid, "no secure aggregation"));
  EXPECT_THAT(check_task(guarded(trio, secure()), guard, 5), Succeeds());
}

TEST(TaskCheck, AJoinTouchesNoStateOfAnOrdinaryClient) {
  const Trio trio;
  ClientStore store;
  ClientHost host(*trio.session, store, trio.hosted());
  ASSERT_THAT(host.handle(trio.train(0, 1)).status, Succeeds());
  ASSERT_THAT(host.handle(Trio::settle(0, 1, true)).status, Succeeds());
  ASSERT_EQ(updates(store, 0), 1);
  auto task = join(0, 2);
  task.down = trio.down;
  const auto reply = host.handle(task);
  EXPECT_THAT(reply.status, FailsWith(Error::kInvalid, "it is no newcomer"));
  EXPECT_TRUE(reply.up.empty());
  EXPECT_EQ(updates(store, 0), 1);
}

TEST(DownloadForms, OtherFieldsTypesAndShapesAreNamed) {
  const Trio trio;
  const DownloadForms forms(*trio.session, 0);
  EXPECT_EQ(forms.open(trio.train(0, 1))->size(), 2);
  auto task = trio.train(0, 1);
  task.down["w"] = at::zeros({2});
  EXPECT_THAT(forms.open(task), FailsWith(Error::kInvalid, "'w'"));
  task.down["w"] = at::zeros({1}, at::kDouble);
  EXPECT_THAT(forms.open(task), FailsWith(Error::kInvalid, "'w'"));
  task.down = trio.down;
  task.down["more"] = at::zeros({1});
  EXPECT_THAT(forms.open(task), FailsWith(Error::kInvalid, "'more'"));
  task.down = {};
  EXPECT_THAT(forms.open(task), FailsWith(Error::kInvalid, "'w' is missing"));
}

TEST(DownloadForms, AFrameIsOpenedOnlyAsFarAsTheMethodNeeds) {
  const Trio trio;
  const DownloadForms forms(*trio.session, 0);
  auto task = trio.train(0, 1);
  task.down = *in_frame(trio.down, 3);
  EXPECT_EQ(forms.open(task)->at("w").item<float>(), 2.0F);
  // 64 MiB of zeros in a few kilobytes, where eight bytes are expected.
  task.down = *in_frame({{"w", at::zeros({int64_t{16} << 20})}, {"b", at::empty({0})}}, 3);
  ASSERT_LT(task.down.begin()->second.nbytes(), 100'000);
  EXPECT_THAT(forms.open(task), FailsWith(Error::kInvalid, "zstd frame announces"));
}

/// Tickets as a server would give them: one for each different task.
std::string ticket(const Task& task) {
  return std::to_string(static_cast<int>(task.kind)) + "/" + std::to_string(task.round) + "/" +
         std::to_string(task.attempt) + "/" +
         (task.down.contains("w") ? std::to_string(task.down.at("w").sum().item<float>()) : "");
}

// Whatever the bytes of a task say: what gets through is a task that the run can have. More than
// the usual number: TESSERA_MUTATIONS.
TEST(TaskCheck, NoMutatedTaskThatGetsThroughIsNoneOfTheRun) {
  const auto* asked = std::getenv("TESSERA_MUTATIONS");
  const int64_t count = asked ? std::atoll(asked) : 3000;
  const Trio trio({}, 1);
  const auto session = guarded(trio, secure());
  const DownloadForms forms(session, 0);
  auto framed = trio.train(0, 3);
  framed.down = *in_frame(trio.down, 3);
  std::vector<Bytes> seeds;
  for (const auto& task : {trio.train(0, 1), trio.evaluate(0, 2), Trio::settle(0, 1, true), join(2),
                           framed, Task{.kind = TaskKind::kGuard, .round = 1, .attempt = 1}})
    seeds.push_back(encode_task(task));
  int64_t decoded = 0, passed = 0;
  Rng rng(27);
  for (int64_t i = 0; i < count; ++i) {
    auto bytes = seeds[rng.below(seeds.size())];
    for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
      const auto at = rng.below(bytes.size());
      if (rng.below(8) == 0)
        bytes.resize(at + 1);
      else if (rng.below(3) == 0)
        bytes[at] = static_cast<uint8_t>('0' + rng.below(10));
      else
        bytes[at] ^= static_cast<uint8_t>(1U << rng.below(8));
    }
    const auto task = decode_task(std::make_shared<const Bytes>(std::move(bytes)));
    if (!task.ok()) continue;
    ++decoded;
    if (!check_task(session, *task, 5).ok()) continue;
    if (task->kind == TaskKind::kTrain || task->kind == TaskKind::kEvaluate) {
      const auto down = forms.open(*task);
      if (!down.ok()) continue;
      EXPECT_EQ(down->at("w").sizes(), at::IntArrayRef{1});
      EXPECT_GE(task->round, 1);
      EXPECT_LE(task->round, task->kind == TaskKind::kTrain ? 5 : 6);
    }
    EXPECT_NE(task->kind, TaskKind::kJoin) << "behind secure aggregation nobody introduces itself";
    ++passed;
  }
  EXPECT_GT(decoded, count / 50);
  EXPECT_GT(passed, 0);
  EXPECT_LT(passed, decoded);
}

class Ledger : public ::testing::Test {
 protected:
  TaskLedger open() { return *TaskLedger::open(dir_.file("tasks.json"), session_); }
  Task other(Task task) const {
    task.down["w"] = at::tensor({3.0F});
    return task;
  }
  TempDir dir_;
  Trio trio_;
  Session session_ = *trio_.session;
};

TEST_F(Ledger, ARoundIsTrainedOnceAndRoundsRise) {
  auto ledger = open();
  const auto begin = [&](const Task& task) { return ledger.begin(task, ticket(task)); };
  EXPECT_THAT(begin(trio_.train(0, 2)), Succeeds());
  EXPECT_THAT(begin(trio_.train(0, 2)), Succeeds());  // after a kill
  EXPECT_THAT(begin(other(trio_.train(0, 2))), FailsWith(Error::kInvalid, "another download"));
  EXPECT_THAT(begin(trio_.train(0, 2, 2)), FailsWith(Error::kInvalid, "attempt 2"));
  EXPECT_THAT(begin(trio_.train(0, 1)), FailsWith(Error::kInvalid, "trained in round 2 since"));
  EXPECT_THAT(ledger.settled(Trio::settle(0, 2, true)), Succeeds());
  EXPECT_THAT(begin(trio_.train(0, 2)), FailsWith(Error::kInvalid, "the round is settled"));
  EXPECT_THAT(begin(trio_.train(0, 3)), Succeeds());
}

TEST_F(Ledger, ARestartForgetsNothing) {
  {
    auto ledger = open();
    ASSERT_THAT(ledger.begin(trio_.train(0, 2), ticket(trio_.train(0, 2))), Succeeds());
    ASSERT_THAT(ledger.begin(trio_.evaluate(0, 3), ticket(trio_.evaluate(0, 3))), Succeeds());
  }
  auto ledger = open();
  const auto begin = [&](const Task& task) { return ledger.begin(task, ticket(task)); };
  EXPECT_THAT(begin(other(trio_.train(0, 2))), FailsWith(Error::kInvalid, "another download"));
  EXPECT_THAT(begin(trio_.train(0, 2)), Succeeds());
  EXPECT_THAT(begin(trio_.evaluate(0, 3)), Succeeds());
  EXPECT_THAT(begin(other(trio_.evaluate(0, 3))), FailsWith(Error::kInvalid, "another content"));
  EXPECT_THAT(begin(trio_.evaluate(0, 2)), FailsWith(Error::kInvalid, "another content"));
  EXPECT_THAT(begin(trio_.evaluate(0, 4)), Succeeds());
}

TEST_F(Ledger, AnUploadThatWasMaskedIsNotMadeAgain) {
  session_ = guarded(trio_, secure());
  Task masking{.client = 0, .kind = TaskKind::kGuard, .round = 2, .attempt = 1};
  masking.down["shares"] = at::zeros({1}, at::kByte);
  {
    auto ledger = open();
    EXPECT_THAT(ledger.begin(masking, "m"),
                FailsWith(Error::kInvalid, "not trained in that round"));
    ASSERT_THAT(ledger.begin(trio_.train(0, 2), "t"), Succeeds());
    ASSERT_THAT(ledger.begin(masking, "m"), Succeeds());
  }
  auto ledger = open();
  EXPECT_THAT(ledger.begin(trio_.train(0, 2), "t"), FailsWith(Error::kInvalid, "no second sum"));
  EXPECT_THAT(ledger.begin(trio_.train(0, 3), "u"), Succeeds());
}

TEST_F(Ledger, OneUploadIsNotToldWithTwoNoises) {
  GuardOptions options;
  options.dp.emplace().entropy = "system";
  // Each upload has noise of its own where the server needs each.
  session_ = trio_.session->with_guard(
      Guard(options, {.parts = trio_.session->method().parts(), .sums = false, .clients = 3}));
  auto ledger = open();
  ASSERT_THAT(ledger.begin(trio_.train(0, 1), "t"), Succeeds());
  EXPECT_THAT(ledger.begin(trio_.train(0, 1), "t"), FailsWith(Error::kInvalid, "two noises"));
}

TEST_F(Ledger, ADamagedFileIsNotTakenForABeginning) {
  for (const char* text : {"", "{}", "[1]", R"({"format": 2})", R"({"format": 1, "trained": 3})"}) {
    ASSERT_THAT(write_file_atomic(dir_.file("tasks.json"), bytes_of(text)), Succeeds());
    EXPECT_THAT(TaskLedger::open(dir_.file("tasks.json"), session_).status(),
                FailsWith(Error::kInvalid, "tasks.json"));
  }
}

}  // namespace
}  // namespace tessera
