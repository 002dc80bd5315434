#include "model/sequential.hpp"

#include "model/test_data.hpp"

namespace tessera {
namespace {

using Values = std::vector<double>;

struct Image {
  int64_t channels, height, width;
  Values values;
  double at(int64_t c, int64_t i, int64_t j) const {
    const bool inside = i >= 0 && j >= 0 && i < height && j < width;
    return inside ? values[static_cast<size_t>((c * height + i) * width + j)] : 0.0;
  }
};

/// Convolution, ReLU, then max-pool, from the definition.
Image naive_conv(const Image& x, const double* w, const double* bias, const ConvStage& stage) {
  const int64_t k = stage.kernel;
  Image y{stage.out, x.height + 2 * stage.pad - k + 1, x.width + 2 * stage.pad - k + 1, {}};
  for (int64_t o = 0; o < y.channels; ++o) {
    for (int64_t i = 0; i < y.height; ++i) {
      for (int64_t j = 0; j < y.width; ++j) {
        double sum = bias[o];
        for (int64_t c = 0; c < x.channels; ++c) {
          for (int64_t a = 0; a < k; ++a) {
            for (int64_t b = 0; b < k; ++b) {
              sum += w[((o * x.channels + c) * k + a) * k + b] *
                     x.at(c, i + a - stage.pad, j + b - stage.pad);
            }
          }
        }
        y.values.push_back(std::max(sum, 0.0));
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
  Image image{spec.sample[0], spec.sample[1], spec.sample[2], Values(x, x + size)};
  for (const auto& stage : spec.convs) {
    const double* bias = w + stage.out * stage.in * stage.kernel * stage.kernel;
    image = naive_conv(image, w, bias, stage);
    w = bias + stage.out;
  }
  Values now = image.values;
  for (const auto& stage : spec.linears) {
    const double* bias = w + stage.out * stage.in;
    now = naive_linear(now, w, bias, stage.out);
    w = bias + stage.out;
    if (stage.relu) {
      for (double& value : now) value = std::max(value, 0.0);
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
