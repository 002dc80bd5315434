#include "train/gan_training.hpp"

#include <map>

#include "model/test_data.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

using testing::distance;

const GanSpec kSmall{.sample = {1, 4, 4},
                     .classes = 2,
                     .noise = 4,
                     .code = 2,
                     .hidden = {16, 16},
                     .channels = {4, 8}};

/// n pictures of 4×4, nearly black for class 0 and nearly white for class 1, in values −1 … 3.
ClientData two_shades(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->y = at::arange(n, at::kLong).remainder(2);
  const auto noise = testing::normal({n, 1, 4, 4}, 3).to(at::kFloat) * 0.2;
  pool->x = (pool->y.to(at::kFloat) * 4 - 1).view({n, 1, 1, 1}) + noise;
  pool->x.clamp_(-1, 3);
  pool->classes = 2;
  ClientData out;
  out.pool = pool;
  for (int64_t i = 0; i < n; ++i) out.train.push_back(n - 1 - i);
  return out;
}

struct GanTrainingTest : ::testing::Test {
  Gan gan{kSmall};
  GanWeights start = gan.init(1);
  std::unique_ptr<Model> model = testing::made("mlp100", {{1, 4, 4}, 2});
  ClientData data = two_shades(40);
  Site site() const { return {*model, data, 1, 7}; }
};

TEST(Optimizer, AdamWithAnotherBeta) {
  TrainOptions options;
  options.optimizer = "adam";
  Optimizer optimizer(options, 0.1, 0.5);
  auto w = at::zeros({1}, at::kDouble), g = at::ones({1}, at::kDouble);
  optimizer.step(w, g);
  EXPECT_NEAR(w.item<double>(), -0.1, 1e-8);
  g.fill_(3);
  optimizer.step(w, g);
  const double first = (0.5 * 0.5 + 0.5 * 3) / 0.75;
  const double second = (0.999 * 0.001 + 0.001 * 9) / (1 - 0.999 * 0.999);
  EXPECT_NEAR(w.item<double>(), -0.1 - 0.1 * first / std::sqrt(second), 1e-8);
}

TEST_F(GanTrainingTest, AStepIsOneOfEachNetwork) {
  GanTraining options;
  options.batch = 64, options.lr = 0.01;
  const auto got = train_gan(gan, start, site(), options);
  EXPECT_EQ(got.steps, 1);
  // Adam's first step is the rate times the sign of the gradient.
  for (const auto& [after, before] : {std::pair(got.weights.generator, start.generator),
                                      std::pair(got.weights.discriminator, start.discriminator)}) {
    const auto far = (after - before).abs();
    EXPECT_LE(far.max().item<double>(), 0.01 * (1 + 1e-4));
    EXPECT_GT((far > 0.009).to(at::kDouble).mean().item<double>(), 0.2) << "closed ReLUs rest";
  }
  // The scores begin near 0, so the losses near log 4 and log 2.
  EXPECT_NEAR(got.discriminator_loss, std::log(4.0), 1.5);
  EXPECT_NEAR(got.generator_loss, std::log(2.0), 1.0);
  EXPECT_TRUE(start.generator.equal(gan.init(1).generator)) << "the start is left as it is";
  options.batch = 16, options.epochs = 2;
  EXPECT_EQ(train_gan(gan, start, site(), options).steps, 6);
}

TEST_F(GanTrainingTest, AGeneratorLearnsWhatItsClassesLookLike) {
  GanTraining options;
  options.epochs = 150, options.lr = 2e-3;
  const auto got = train_gan(gan, start, site(), options).weights.generator;
  const auto shade = [&](int64_t label) {
    const auto y = at::full({50}, label, at::kLong);
    return gan.pictures(got, y, 5).mean().item<double>();
  };
  EXPECT_LT(shade(0), 0.25);
  EXPECT_GT(shade(1), 0.75);
}

TEST_F(GanTrainingTest, ClippedSumsAreThoseOfALoop) {
  const auto range = pixel_range(data);
  auto real = data.range(Part::kTrain, 0, 6);
  real.x = range.to_pixels(real.x);
  const auto made = gan.pictures(start.generator, real.y, 3);
  const auto plain = [&](const Examples& some, const Tensor& beside) {
    auto grad = at::empty_like(start.discriminator);
    const double loss = discriminator_gradient(gan, start.discriminator, some, beside, {}, 1, grad);
    return std::pair(grad.to(at::kDouble), loss);
  };
  GanTraining noisy;
  noisy.noise_std = 1e-9;
  const auto guarded = [&](double clip) {
    noisy.clip = clip;
    auto grad = at::empty_like(start.discriminator);
    discriminator_gradient(gan, start.discriminator, real, made, noisy, 1, grad);
    return grad.to(at::kDouble);
  };
  // Nothing is cut: the mean gradient.
  EXPECT_LT(distance(guarded(1e3), plain(real, made).first), 1e-5);
  // Cut at the median norm: three of six pairs.
  std::vector<Tensor> each;
  std::vector<double> norms;
  for (int64_t i = 0; i < 6; ++i) {
    each.push_back(
        plain({real.x.narrow(0, i, 1), real.y.narrow(0, i, 1)}, made.narrow(0, i, 1)).first);
    norms.push_back(each.back().norm().item<double>());
  }
  std::sort(norms.begin(), norms.end());
  const double clip = (norms[2] + norms[3]) / 2;
  ASSERT_LT(norms[2], norms[3]);
  auto sum = at::zeros_like(each[0]);
  for (const auto& one : each) sum += one * std::min(1.0, clip / one.norm().item<double>());
  EXPECT_LT(distance(guarded(clip), sum / 6), 1e-5);
}

TEST_F(GanTrainingTest, NoiseHasItsDeviation) {
  auto real = data.range(Part::kTrain, 0, 8);
  const auto made = gan.pictures(start.generator, real.y, 3);
  GanTraining options;
  options.clip = 0.01, options.noise_std = 1e-9;
  const auto gradient = [&](uint64_t key) {
    auto grad = at::empty_like(start.discriminator);
    discriminator_gradient(gan, start.discriminator, real, made, options, key, grad);
    return grad.to(at::kDouble);
  };
  const auto quiet = gradient(1);
  options.noise_std = 2;
  const auto noise = gradient(1) - quiet;
  const double n = static_cast<double>(noise.numel()), expected = 2 * 0.01 / 8;
  const double got = std::sqrt(noise.square().mean().item<double>());
  EXPECT_NEAR(got, expected, 4 * expected / std::sqrt(2 * n));
  EXPECT_FALSE(gradient(1).equal(gradient(2)));
}

TEST(GanClasses, TheRarerTheMore) {
  const std::vector<int64_t> counts{9, 0, 4};
  const auto all = inverse_shares(counts, false), own = inverse_shares(counts, true);
  EXPECT_NEAR(all[0], 1.0 / 13, 1e-12);
  EXPECT_NEAR(all[1], 10.0 / 13, 1e-12);
  EXPECT_NEAR(all[2], 2.0 / 13, 1e-12);
  EXPECT_NEAR(own[0], 1.0 / 3, 1e-12);
  EXPECT_EQ(own[1], 0);
  EXPECT_NEAR(own[2], 2.0 / 3, 1e-12);
  constexpr int64_t kDraws = 13000;
  for (const auto& shares : {all, own}) {
    const auto y = draw_classes(shares, kDraws, 4);
    for (size_t c = 0; c < 3; ++c) {
      const auto found = (y == static_cast<int64_t>(c)).sum().item<int64_t>();
      const double expected = kDraws * shares[c];
      EXPECT_NEAR(static_cast<double>(found), expected, 4 * std::sqrt(expected * (1 - shares[c])));
    }
    EXPECT_TRUE(y.equal(draw_classes(shares, kDraws, 4)));
  }
}

TEST_F(GanTrainingTest, PixelsAreTheRangeOfTheTrainingRows) {
  data.train.resize(30);
  const auto range = pixel_range(data);
  EXPECT_EQ(range.low, -1);
  EXPECT_EQ(range.high, 3);
  const auto x = data.range(Part::kTrain, 0, 30).x;
  EXPECT_LT(distance(range.to_inputs(range.to_pixels(x)), x), 1e-6);
  EXPECT_NEAR(range.to_pixels(x).max().item<double>(), 1, 1e-6);
  data.train.clear();
  EXPECT_EQ(pixel_range(data).high, 1) << "without rows pixels are the inputs";
}

TEST_F(GanTrainingTest, MadePicturesJoinTheOwn) {
  data.train.erase(data.train.begin());  // 19 of class 1, which comes last, 20 of class 0
  const auto mixed = GanUse{.ratio = 0.5}.apply(gan, start.generator, data, 11);
  ASSERT_EQ(mixed.train_size(), 39 + 20);
  const auto all = mixed.range(Part::kTrain, 0, mixed.train_size());
  int64_t own = 0;
  for (int64_t i = 0; i < mixed.train_size(); ++i)
    for (const int64_t row : data.train)
      own += all.x[i].equal(data.pool->x[row]) && all.y[i].equal(data.pool->y[row]) ? 1 : 0;
  EXPECT_EQ(own, 39);
  EXPECT_GE(all.x.min().item<double>(), -1);
  EXPECT_LE(all.x.max().item<double>(), 3);
  EXPECT_NE(mixed.train.front(), 0) << "rows stand in random order";
  EXPECT_EQ((GanUse{.ratio = 0}.apply(gan, start.generator, data, 11).train_size()), 39);
}

TEST_F(GanTrainingTest, MadePicturesReplaceTheOwn) {
  const auto made = GanUse{.use = "replace"}.apply(gan, start.generator, data, 11);
  EXPECT_EQ(made.class_counts(Part::kTrain), data.class_counts(Part::kTrain));
  const auto other = [&] {
    // Other pictures with the same labels, darkest and brightest value.
    auto pool = std::make_shared<Pool>(*data.pool);
    pool->x = data.pool->x.flip({3});
    auto out = data;
    out.pool = pool;
    return GanUse{.use = "replace"}.apply(gan, start.generator, out, 11);
  }();
  EXPECT_TRUE(made.pool->x.equal(other.pool->x)) << "nothing of the own pictures is left";
}

TEST(GanUse, WaitsForTheGenerator) {
  const GanUse half;
  EXPECT_FALSE(half.due(5, 10));
  EXPECT_TRUE(half.due(6, 10));
  EXPECT_TRUE((GanUse{.warmup = 0}.due(1, 10)));
  EXPECT_FALSE((GanUse{.use = "nothing", .warmup = 0}.due(11, 10)));
}

}  // namespace
}  // namespace tessera
