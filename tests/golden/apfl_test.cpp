// APFL against the equations of docs/methods.md §4.4 worked out in float64, and against what a
// widely used public variant does instead.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/quadratic.hpp"

namespace tessera::test {
namespace {

constexpr double kLr = 0.1;

struct Walk {
  Pair w, v;
  double a;
};
enum class Variant { kRight, kSlopeAtV, kOverwritten, kEveryBatch };

/// A round of `steps` full batches from (g, v, a).
Walk walked(Walk at, const Pair& x, int steps, double eta_a, double reg, Variant variant) {
  for (int step = 0; step < steps; ++step) {
    const auto s = slope_at(at.w, x);
    for (size_t j = 0; j < 2; ++j) at.w[j] -= kLr * s[j];
    Pair mixed{};
    for (size_t j = 0; j < 2; ++j) mixed[j] = at.a * at.v[j] + (1 - at.a) * at.w[j];
    const auto slope = slope_at(variant == Variant::kSlopeAtV ? at.v : mixed, x);
    double down = reg * at.a;  // the slope by a, where the slope by v was taken
    for (size_t j = 0; j < 2; ++j) down += (at.v[j] - at.w[j]) * slope[j];
    for (size_t j = 0; j < 2; ++j) at.v[j] -= kLr * at.a * slope[j];
    if (step == 0 || variant == Variant::kEveryBatch)
      at.a = std::clamp(at.a - eta_a * down, 0.0, 1.0);
    if (variant == Variant::kOverwritten) at.v = mixed;
  }
  return at;
}

ToyOptions apfl_options(std::vector<std::pair<std::string, double>> numbers, int64_t epochs) {
  ToyOptions out{.method = "apfl", .numbers = std::move(numbers)};
  out.train.lr = kLr;
  out.train.epochs = epochs;
  return out;
}

// Two clients, three rounds of three steps.
Walk reference(Variant variant, double eta_a, double reg) {
  Walk a{kFirst, kFirst, 0.7}, b = a;
  for (int round = 0; round < 3; ++round) {
    a = walked(a, kSampleA, 3, eta_a, reg, variant),
    b = walked(b, kSampleB, 3, eta_a, reg, variant);
    for (size_t j = 0; j < 2; ++j) a.w[j] = b.w[j] = (a.w[j] + 3 * b.w[j]) / 4;
  }
  return a;
}

TEST(Apfl, FollowsTheEquations) {
  for (const double reg : {0.0, 0.5}) {
    auto toy = quadratic_toy({{kSampleA}, {kSampleB, kSampleB, kSampleB}},
                             apfl_options({{"alpha0", 0.7}, {"eta_a", 0.2}, {"reg", reg}}, 3));
    toy.play(1, 3);
    const auto right = reference(Variant::kRight, 0.2, reg);
    expect_close(toy.server().at("g.w"), right.w);
    expect_close(toy.state(0).at("v.w"), right.v);
    EXPECT_NEAR(toy.state(0).at("alpha").item<double>(), right.a, 1e-6);
    EXPECT_GT(right.a, 0);
    EXPECT_LT(right.a, 1);
  }
}

// Learning a is descent on the loss of the mixture: <v − w, slope> is its derivative.
TEST(Apfl, ShareIsSteppedDownItsOwnSlope) {
  const auto loss = [](const Walk& at, double a) {
    double sum = 0;
    for (size_t j = 0; j < 2; ++j) {
      const double gap = a * at.v[j] + (1 - a) * at.w[j] - kSampleA[j];
      sum += 0.5 * kCurvature[j] * gap * gap;
    }
    return sum;
  };
  auto toy = quadratic_toy({{kSampleA}}, apfl_options({{"alpha0", 0.7}, {"eta_a", 0.2}}, 1));
  toy.play(1, 1);
  Walk at{kFirst, kFirst, 0.7};
  const auto s = slope_at(at.w, kSampleA);
  for (size_t j = 0; j < 2; ++j) at.w[j] -= kLr * s[j];
  const double slope = (loss(at, 0.7 + 1e-5) - loss(at, 0.7 - 1e-5)) / 2e-5;
  EXPECT_GT(std::abs(slope), 1e-2);
  EXPECT_NEAR(toy.state(0).at("alpha").item<double>(), 0.7 - 0.2 * slope, 1e-6);
}

// The tests above can tell: the slope at v, v overwritten by the mixture, a stepped on every batch.
TEST(Apfl, PublicVariantsEndElsewhere) {
  const auto right = reference(Variant::kRight, 0.2, 0);
  for (const auto variant : {Variant::kSlopeAtV, Variant::kOverwritten, Variant::kEveryBatch}) {
    const auto other = reference(variant, 0.2, 0);
    EXPECT_GT(std::abs(other.v[0] - right.v[0]) + std::abs(other.a - right.a), 1e-3);
  }
}

TEST(Apfl, ShareFollowsTheLearningRateUnlessItHasItsOwn) {
  auto toy = quadratic_toy({{kSampleA}, {kSampleB, kSampleB, kSampleB}},
                           apfl_options({{"alpha0", 0.7}}, 3));
  toy.play(1, 3);
  EXPECT_NEAR(toy.state(0).at("alpha").item<double>(), reference(Variant::kRight, kLr, 0).a, 1e-6);
}

TEST(Apfl, ShareStaysAShare) {
  for (const double eta_a : {1e5, 1e6}) {
    auto toy = quadratic_toy({{kSampleA}, {kSampleB, kSampleB, kSampleB}},
                             apfl_options({{"eta_a", eta_a}}, 3));
    for (int64_t round = 1; round <= 4; ++round) {
      toy.play(round, round);
      for (ClientId i = 0; i < 2; ++i) {
        const double a = toy.state(i).at("alpha").item<double>();
        EXPECT_TRUE(a == 0 || a == 1) << a;
      }
    }
  }
}

TEST(Apfl, SharedModelIsFedAvg) {
  auto apfl = make_toy(noisy("apfl")), avg = make_toy(noisy("fedavg"));
  apfl.play(1, 3), avg.play(1, 3);
  EXPECT_TRUE(apfl.server().at("g.w").equal(avg.server().at("g.w")));
}

// The mixture is then v itself, so v is trained on its own slope.
TEST(Apfl, ShareOfOneIsLocalTraining) {
  auto alone_options = noisy("local");
  alone_options.numbers = {{"patience", 0}};
  auto whole_options = noisy("apfl");
  whole_options.numbers = {{"alpha0", 1}, {"eta_a", 1e-30}};
  auto alone = make_toy(alone_options), whole = make_toy(whole_options);
  alone.play(1, 4), whole.play(1, 4);
  for (ClientId i = 0; i < 4; ++i) {
    ASSERT_EQ(whole.state(i).at("alpha").item<double>(), 1);
    EXPECT_TRUE(whole.state(i).at("v.w").equal(alone.state(i).at("w.w")));
  }
}

// pre: the mixture with g itself; post: with the client's copy after its round.
TEST(Apfl, ViewsAreTheMixtureBeforeAndAfterTheComingRound) {
  auto toy = quadratic_toy({{kSampleA}}, apfl_options({{"alpha0", 0.7}, {"eta_a", 0.2}}, 3));
  toy.play(1, 2);
  Walk at{kFirst, kFirst, 0.7};
  const auto mixed = [&] {
    return Pair{at.a * at.v[0] + (1 - at.a) * at.w[0], at.a * at.v[1] + (1 - at.a) * at.w[1]};
  };
  for (int round = 0; round < 2; ++round) at = walked(at, kSampleA, 3, 0.2, 0, Variant::kRight);
  const auto views = views_of(toy, 2);
  expect_close(views.pre[0].w, mixed());
  at = walked(at, kSampleA, 3, 0.2, 0, Variant::kRight);
  expect_close(views.post[0].w, mixed());
}

TEST(Apfl, NewcomersStartFromTheSharedModel) {
  auto toy =
      quadratic_toy({{kSampleA}}, apfl_options({{"alpha0", 0.7}, {"eta_a", 0.2}}, 3), {{kSampleB}});
  toy.play(1, 4);
  const auto g = pair_of(toy.server().at("g.w"));
  const auto views = views_of(toy, 4);
  expect_close(views.pre[1].w, g);
  const auto at = walked({g, g, 0.7}, kSampleB, 3, 0.2, 0, Variant::kRight);
  expect_close(views.post[1].w,
               {at.a * at.v[0] + (1 - at.a) * at.w[0], at.a * at.v[1] + (1 - at.a) * at.w[1]});
}

TEST(Apfl, TakesEveryBatchOnce) {
  auto settings = apfl_options({}, 2);
  settings.train.batch = 2;
  auto toy = quadratic_toy({{kSampleA, kSampleB, kSampleA}}, settings);
  toy.play(1, 1);
  EXPECT_EQ(toy.federation.clients[0].log->size(), 2U * 2);
  EXPECT_EQ(dynamic_cast<const QuadraticModel&>(*toy.model).gradients, 2 * 2 * 2);
}

TEST(Apfl, ShowsEveryShare) {
  auto toy =
      quadratic_toy({{kSampleA}, {kSampleB}}, apfl_options({{"alpha0", 0.7}}, 3), {{kSampleA}});
  const auto report = toy.evaluate(0);
  ASSERT_EQ(report.exhibits.size(), 1U);
  ASSERT_EQ(report.exhibits[0].value.sizes(), (std::vector<int64_t>{2, 1}));
  toy.play(1, 1);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(report.exhibits[0].value[i].item<double>(), toy.state(i).at("alpha").item<double>());
}

}  // namespace
}  // namespace tessera::test
