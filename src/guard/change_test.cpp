#include "guard/change.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "guard/guard.hpp"
#include "guard/testing.hpp"

namespace tessera {
namespace {

using testing::fedavg_parts;
using testing::trained_part;

// A model [3, 4] away from what was sent, as FedAvg uploads it.
const TensorDict kSent{{"w", at::tensor({1.f, 2.f})}, {"b", at::tensor({7.f})}};
TensorDict fedavg_upload() {
  return {{"value.w", at::tensor({4.f, 6.f})},
          {"value.b", at::tensor({8.f})},
          {"weight", at::scalar_tensor(137.0, at::kDouble)}};
}
std::vector<float> numbers(const TensorDict& up, const std::string& name) {
  const auto t = up.at(name).contiguous();
  return {t.data_ptr<float>(), t.data_ptr<float>() + t.numel()};
}

TEST(Change, IsRelativeToWhatTheClientWasSent) {
  const auto up = fedavg_upload();
  const auto moved = trained_in(up, kSent, *fedavg_parts());
  ASSERT_EQ(moved.size(), 1u) << "buffers and counts were not trained";
  EXPECT_EQ(moved[0].name, "value.w");
  EXPECT_EQ(norm_of(up, moved), 5);
  // A gradient is the change itself: sqrt(16 + 36).
  MessageParts slope;
  slope.add("value.w", {.meaning = Meaning::kTrained, .before = Before::kGradient});
  EXPECT_DOUBLE_EQ(norm_of(up, trained_in(up, kSent, slope)), std::sqrt(52.0));
}

TEST(Change, BeginsAsWhatItsTypeSays) {
  const auto x = at::ones({2}), y = at::zeros({2});
  const auto start = [&](const std::vector<std::string>& starts, const TensorDict& down) {
    return trained_in({{"m", x}}, down, *trained_part("m", starts)).front().from;
  };
  EXPECT_TRUE(start({"base.w"}, {{"base.w", y}, {"other.w", x}}).is_same(y));
  EXPECT_TRUE(start({"g.w", "others.*.w"}, {{"g.w", y}, {"others.0.w", x}}).is_same(y));
  EXPECT_TRUE(start({"g.w", "others.*.w"}, {{"others.7.w", y}}).is_same(y)) << "of a list";
  EXPECT_FALSE(start({}, {{"m", y}}).defined()) << "no name and no shape stands for a type";
  EXPECT_FALSE(start({"w"}, {{"u.w", y}}).defined());
  EXPECT_FALSE(start({"w"}, {{"w", at::zeros({3})}}).defined()) << "another shape";
  EXPECT_EQ(whole_models({{"m", x}}, {{"w", y}}, *trained_part("m", {"u"})),
            std::vector<std::string>{"m"});
  EXPECT_TRUE(whole_models({{"m", x}}, {{"w", y}}, *trained_part("m", {"w"})).empty());
  MessageParts change;
  change.add("m", {.meaning = Meaning::kTrained, .before = Before::kChange});
  EXPECT_TRUE(whole_models({{"m", x}}, {{"w", y}}, change).empty());
}

TEST(Change, ClipScalesWhatIsTooLongAndLeavesTheRest) {
  auto up = fedavg_upload();
  const auto before = up.at("value.w");
  clip(up, trained_in(up, kSent, *fedavg_parts()), 5);
  EXPECT_TRUE(up.at("value.w").is_same(before)) << "not a bit of it changes";
  clip(up, trained_in(up, kSent, *fedavg_parts()), 1);  // 1 + 3/5, 2 + 4/5
  EXPECT_EQ(numbers(up, "value.w"), (std::vector<float>{1.6f, 2.8f}));
  EXPECT_EQ(numbers(up, "value.b"), std::vector<float>{8});
}

TEST(Change, PruneKeepsTheLargest) {
  auto up = fedavg_upload();
  prune(up, trained_in(up, kSent, *fedavg_parts()), {.share = 0.5});
  EXPECT_EQ(numbers(up, "value.w"), (std::vector<float>{1, 6}));
  up = {{"w", at::tensor({-3.f, 1.f, 5.f, 0.f})}};
  prune(up, trained_in(up, {}, *trained_part("w", {})), {.share = 0.5, .sign = true});
  EXPECT_EQ(numbers(up, "w"), (std::vector<float>{-4, 0, 4, 0})) << "the mean of 3 and 5";
}

TEST(Change, CountsAreRounded) {
  EXPECT_EQ(rounded_to(137, 2), 140);
  EXPECT_EQ(rounded_to(1049, 2), 1000);
  EXPECT_EQ(rounded_to(7, 2), 7);
  EXPECT_EQ(rounded_to(0, 2), 0);
  auto up = fedavg_upload();
  round_counts(up, 1, *fedavg_parts());
  EXPECT_EQ(up.at("weight").item<double>(), 100);
  EXPECT_EQ(up.at("weight").scalar_type(), at::kDouble) << "the form stays";
}

GuardOptions dp_of(double bound, double sigma) {
  GuardOptions out;
  out.dp = DpGuard{.bound = bound, .sigma = sigma};
  return out;
}

// Three uploads where four were expected: 3 / 4 of their mean change, plus noise.
TEST(DpGuard, FixesTheDenominatorAndAddsNoiseOnce) {
  const double sigma = 2, bound = 10;
  const Guard guard(dp_of(bound, sigma),
                    {.parts = fedavg_parts(), .sums = true, .clients = 8, .rate = 0.5});
  const int64_t n = 40000;
  const TensorDict down{{"w", at::ones({n})}};
  TensorDict mean{{"value.w", at::full({n}, 1.08f)}};
  guard.finish({&mean}, down, 3, 5);
  const auto moved = (mean.at("value.w") - 1).to(at::kDouble);
  // 0.08 · 3/4 = 0.06, and noise of 2 · 10 / 4 = 5 over 40,000 numbers.
  EXPECT_NEAR(moved.mean().item<double>(), 0.06, 4 * 5 / 200.0);
  EXPECT_NEAR(moved.std().item<double>(), 5, 0.1);
  // The same as three uploads, of which the method takes the mean.
  std::vector<TensorDict> single(3, {{"value.w", at::full({n}, 1.08f)}});
  guard.finish({&single[0], &single[1], &single[2]}, down, 3, 5);
  const auto sum = single[0].at("value.w") + single[1].at("value.w") + single[2].at("value.w");
  EXPECT_TRUE(at::allclose(sum / 3, mean.at("value.w"), 1e-4, 1e-4));
}

// A client moves a mean by bound / most and a total by the bound: each has noise of its own size,
// and a total is not divided.
TEST(DpGuard, ATotalHasTheNoiseOfASum) {
  MessageParts parts;
  parts.add("mean", {.meaning = Meaning::kTrained,
                     .adds = Adds::kMean,
                     .weight = "n",
                     .before = Before::kChange});
  parts.add("total",
            {.meaning = Meaning::kTrained, .adds = Adds::kTotal, .before = Before::kChange});
  const Guard guard(dp_of(10, 2), {.parts = std::make_shared<const MessageParts>(parts),
                                   .sums = true,
                                   .clients = 8,
                                   .rate = 0.5});
  const int64_t n = 40000;
  TensorDict sum{{"mean", at::full({n}, 8.0F)}, {"total", at::full({n}, 24.0F)}};
  guard.finish({&sum}, {}, 3, 5);
  // Three of four: 8 · 3/4 with noise of 2 · 10 / 4; and 24 with noise of 2 · 10.
  EXPECT_NEAR(sum.at("mean").mean().item<double>(), 6, 4 * 5 / 200.0);
  EXPECT_NEAR(sum.at("mean").std().item<double>(), 5, 0.1);
  EXPECT_NEAR(sum.at("total").mean().item<double>(), 24, 4 * 20 / 200.0);
  EXPECT_NEAR(sum.at("total").std().item<double>(), 20, 0.4);
}

TEST(DpGuard, MakesEverybodyCountTheSameAndTheServerChecksIt) {
  const Guard guard(dp_of(1, 1), {.parts = fedavg_parts(), .sums = true, .clients = 4, .rate = 1});
  TensorDict memory;
  auto up = fedavg_upload();
  up["value.b"] = at::empty({0});
  const auto expected = up;
  const auto sealed = *guard.seal(up, kSent, 1, memory);
  EXPECT_EQ(sealed.at("weight").item<double>(), 1);
  EXPECT_EQ(numbers(sealed, "value.w"), (std::vector<float>{1.6f, 2.8f}));
  // A client that does not do it gains nothing.
  const auto opened = guard.open(up, expected, guard.references(kSent, expected));
  ASSERT_TRUE(opened.up.ok());
  EXPECT_EQ(opened.up->at("weight").item<double>(), 1);
  EXPECT_EQ(numbers(*opened.up, "value.w"), (std::vector<float>{1.6f, 2.8f}));
}

// A part of every upload is bounded, noised, constant or left out; one that is none of it is named.
TEST(DpGuard, LeavesOutWhatMayBeAndRefusesWhatMayNot) {
  MessageParts parts;
  parts.add("w", {.meaning = Meaning::kTrained, .starts = {"w"}});
  parts.add("loss", {.meaning = Meaning::kStatistic, .spare = true});
  const TensorDict up{{"w", at::ones({2})}, {"loss", at::scalar_tensor(3.0, at::kDouble)}},
      down{{"w", at::zeros({2})}};
  const auto shared = std::make_shared<const MessageParts>(parts);
  const Guard guard(dp_of(1, 1), {.parts = shared, .clients = 4});
  TensorDict memory;
  EXPECT_FALSE(guard.seal(up, down, 1, memory)->contains("loss"));
  EXPECT_FALSE(guard.form(up).contains("loss"));
  EXPECT_TRUE(guard.check(up, down, "m").ok());
  EXPECT_TRUE(Guard().form(up).contains("loss")) << "nothing was promised";
  EXPECT_EQ(first_uncovered(parts), "");
  parts.add("cluster", {.meaning = Meaning::kStatistic});
  EXPECT_EQ(first_uncovered(parts), "cluster");
  auto more = up;
  more.emplace("cluster", at::scalar_tensor(1, at::kLong));
  const Guard other(dp_of(1, 1),
                    {.parts = std::make_shared<const MessageParts>(parts), .clients = 4});
  EXPECT_EQ(message(other.check(more, down, "m")),
            "guard 'dp' does not go with m: its upload 'cluster' is a statistic of a client's "
            "samples, which no bound holds for; remove it, or choose another method");
}

// A server that lets running statistics pass gets nothing: the client looks for itself.
TEST(DpGuard, NothingBareLeavesAClientWhateverTheServerChecked) {
  const Guard guard(dp_of(1, 1), {.parts = fedavg_parts(), .clients = 4});
  TensorDict memory;
  EXPECT_THROW(guard.seal(fedavg_upload(), kSent, 1, memory).IgnoreError(), std::runtime_error);
  EXPECT_THROW(guard.protect(fedavg_upload(), kSent, 1), std::runtime_error);
  auto up = fedavg_upload();
  up["value.b"] = at::empty({0});
  EXPECT_TRUE(guard.seal(up, kSent, 1, memory).ok());
  up.emplace("age", at::scalar_tensor(41.0, at::kDouble));
  EXPECT_THROW(guard.protect(up, kSent, 1), std::runtime_error) << "no part of any upload";
}

TEST(DpGuard, WhereTheServerSeesSingleUploadsEachHasItsNoise) {
  const Guard guard(dp_of(1, 3),
                    {.parts = trained_part("w", {"w"}), .sums = false, .clients = 4, .rate = 1});
  const int64_t n = 40000;
  TensorDict memory;
  const TensorDict down{{"w", at::ones({n})}}, up{{"w", at::full({n}, 3.f)}};
  const auto sealed = *guard.seal(up, down, 1, memory);
  const auto moved = (sealed.at("w") - 1).to(at::kDouble);
  EXPECT_NEAR(moved.std().item<double>(), 3, 0.06);
  // A change of norm 400 is clipped to 1: 1 / 200 a number, far below the noise's own mean.
  EXPECT_NEAR(moved.mean().item<double>(), 0.005, 4 * 3 / 200.0);
  // Noise makes it longer than the bound: the server leaves it as it is.
  const auto opened = guard.open(sealed, up, guard.references(down, up));
  EXPECT_TRUE(at::equal(opened.up->at("w"), sealed.at("w")));
}

TEST(Guard, WithoutEffectLeavesEveryBit) {
  GuardOptions none;
  none.clip = ClipGuard{.bound = 1e30};
  none.perturb = PerturbGuard{.scale = 0};
  none.prune = PruneGuard{.share = 1};
  GuardOptions silent;
  silent.dp = DpGuard{.bound = 1e30, .sigma = 0};
  for (const auto& options : {none, silent}) {
    const Guard guard(options, {.parts = fedavg_parts()});
    TensorDict memory;
    const auto up = fedavg_upload();
    const auto sealed = *guard.seal(up, kSent, 1, memory);
    for (const auto& [name, tensor] : up) EXPECT_TRUE(at::equal(sealed.at(name), tensor)) << name;
  }
}

TEST(Guard, PerturbIsRelativeToTheChange) {
  GuardOptions options;
  const int64_t n = 40000;
  const TensorDict down{{"w", at::ones({n})}}, up{{"w", at::full({n}, 3.f)}};
  for (const char* noise : {"normal", "laplace"}) {
    options.perturb = PerturbGuard{.noise = noise, .scale = 0.5};
    TensorDict memory;
    const auto sealed =
        *Guard(options, {.parts = trained_part("w", {"w"})}).seal(up, down, 1, memory);
    const auto off = (sealed.at("w") - 3).to(at::kDouble);
    // Every number moved by 2, so their root mean square is 2 and the noise's deviation 1.
    EXPECT_NEAR(off.std().item<double>(), 1, 0.03) << noise;
    // Fourth moment: 3 of a normal, 6 of a Laplace distribution.
    EXPECT_NEAR(off.pow(4).mean().item<double>(), std::string(noise) == "normal" ? 3 : 6, 0.6)
        << noise;
  }
}

}  // namespace
}  // namespace tessera
