#include "tensor/weights.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Weights vec(std::vector<float> values) { return {at::tensor(values), at::empty({0})}; }

TEST(Mean, WeightsCountAndAreRenormalised) {
  const std::vector<Weighted> parts{{vec({1, 10}), 1}, {vec({4, 40}), 2}};
  const auto m = mean(parts);
  EXPECT_FLOAT_EQ(m.w[0].item<float>(), 3);  // (1 + 8) / 3
  EXPECT_FLOAT_EQ(m.w[1].item<float>(), 30);
  EXPECT_EQ(m.b.numel(), 0);
}

TEST(Mean, OfOneIsThatOneBitForBit) {
  const auto w = at::randn({5000}, at::detail::createCPUGenerator(3), at::kFloat);
  const auto m = mean(std::vector<Weighted>{{{w, w.slice(0, 0, 7)}, 123457.0}});
  EXPECT_TRUE(at::equal(m.w, w));
  EXPECT_TRUE(at::equal(m.b, w.slice(0, 0, 7)));
}

// In fp32 the small terms would vanish beside 1e8; in fp64 they add up.
TEST(Mean, AccumulatesInDouble) {
  std::vector<Tensor> parts{at::tensor({1e8F})};
  std::vector<double> weights{1.0};
  for (int i = 0; i < 100; ++i) parts.push_back(at::tensor({1.0F})), weights.push_back(1.0);
  EXPECT_FLOAT_EQ(mean(parts, weights).item<float>(), static_cast<float>((1e8 + 100) / 101));
}

TEST(Mean, SpansSeveralBlocks) {
  const auto a = at::arange(10000, at::kFloat), b = 2 * a;
  const auto m = mean(std::vector<Tensor>{a, b}, std::vector<double>{1, 3});
  EXPECT_TRUE(at::allclose(m, 1.75 * a));
  EXPECT_TRUE(at::equal(m.slice(0, 4095, 4097) * 4, a.slice(0, 4095, 4097) * 7));
}

// 21 parts: five groups that are read together and one part that is not; one plain loop tells.
TEST(Mean, SumsInTheOrderGivenBitForBit) {
  std::vector<Tensor> parts;
  std::vector<double> weights;
  auto generator = at::detail::createCPUGenerator(5);
  for (int p = 0; p < 21; ++p) {
    parts.push_back(at::randn({3000}, generator, at::kFloat) * std::pow(10.0, p % 7));
    weights.push_back(0.1 * (p + 1));
  }
  double total = 0;
  for (const double weight : weights) total += weight;
  const auto m = mean(parts, weights);
  for (const int64_t i : {0, 1, 2047, 2048, 2999}) {
    double sum = 0;
    for (size_t p = 0; p < parts.size(); ++p)
      sum += weights[p] * static_cast<double>(parts[p].data_ptr<float>()[i]);
    EXPECT_EQ(m.data_ptr<float>()[i], static_cast<float>(sum / total)) << i;
  }
}

TEST(Mean, RefusesNothingAndMisfits) {
  EXPECT_THROW(mean(std::vector<Weighted>{}), std::invalid_argument);
  EXPECT_THROW(mean(std::vector<Weighted>{{vec({1}), 0}}), std::invalid_argument);
  EXPECT_THROW(mean(std::vector<Weighted>{{vec({1}), 1}, {vec({1, 2}), 1}}), std::invalid_argument);
}

TEST(Dot, InDouble) {
  const auto a = at::tensor({1e8F, 1.0F, -1e8F});
  EXPECT_DOUBLE_EQ(dot64(a, at::ones({3})), 1.0);
  EXPECT_DOUBLE_EQ(norm64(at::tensor({3.0F, 4.0F})), 5.0);
}

}  // namespace
}  // namespace tessera
