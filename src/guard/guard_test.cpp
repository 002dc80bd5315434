#include "guard/guard.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "base/key.hpp"
#include "guard/frame.hpp"
#include "guard/testing.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::fedavg_parts;
using ::testing::HasSubstr;
using testing::smaller;
using testing::Succeeds;
using testing::trained_part;

constexpr int64_t kNumbers = 300;

Tensor whole_numbers(uint64_t key, int64_t n = kNumbers) {
  Rng rng(key);
  auto out = at::empty({n}, at::kFloat);
  for (int64_t i = 0; i < n; ++i)
    out.data_ptr<float>()[i] = static_cast<float>(rng.below(2001)) - 1000;
  return out;
}

/// FedAvg's messages: a model with buffers, and its weight.
TensorDict a_download() { return {{"w", whole_numbers(1)}, {"b", at::full({40}, 0.1)}}; }
TensorDict an_upload(const Tensor& change) {
  return {{"value.w", a_download()["w"] + change},
          {"value.b", at::full({40}, 0.3)},
          {"weight", at::scalar_tensor(12.0, at::kDouble)}};
}

struct Channel {
  explicit Channel(GuardOptions options, std::shared_ptr<const MessageParts> parts = fedavg_parts())
      : guard(std::move(options), {.parts = std::move(parts)}) {}
  /// Both ends; what arrives.
  Opened carry(const TensorDict& up, const TensorDict& down, uint64_t key = 5) {
    auto sealed = guard.seal(up, down, key, memory);
    EXPECT_THAT(sealed, Succeeds());
    sent = *sealed;
    return guard.open(sent, up, guard.references(down, up));
  }
  Guard guard;
  TensorDict memory, sent;
};

/// What open() says of a sealed upload that was tampered with.
std::string complaint(const GuardOptions& options, const std::function<void(TensorDict&)>& forge) {
  const auto up = an_upload(whole_numbers(2)), down = a_download();
  const Guard guard(options, {.parts = fedavg_parts()});
  TensorDict memory;
  auto sealed = *guard.seal(up, down, 5, memory);
  forge(sealed);
  const auto opened = guard.open(sealed, up, guard.references(down, up));
  return opened.up.ok() ? "accepted" : message(opened.up.status());
}

TEST(Guard, OffItChangesNothing) {
  Channel off({});
  EXPECT_FALSE(off.guard.active());
  const auto up = an_upload(whole_numbers(2)), down = a_download();
  EXPECT_TRUE(off.guard.references(down, up).empty());
  const auto opened = off.carry(up, down);
  EXPECT_EQ(encode(off.sent), encode(up));
  EXPECT_EQ(encode(*opened.up), encode(up));
  EXPECT_EQ(opened.bytes, payload_bytes(up));
  EXPECT_TRUE(off.memory.empty());
}

TEST(Guard, OnlyManyTrainedFloatsBecomeSmaller) {
  MessageParts parts;
  TensorDict up;
  const auto add = [&](const std::string& name, Meaning meaning, const Tensor& tensor) {
    parts.add(name, {.meaning = meaning, .starts = {"x"}});
    up.emplace(name, tensor);
  };
  add("statistic", Meaning::kStatistic, at::full({4, 4}, 1 / 3.0));
  add("open", Meaning::kOpen, at::full({4, 4}, 1 / 3.0));
  add("count", Meaning::kCount, at::scalar_tensor(12.0, at::kDouble));
  add("double", Meaning::kTrained, at::full({100}, 1 / 3.0, at::kDouble));
  add("few", Meaning::kTrained, at::full({15}, 1 / 3.0));
  add("many", Meaning::kTrained, at::full({4, 4}, 1 / 3.0));
  const auto shared = std::make_shared<const MessageParts>(std::move(parts));
  for (const char* how : {"fp16", "int8", "topk"}) {
    Channel channel(smaller(how), shared);
    const auto opened = channel.carry(up, {{"x", at::zeros({4, 4})}, {"y", at::zeros({15})}});
    ASSERT_THAT(opened.up, Succeeds());
    for (const auto& [name, tensor] : up) {
      EXPECT_EQ(channel.sent.contains(name), name != "many") << how << " " << name;
      EXPECT_EQ(at::equal(opened.up->at(name), tensor), name != "many") << how << " " << name;
      EXPECT_EQ(opened.up->at(name).sizes(), tensor.sizes());
    }
  }
}

TEST(Guard, Fp16RoundsTheChangeNotTheModel) {
  // Next to 1000 a half has steps of 0.5; the change of 2^-9 is exact all the same.
  Channel channel(smaller("fp16"));
  const auto change = at::full({kNumbers}, std::ldexp(1.0, -9));
  const auto opened = channel.carry(an_upload(change), a_download());
  ASSERT_THAT(opened.up, Succeeds());
  EXPECT_TRUE(at::equal(opened.up->at("value.w"), a_download()["w"] + change));
  EXPECT_EQ(channel.sent.at("value.w/from").item<int64_t>(), 1);
  EXPECT_EQ(opened.bytes, 2 * kNumbers + 4 * 40) << "half the model, and exact buffers";
}

TEST(Guard, Int8IsWithinAStepAndItsMeanIsRight) {
  const auto change = whole_numbers(3) / 1000;
  const auto up = an_upload(change);
  auto mean = at::zeros({kNumbers}, at::kDouble);
  constexpr int kKeys = 2000;
  for (int key = 0; key < kKeys; ++key) {
    Channel channel(smaller("int8"));
    const auto opened =
        channel.carry(up, {{"w", at::zeros({kNumbers})}}, static_cast<uint64_t>(key));
    const auto& got = opened.up->at("value.w");
    EXPECT_EQ(opened.bytes, kNumbers + 4 * 2 + 4 * 40) << "two blocks, two scales";
    mean += got / kKeys;
    if (key == 0) {
      EXPECT_LE((got - up.at("value.w")).abs().max().item<double>(), 2 * 1000 / 127.0);
    }
  }
  // A step is 8 at most (1001 / 127), so a standard error at most 4 / sqrt(2000).
  EXPECT_LE((mean - up.at("value.w")).abs().max().item<double>(), 5 * 4 / std::sqrt(kKeys));
}

TEST(Guard, TopKSendsTheLargestChangesAndRemembersTheRest) {
  Channel channel(smaller("topk", 0.01));
  auto change = at::zeros({kNumbers});
  change[7] = -5, change[100] = 4, change[200] = 3, change[299] = 2;
  const auto opened = channel.carry(an_upload(change), a_download());
  ASSERT_THAT(opened.up, Succeeds());
  EXPECT_TRUE(at::equal(channel.sent.at("value.w/index"), at::tensor({7, 100, 200}, at::kInt)));
  EXPECT_TRUE(at::equal(channel.sent.at("value.w/value"), at::tensor({-5.0F, 4.0F, 3.0F})));
  EXPECT_EQ(opened.bytes, 3 * 8 + 4 * 40);
  auto arrived = change.clone(), left = at::zeros({kNumbers});
  arrived[299] = 0, left[299] = 2;
  EXPECT_TRUE(at::equal(opened.up->at("value.w"), a_download()["w"] + arrived));
  ASSERT_EQ(channel.memory.size(), 1U);
  EXPECT_TRUE(at::equal(channel.memory.at("value.w"), left));
  // What was left out goes first as soon as it is among the largest.
  const auto second = channel.carry(an_upload(at::zeros({kNumbers})), a_download());
  EXPECT_TRUE(at::equal(second.up->at("value.w"), a_download()["w"] + left));
  EXPECT_TRUE(at::equal(channel.memory.at("value.w"), at::zeros({kNumbers})));
}

// Whole numbers are added without rounding, so the sums must agree exactly.
TEST(Guard, WhatWasSentAndWhatIsRememberedIsWhatWasMeant) {
  Channel channel(smaller("topk", 0.05));
  auto down = a_download();
  auto meant = at::zeros({kNumbers}), arrived = at::zeros({kNumbers});
  for (uint64_t round = 1; round <= 20; ++round) {
    down["w"] = whole_numbers(100 + round);  // others moved the model in between
    const auto change = whole_numbers(round).div(50).round();
    TensorDict up = an_upload(change);
    up["value.w"] = down["w"] + change;
    const auto opened = channel.carry(up, down);
    ASSERT_THAT(opened.up, Succeeds());
    meant += change, arrived += opened.up->at("value.w") - down["w"];
    EXPECT_TRUE(at::equal(arrived + channel.memory.at("value.w"), meant)) << round;
  }
  EXPECT_GT(arrived.abs().sum().item<double>(), 0);
}

TEST(Guard, OfSeveralStartsATensorIsRelativeToTheNearest) {
  const auto model = whole_numbers(1), other = whole_numbers(2), near = model + 1;
  const TensorDict down{
      {"a", other}, {"c", model}, {"d", at::zeros({kNumbers + 1})}, {"e", near.clone()}};
  const auto from = [&](const Tensor& tensor) {
    Channel channel(smaller("topk", 0.5), trained_part("x", {"a", "c", "d"}));
    const auto opened = channel.carry({{"x", tensor}}, down);
    EXPECT_THAT(opened.up, Succeeds());
    return channel.sent.at("x/from").item<int64_t>();
  };
  EXPECT_EQ(from(near), 2);
  EXPECT_EQ(from(other), 1);
  EXPECT_EQ(from(at::full({kNumbers}, 0.01)), 0) << "a gradient is near to nothing";
}

TEST(Guard, TopKLeavesAloneWhatBeganAsNothingThatWasSent) {
  Channel channel(smaller("topk"), trained_part("head", {}));
  const TensorDict up{{"head", whole_numbers(4, 50)}};
  const auto opened = channel.carry(up, a_download());
  EXPECT_EQ(encode(*opened.up), encode(up));
  EXPECT_TRUE(channel.memory.empty());
}

TEST(Guard, AMemoryThatDoesNotFitIsForgotten) {
  Channel channel(smaller("topk"));
  channel.memory = {{"value.w", at::ones({7})}, {"gone", at::ones({kNumbers})}};
  channel.carry(an_upload(at::zeros({kNumbers})), a_download());
  ASSERT_EQ(channel.memory.size(), 1U);
  EXPECT_TRUE(at::equal(channel.memory.at("value.w"), at::zeros({kNumbers})));
}

TEST(Guard, NumbersThatCannotTravelAreRefusedAndCostNoMemory) {
  for (const char* how : {"fp16", "int8", "topk"})
    for (const float bad : {NAN, INFINITY}) {
      auto change = whole_numbers(3);
      change[9] = bad;
      const Guard guard(smaller(how), {.parts = fedavg_parts()});
      TensorDict memory{{"value.w", at::ones({kNumbers})}};
      EXPECT_THAT(guard.seal(an_upload(change), a_download(), 1, memory),
                  FailsWith(Error::kInvalid, "'value.w' is not finite"));
      EXPECT_TRUE(at::equal(memory.at("value.w"), at::ones({kNumbers})));
    }
  auto change = whole_numbers(3);
  change[9] = 1e6;
  TensorDict memory;
  EXPECT_THAT(Guard(smaller("fp16"), {.parts = fedavg_parts()})
                  .seal(an_upload(change), a_download(), 1, memory),
              FailsWith(Error::kInvalid, "'value.w': a number is beyond the 65504"));
}

TEST(Guard, InputsAreNotWrittenTo) {
  for (const char* how : {"fp16", "int8", "topk"}) {
    const auto up = an_upload(whole_numbers(2)), down = a_download();
    const auto before = encode(up), before_down = encode(down);
    Channel channel(smaller(how, 0.1, 1));
    channel.carry(up, down);
    const auto memory = channel.memory;
    const auto before_memory = encode(memory);
    channel.carry(up, down);
    EXPECT_EQ(encode(up), before);
    EXPECT_EQ(encode(down), before_down);
    EXPECT_EQ(encode(memory), before_memory);
  }
}

TEST(Guard, ZstdComesLastAndIsLossless) {
  for (const char* how : {"none", "fp16", "int8", "topk"}) {
    Channel plain(smaller(how)), framed(smaller(how, 0.01, 3));
    EXPECT_TRUE(framed.guard.active());
    const auto up = an_upload(whole_numbers(2).sign()), down = a_download();
    const auto a = plain.carry(up, down), b = framed.carry(up, down);
    EXPECT_TRUE(is_frame(framed.sent));
    EXPECT_EQ(encode(*a.up), encode(*b.up)) << how;
    EXPECT_EQ(a.bytes, b.bytes) << "payload counts before zstd";
    EXPECT_LT(encoded_size(framed.sent), encoded_size(plain.sent));
  }
}

TEST(Guard, HostileUploadsAreRefusedWithAReason) {
  const GuardOptions fp16 = smaller("fp16"), int8 = smaller("int8"), topk = smaller("topk", 0.01);
  const auto put = [](const std::string& name, const Tensor& tensor) {
    return [=](TensorDict& sealed) { sealed["value.w/" + name] = tensor; };
  };
  const auto none = [](TensorDict&) {};
  for (const auto& options : {fp16, int8, topk}) EXPECT_EQ(complaint(options, none), "accepted");
  EXPECT_THAT(complaint(topk, put("index", at::tensor({0, 1, 300}, at::kInt))),
              HasSubstr("'value.w': index 300 is not in 0 … 299"));
  EXPECT_THAT(complaint(topk, put("index", at::tensor({-1, 1, 2}, at::kInt))),
              HasSubstr("index -1"));
  EXPECT_THAT(complaint(topk, put("index", at::tensor({4, 4, 5}, at::kInt))),
              HasSubstr("must ascend"));
  EXPECT_THAT(complaint(topk, put("index", at::tensor({1, 2}, at::kInt))),
              HasSubstr("'value.w/index' is Int [2], expected Int [3]"));
  EXPECT_THAT(complaint(topk, put("index", at::tensor({1, 2, 3}, at::kLong))),
              HasSubstr("is Long [3]"));
  EXPECT_THAT(complaint(topk, put("value", at::ones({4}))), HasSubstr("is Float [4]"));
  EXPECT_THAT(complaint(int8, put("scale", at::tensor({1.0F, -1.0F}))),
              HasSubstr("'value.w': the scale of block 1 is -1"));
  EXPECT_THAT(complaint(int8, put("scale", at::tensor({NAN, 1.0F}))), HasSubstr("is nan"));
  EXPECT_THAT(complaint(int8, put("scale", at::ones({1}))), HasSubstr("expected Float [2]"));
  EXPECT_THAT(complaint(int8, put("int8", at::zeros({299}, at::kChar))),
              HasSubstr("expected Char [300]"));
  EXPECT_THAT(complaint(fp16, put("fp16", at::zeros({kNumbers}))), HasSubstr("expected Half"));
  for (const int64_t from : {-1, 2})
    EXPECT_THAT(complaint(fp16, put("from", at::scalar_tensor(from, at::kLong))),
                HasSubstr(fmt::format("'value.w/from' is {}, there are 1", from)));
  EXPECT_THAT(complaint(fp16, [](TensorDict& s) { s.erase("value.w/from"); }),
              HasSubstr("'value.w/from' is missing"));
  EXPECT_THAT(complaint(fp16, [](TensorDict& s) { s.clear(); }), HasSubstr("is missing"));
  EXPECT_THAT(complaint(fp16, [](TensorDict& s) { s["value.w"] = at::ones({kNumbers}); }),
              HasSubstr("'value.w' comes twice"));
}

TEST(Guard, AnUploadThatIsNoSmallEnoughFrameIsRefused) {
  const GuardOptions options = smaller("topk", 0.01, 3);
  EXPECT_THAT(complaint(options, [](TensorDict& s) { s = an_upload(at::zeros({kNumbers})); }),
              HasSubstr("'guard/zstd' is not there"));
  EXPECT_THAT(complaint(options,
                        [](TensorDict& s) {
                          s = *in_frame({{"value.w", at::zeros({10'000'000})}}, 3);
                        }),
              HasSubstr("the zstd frame announces 40.0 MB"));
  EXPECT_THAT(complaint(smaller("topk"), [](TensorDict& s) { s = *in_frame(s, 3); }),
              HasSubstr("is missing"));
}

TEST(Guard, AMemoryIsKeptApartFromTheMethodsState) {
  TensorDict state{{"guarded", at::ones({1})}, {"a", at::ones({2})}, {"z", at::ones({3})}};
  put_memory(state, {{"value.w", at::ones({4})}, {"head", at::ones({5})}});
  EXPECT_EQ(state.size(), 5U);
  EXPECT_EQ(state.at("guard/value.w").numel(), 4);
  const auto memory = take_memory(state);
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory.at("head").numel(), 5);
  EXPECT_EQ(state.size(), 3U);
  EXPECT_TRUE(take_memory(state).empty());
}

TEST(Guard, AForgedMemoryIsRefused) {
  const Guard topk(smaller("topk"));
  EXPECT_THAT(topk.check_memory({}), Succeeds());
  EXPECT_THAT(topk.check_memory({{"w", at::ones({3})}}), Succeeds());
  EXPECT_THAT(topk.check_memory({{"w", at::ones({3}, at::kDouble)}}),
              FailsWith(Error::kInvalid, "memory of 'w'"));
  EXPECT_THAT(topk.check_memory({{"w", at::full({3}, NAN)}}),
              FailsWith(Error::kInvalid, "memory of 'w'"));
  EXPECT_THAT(Guard(smaller("int8")).check_memory({{"w", at::ones({3})}}),
              FailsWith(Error::kInvalid, "which is off"));
}

}  // namespace
}  // namespace tessera
