#include "method/mosaic/experts.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/mosaic/class_prior.hpp"
#include "method/mosaic/schedule.hpp"

namespace tessera {
namespace {

// Two of three samples are of class 0, half of the federation's are, one sample more is believed:
// log(2.5 / 4) − log 0.501 and log(1.5 / 4) − log 0.501.
TEST(PriorShift, IsTheFormula) {
  const auto shift =
      prior_shift(at::tensor({2.0, 1.0}, at::kDouble), at::tensor({0.5, 0.5}, at::kDouble), 1);
  EXPECT_NEAR(shift[0].item<double>(), std::log(2.5 / 4 / 0.501), 1e-12);
  EXPECT_NEAR(shift[1].item<double>(), std::log(1.5 / 4 / 0.501), 1e-12);
}

TEST(PriorShift, IsFiniteForAClassThatNobodyHas) {
  const auto shift =
      prior_shift(at::tensor({3.0, 0.0}, at::kDouble), at::tensor({1.0, 0.0}, at::kDouble), 1);
  EXPECT_NEAR(shift[1].item<double>(), std::log(1e-12) - std::log(1e-3), 1e-9);
}

// Three of four samples are of class 0, none of class 2, one sample more is spread evenly.
TEST(BalancedShift, IsTheFormulaAndBiasesTakeIt) {
  const auto shift = balanced_shift(at::tensor({3.0, 1.0, 0.0}, at::kDouble), 1);
  const Weights model{at::arange(6, at::kFloat), at::ones({2})};
  const auto more = shifted(model, shift);
  EXPECT_TRUE(more.w.slice(0, 0, 3).equal(model.w.slice(0, 0, 3)));
  EXPECT_NEAR(more.w[3].item<double>(), 3 + std::log(10.0 / 15), 1e-6);
  EXPECT_NEAR(more.w[4].item<double>(), 4 + std::log(4.0 / 15), 1e-6);
  EXPECT_NEAR(more.w[5].item<double>(), 5 + std::log(1.0 / 15), 1e-6);
  EXPECT_TRUE(more.b.equal(model.b));
  EXPECT_EQ(model.w[5].item<double>(), 5) << "a copy";
}

const Tensor kShift = at::tensor({0.5, -0.5}, at::kDouble);

TEST(Reader, PriStandsInForWhatIsMissingOrNotFinite) {
  const Reader reader{{"g", "pri", "ft", "loc", "lda"}, kShift, std::nullopt};
  const auto g = at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({2, 2});
  const auto pri = g.to(at::kDouble) + kShift;
  // ft diverged for the second sample only; loc is not there.
  const Readings seen{g, at::tensor({7.0F, 8.0F, 9.0F, NAN}).view({2, 2}), {}, {}};
  const auto logits = reader.logits(seen);
  EXPECT_TRUE(logits[0].equal(g.to(at::kDouble)));
  EXPECT_TRUE(logits[1].equal(pri));
  EXPECT_TRUE(logits[2][0].equal(at::tensor({7.0, 8.0}, at::kDouble)));
  EXPECT_TRUE(logits[2][1].equal(pri[1]));
  EXPECT_TRUE(logits[3].equal(pri));
  EXPECT_TRUE(logits[4].equal(pri));
  EXPECT_TRUE(reader.there(seen).equal(at::tensor({1, 1, 1, 0, 0}).to(at::kBool)));
}

TEST(Reader, LastIsWhatFollowsOrSaysNothing) {
  const auto follows = at::tensor({-1.0, -2.0, -3.0, -4.0}, at::kDouble).view({2, 2});
  const Reader knows{{"g", "last"}, kShift, std::nullopt, follows},
      knows_not{{"g", "last"}, kShift, std::nullopt};
  const auto g = at::tensor({1.0F, 2.0F}).view({1, 2});
  const Readings seen{g, {}, {}, {}, at::tensor({1}, at::kLong)};
  EXPECT_TRUE(knows.logits(seen)[1].equal(follows.slice(0, 1)));
  EXPECT_TRUE(knows.logits({g, {}, {}, {}})[1].eq(0).all().item<bool>());
  EXPECT_TRUE(knows_not.logits(seen)[1].eq(0).all().item<bool>());
  EXPECT_TRUE(knows_not.there(seen).all().item<bool>()) << "nobody has to stand in for it";
}

TEST(MosaicSchedule, FortyRounds) {
  const MosaicSchedule s{40};
  EXPECT_TRUE(s.holds(30));
  EXPECT_FALSE(s.holds(31));
  EXPECT_EQ(s.due(30, 0), Exchange::kNone);
  EXPECT_EQ(s.due(31, 0), Exchange::kMoments);
  EXPECT_EQ(s.due(32, 0), Exchange::kMoments) << "a round that failed is repeated";
  EXPECT_EQ(s.due(32, 1), Exchange::kTemperatures);
  EXPECT_EQ(s.due(33, 2), Exchange::kNewton);
  EXPECT_EQ(s.due(39, 8), Exchange::kNewton);
  EXPECT_EQ(s.due(39, 12), Exchange::kNone) << "ten steps have been made";
  EXPECT_EQ(s.due(40, 9), Exchange::kClosing);
  EXPECT_TRUE(s.weighs(Exchange::kClosing, 9));
  EXPECT_FALSE(s.weighs(Exchange::kClosing, 1)) << "there are no temperatures yet";
  EXPECT_FALSE(s.weighs(Exchange::kClosing, 12));
  EXPECT_FALSE(s.weighs(Exchange::kTemperatures, 9));
  EXPECT_EQ(s.due(41, 9), Exchange::kNone);
}

TEST(MosaicSchedule, ShortRuns) {
  for (int64_t round = 1; round <= 4; ++round) {
    EXPECT_FALSE(MosaicSchedule{3}.holds(round));
    EXPECT_EQ(MosaicSchedule{3}.due(round, 0), Exchange::kNone);
  }
  EXPECT_EQ(MosaicSchedule{4}.last_held(), 1);
  EXPECT_EQ(MosaicSchedule{4}.due(4, 0), Exchange::kClosing);
  EXPECT_EQ(MosaicSchedule{12}.last_held(), 7) << "five rounds are needed";
  EXPECT_EQ(MosaicSchedule{20}.last_held(), 15);
  EXPECT_EQ((MosaicSchedule{5, 0.05}.last_held()), 1);
}

}  // namespace
}  // namespace tessera
