#include "model/gan.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::distance;
using testing::normal;
using testing::sigmoid;

/// Small enough for a napkin or a loop over coordinates.
GanSpec small(std::vector<int64_t> sample, int64_t classes = 3) {
  return {.sample = std::move(sample),
          .classes = classes,
          .noise = 4,
          .code = 2,
          .hidden = {6, 5},
          .channels = {2, 3}};
}

Tensor pixels(const GanSpec& spec, int64_t n, uint64_t key) {
  return at::sigmoid(normal({n, spec.sample[0], spec.sample[1], spec.sample[2]}, key));
}

/// Float64 and away from the zeros that biases begin with.
Tensor shaken(const Tensor& w, uint64_t key) {
  return w.to(at::kDouble) + 0.1 * normal({w.numel()}, key);
}

/// The slope of `value` along coordinate i.
double slope(const std::function<double(const Tensor&)>& value, const Tensor& w, int64_t i) {
  constexpr double kStep = 1e-6;
  auto up = w.clone(), down = w.clone();
  up[i] += kStep, down[i] -= kStep;
  return (value(up) - value(down)) / (2 * kStep);
}

TEST(Gan, SizesAreThoseOfTheSpecification) {
  const Gan gan({{1, 28, 28}, 10});
  EXPECT_EQ(gan.generator.layout().numel(),
            10 * 16 + (80 + 1) * 256 + (256 + 1) * 512 + (512 + 1) * 784);
  // Convolutions of 4×4 leave 7×7 places; then codes, their projection, and a linear layer.
  EXPECT_EQ(gan.discriminator.layout().numel(),
            (16 + 1) * 32 + (32 * 16 + 1) * 64 + 10 * 16 + 64 * 49 * 16 + (64 * 49 + 1));
  EXPECT_THROW(Discriminator({{784}, 10}), std::invalid_argument);
  EXPECT_THROW(Discriminator({{1, 3, 28}, 10}), std::invalid_argument);
}

TEST(Gan, AGeneratorByHand) {
  const Gan gan({.sample = {1, 4, 4},
                 .classes = 2,
                 .noise = 1,
                 .code = 1,
                 .hidden = {1},
                 .channels = {1, 1}});
  // Codes 3 and −1; hidden = ReLU(2 z + code − 1); pixel k = σ(hidden (k + 1) / 16 − 0.5).
  const auto w = at::cat({at::tensor({3.0, -1.0, 2.0, 1.0, -1.0}),
                          at::arange(1, 17).to(at::kDouble) / 16, at::full({16}, -0.5)})
                     .to(at::kDouble);
  const auto got = gan.generator.forward(w, at::tensor({0.25, 0.25}, at::kDouble).view({2, 1}),
                                         at::tensor({0, 1}, at::kLong));
  ASSERT_EQ(got.sizes(), at::IntArrayRef({2, 1, 4, 4}));
  for (int64_t k = 0; k < 16; ++k) {
    EXPECT_NEAR(got[0].flatten()[k].item<double>(),
                sigmoid(2.5 * static_cast<double>(k + 1) / 16 - 0.5), 1e-12);
    EXPECT_NEAR(got[1].flatten()[k].item<double>(), sigmoid(-0.5), 1e-12) << "ReLU is closed";
  }
}

TEST(Gan, ADiscriminatorByHand) {
  const Gan gan({.sample = {1, 4, 4},
                 .classes = 2,
                 .noise = 1,
                 .code = 1,
                 .hidden = {1},
                 .channels = {1, 1}});
  const auto& net = gan.discriminator;
  auto w = at::zeros({net.layout().numel()}, at::kDouble);
  const auto p = net.layout().views(w);
  // The first kernel reads one pixel in four, behind the border of zeros: (0, 0), (0, 2), …
  p[0][0][0][1][1] = 2;
  p[1].fill_(-0.5);
  p[2].fill_(1);  // the second sums up the 2×2 map
  p[3].fill_(0.25);
  p[4].copy_(at::tensor({1.0, -2.0}).view({2, 1}));
  p[5].fill_(3), p[6].fill_(0.5), p[7].fill_(0.125);
  auto x = at::full({2, 1, 4, 4}, 0.9, at::kDouble);
  for (const int64_t at : {0, 2, 8, 10}) x.view({2, 16}).select(1, at).fill_(0.5);
  x[0][0][0][0] = 1.0;
  const auto leaky = [](double value) { return value > 0 ? value : 0.2 * value; };
  // Grey is 0 to the network, white 1: entries are leaky(−0.5) but for one leaky(1.5).
  const double h0 = leaky(1.5 - 0.1 * 3 + 0.25), h1 = leaky(-0.1 * 4 + 0.25);
  const auto y = at::tensor({0, 1}, at::kLong);
  const auto got = net.forward(w, x, y);
  EXPECT_NEAR(got[0].item<double>(), h0 * (0.5 + 3 * 1) + 0.125, 1e-12);
  EXPECT_NEAR(got[1].item<double>(), h1 * (0.5 - 3 * 2) + 0.125, 1e-12);
  EXPECT_LT(distance(net.trace(w, x, y).scores, got), 1e-12);
}

TEST(Gan, LossesByHand) {
  const auto real = at::tensor({0.0, 2.0}, at::kDouble), made = at::tensor({-1.0}, at::kDouble);
  const auto plus = [](double x) { return std::log1p(std::exp(x)); };
  EXPECT_NEAR(discriminator_loss(real, made).item<double>(),
              (std::log(2.0) + plus(-2)) / 2 + plus(-1), 1e-12);
  EXPECT_NEAR(generator_loss(made).item<double>(), plus(1), 1e-12);
}

TEST(Gan, GradientsAreFiniteDifferences) {
  const auto spec = small({2, 6, 8});
  const Gan gan(spec);
  const auto g = shaken(gan.generator.init(1), 2), d = shaken(gan.discriminator.init(3), 4);
  const auto y = testing::labels(5, 3, 5);
  const auto real = pixels(spec, 5, 6), z = normal({5, 4}, 7);
  const auto of_generator = [&](const Tensor& w) {
    return generator_loss(gan.discriminator.forward(d, gan.generator.forward(w, z, y), y));
  };
  const auto of_discriminator = [&](const Tensor& w) {
    return discriminator_loss(gan.discriminator.forward(w, real, y),
                              gan.discriminator.forward(w, gan.generator.forward(g, z, y), y));
  };
  const auto compare = [](const auto& loss, const Tensor& w) {
    const auto leaf = w.clone().requires_grad_(true);
    const Tensor grad = torch::autograd::grad({loss(leaf)}, {leaf})[0];
    const auto value = [&](const Tensor& at) { return loss(at).template item<double>(); };
    Tensor truth = at::empty_like(grad);
    for (int64_t i = 0; i < w.numel(); ++i) truth[i] = slope(value, w, i);
    EXPECT_LT(distance(grad, truth), 1e-7);
    EXPECT_GT(grad.norm().item<double>(), 1e-3);
  };
  compare(of_generator, g);
  compare(of_discriminator, d);
}

// Sides that a stride of 2 does not divide leave pixels at the border to whose gradient nothing
// flows back unless the transposed convolution is told of them.
TEST(Gan, EachSamplesGradientIsThatOfALoop) {
  for (const auto& sample : {std::vector<int64_t>{1, 8, 8}, {3, 5, 7}, {2, 9, 4}}) {
    const auto spec = small(sample);
    const Gan gan(spec);
    const auto w = shaken(gan.discriminator.init(1), 2);
    const auto x = pixels(spec, 4, 3);
    const auto y = testing::labels(4, 3, 4);
    const auto slopes = normal({4}, 5);
    const auto trace = gan.discriminator.trace(w, x, y);
    const auto got = gan.discriminator.sample_gradients(w, trace, slopes);
    ASSERT_EQ(got.sizes(), at::IntArrayRef({4, w.numel()}));
    for (int64_t n = 0; n < 4; ++n) {
      const auto leaf = w.clone().requires_grad_(true);
      const auto score =
          gan.discriminator.forward(leaf, x.narrow(0, n, 1), y.narrow(0, n, 1)).sum() * slopes[n];
      EXPECT_LT(distance(got[n], torch::autograd::grad({score}, {leaf})[0]), 1e-12) << n;
    }
  }
}

TEST(Gan, PicturesFollowFromTheirKey) {
  const Gan gan(small({1, 4, 4}));
  const auto weights = gan.init(1);
  EXPECT_FALSE(weights.generator.equal(gan.init(2).generator));
  const auto y = at::tensor({0, 1, 2, 2}, at::kLong);
  const auto made = gan.pictures(weights.generator, y, 5);
  EXPECT_TRUE(made.equal(gan.pictures(weights.generator, y, 5)));
  EXPECT_FALSE(made.equal(gan.pictures(weights.generator, y, 6)));
  EXPECT_GE(made.min().item<double>(), 0);
  EXPECT_LE(made.max().item<double>(), 1);
  // A standard normal: the mean of 4000 numbers lies within four of its deviations.
  const auto z = gan.draw(1000, 9).to(at::kDouble);
  EXPECT_NEAR(z.mean().item<double>(), 0, 4 / std::sqrt(4000.0));
  EXPECT_NEAR(z.square().mean().item<double>(), 1, 4 * std::sqrt(2 / 4000.0));
}

}  // namespace
}  // namespace tessera
