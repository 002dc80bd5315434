#include "model/hypernet.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::normal;

const HypernetSpec kPlain{.embed = 3, .hidden = 5, .layers = 2, .target = 8};
const HypernetSpec kShared{.embed = 3, .hidden = 5, .layers = 2, .target = 8, .depths = 4};

// docs/experiments.md §2 and docs/methods.md §7.4.
TEST(Hypernet, SizesOfTheExperiments) {
  EXPECT_EQ(hypernet_numel({128, 150, 3, 1'179'648}), 178'214'148);  // vit-p: 178 M
  EXPECT_EQ(hypernet_numel({32, 64, 1, 36'864}), 2'402'432);         // vit-s: 2.4 M
  // pFedHN for 50 clients of lenet16: 12.3 M.
  EXPECT_EQ(hypernet_numel({1 + 50 / 4, 100, 3, 121'182}), 12'271'082);
  EXPECT_EQ(hypernet_numel({128, 150, 3, 1'179'648, 6}), 29'777'604);  // share_heads: 30 M
  EXPECT_EQ(Hypernet({32, 64, 1, 36'864}).layout().numel(), 2'402'432);
}

// One hidden unit, by hand: relu(2·z + 1) = 3 for z = 1; 4·3 − 2 = 10; outputs 5·10 + 6, −1·10 + 7.
TEST(Hypernet, AnswerOnPaper) {
  const Hypernet net({.embed = 1, .hidden = 1, .layers = 1, .target = 2});
  const auto phi = at::tensor({2.0, 1.0, 4.0, -2.0, 5.0, -1.0, 6.0, 7.0}, at::kDouble);
  const auto w = net.generate(phi, at::tensor({1.0, -1.0}, at::kDouble).view({2, 1}));
  // z = −1 is cut off by the ReLU: the features are −2, which no ReLU follows.
  EXPECT_TRUE(w.equal(at::tensor({56.0, -3.0, -4.0, 9.0}, at::kDouble).view({2, 2}))) << w;
}

TEST(Hypernet, OneEmbeddingEqualsOneOfMany) {
  for (const auto& spec : {kPlain, kShared}) {
    const Hypernet net(spec);
    const auto phi = normal({net.layout().numel()}, 1), z = normal({3, 3}, 2);
    const auto all = net.generate(phi, z);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::allclose(net.generate(phi, z.narrow(0, i, 1))[0], all[i], 1e-12, 1e-12));
  }
}

class PullBack : public ::testing::TestWithParam<HypernetSpec> {};

TEST_P(PullBack, AgreesWithFiniteDifferences) {
  const Hypernet net(GetParam());
  const auto phi = normal({net.layout().numel()}, 1), z = normal({2, 3}, 2);
  const auto delta = normal({2, 8}, 3);
  const auto value = [&](const Tensor& p, const Tensor& e) {
    return (net.generate(p, e) * delta).sum().item<double>();
  };
  const auto difference = [&](const Tensor& at, const auto& f) {
    auto out = at::empty_like(at);
    for (int64_t i = 0; i < at.numel(); ++i) {
      auto up = at.clone(), down = at.clone();
      up.data_ptr<double>()[i] += 1e-6, down.data_ptr<double>()[i] -= 1e-6;
      out.data_ptr<double>()[i] = (f(up) - f(down)) / 2e-6;
    }
    return out;
  };
  const auto pull = net.pull_back(phi, z, delta);
  const auto phi_slope = difference(phi, [&](const Tensor& p) { return value(p, z); });
  const auto z_slope = difference(z, [&](const Tensor& e) { return value(phi, e); });
  EXPECT_LT((pull.phi - phi_slope).norm().item<double>(), 1e-6 * phi_slope.norm().item<double>());
  EXPECT_LT((pull.z - z_slope).norm().item<double>(), 1e-6 * z_slope.norm().item<double>());
  EXPECT_GT(z_slope.norm().item<double>(), 0.1);
  EXPECT_TRUE(net.pull_back_embedding(phi, z, delta).equal(pull.z));
}

TEST_P(PullBack, AgreesWithAutograd) {
  const Hypernet net(GetParam());
  const auto phi = normal({net.layout().numel()}, 4).requires_grad_(true);
  const auto z = normal({3, 3}, 5).requires_grad_(true);
  const auto delta = normal({3, 8}, 6);
  const auto slopes = torch::autograd::grad({(net.generate(phi, z) * delta).sum()}, {phi, z});
  const auto pull = net.pull_back(phi.detach(), z.detach(), delta);
  EXPECT_TRUE(at::allclose(pull.phi, slopes[0], 1e-10, 1e-12));
  EXPECT_TRUE(at::allclose(pull.z, slopes[1], 1e-10, 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Specs, PullBack, ::testing::Values(kPlain, kShared));

// docs/methods.md §7.0 [R]: with torch's own initial weights the deviation would be of order 1.
TEST(Hypernet, StartsNearTheTargetsOwnInitialWeights) {
  const Hypernet net({.embed = 16, .hidden = 64, .layers = 3, .target = 4000});
  const auto first = normal({4000}, 1).to(at::kFloat) * 0.02;
  const auto scale = at::cat({at::full({2000}, 0.02), at::zeros({1000}), at::full({1000}, 0.5)});
  const auto phi = net.init(first, scale, 7);
  const auto spread = net.generate(phi, normal({40, 16}, 2).to(at::kFloat)) - first;
  const auto rms = [&](int64_t begin, int64_t size) {
    return spread.narrow(1, begin, size).square().mean().sqrt().item<double>();
  };
  EXPECT_NEAR(rms(0, 2000), 0.1 * 0.02, 0.35 * 0.1 * 0.02);
  EXPECT_EQ(rms(2000, 1000), 0.0) << "what starts constant starts the same for everyone";
  EXPECT_NEAR(rms(3000, 1000), 0.1 * 0.5, 0.35 * 0.1 * 0.5);
}

// A code appended to the features, behind the last ReLU, would move every depth alike.
TEST(Hypernet, SharedHeadsTreatClientsDifferentlyAtEveryDepth) {
  const Hypernet net({.embed = 4, .hidden = 32, .layers = 1, .target = 3 * 50, .depths = 3});
  const auto phi = net.init(at::zeros({150}), at::ones({150}), 7);
  const auto w = net.generate(phi, normal({2, 4}, 2).to(at::kFloat)).view({2, 3, 50});
  const auto between = w[1] - w[0];  // [depth, 50]
  EXPECT_GT((between[1] - between[0]).norm().item<double>(),
            0.2 * between[0].norm().item<double>());
}

TEST(Hypernet, UnequalDepthsAreRefused) {
  EXPECT_THROW(Hypernet({.embed = 1, .hidden = 1, .layers = 1, .target = 7, .depths = 2}),
               std::invalid_argument);
}

TEST(SliceScale, IsTheDeviationWithinEachSlice) {
  const Layout layout({{"a.weight", {2}}, {"a.bias", {1}}, {"b.weight", {3}}});
  const auto scale = slice_scale(layout, at::tensor({1.0F, 3.0F, 9.0F, 4.0F, 4.0F, 4.0F}));
  EXPECT_TRUE(scale.equal(at::tensor({1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F}))) << scale;
}

}  // namespace
}  // namespace tessera
