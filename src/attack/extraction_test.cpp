#include "attack/extraction.hpp"

#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::made;
using testing::normal;

FeatureStatistics one(double mean, double variance) {
  return {at::full({1}, mean, at::kDouble), at::full({1, 1}, variance, at::kDouble)};
}

TEST(Frechet, OneDimensionByHand) {
  // (m − m')² + (s − s')², s the deviations.
  EXPECT_NEAR(frechet_distance(one(1, 4), one(3, 9)), 4 + 1, 1e-12);
  EXPECT_NEAR(frechet_distance(one(0, 0), one(0, 2.25)), 2.25, 1e-12);
  EXPECT_NEAR(frechet_distance(one(2, 5), one(2, 5)), 0, 1e-12);
}

TEST(Frechet, CovariancesThatCommute) {
  // One basis Q: the distance is that of each axis, |√a − √b|².
  const auto basis = std::get<0>(at::linalg_qr(normal({4, 4}, 1)));
  const auto a = at::tensor({1.0, 4.0, 0.0, 9.0}, at::kDouble),
             b = at::tensor({4.0, 4.0, 1.0, 0.25}, at::kDouble);
  const auto in_basis = [&](const Tensor& values) { return (basis * values).mm(basis.t()); };
  const auto shift = normal({4}, 2), zero = at::zeros({4}, at::kDouble);
  const double expected =
      shift.square().sum().item<double>() + (a.sqrt() - b.sqrt()).square().sum().item<double>();
  // An eigenvalue of 0 is one of 1e-16 after rounding, and its root 1e-8.
  EXPECT_NEAR(frechet_distance({zero, in_basis(a)}, {shift, in_basis(b)}), expected, 1e-7);
  EXPECT_NEAR(frechet_distance({shift, in_basis(b)}, {zero, in_basis(a)}), expected, 1e-7);
}

// Of covariances that do not commute: A^½ B A^½ has the eigenvalues of A B, which a 2×2 matrix
// tells by trace and determinant.
TEST(Frechet, TwoDimensionsByTraceAndDeterminant) {
  const auto a = at::tensor({2.0, 1.0, 1.0, 3.0}, at::kDouble).view({2, 2}),
             b = at::tensor({5.0, -2.0, -2.0, 1.0}, at::kDouble).view({2, 2});
  const double trace = 2 * 5 - 2 - 2 + 3 * 1, determinant = (2 * 3 - 1) * (5 * 1 - 4);
  // √x + √y = √(x + y + 2 √(xy)).
  const double roots = std::sqrt(trace + 2 * std::sqrt(determinant));
  const auto zero = at::zeros({2}, at::kDouble);
  EXPECT_NEAR(frechet_distance({zero, a}, {zero, b}), 5 + 6 - 2 * roots, 1e-10);
}

TEST(Frechet, StatisticsByHand) {
  const auto got = statistics_of(at::tensor({1.0, 0.0, 3.0, 4.0}, at::kDouble).view({2, 2}));
  EXPECT_TRUE(got.mean.equal(at::tensor({2.0, 2.0}, at::kDouble)));
  EXPECT_TRUE(got.covariance.equal(at::tensor({2.0, 4.0, 4.0, 8.0}, at::kDouble).view({2, 2})));
  EXPECT_THROW(statistics_of(at::ones({1, 2})), std::invalid_argument);
}

/// A lenet that knows its digits, from none that the tests show it: 84 features.
struct Evaluator {
  std::unique_ptr<Model> model = made("lenet", kDigits);
  Weights at;
  Evaluator() {
    const auto own = testing::digits(3000, 6000);
    ClientData data;
    data.pool = std::make_shared<Pool>(Pool{own.x, own.y, 10});
    for (int64_t i = 0; i < 3000; ++i) data.train.push_back(i);
    TrainOptions options;
    options.epochs = 2, options.lr = 0.05, options.momentum = 0.9, options.loss = "ce";
    at = local_sgd(model->init(3), {*model, data, 1, 3}, options).weights;
  }
  static InvertedModel target() {
    static const Evaluator once;
    return {*once.model, once.at, {1, 28, 28}, {}};
  }
};

/// A generator that knows by heart what it was given: z chooses nothing, the class's picture comes
/// out of the bias of a class that is switched on.
GanWeights by_heart(const Gan& gan, const Tensor& pictures) {
  auto w = at::zeros({gan.generator.layout().numel()});
  const auto p = gan.generator.layout().views(w);
  const int64_t classes = gan.spec.classes;
  p[0].narrow(1, 0, classes).copy_(at::eye(classes));  // codes are one-hot
  p[1].narrow(1, gan.spec.noise, classes).narrow(0, 0, classes).copy_(at::eye(classes));
  p[3].narrow(1, 0, classes).narrow(0, 0, classes).copy_(at::eye(classes));
  p[5].narrow(1, 0, classes).copy_(at::logit(pictures.flatten(1), 1e-4).t());
  return {w, gan.discriminator.init(1)};
}

TEST(Extraction, DistancesTellDigitsFromNoise) {
  TESSERA_NEED_SET("mnist");
  const auto evaluator = Evaluator::target();
  const auto victim = testing::digits(400), other = testing::digits(400, 400);
  const Gan gan({{1, 28, 28}, 10});
  // A picture of each class that the victim has.
  std::vector<Tensor> first;
  for (int64_t c = 0; c < 10; ++c)
    first.push_back(victim.x[at::nonzero(victim.y == c)[0].item<int64_t>()]);
  const auto known = by_heart(gan, at::stack(first));
  const auto leak = generator_leak(gan, known.generator, evaluator, victim, other, 5);
  EXPECT_GE(leak.mean_accuracy, 0.8);
  ASSERT_EQ(leak.accuracy.size(), 10U);
  EXPECT_LT(leak.apart, leak.victim) << "a picture a class is not all of them";
  EXPECT_LT(leak.victim, leak.noise);
  const auto blind = generator_leak(gan, gan.init(1).generator, evaluator, victim, other, 5);
  EXPECT_LT(leak.victim, blind.victim);
  EXPECT_LE(blind.mean_accuracy, 0.4);
  RecordProperty("distance",
                 fmt::format("by heart {:.1f}, untrained {:.1f}, real {:.1f}, noise {:.1f}",
                             leak.victim, blind.victim, leak.apart, leak.noise));
}

// An attacker with reconstructed pairs of a victim's two digits.
TEST(Extraction, AnAttackersGanComesNearer) {
  TESSERA_NEED_SET("mnist");
  const auto evaluator = Evaluator::target();
  const auto of_two = [](int64_t begin, int64_t n) {
    const auto all = testing::digits(n, begin);
    const auto at = at::nonzero(all.y < 2).flatten();
    return Examples{all.x.index_select(0, at), all.y.index_select(0, at)};
  };
  const auto victim = of_two(0, 400), other = of_two(400, 400);
  const Gan gan({.sample = {1, 28, 28}, .classes = 2, .hidden = {64, 128}, .channels = {8, 16}});
  GanTraining options;
  options.epochs = 40, options.lr = 1e-3;
  const auto got = extract_by_gan(gan, victim, options, 7);
  const auto after = generator_leak(gan, got.generator, evaluator, victim, other, 5);
  const auto before = generator_leak(gan, gan.init(7).generator, evaluator, victim, other, 5);
  EXPECT_LT(after.victim, 0.5 * before.victim);
  EXPECT_GE(after.mean_accuracy, 0.7);
  RecordProperty("distance", fmt::format("{:.1f} to {:.1f}; other {:.1f}, apart {:.1f}",
                                         before.victim, after.victim, after.other, after.apart));
}

// One pixel, classes by its brightness: the generator learns to make class 1 white.
TEST(Extraction, AParticipantsGeneratorFollowsTheModel) {
  ModelOptions linear;
  linear.name = "mlp", linear.hidden = {};
  const auto model = *make_model(linear, {{1, 4, 4}, 2});
  auto w = at::zeros({34});
  w.narrow(0, 16, 16).fill_(1);  // class 1 by Σ pixels − 8
  w[33] = -8;
  const Gan gan({.sample = {1, 4, 4}, .classes = 2, .noise = 4, .code = 2, .hidden = {16}});
  const auto start = gan.init(1).generator;
  const InvertedModel target{*model, {w, at::empty({0})}, {1, 4, 4}, {}};
  GanInversionOptions options;
  options.lr = 0.02;
  const auto shade = [&](const Tensor& generator, int64_t label) {
    return gan.pictures(generator, at::full({20}, label, at::kLong), 3).mean().item<double>();
  };
  EXPECT_GT(shade(invert_by_generator(target, gan, start, 1, options, 2), 1), 0.8);
  EXPECT_LT(shade(invert_by_generator(target, gan, start, 0, options, 2), 0), 0.2);
  EXPECT_TRUE(start.equal(gan.init(1).generator));
  const auto lies = mislabelled(gan, start, 1, 0, 5, 4);
  EXPECT_TRUE(lies.y.equal(at::zeros({5}, at::kLong)));
  EXPECT_TRUE(lies.x.equal(gan.pictures(start, at::ones({5}, at::kLong), 4)));
}

}  // namespace
}  // namespace tessera
