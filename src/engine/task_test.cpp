#include "engine/task.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/key.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;

std::shared_ptr<const Bytes> shared(Bytes bytes) {
  return std::make_shared<const Bytes>(std::move(bytes));
}

Task full_task() {
  return {.client = 12,
          .kind = TaskKind::kEvaluate,
          .round = 7,
          .attempt = 3,
          .down = {{"w", at::tensor({1.0F, -2.5F})}, {"n", at::scalar_tensor(4, at::kLong)}},
          .global = Weights{at::tensor({0.5F}), at::empty({0})},
          .keep_step = true,
          .last = true};
}

Reply full_reply() {
  Reply out;
  out.client = 12, out.kind = TaskKind::kEvaluate, out.round = 7, out.attempt = 3;
  out.loss = 0.1, out.cpu_seconds = 2.5;
  Evaluation e{.client = 12};
  e.pre_test = {4, 3, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
  e.post_test = {4, 1, std::nan(""), 0.2, 0.3, 0.4, 0.5, std::nan(""), 0.7};
  e.global_test = ClientMetrics{4, 2, 1e-300, 0, 0, 0};
  e.pre_confusion = {2, {2, 1, 0, 1}}, e.post_confusion = {2, {0, 3, 0, 1}};
  e.global_val = ClientMetrics{};
  e.notes = {{"a", at::tensor({9.0})}};
  out.evaluation = e;
  return out;
}

Reply introduction() {
  Reply out;
  out.client = 12;
  out.hello = {"ward 7/α", 1, 2, 3, 4};
  return out;
}

Reply answer_with_upload() {
  Reply out;
  out.client = 12, out.kind = TaskKind::kTrain, out.round = 7, out.attempt = 3;
  out.up = {{"w", at::tensor({1.0F, 3.0F})}};
  return out;
}

TEST(Task, SurvivesItsBytes) {
  const auto back = decode_task(shared(encode_task(full_task())));
  ASSERT_TRUE(back.ok()) << message(back.status());
  EXPECT_EQ(encode_task(*back), encode_task(full_task()));
  EXPECT_EQ(back->client, 12);
  EXPECT_EQ(back->kind, TaskKind::kEvaluate);
  EXPECT_EQ(back->attempt, 3);
  EXPECT_TRUE(back->keep_step && back->last && !back->accepted);
  EXPECT_TRUE(back->down.at("w").equal(at::tensor({1.0F, -2.5F})));
  EXPECT_EQ(back->global->w.item<float>(), 0.5F);
  for (const auto kind :
       {TaskKind::kHello, TaskKind::kTrain, TaskKind::kJoin, TaskKind::kSettle, TaskKind::kGuard}) {
    const bool accepted = kind == TaskKind::kSettle;
    Task task{.client = 1, .kind = kind, .accepted = accepted};
    const auto one = decode_task(shared(encode_task(task)));
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(one->kind, kind);
    EXPECT_EQ(one->accepted, accepted);
    EXPECT_FALSE(one->global.has_value());
  }
}

TEST(Reply, SurvivesItsBytesBitForBit) {
  const auto back = decode_reply(shared(encode_reply(full_reply())));
  ASSERT_TRUE(back.ok()) << message(back.status());
  EXPECT_EQ(encode_reply(*back), encode_reply(full_reply()));
  EXPECT_EQ(back->loss, 0.1);
  EXPECT_EQ(back->evaluation->pre_test.loss, 0.1);
  EXPECT_TRUE(std::isnan(back->evaluation->post_test.loss));
  EXPECT_EQ(back->evaluation->global_test->loss, 1e-300);
  EXPECT_EQ(back->evaluation->pre_test.balanced_accuracy, 0.5);
  EXPECT_EQ(back->evaluation->pre_test.auroc, 0.6);
  EXPECT_EQ(back->evaluation->pre_test.ece, 0.7);
  EXPECT_TRUE(std::isnan(back->evaluation->post_test.auroc));
  EXPECT_EQ(back->evaluation->pre_confusion, full_reply().evaluation->pre_confusion);
  EXPECT_EQ(back->evaluation->post_confusion->at(0, 1), 3);
  EXPECT_FALSE(back->hello);
  const auto hello = decode_reply(shared(encode_reply(introduction())));
  ASSERT_TRUE(hello.ok()) << message(hello.status());
  EXPECT_EQ(hello->hello->name, "ward 7/α");
  EXPECT_EQ(hello->hello->support, 4);
  const auto upload = decode_reply(shared(encode_reply(answer_with_upload())));
  ASSERT_TRUE(upload.ok()) << message(upload.status());
  EXPECT_TRUE(upload->up.at("w").equal(at::tensor({1.0F, 3.0F})));
  const auto refusal =
      decode_reply(shared(encode_reply(refused(full_task(), fail(Error::kBusy, "no time")))));
  ASSERT_TRUE(refusal.ok());
  EXPECT_THAT(refusal->status, FailsWith(Error::kBusy, "no time"));
  EXPECT_EQ(refusal->round, 7);
}

TEST(Messages, SayWhatIsWrongWithThem) {
  const auto task = [](Metadata meta, TensorDict tensors = {}) {
    return decode_task(shared(encode(tensors, meta))).status();
  };
  const Metadata good{
      {"client", "1"}, {"kind", "train"}, {"round", "1"}, {"attempt", "1"}, {"flags", "0"}};
  const auto with = [&](const std::string& key, const std::string& value) {
    auto out = good;
    out[key] = value;
    return out;
  };
  EXPECT_TRUE(task(good).ok());
  EXPECT_THAT(task({}), FailsWith(Error::kInvalid, "task: 'client' is missing"));
  EXPECT_THAT(task(with("client", "-1")),
              FailsWith(Error::kInvalid, "'client' is no whole number"));
  EXPECT_THAT(task(with("kind", "stop")), FailsWith(Error::kInvalid, "'kind' is 'stop'"));
  EXPECT_THAT(task(with("flags", "8")), FailsWith(Error::kInvalid, "'flags' is 8"));
  EXPECT_THAT(task(with("flags", "1")),
              FailsWith(Error::kInvalid, "'flags' is 1 in a task of kind 'train'"));
  EXPECT_THAT(task(with("kind", "settle"), {{"down/w", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "'down/w' is not expected"));
  EXPECT_THAT(task(good, {{"global/w", at::zeros({1})}, {"global/b", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "'global/b' is not expected"));
  EXPECT_THAT(task(with("x", "1")), FailsWith(Error::kInvalid, "'x' is not expected"));
  EXPECT_THAT(task(good, {{"up/w", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "'up/w' is not expected"));
  EXPECT_THAT(task(with("kind", "evaluate"), {{"global/w", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "'b' is missing"));
  auto reply = full_reply();
  auto tensors = (*decode(shared(encode_reply(reply)), "reply")).tensors;
  auto meta = (*decode(shared(encode_reply(reply)), "reply")).metadata;
  tensors["metrics"] = at::zeros({5, 9}, at::kDouble);
  EXPECT_THAT(decode_reply(shared(encode(tensors, meta))).status(),
              FailsWith(Error::kInvalid, "'metrics' has 5 rows"));
  tensors["metrics"] = at::zeros({4, 9});
  EXPECT_THAT(decode_reply(shared(encode(tensors, meta))).status(),
              FailsWith(Error::kInvalid, "'metrics' is missing or misshapen"));
  // Counts that are none: a cast of them to a whole number would mean nothing.
  for (const double count : {-1.0, 0.5, 1e300, std::nan("")}) {
    tensors["metrics"] = at::zeros({4, 9}, at::kDouble);
    tensors["metrics"][2][0] = count;
    EXPECT_THAT(decode_reply(shared(encode(tensors, meta))).status(),
                FailsWith(Error::kInvalid, "row 2 of 'metrics' counts 0 of"));
  }
  tensors["metrics"] = at::zeros({4, 9}, at::kDouble);
  tensors["metrics"][0][1] = 1;
  EXPECT_THAT(decode_reply(shared(encode(tensors, meta))).status(),
              FailsWith(Error::kInvalid, "row 0 of 'metrics' counts 1 of 0"));
  tensors.erase("metrics");
  EXPECT_THAT(decode_reply(shared(encode(tensors, meta))).status(),
              FailsWith(Error::kInvalid, "'metrics' is missing"));
  // A reply has what its kind has, and nothing of another.
  auto other = answer_with_upload();
  other.kind = TaskKind::kSettle;
  EXPECT_THAT(decode_reply(shared(encode_reply(other))).status(),
              FailsWith(Error::kInvalid, "'up/w' is not expected"));
  other = full_reply(), other.kind = TaskKind::kTrain;
  EXPECT_THAT(decode_reply(shared(encode_reply(other))).status(),
              FailsWith(Error::kInvalid, "'confusion/post' is not expected"));
  other.evaluation->pre_confusion.reset(), other.evaluation->post_confusion.reset();
  EXPECT_THAT(decode_reply(shared(encode_reply(other))).status(),
              FailsWith(Error::kInvalid, "'metrics' is not expected"));
  other = introduction(), other.kind = TaskKind::kTrain;
  EXPECT_THAT(decode_reply(shared(encode_reply(other))).status(),
              FailsWith(Error::kInvalid, "'name' is not expected"));
}

TEST(Messages, ConfusionsMustBeWhatTheMetricsCount) {
  const auto whole = *decode(shared(encode_reply(full_reply())), "reply");
  const auto with = [&](const char* name, const Tensor& value) {
    auto tensors = whole.tensors;
    tensors.erase(name);
    if (value.defined()) tensors.emplace(name, value);
    return decode_reply(shared(encode(tensors, whole.metadata))).status();
  };
  const auto counts = [](std::vector<int64_t> n) { return at::tensor(n, at::kLong).view({2, 2}); };
  EXPECT_TRUE(with("confusion/pre", counts({3, 0, 1, 0})).ok()) << "3 of 4, in another way";
  for (const auto& value :
       {Tensor(), at::zeros({2, 2}), at::zeros({4}, at::kLong), at::zeros({2, 3}, at::kLong),
        at::zeros({0, 0}, at::kLong), at::zeros({101, 101}, at::kLong)})
    EXPECT_THAT(with("confusion/post", value),
                FailsWith(Error::kInvalid, "'confusion/post' is missing or misshapen"));
  for (const int64_t n : {int64_t{-1}, int64_t{5}, std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()})
    EXPECT_THAT(with("confusion/pre", counts({n, 1, 0, 1})),
                FailsWith(Error::kInvalid, "'confusion/pre' does not count 4 samples"));
  EXPECT_THAT(with("confusion/pre", counts({2, 0, 0, 1})),
              FailsWith(Error::kInvalid, "3 of 3 samples as correct where 'metrics' has 3 of 4"));
  EXPECT_THAT(with("confusion/pre", counts({2, 2, 0, 0})),
              FailsWith(Error::kInvalid, "counts 2 of 4 samples as correct"));
  auto three = at::zeros({3, 3}, at::kLong);
  three[0][0] = 3, three[0][2] = 1;
  EXPECT_THAT(with("confusion/pre", three), FailsWith(Error::kInvalid, "differ in their classes"));
}

// Whatever a peer sends is an error or a message that encodes again; never a crash.
TEST(Messages, MutatedBytesDoNoHarm) {
  int64_t accepted = 0;
  for (const auto& whole : {encode_task(full_task()), encode_reply(full_reply()),
                            encode_reply(introduction()), encode_reply(answer_with_upload())}) {
    for (int64_t i = 0; i < 4000; ++i) {
      Rng rng(derive(5, i));
      auto bytes = whole;
      for (uint64_t change = 0; change <= rng.below(3); ++change)
        bytes[rng.below(bytes.size())] = static_cast<uint8_t>(rng.bits());
      if (rng.below(8) == 0) bytes.resize(rng.below(bytes.size()));
      if (const auto task = decode_task(shared(bytes)); task.ok()) encode_task(*task), ++accepted;
      if (const auto reply = decode_reply(shared(bytes)); reply.ok())
        encode_reply(*reply), ++accepted;
    }
  }
  EXPECT_GT(accepted, 0) << "some mutations only change numbers";
}

}  // namespace
}  // namespace tessera
