// Per-FedAvg against closed forms, its batches (docs/methods.md §4.2), and its second derivatives.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/quadratic.hpp"
#include "train/hvp.hpp"

namespace tessera::test {
namespace {

constexpr double kAlpha = 0.2, kBeta = 0.1;

ToyOptions peravg_options(const std::string& mode, int64_t batch,
                          std::vector<std::pair<std::string, double>> numbers = {}) {
  numbers.insert(numbers.end(), {{"alpha", kAlpha}, {"beta", kBeta}});
  ToyOptions out{.method = "peravg", .numbers = numbers, .words = {{"mode", mode}}};
  out.train.batch = batch;
  return out;
}

std::vector<Pair> copies(const Pair& x, size_t n) { return std::vector<Pair>(n, x); }

/// With equal samples every batch has the same loss: what is left of the way to x after a step.
double left(const std::string& mode, double h) {
  const double inner = 1 - kAlpha * h;
  return 1 - kBeta * h * inner * (mode == "hf" ? inner : 1);
}

TEST(PerFedAvg, StepsByHand) {
  for (const std::string mode : {"fo", "hf"}) {
    auto settings = peravg_options(mode, 2);
    settings.train.epochs = 2;
    // 12 samples: 3 steps of first order in a pass, 2 of second.
    const int steps = mode == "fo" ? 3 : 2;
    auto toy = quadratic_toy({copies(kSampleA, 12), copies(kSampleB, 36)}, settings);
    toy.play(1, 1);
    Pair expected{};
    for (size_t j = 0; j < 2; ++j) {
      const double rest = left(mode, kCurvature[j]);
      const double a = kSampleA[j] + std::pow(rest, 2 * steps) * (kFirst[j] - kSampleA[j]);
      const double b = kSampleB[j] + std::pow(rest, 6 * steps) * (kFirst[j] - kSampleB[j]);
      expected[j] = (a + 3 * b) / 4;
    }
    expect_close(toy.server().at("g.w"), expected, 2e-5);
  }
}

TEST(PerFedAvg, OuterRateIsTheLearningRateUnlessGiven) {
  const auto after = [](double beta, double lr) {
    ToyOptions settings{.method = "peravg", .numbers = {{"beta", beta}, {"alpha", kAlpha}}};
    settings.train.lr = lr;
    auto toy = quadratic_toy({copies(kSampleA, 64)}, settings);
    toy.play(1, 1);
    return toy.server().at("g.w");
  };
  EXPECT_TRUE(after(0, kBeta).equal(after(kBeta, 7)));
  EXPECT_FALSE(after(0, kBeta).equal(after(0, 7)));
}

using Batch = std::vector<int64_t>;

std::vector<Batch> batches_of_a_round(const std::string& mode, size_t samples, int64_t batch,
                                      int64_t epochs) {
  auto settings = peravg_options(mode, batch);
  settings.train.epochs = epochs;
  auto toy = quadratic_toy({copies(kSampleA, samples)}, settings);
  toy.play(1, 1);
  std::vector<Batch> out;
  for (const auto& [part, positions] : *toy.federation.clients[0].log) {
    EXPECT_EQ(part, Part::kTrain);
    out.push_back(positions);
  }
  // One gradient for each batch, and a second one for b''. Training twice, as public servers do,
  // would double it.
  const auto looks = static_cast<int64_t>(out.size());
  EXPECT_EQ(dynamic_cast<const QuadraticModel&>(*toy.model).gradients,
            mode == "hf" ? looks * 4 / 3 : looks);
  return out;
}

TEST(PerFedAvg, BatchesOfAPassAreDisjointWhereTheDataSuffice) {
  for (const std::string mode : {"fo", "hf"}) {
    const size_t of_a_step = mode == "hf" ? 3 : 2;
    const size_t steps = 50 / (of_a_step * 8);  // 3 and 2: whole steps only
    const auto batches = batches_of_a_round(mode, 50, 8, 2);
    ASSERT_EQ(batches.size(), 2 * steps * of_a_step);
    for (size_t pass = 0; pass < 2; ++pass) {
      std::set<int64_t> seen;
      for (size_t k = 0; k < steps * of_a_step; ++k) {
        const auto& batch = batches[pass * steps * of_a_step + k];
        EXPECT_EQ(batch.size(), 8U);
        seen.insert(batch.begin(), batch.end());
      }
      EXPECT_EQ(seen.size(), steps * of_a_step * 8);
    }
    EXPECT_NE(batches.front(), batches[steps * of_a_step]);  // a new order every pass
    // Just enough for one step.
    EXPECT_EQ(batches_of_a_round(mode, of_a_step * 8, 8, 1).size(), of_a_step);
  }
}

TEST(PerFedAvg, FewSamplesAreDrawnWithReplacement) {
  for (const std::string mode : {"fo", "hf"}) {
    const size_t of_a_step = mode == "hf" ? 3 : 2, samples = of_a_step * 8 - 1;
    const auto batches = batches_of_a_round(mode, samples, 8, 2);
    ASSERT_EQ(batches.size(), 2 * of_a_step);  // one step a pass
    std::set<int64_t> seen;
    bool again = false;
    for (const auto& batch : batches) {
      EXPECT_EQ(batch.size(), 8U);
      const std::set<int64_t> once(batch.begin(), batch.end());
      again = again || once.size() < batch.size();
      seen.insert(batch.begin(), batch.end());
      EXPECT_LT(*once.rbegin(), static_cast<int64_t>(samples));
    }
    EXPECT_TRUE(again);
    EXPECT_GT(seen.size(), 8U);  // the batches of a step are independent
  }
}

// The product of the difference against the exact one, through a whole step of a real network.
TEST(PerFedAvg, SecondOrderIsTheExactOne) {
  auto settings = peravg_options("hf", 12, {});
  auto toy = make_toy(settings, 1, 0);
  ASSERT_EQ(toy.federation.clients[0].train_size(), 36);
  const auto& data = toy.federation.clients[0];
  const auto local = toy.local(0, 1, 42);
  const auto g = toy.model->init(5);
  const auto up = toy.method->local_update({}, pack(g), local).upload.at("value.w");

  const auto order = Rng(derive(42, 0)).permutation(36);
  const auto batch = [&](size_t k) {
    return data.take(Part::kTrain, std::span(order).subspan(12 * k, 12));
  };
  Weights at = g.clone();
  auto grad = at::empty_like(g.w);
  batch_gradient(*toy.model, at, batch(0), Loss::kCrossEntropy, 0, grad);
  at.w.sub_(grad, kAlpha);
  batch_gradient(*toy.model, at, batch(1), Loss::kCrossEntropy, 0, grad);
  const auto product = hvp(*toy.model, g, batch(2), Loss::kCrossEntropy, 0, grad);
  const auto exact = grad - kAlpha * product;
  const auto taken = (g.w - up) / kBeta;
  const double second = (kAlpha * product).norm().item<double>();
  EXPECT_GT(second, 0.02 * exact.norm().item<double>());  // else there is nothing to see
  EXPECT_LT((taken - exact).norm().item<double>(), 0.02 * second);
}

// One step of rate alpha on one batch, or on everything.
TEST(PerFedAvg, EvaluatedAfterOneStep) {
  const auto stepped = [](const Pair& x) {
    const auto s = slope_at(kFirst, x);
    return Pair{kFirst[0] - kAlpha * s[0], kFirst[1] - kAlpha * s[1]};
  };
  const std::vector<Pair> mixed{kSampleA, kSampleB, kSampleA, kSampleB, kSampleA};
  const Pair all{(3 * kSampleA[0] + 2 * kSampleB[0]) / 5, (3 * kSampleA[1] + 2 * kSampleB[1]) / 5};
  auto whole = quadratic_toy({mixed}, peravg_options("fo", 2, {{"adapt_batches", 0}}));
  const auto views = views_of(whole, 0);
  expect_close(views.pre[0].w, kFirst);
  expect_close(views.post[0].w, stepped(all));
  EXPECT_TRUE(whole.global(whole.server())->w.equal(views.pre[0].w));

  auto one = quadratic_toy({mixed}, peravg_options("fo", 2));
  const auto post = views_of(one, 0).post[0].w;
  auto log = *one.federation.clients[0].log;
  std::erase_if(log, [](const auto& entry) { return entry.first != Part::kTrain; });
  ASSERT_EQ(log.size(), 1U);
  const auto& positions = log.front().second;
  ASSERT_EQ(positions.size(), 2U);
  Pair mean{};
  for (const int64_t p : positions)
    for (size_t j = 0; j < 2; ++j) mean[j] += mixed[static_cast<size_t>(p)][j] / 2;
  expect_close(post, stepped(mean));
}

TEST(PerFedAvg, NewcomersTakeStepsOfTheirOwn) {
  for (const double steps : {1.0, 4.0}) {
    auto toy = quadratic_toy({copies(kSampleA, 4)}, peravg_options("fo", 2, {{"ft_steps", steps}}),
                             {copies(kSampleB, 4)});
    toy.play(1, 2);
    const auto g = pair_of(toy.server().at("g.w"));
    const auto views = views_of(toy, 2);
    Pair expected{};
    for (size_t j = 0; j < 2; ++j)
      expected[j] =
          kSampleB[j] + std::pow(1 - kAlpha * kCurvature[j], steps) * (g[j] - kSampleB[j]);
    expect_close(views.pre[1].w, g);
    expect_close(views.post[1].w, expected);
  }
}

TEST(PerFedAvg, TellsWhoseBatchesAreDrawnWithReplacement) {
  auto toy = quadratic_toy({copies(kSampleA, 15), copies(kSampleB, 50)}, peravg_options("fo", 8));
  const auto report = toy.evaluate(0);
  ASSERT_EQ(report.exhibits.size(), 1U);
  const auto expected = at::tensor({1.0, 1.0, 3.0, 0.0}).view({2, 2});
  EXPECT_TRUE(report.exhibits[0].value.to(at::kDouble).equal(expected.to(at::kDouble)));
}

}  // namespace
}  // namespace tessera::test
