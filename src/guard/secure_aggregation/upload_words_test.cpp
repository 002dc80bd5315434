#include "guard/secure_aggregation/upload_words.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "guard/testing.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::fedavg_parts;
using testing::Succeeds;

TensorDict upload(std::vector<float> w, double weight) {
  return {{"value.b", at::empty({0})},
          {"value.w", at::tensor(w)},
          {"weight", at::scalar_tensor(weight, at::kDouble)}};
}

uint64_t word(double value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }

// By hand, with 8 places and weights up to 4: 1.5 · 3/4 · 256 = 288, −2 · 3/4 · 256 = −384.
TEST(UploadWords, AreFixedPointByNameThenWeightThenLoss) {
  const WordScale scale{.guard = {.range = 16, .bits = 8}, .exponent = 2, .clients = 3};
  const auto words = to_words(upload({1.5F, -2.0F}, 3), *fedavg_parts(), 0.25, scale);
  ASSERT_THAT(words, Succeeds());
  EXPECT_THAT(*words, ::testing::ElementsAre(word(288), word(-384), word(3 * 256), word(64)));
  EXPECT_EQ(upload_words(upload({1.5F, -2.0F}, 3), *fedavg_parts()), 4U);
}

TEST(UploadWords, TheirSumIsTheWeightedMean) {
  const WordScale scale{.guard = {}, .exponent = 5, .clients = 3};
  const std::vector<std::vector<float>> w{{0.25F, -3}, {1, 100}, {-0.125F, 0}};
  const std::vector<double> weights{24, 7, 1}, losses{0.5, 2, -1};
  std::vector<uint64_t> sum(4);
  for (size_t i = 0; i < 3; ++i) {
    const auto words = to_words(upload(w[i], weights[i]), *fedavg_parts(), losses[i], scale);
    ASSERT_THAT(words, Succeeds());
    for (size_t k = 0; k < 4; ++k) sum[k] += (*words)[k];
  }
  const auto form = upload({0, 0}, 0);
  const auto mean = from_words(sum, form, *fedavg_parts(), scale);
  ASSERT_THAT(mean, Succeeds());
  EXPECT_NEAR(mean->mean.at("value.w")[0].item<double>(), (24 * 0.25 + 7 - 0.125) / 32, 1e-7);
  EXPECT_NEAR(mean->mean.at("value.w")[1].item<double>(), (24 * -3 + 700) / 32.0, 2e-6);
  EXPECT_EQ(mean->mean.at("value.b").numel(), 0);
  EXPECT_EQ(mean->mean.at("weight").item<double>(), 32);
  EXPECT_EQ(mean->loss, 1.5);
  sum.pop_back();
  EXPECT_THAT(from_words(sum, form, *fedavg_parts(), scale),
              FailsWith(Error::kInvalid, "3 words is none of 4"));
  EXPECT_THAT(from_words({0, 0, 0, 0}, form, *fedavg_parts(), scale),
              FailsWith(Error::kInvalid, "weight 0"));
}

TEST(UploadWords, SayWhatDoesNotFit) {
  const WordScale scale{.guard = {.range = 4, .bits = 24}, .exponent = 1, .clients = 3};
  // Counts after it was weighed: 7 · 1/2 fits, 7 · 2/2 does not.
  EXPECT_THAT(to_words(upload({7}, 1), *fedavg_parts(), 0, scale), Succeeds());
  EXPECT_THAT(to_words(upload({7}, 2), *fedavg_parts(), 0, scale),
              FailsWith(Error::kInvalid,
                        "'value.w' holds 7, which guard 'secure-aggregation' does "
                        "not send: beyond 4; raise "
                        "guard.secure-aggregation.range"));
  EXPECT_THAT(to_words(upload({0}, 2), *fedavg_parts(), 5, scale),
              FailsWith(Error::kInvalid, "its training loss"));
  EXPECT_THAT(to_words(upload({0}, 2), *fedavg_parts(), NAN, scale),
              FailsWith(Error::kInvalid, "its training loss is not finite"));
  EXPECT_THAT(to_words(upload({NAN}, 2), *fedavg_parts(), 0, scale),
              FailsWith(Error::kInvalid, "'value.w' is not finite"));
  EXPECT_THAT(to_words(upload({0}, 3), *fedavg_parts(), 0, scale),
              FailsWith(Error::kInvalid, "a weight of 3"));
}

TEST(UploadWords, AWeightIsToldToAFactorOfTwo) {
  const std::vector<std::pair<double, int64_t>> known{{0, 0},  {1, 0},  {2, 1},   {24, 5},
                                                      {32, 5}, {33, 6}, {1e9, 30}};
  for (const auto& [weight, exponent] : known) EXPECT_EQ(*weight_exponent(weight), exponent);
  EXPECT_THAT(weight_exponent(2e9), FailsWith(Error::kInvalid, "not from 0 to 2^30"));
  EXPECT_THAT(weight_exponent(-1), FailsWith(Error::kInvalid, "not from 0"));
  EXPECT_THAT(weight_exponent(NAN), FailsWith(Error::kInvalid, "not from 0"));
}

TEST(UploadWords, AFormIsOfMeansAndTotalsInFloats) {
  auto form = upload({1}, 1);
  auto parts = *fedavg_parts();
  EXPECT_THAT(check_upload_form(form, parts, "x"), Succeeds());
  form["n"] = at::zeros({2}, at::kLong);
  EXPECT_THAT(
      check_upload_form(form, parts, "x"),
      FailsWith(Error::kInvalid, "does not go with x: its upload 'n' is no part of a mean"));
  parts.add("n", {.meaning = Meaning::kStatistic, .adds = Adds::kTotal});
  EXPECT_THAT(check_upload_form(form, parts, "x"),
              FailsWith(Error::kInvalid, "does not go with x: its upload 'n' is no float32"));
}

// By hand: means by two weights, a total that no weight touches, and what all share.
TEST(UploadWords, SeveralMeansAndTotalsComeOutOfOneSum) {
  MessageParts parts;
  parts.add("a.value", {.adds = Adds::kMean, .weight = "a.weight"});
  parts.add("a.weight", {.meaning = Meaning::kCount, .adds = Adds::kWeight});
  parts.add("b.value", {.adds = Adds::kMean, .weight = "b.weight"});
  parts.add("b.weight", {.meaning = Meaning::kCount, .adds = Adds::kWeight});
  parts.add("t", {.meaning = Meaning::kTrained, .adds = Adds::kTotal});
  parts.add("o", {.adds = Adds::kShared});
  const auto up = [](float a, double an, float b, double bn, float t) {
    return TensorDict{
        {"a.value", at::tensor({a})},  {"a.weight", at::scalar_tensor(an, at::kDouble)},
        {"b.value", at::tensor({b})},  {"b.weight", at::scalar_tensor(bn, at::kDouble)},
        {"t", at::tensor({t, 2 * t})}, {"o", at::scalar_tensor(4, at::kLong)}};
  };
  const WordScale scale{.guard = {}, .exponent = 3, .clients = 2};
  auto sum = *to_words(up(1, 2, 10, 8, 0.5F), parts, 1, scale);
  const auto second = *to_words(up(4, 1, 20, 0, -3), parts, 2, scale);
  EXPECT_EQ(sum.size(), upload_words(up(0, 0, 0, 0, 0), parts));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
  const auto out = from_words(sum, up(0, 0, 0, 0, 0), parts, scale);
  ASSERT_THAT(out, Succeeds());
  EXPECT_NEAR(out->mean.at("a.value").item<double>(), (2 * 1 + 4) / 3.0, 1e-6);
  EXPECT_EQ(out->mean.at("a.weight").item<double>(), 3);
  EXPECT_NEAR(out->mean.at("b.value").item<double>(), 10, 1e-6);
  EXPECT_NEAR(out->mean.at("t")[1].item<double>(), 2 * (0.5 - 3), 1e-6);
  EXPECT_EQ(out->mean.at("o").item<int64_t>(), 4);
  EXPECT_EQ(out->loss, 3);
}

}  // namespace
}  // namespace tessera
