#include "engine/client_host.hpp"

#include <cmath>

#include "base/key.hpp"
#include "engine/testing.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::Trio;
using testing::updates;

struct Host : Trio {
  explicit Host(testing::Counting counting = {}, int64_t newcomers = 0, PersonalSink sink = nullptr)
      : Trio(counting, newcomers), host(*session, store, hosted(), std::move(sink)) {}
  ClientStore store;
  ClientHost host;
};

TEST(ClientHost, SaysHelloWithItsNameAndCounts) {
  Host h;
  const auto reply = h.host.handle({.client = 2});
  EXPECT_THAT(reply.status, Succeeds());
  ASSERT_TRUE(reply.hello.has_value());
  EXPECT_EQ(reply.hello->name, "c");
  EXPECT_EQ(reply.hello->train, 3);
  EXPECT_EQ(reply.hello->test, 1);
  EXPECT_THAT(h.host.handle({.client = 7}).status,
              FailsWith(Error::kNotFound, "there is no client 7 here"));
}

TEST(ClientHost, TrainsOnItsOwnStateDownloadAndKey) {
  Host h;
  const auto reply = h.host.handle(h.train(2, 1));
  EXPECT_THAT(reply.status, Succeeds());
  EXPECT_EQ(reply.up.at("seen").item<float>(), 202);  // download 2, state 200
  EXPECT_EQ(reply.up.at("samples").item<int64_t>(), 3);
  EXPECT_EQ(reply.up.at("round").item<int64_t>(), 1);
  EXPECT_EQ(reply.loss, 0.5);
  const auto expected = Rng(derive(9, Purpose::kLocal, 1, 2)).bits() >> 2;
  EXPECT_EQ(reply.up.at("random").item<int64_t>(), static_cast<int64_t>(expected));
}

TEST(ClientHost, TrainsOnOtherDataWhereItIsGivenSome) {
  Trio trio;
  ClientStore store;
  ClientHost host(*trio.session, store, {{0, &trio.data[0], &trio.data[2]}});
  EXPECT_EQ(host.handle(trio.train(0, 1)).up.at("samples").item<int64_t>(), 3);
  EXPECT_EQ(host.handle(trio.evaluate(0, 1)).evaluation->pre_test.n, 4);
}

/// Gives client "c" of a trio, or fails.
struct Elsewhere3 final : ClientSource {
  explicit Elsewhere3(const ClientData& data) : data_(data) {}
  Result<std::shared_ptr<const ClientData>> open(int64_t number) const override {
    ++opened;
    if (number != 3) return fail(Error::kNotFound, "file-{}.npz: no such file", number);
    return std::make_shared<const ClientData>(data_);
  }
  const ClientData& data_;
  mutable int opened = 0;
};

TEST(ClientHost, OpensDataForTheTasksThatNeedThem) {
  Trio trio;
  const auto source = std::make_shared<const Elsewhere3>(trio.data[2]);
  ClientData there, gone;
  there.name = "c", there.elsewhere = {source, 3, {3, 0, 1, 0}};
  gone.name = "gone", gone.elsewhere = {source, 4, {1, 0, 1, 0}};
  ClientStore store;
  ClientHost host(*trio.session, store, {{0, &gone}, {2, &there}});
  EXPECT_EQ(host.handle({.client = 2}).hello->train, 3);
  EXPECT_THAT(host.handle(Trio::settle(2, 1, true)).status, Succeeds());
  EXPECT_EQ(source->opened, 0) << "sizes are known";
  EXPECT_EQ(host.handle(trio.train(2, 1)).up.at("samples").item<int64_t>(), 3);
  EXPECT_EQ(host.handle(trio.evaluate(2, 2)).evaluation->pre_test.n, 1);
  EXPECT_EQ(source->opened, 2);
  EXPECT_THAT(host.handle(trio.train(0, 1)).status,
              FailsWith(Error::kNotFound, "client gone: file-4.npz: no such file"));
}

TEST(ClientHost, KeepsStepsOfAnEvaluationAsFarAsTheyFit) {
  for (const auto& [bytes, expected] : {std::pair{int64_t{1} << 20, 1}, {int64_t{0}, 2}}) {
    std::atomic<int> steps{0};
    Host h(testing::Counting{&steps});
    h.host.limit_kept(bytes);
    auto task = h.evaluate(2, 1);
    task.keep_step = true;
    const auto evaluated = h.host.handle(task);
    const auto trained = h.host.handle(h.train(2, 1));
    EXPECT_EQ(steps, expected);
    EXPECT_EQ(trained.up.at("seen").item<float>(), 202);
  }
}

TEST(ClientHost, ANewStateWaitsForTheServersWord) {
  Host h;
  h.host.handle(h.train(0, 1));
  EXPECT_EQ(updates(h.store, 0), -1) << "not settled yet";
  EXPECT_THAT(h.host.handle(Trio::settle(0, 1, true)).status, Succeeds());
  EXPECT_EQ(updates(h.store, 0), 1);
  h.host.handle(h.train(0, 2));
  h.host.handle(Trio::settle(0, 2, false));
  EXPECT_EQ(updates(h.store, 0), 1) << "rolled back";
}

TEST(ClientHost, SettlingMayBeRepeatedAndNamesRoundAndAttempt) {
  Host h;
  h.host.handle(h.train(0, 1, 1));
  h.host.handle(h.train(0, 1, 2));  // the server asked again
  EXPECT_THAT(h.host.handle(Trio::settle(0, 1, true, 1)).status, Succeeds());
  EXPECT_EQ(updates(h.store, 0), -1) << "of an attempt that no longer waits";
  h.host.handle(Trio::settle(0, 2, true, 2));
  EXPECT_EQ(updates(h.store, 0), -1) << "of another round";
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(h.host.handle(Trio::settle(0, 1, true, 2)).status, Succeeds());
    EXPECT_EQ(updates(h.store, 0), 1);
  }
  h.host.handle(Trio::settle(0, 1, false, 2));
  EXPECT_EQ(updates(h.store, 0), 1) << "what is settled stays settled";
}

TEST(ClientHost, AFailedUpdateLeavesNothingNewBehind) {
  Host h;
  const auto reply = h.host.handle(h.train(1, 2));
  EXPECT_THAT(reply.status,
              FailsWith(Error::kInternal, "method counting, round 2, train, client bad: it broke"));
  EXPECT_EQ(reply.client, 1);
  EXPECT_TRUE(reply.up.empty());
  h.host.handle(Trio::settle(1, 2, true));
  EXPECT_EQ(updates(h.store, 1), -1);
}

TEST(ClientHost, ADownloadThatIsNoneIsABadReply) {
  Host h;
  auto task = h.train(0, 1);
  task.down = {{"other", at::zeros({1})}};
  EXPECT_THAT(h.host.handle(task).status, FailsWith(Error::kInternal, "client a: "));
}

TEST(ClientHost, RestoredStatesAreCheckedAndUsed) {
  Host h;
  EXPECT_THAT(h.host.restore(1, {{"other", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "the state of client bad is none of method counting"));
  EXPECT_THAT(h.host.restore(5, {}), FailsWith(Error::kInvalid, "no client 5"));
  EXPECT_THAT(h.host.restore(1, pack(testing::Counting::Client{41})), Succeeds());
  EXPECT_EQ(h.host.handle(h.train(1, 1)).up.at("seen").item<float>(), 43);
  EXPECT_TRUE(h.store.changed().empty()) << "it is in the checkpoint already";
}

TEST(ClientHost, EvaluationMeasuresBothViewsAndChangesNoState) {
  Host h;
  const auto out = *h.host.handle(h.evaluate(0, 1)).evaluation;
  // A weight of 2 predicts class 0; three of the four samples of client 0 are of it.
  EXPECT_EQ(out.pre_test.n, 4);
  EXPECT_EQ(out.pre_test.correct, 3);
  EXPECT_EQ(out.post_test.correct, 1);
  EXPECT_EQ(out.pre_val.n, 1);
  const double right = std::log1p(std::exp(-4.0)), wrong = right + 4;
  EXPECT_NEAR(out.pre_test.loss, (3 * right + wrong) / 4, 1e-6);
  EXPECT_FALSE(out.global_test.has_value());
  EXPECT_TRUE(h.store.ids().empty());

  auto with_global = h.evaluate(1, 1);
  with_global.global = Weights{at::tensor({-1.0F}), at::empty({0})};
  const auto other = *h.host.handle(with_global).evaluation;
  EXPECT_EQ(other.global_test->correct, 0);
  EXPECT_EQ(other.pre_test.correct, 1);
}

TEST(ClientHost, OnlyTheLastEvaluationHandsOutModels) {
  std::vector<View> seen;
  Host h({}, 0, [&](const ShownModel& shown) {
    const bool pre = shown.view == View::kPre;
    EXPECT_EQ(shown.val.n, 1);
    EXPECT_EQ(shown.test.correct, pre ? 3 : 1) << "of four samples, one of class 1";
    seen.push_back(shown.view);
    EXPECT_EQ(shown.personal.weights->w.item<float>(), pre ? 2 : -2);
    return fail(Error::kIo, "disk full");
  });
  auto task = h.evaluate(0, 1);
  EXPECT_THAT(h.host.handle(task).status, Succeeds());
  EXPECT_TRUE(seen.empty());
  task.last = true, task.round = 6;
  EXPECT_THAT(h.host.handle(task).status, FailsWith(Error::kIo, "disk full"));
  EXPECT_EQ(seen, (std::vector{View::kPre, View::kPost}));
}

TEST(ClientHost, OnlyTheLastEvaluationSaysWhatWasTakenForWhat) {
  Host h;
  auto task = h.evaluate(0, 1);
  EXPECT_FALSE(h.host.handle(task).evaluation->pre_confusion.has_value());
  task.last = true, task.round = 6;
  // The pre view takes all four for class 0, the post view for class 1.
  const auto out = *h.host.handle(task).evaluation;
  EXPECT_EQ(out.pre_confusion, (Confusion{2, {3, 0, 1, 0}}));
  EXPECT_EQ(out.post_confusion, (Confusion{2, {0, 3, 0, 1}}));
}

TEST(ClientHost, AKeptStepAnswersTheSameTaskOnce) {
  std::atomic<int> steps = 0;
  Host h({&steps});
  auto evaluation = h.evaluate(0, 1);
  evaluation.keep_step = true;
  h.host.handle(evaluation);
  EXPECT_EQ(steps, 1);
  const auto reply = h.host.handle(h.train(0, 1));
  EXPECT_EQ(steps, 1) << "computed before";
  EXPECT_EQ(reply.up.at("seen").item<float>(), 2);
  h.host.handle(Trio::settle(0, 1, true));
  EXPECT_EQ(updates(h.store, 0), 1);
  h.host.handle(h.train(0, 1));
  EXPECT_EQ(steps, 2) << "used once";
}

TEST(ClientHost, AKeptStepAnswersNoOtherTask) {
  const auto steps_of = [](const std::function<void(Host&, Task&)>& change) {
    std::atomic<int> steps = 0;
    Host h({&steps});
    auto evaluation = h.evaluate(0, 1);
    evaluation.keep_step = true;
    h.host.handle(evaluation);
    auto task = h.train(0, 1);
    change(h, task);
    steps = 0;
    h.host.handle(task);
    return steps.load();
  };
  EXPECT_EQ(steps_of([](Host&, Task&) {}), 0);
  EXPECT_EQ(steps_of([](Host&, Task& task) { task.round = 3; }), 1);
  EXPECT_EQ(steps_of([](Host&, Task& task) { task.down["w"] = at::tensor({3.0F}); }), 1);
  // The same bytes at another place, as they come from a wire.
  EXPECT_EQ(steps_of([](Host&, Task& task) { task.down["w"] = at::tensor({2.0F}); }), 0);
  // Another state: round 5 was settled in between.
  EXPECT_EQ(steps_of([](Host& h, Task& task) {
              auto evaluation = h.evaluate(0, 1);
              evaluation.keep_step = true;
              h.host.handle(h.train(0, 5));
              h.host.handle(evaluation);
              h.host.handle(Trio::settle(0, 5, true));
              task = h.train(0, 1);
            }),
            1);
}

TEST(ClientHost, ANewcomerIsAStrangerAtEveryOnboarding) {
  const testing::TrioWithGuest h;
  ClientStore store;
  ClientHost host(*h.session, store, h.hosted());
  const auto join = [&](int64_t exchange) {
    auto task = h.train(2, 4, exchange);
    task.kind = TaskKind::kJoin;
    auto reply = host.handle(task);
    host.handle(Trio::settle(2, 4, true, exchange));
    return reply.up;
  };
  EXPECT_EQ(join(1).at("seen").item<float>(), 202);
  const auto second = join(2);
  EXPECT_EQ(second.at("seen").item<float>(), 203) << "goes on from its first exchange";
  const auto key = derive(derive(9, Purpose::kLocal, 4, 2), 2);
  EXPECT_EQ(second.at("random").item<int64_t>(), static_cast<int64_t>(Rng(key).bits() >> 2));
  EXPECT_EQ(join(1).at("seen").item<float>(), 202) << "begins anew";
  host.handle(h.evaluate(2, 4));
  EXPECT_TRUE(store.ids().empty()) << "and leaves nothing behind";
}

}  // namespace
}  // namespace tessera
