#include "model/fill.hpp"

#include <cmath>

#include "model/test_data.hpp"

namespace tessera {
namespace {

struct Expected {
  double he0;      // standard deviation with he0
  int64_t fan_in;  // torch: uniform in ±1/sqrt(fan_in)
};

/// Standard deviations of samples of n numbers scatter by 1/sqrt(2n); five times that is allowed.
void expect_deviation(const Tensor& values, double expected, const std::string& name) {
  const auto n = static_cast<double>(values.numel());
  const double deviation = std::sqrt(values.to(at::kDouble).pow(2).mean().item<double>());
  EXPECT_NEAR(deviation, expected, 5 * expected / std::sqrt(2 * n)) << name;
  EXPECT_NEAR(values.to(at::kDouble).mean().item<double>(), 0, 5 * expected / std::sqrt(n)) << name;
}

void check(const std::string& name, const Shape& shape,
           const std::map<std::string, Expected>& weights) {
  const auto he0 = testing::made(name, shape, Init::kHe0);
  const auto torch = testing::made(name, shape, Init::kTorch);
  const auto normal = he0->layout().views(he0->init(1).w);
  const auto uniform = torch->layout().views(torch->init(1).w);
  for (size_t i = 0; i < normal.size(); ++i) {
    const auto& slice = he0->layout().slices()[i];
    const auto& expected = weights.at(slice.block());
    const double bound = 1 / std::sqrt(static_cast<double>(expected.fan_in));
    const double largest = uniform[i].abs().max().item<double>();
    if (slice.name.ends_with(".weight")) {
      expect_deviation(normal[i], expected.he0, slice.name);
      EXPECT_GT(largest, bound * 0.95) << slice.name;
    } else {
      EXPECT_EQ(normal[i].abs().max().item<float>(), 0.0F) << slice.name;
    }
    expect_deviation(uniform[i], bound / std::sqrt(3.0), slice.name);
    EXPECT_LE(largest, bound * (1 + 1e-6)) << slice.name;
  }
}

TEST(Init, DeviationsOfEverySlice) {
  check("lenet16", {{3, 32, 32}, 10},
        {{"conv1", {std::sqrt(2.0 / 75) / 1.5, 75}},
         {"conv2", {std::sqrt(2.0 / 400) / 1.5, 400}},
         {"fc1", {std::sqrt(2.0 / 800), 800}},
         {"fc2", {std::sqrt(2.0 / 120), 120}},
         {"head", {0.3 * std::sqrt(2.0 / 84), 84}}});
  check("alex28-s", {{1, 28, 28}, 10},
        {{"conv1", {std::sqrt(2.0 / 9) / 1.5, 9}},
         {"conv2", {std::sqrt(2.0 / 144) / 1.5, 144}},
         {"conv3", {std::sqrt(2.0 / 216), 216}},
         {"conv4", {std::sqrt(2.0 / 288), 288}},
         {"conv5", {std::sqrt(2.0 / 432) / 1.5, 432}},
         {"fc1", {std::sqrt(2.0 / 432), 432}},
         {"fc2", {std::sqrt(2.0 / 128), 128}},
         {"head", {0.3 * std::sqrt(2.0 / 64), 64}}});
  // Behind sigmoids twice as large.
  check("lenet-smooth", {{3, 32, 32}, 10},
        {{"conv1", {2 * std::sqrt(2.0 / 75), 75}},
         {"conv2", {2 * std::sqrt(2.0 / 150), 150}},
         {"fc1", {2 * std::sqrt(2.0 / 400), 400}},
         {"fc2", {2 * std::sqrt(2.0 / 120), 120}},
         {"head", {0.6 * std::sqrt(2.0 / 84), 84}}});
}

TEST(Init, GruGatesAreOrthogonalAndInputsXavier) {
  const auto model = testing::made("gru64", {{48, 22}, 5});
  const auto views = model->layout().views(model->init(3).w);
  const Tensor eye = at::eye(64, at::kFloat);
  for (const size_t hh : {1, 5}) {
    for (const Tensor& gate : views[hh].split(64)) {
      EXPECT_TRUE(at::allclose(gate.mm(gate.t()), eye, 1e-5, 1e-5));
    }
    EXPECT_FALSE(at::equal(views[hh].narrow(0, 0, 64), views[hh].narrow(0, 64, 64)));
    EXPECT_EQ(views[hh + 1].abs().max().item<float>(), 0.0F);
    EXPECT_EQ(views[hh + 2].abs().max().item<float>(), 0.0F);
  }
  expect_deviation(views[0], std::sqrt(2.0 / (22 + 64)), "gru1.weight_ih_l0");
  expect_deviation(views[4], std::sqrt(2.0 / (64 + 64)), "gru2.weight_ih_l0");
  expect_deviation(views[8], 0.3 * std::sqrt(2.0 / 64), "head.weight");
  EXPECT_EQ(views[9].abs().max().item<float>(), 0.0F);

  const auto torch = testing::made("gru64", {{48, 22}, 5}, Init::kTorch);
  for (const Tensor& view : torch->layout().views(torch->init(3).w)) {
    expect_deviation(view, 1 / std::sqrt(3.0 * 64), "torch");
    EXPECT_LE(view.abs().max().item<double>(), 0.125 * (1 + 1e-6));
  }
}

TEST(Init, BatchNormStartsAsTheIdentity) {
  const auto model = testing::made("lenet16-bn", {{1, 28, 28}, 10});
  const Weights start = model->init(3);
  const auto views = model->layout().views(start.w);
  const auto buffers = model->buffers().views(start.b);
  EXPECT_TRUE(at::equal(views[2], at::ones(16)));
  EXPECT_TRUE(at::equal(views[3], at::zeros(16)));
  EXPECT_TRUE(at::equal(buffers[4], at::zeros(120)));
  EXPECT_TRUE(at::equal(buffers[5], at::ones(120)));
}

TEST(Drawn, ASliceDoesNotDependOnItsNeighbours) {
  const Fill fill{Fill::Kind::kNormal, 1.0};
  const Tensor small = drawn(Layout({{"a.weight", {3}}, {"b.weight", {4}}}), {fill, fill}, 5);
  const Tensor large = drawn(Layout({{"a.weight", {9}}, {"b.weight", {4}}}), {fill, fill}, 5);
  EXPECT_TRUE(at::equal(small.narrow(0, 0, 3), large.narrow(0, 0, 3)));
  EXPECT_TRUE(at::equal(small.narrow(0, 3, 4), large.narrow(0, 9, 4)));
  EXPECT_FALSE(at::equal(small.narrow(0, 0, 3), small.narrow(0, 3, 3)));
}

// What was drawn last is kept, and what anybody does to a result must not show in the next.
TEST(Drawn, AskedAgainItIsTheSameAndOnesOwn) {
  const Fill normal{Fill::Kind::kNormal, 1.0}, uniform{Fill::Kind::kUniform, 1.0};
  const Layout layout({{"a.weight", {600}}}), square({{"a.weight", {20, 30}}});
  const Tensor first = drawn(layout, {normal}, 5);
  const Tensor copy = first.clone();
  const Tensor second = drawn(layout, {normal}, 5);
  second.zero_();
  first.fill_(7);
  EXPECT_TRUE(at::equal(drawn(layout, {normal}, 5), copy));
  EXPECT_TRUE(at::equal(drawn(square, {normal}, 5), copy)) << "the same numbers in another shape";
  EXPECT_FALSE(at::equal(drawn(layout, {uniform}, 5), copy));
  EXPECT_FALSE(at::equal(drawn(layout, {normal}, 6), copy));
  EXPECT_TRUE(at::equal(drawn(layout, {normal}, 5), copy));
}

TEST(Drawn, TruncatedStaysWithinTwoDeviations) {
  const Tensor values = drawn(Layout({{"a.weight", {100000}}}), {{Fill::Kind::kTruncated, 3.0}}, 5);
  EXPECT_LE(values.abs().max().item<double>(), 6.0);
  EXPECT_GT(values.abs().max().item<double>(), 5.9);
  expect_deviation(values, 3 * 0.87962566, "truncated");  // 1 − 4 φ(2) / (2 Φ(2) − 1), its root
}

TEST(Drawn, RefusesWhatDoesNotFit) {
  const Layout layout({{"a.weight", {3, 2}}});
  EXPECT_THROW(drawn(layout, {}, 1), std::invalid_argument);
  EXPECT_THROW(drawn(layout, {{Fill::Kind::kOrthogonal, 1.0}}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace tessera
