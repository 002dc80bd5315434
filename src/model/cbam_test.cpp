#include "model/cbam.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::kPhotos;
using testing::sigmoid;
using torch::autograd::grad;

std::shared_ptr<const Sequential> sequential(const std::string& name, const Shape& shape) {
  auto made = make_model(name, shape);
  if (!made.ok()) return nullptr;  // a network for other samples
  const std::shared_ptr<const Model> model = std::move(*made);
  return std::dynamic_pointer_cast<const Sequential>(model);
}

/// Two channels on a 3×4 map: small enough for loops and long enough to notice swapped axes.
std::shared_ptr<const Sequential> tiny() {
  return std::make_shared<Sequential>(
      SequentialSpec{{1, 6, 5},
                     {{.in = 1, .out = 2, .kernel = 3, .pool = 2, .pool_stride = 1},
                      {.in = 2, .out = 4, .kernel = 2, .pad = 1}},
                     {{48, 5}, {5, 3, false}}},
      Init::kHe0);
}

struct Attended {
  std::vector<double> map, channel, spatial;
};

/// The module from its definition, one sample [C, H, W] and loops.
Attended naive(const double* f, int64_t channels, int64_t height, int64_t width, const double* own,
               int64_t units, int64_t kernel, double scale) {
  const double* w0 = own;
  const double* w1 = w0 + units * channels;
  const double* bias = w1 + channels * units;
  const double* conv = bias + channels;
  const double conv_bias = conv[2 * kernel * kernel];
  const int64_t pixels = height * width;
  Attended out;
  std::vector<double> score(bias, bias + channels);
  for (const bool take_max : {false, true}) {
    std::vector<double> pooled, hidden(units);
    for (int64_t c = 0; c < channels; ++c) {
      const double* plane = f + c * pixels;
      double sum = 0;
      for (int64_t p = 0; p < pixels; ++p) sum += plane[p];
      pooled.push_back(take_max ? *std::max_element(plane, plane + pixels)
                                : sum / static_cast<double>(pixels));
    }
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t c = 0; c < channels; ++c) hidden[u] += w0[u * channels + c] * pooled[c];
      for (int64_t c = 0; c < channels; ++c)
        score[c] += w1[c * units + u] * std::max(hidden[u], 0.0);
    }
  }
  for (int64_t c = 0; c < channels; ++c) out.channel.push_back(sigmoid(score[c]));
  const auto chosen = [&](int64_t c, int64_t p) { return out.channel[c] * f[c * pixels + p]; };
  std::vector<double> seen;  // [2, pixels]
  for (const bool take_max : {false, true})
    for (int64_t p = 0; p < pixels; ++p) {
      double sum = 0, most = chosen(0, p);
      for (int64_t c = 0; c < channels; ++c)
        sum += chosen(c, p), most = std::max(most, chosen(c, p));
      seen.push_back(take_max ? most : sum / static_cast<double>(channels));
    }
  const int64_t reach = kernel / 2;
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) {
      double sum = conv_bias;
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t a = 0; a < kernel; ++a)
          for (int64_t b = 0; b < kernel; ++b) {
            const int64_t y = i + a - reach, x = j + b - reach;
            if (y < 0 || x < 0 || y >= height || x >= width) continue;
            sum += conv[(s * kernel + a) * kernel + b] * seen[s * pixels + y * width + x];
          }
      out.spatial.push_back(sigmoid(sum));
    }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < pixels; ++p) out.map.push_back(scale * out.spatial[p] * chosen(c, p));
  return out;
}

TEST(Cbam, IsItsDefinition) {
  const auto base = tiny();
  ASSERT_EQ(base->map_shape(), (std::vector<int64_t>{4, 4, 3}));
  const Cbam net(base, {.reduction = 2, .kernel = 3, .bias = 0.7, .std = 0.8});
  const Weights at = testing::moved(net, 3);
  const Tensor x = testing::batch({{1, 6, 5}, 3}, 5, 4);
  const int64_t d = base->layout().numel();
  ASSERT_EQ(net.layout().numel(), d + 2 * 4 * 2 + 4 + 2 * 9 + 1);
  const Weights below{at.w.narrow(0, 0, d), at.b};
  const Tensor maps = base->maps(below, x);
  std::vector<Tensor> attended;
  const auto gates = net.gates(at, x);
  for (int64_t n = 0; n < 5; ++n) {
    auto one = naive(maps[n].contiguous().data_ptr<double>(), 4, 4, 3, at.w.data_ptr<double>() + d,
                     2, 3, std::pow(1 + std::exp(-0.7), 2));
    attended.push_back(at::tensor(one.map, at::kDouble));
    EXPECT_TRUE(at::allclose(gates.channel[n], at::tensor(one.channel, at::kDouble)));
    EXPECT_TRUE(at::allclose(gates.spatial[n].flatten(), at::tensor(one.spatial, at::kDouble)));
  }
  const auto upper = base->upper();
  const Weights above{below.w.slice(0, d - upper->layout().numel()), at.b};
  EXPECT_TRUE(at::allclose(net.forward(at, x, {}).logits,
                           upper->forward(above, at::stack(attended), {}).logits, 1e-10, 1e-12));
}

TEST(Cbam, DerivativesMatchDifferences) {
  const Cbam net(tiny(), {.reduction = 2, .kernel = 3, .bias = 0.5, .std = 0.5});
  const Weights at = testing::moved(net, 5);
  const Tensor x = testing::batch({{1, 6, 5}, 3}, 4, 6), y = testing::labels(4, 3, 7);
  const auto loss = [&](const Tensor& w) {
    return loss_value(Loss::kCrossEntropy, net.forward({w, at.b}, x, {true, 1}).logits, y);
  };
  const auto gradient = [&](const Tensor& w, bool graph) {
    const Tensor leaf = w.requires_grad() ? w : w.detach().clone().requires_grad_();
    return grad({loss(leaf)}, {leaf}, {}, graph, graph)[0];
  };
  const Tensor exact = gradient(at.w, false);
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < at.w.numel(); ++i) {
    Tensor step = at::zeros_like(at.w);
    step[i] = kStep;
    const double slope = (loss(at.w + step) - loss(at.w - step)).item<double>() / (2 * kStep);
    EXPECT_NEAR(exact[i].item<double>(), slope, 1e-7 + 1e-5 * std::abs(slope)) << i;
  }
  // Second order: the Hessian along a direction, from the graph and from gradients.
  const Tensor direction = testing::normal({at.w.numel()}, 8);
  const Tensor leaf = at.w.clone().requires_grad_();
  const Tensor hvp = grad({(gradient(leaf, true) * direction).sum()}, {leaf})[0];
  const Tensor difference =
      (gradient(at.w + kStep * direction, false) - gradient(at.w - kStep * direction, false)) /
      (2 * kStep);
  EXPECT_LT(((hvp - difference).norm() / hvp.norm()).item<double>(), 1e-5);
}

TEST(Cbam, KernelFitsTheMap) {
  EXPECT_EQ(kernel_for({8, 9, 7}), 7);
  EXPECT_EQ(kernel_for({8, 7, 6}), 5);
  EXPECT_EQ(kernel_for({8, 3, 3}), 5);
  EXPECT_EQ(kernel_for({8, 2, 5}), 3);
  EXPECT_EQ(kernel_for({8, 1, 1}), 1);
  EXPECT_THROW(Cbam(tiny(), {.kernel = 4}), std::invalid_argument);
  EXPECT_THROW(Cbam(tiny(), {.kernel = 7}), std::invalid_argument);  // the map is 4×3
  EXPECT_NO_THROW(Cbam(tiny(), {.kernel = 5}));
  EXPECT_THROW(Cbam(sequential("mlp100", {{784}, 10}), {}), std::invalid_argument);
}

TEST(Cbam, SizeIsThatOfTheSpecification) {
  // docs/methods.md §3.2: 2 C²/rr + C + 2k² + 1 for cnn128 on 5×5 maps.
  const auto base = sequential("cnn128", kPhotos);
  const Cbam net(base, {});
  EXPECT_EQ(net.layout().numel() - base->layout().numel(), 2 * 128 * 128 / 16 + 128 + 2 * 25 + 1);
  // Fewer channels than the reduction still leave one unit.
  EXPECT_EQ(Cbam(tiny(), {.kernel = 1}).layout().numel() - tiny()->layout().numel(),
            2 * 4 + 4 + 2 + 1);
}

// Otherwise the classifier above, trained without the module, would have to be learned again.
TEST(Cbam, InsertionHardlyChangesThePrediction) {
  int64_t checked = 0;
  for (const auto& info : models())
    for (const auto& shape : {kDigits, kPhotos}) {
      const auto base = sequential(info.name, shape);
      if (!base || base->spec().convs.empty()) continue;
      ++checked;
      const Weights at = base->init(1);
      // Trained maps are several times as large as those of first weights; so are these.
      const Tensor x = 5 * testing::batch(shape, 32, 2).to(at::kFloat);
      const Tensor before = base->predict(at, x);
      const Cbam net(base, {});
      const Tensor change = net.predict(net.inserted(at, 3), x) - before;
      EXPECT_LT((change.norm() / before.norm()).item<double>(), 0.05) << info.name;
    }
  EXPECT_EQ(checked, 20);  // ten networks, two kinds of images
}

TEST(Cbam, OnMapsItIsTheSameNetwork) {
  const auto base = sequential("lenet16-bn", kDigits);
  const Cbam whole(base, {}), above(base->upper(), {});
  const Weights at = whole.init(9);
  const Weights below{at.w.narrow(0, 0, base->layout().numel()), at.b};
  const Tensor x = testing::batch(kDigits, 6, 10).to(at::kFloat);
  const Tensor maps = base->maps(below, x);
  EXPECT_EQ(maps.sizes().vec(), (std::vector<int64_t>{6, 32, 4, 4}));
  const Weights top{at.w.slice(0, at.w.numel() - above.layout().numel()),
                    at.b.slice(0, at.b.numel() - above.buffers().numel())};
  EXPECT_TRUE(at::allclose(whole.predict(at, x), above.predict(top, maps), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(whole.gates(at, x).spatial, above.gates(top, maps).spatial));
}

}  // namespace
}  // namespace tessera
