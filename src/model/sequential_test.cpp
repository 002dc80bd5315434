#include "model/sequential.hpp"

#include <cmath>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using Values = std::vector<double>;
using Activated = std::function<double(double)>;

struct Image {
  int64_t channels, height, width;
  Values values;
  double at(int64_t c, int64_t i, int64_t j) const {
    const bool inside = i >= 0 && j >= 0 && i < height && j < width;
    return inside ? values[static_cast<size_t>((c * height + i) * width + j)] : 0.0;
  }
};

/// Convolution, activation, then max-pool, from the definition.
Image naive_conv(const Image& x, const double* w, const double* bias, const ConvStage& stage,
                 const Activated& f) {
  const int64_t k = stage.kernel;
  const auto places = [&](int64_t side) { return (side + 2 * stage.pad - k) / stage.stride + 1; };
  Image y{stage.out, places(x.height), places(x.width), {}};
  for (int64_t o = 0; o < y.channels; ++o) {
    for (int64_t i = 0; i < y.height; ++i) {
      for (int64_t j = 0; j < y.width; ++j) {
        double sum = bias[o];
        for (int64_t c = 0; c < x.channels; ++c) {
          for (int64_t a = 0; a < k; ++a) {
            for (int64_t b = 0; b < k; ++b) {
              sum += w[((o * x.channels + c) * k + a) * k + b] *
                     x.at(c, i * stage.stride + a - stage.pad, j * stage.stride + b - stage.pad);
            }
          }
        }
        y.values.push_back(f(sum));
      }
    }
  }
  if (stage.pool == 0) return y;
  const auto pooled = [&](int64_t n) { return (n - stage.pool) / stage.pool_stride + 1; };
  Image z{y.channels, pooled(y.height), pooled(y.width), {}};
  for (int64_t o = 0; o < z.channels; ++o) {
    for (int64_t i = 0; i < z.height; ++i) {
      for (int64_t j = 0; j < z.width; ++j) {
        double most = 0.0;
        for (int64_t a = 0; a < stage.pool; ++a) {
          for (int64_t b = 0; b < stage.pool; ++b) {
            most = std::max(most, y.at(o, i * stage.pool_stride + a, j * stage.pool_stride + b));
          }
        }
        z.values.push_back(most);
      }
    }
  }
  return z;
}

Values naive_linear(const Values& x, const double* w, const double* bias, int64_t out) {
  Values y;
  for (int64_t o = 0; o < out; ++o) {
    double sum = bias[o];
    for (size_t i = 0; i < x.size(); ++i) sum += w[static_cast<size_t>(o) * x.size() + i] * x[i];
    y.push_back(sum);
  }
  return y;
}

/// One sample through the flat weights, reading them front to back.
Values naive(const SequentialSpec& spec, const double* w, const double* x) {
  const int64_t size = spec.sample[0] * spec.sample[1] * spec.sample[2];
  const Activated f = [&](double value) {
    return spec.activation == Activation::kSigmoid ? testing::sigmoid(value) : std::max(value, 0.0);
  };
  Image image{spec.sample[0], spec.sample[1], spec.sample[2], Values(x, x + size)};
  for (const auto& stage : spec.convs) {
    const double* bias = w + stage.out * stage.in * stage.kernel * stage.kernel;
    image = naive_conv(image, w, bias, stage, f);
    w = bias + stage.out;
  }
  Values now = image.values;
  for (const auto& stage : spec.linears) {
    const double* bias = w + stage.out * stage.in;
    now = naive_linear(now, w, bias, stage.out);
    w = bias + stage.out;
    if (stage.relu) {
      for (double& value : now) value = f(value);
    }
  }
  return now;
}

void expect_naive(const std::string& name, const Shape& shape) {
  const auto model = testing::made(name, shape);
  const auto& spec = dynamic_cast<const Sequential&>(*model).spec();
  const Weights at = testing::moved(*model, 4);
  const Tensor x = testing::batch(shape, 2, 5);
  const Tensor logits = model->forward(at, x, {true, 1}).logits;
  const Tensor single =
      model->forward({at.w.to(at::kFloat), at.b.to(at::kFloat)}, x.to(at::kFloat), {}).logits;
  for (int64_t n = 0; n < 2; ++n) {
    const auto expected = naive(spec, at.w.data_ptr<double>(), x[n].data_ptr<double>());
    ASSERT_EQ(expected.size(), static_cast<size_t>(shape.classes));
    for (size_t c = 0; c < expected.size(); ++c) {
      const auto k = static_cast<int64_t>(c);
      EXPECT_NEAR(logits[n][k].item<double>(), expected[c], 1e-10) << name;
      EXPECT_NEAR(single[n][k].item<double>(), expected[c], 1e-4) << name;
    }
  }
}

TEST(Sequential, ForwardMatchesLoops) {
  expect_naive("lenet", {{3, 32, 32}, 10});
  expect_naive("lenet", {{1, 28, 28}, 7});
  expect_naive("lenet16", {{2, 20, 17}, 3});
  expect_naive("alex28-s", {{1, 28, 28}, 10});
  expect_naive("lenet-smooth", {{1, 28, 28}, 10});
  expect_naive("lenet-smooth", {{3, 32, 17}, 4});
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

// One convolution of one number, so that every step can be written down: 3 pixels, a window of 2.
TEST(Sequential, ActivationsByHand) {
  for (const auto activation :
       {Activation::kRelu, Activation::kTanh, Activation::kGelu, Activation::kSigmoid}) {
    const auto f = [&](double x) {
      if (activation == Activation::kRelu) return std::max(x, 0.0);
      if (activation == Activation::kSigmoid) return testing::sigmoid(x);
      return activation == Activation::kTanh ? std::tanh(x) : gelu(x);
    };
    const SequentialSpec spec{{1, 2, 2},
                              {{.in = 1, .out = 1, .kernel = 1, .pool = 2, .pool_stride = 2}},
                              {{1, 1}, {1, 2, false}},
                              activation};
    const Sequential net(spec, Init::kHe0);
    // conv weight, bias; fc1 weight, bias; head weights, biases.
    const Weights at{at::tensor({2.0, -1.0, -0.5, 0.25, 1.0, -3.0, 0.0, 0.5}, at::kDouble),
                     at::empty({0}, at::kDouble)};
    // All below 0, where GELU falls: the largest image of −0.8, −1.2, −4 and −2 is that of −4.
    const std::vector<double> pixels{0.1, -0.1, -1.5, -0.5};
    double most = -1e9;
    for (const double p : pixels) most = std::max(most, f(2 * p - 1));
    const double hidden = f(-0.5 * most + 0.25);
    const auto out = net.forward(at, at::tensor(pixels, at::kDouble).view({1, 1, 2, 2}), {}).logits;
    EXPECT_NEAR(out[0][0].item<double>(), hidden, 1e-12);
    EXPECT_NEAR(out[0][1].item<double>(), -3 * hidden + 0.5, 1e-12);
    // The layers above are the same network of what the convolutions leave.
    const auto above = net.upper()->forward({at.w.slice(0, 2), at.b},
                                            at::full({1, 1, 1, 1}, most, at::kDouble), {});
    EXPECT_NEAR(above.logits[0][0].item<double>(), hidden, 1e-12);
  }
}

// Zeros in a share p of the maps, the rest divided by 1 − p; nothing in evaluation.
TEST(Sequential, DropoutAfterAConvolution) {
  const SequentialSpec spec{
      {1, 40, 40}, {{.in = 1, .out = 1, .kernel = 1, .dropout = 0.25}}, {{1600, 2, false}}};
  const Sequential net(spec, Init::kHe0);
  auto at = net.init(1);
  at.w.fill_(0), at.w[0].fill_(3);  // the map is three times the image
  const auto x = at::ones({2, 1, 40, 40});
  const auto features = net.forward(at, x, {true, 7}).features;
  const auto kept = features.eq(4.0), gone = features.eq(0.0);  // 3 / 0.75
  EXPECT_TRUE(kept.logical_or(gone).all().item<bool>());
  EXPECT_NEAR(gone.to(at::kFloat).mean().item<double>(), 0.25, 0.03);
  EXPECT_FALSE(at::equal(features[0], features[1]));
  EXPECT_TRUE(at::equal(features, net.forward(at, x, {true, 7}).features));
  EXPECT_FALSE(at::equal(features, net.forward(at, x, {true, 8}).features));
  EXPECT_TRUE(net.forward(at, x, {false, 7}).features.eq(3.0).all().item<bool>());
}

TEST(Sequential, MlpTakesSamplesOfAnyShape) {
  const auto image = testing::made("mlp100", {{1, 4, 6}, 3});
  const auto flat = testing::made("mlp100", {{24}, 3});
  const Weights at = image->init(2);
  const Tensor x = testing::normal({5, 1, 4, 6}, 3);
  EXPECT_TRUE(
      at::equal(image->forward(at, x, {}).logits, flat->forward(at, x.flatten(1), {}).logits));
}

TEST(Sequential, ABatchOfTheWrongShapeThrows) {
  const auto model = testing::made("lenet", {{1, 28, 28}, 10});
  EXPECT_ANY_THROW(model->forward(model->init(1), testing::normal({2, 3, 32, 32}, 1), {}));
}

}  // namespace
}  // namespace tessera
