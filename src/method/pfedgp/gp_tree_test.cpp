#include "method/pfedgp/gp_tree.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/key.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::normal;

constexpr Gibbs kFew{.steps = 3, .chains = 4};

// Classes 1 and 7 lie near each other, and so do 2 and 4.
TEST(ClassTree, SimilarClassesPartLate) {
  const auto z = at::tensor({0.0, 0.1, 5.0, 5.2, 0.3, 5.1}, at::kDouble).view({6, 1});
  const auto y = at::tensor({1, 7, 2, 4, 7, 2}, at::kLong);
  const auto tree = class_tree(z, y, 1);
  EXPECT_EQ(tree.classes, (std::vector<int64_t>{1, 2, 4, 7}));
  ASSERT_EQ(tree.forks.size(), 3U);
  EXPECT_EQ(tree.forks[0].left, (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(tree.forks[0].right, (std::vector<int64_t>{2, 4}));
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(tree.forks[i].left.size(), 1U);
    EXPECT_EQ(tree.forks[i].right.size(), 1U);
  }
}

TEST(ClassTree, ClassesInOnePlaceStillPart) {
  const auto tree = class_tree(at::zeros({3, 2}, at::kDouble), at::tensor({0, 1, 2}, at::kLong), 1);
  EXPECT_EQ(tree.forks.size(), 2U);
}

TEST(TreeGp, ProbabilitiesSumToOneOverTheTree) {
  const auto z = normal({9, 2}, 1);
  const auto y = at::tensor({0, 2, 3, 0, 2, 3, 5, 5, 0}, at::kLong);
  const auto p = tree_gp({}, kFew, class_tree(z, y, 1), z, y, 6, 2)(normal({5, 2}, 3)).exp();
  const auto inside = p.index_select(1, at::tensor({0, 2, 3, 5}, at::kLong)).sum(1);
  EXPECT_TRUE(at::allclose(inside, at::ones_like(inside), 0, 1e-9));
  EXPECT_NEAR(p[0][1].item<double>(), 1e-6, 1e-15);
}

TEST(TreeGp, OneClassIsCertainAndAForkWithoutSamplesIsEven) {
  const auto z = normal({4, 2}, 1);
  const auto y = at::tensor({1, 1, 0, 2}, at::kLong);
  const auto one = y.narrow(0, 0, 2);
  const auto sure =
      tree_gp({}, kFew, class_tree(z.narrow(0, 0, 2), one, 1), z.narrow(0, 0, 2), one, 3, 2)(z);
  EXPECT_TRUE(sure.select(1, 1).equal(at::zeros({4}, at::kDouble)));
  const ClassTree tree{{0, 1, 2}, {{{0, 2}, {1}}, {{0}, {2}}}};
  const auto p = tree_gp({}, kFew, tree, z.narrow(0, 0, 2), one, 3, 2)(z).exp();
  EXPECT_TRUE(at::allclose(p.select(1, 0), p.select(1, 2), 1e-12, 0));
  EXPECT_GT(p[0][1].item<double>(), 0.5);
}

// P(y* | y) = E[σ(f*) Π σ(±f_n)] / E[Π σ(±f_n)] over the prior of f, by brute force.
TEST(TreeGp, GibbsFindsThePosteriorOfThreePoints) {
  const Kernel kernel{.scale = 4};
  const auto z = at::tensor({0.0, 0.8, 2.0}, at::kDouble).view({3, 1});
  const auto at = at::tensor({0.4, 1.5}, at::kDouble).view({2, 1});
  const auto y = at::tensor({0, 0, 1}, at::kLong);
  constexpr int64_t kSamples = 400000;
  const auto root = at::linalg_cholesky(kernel.among(at::cat({z, at})));
  const auto f = normal({kSamples, 5}, 4).mm(root.t());
  const auto likelihood =
      f.select(1, 0).sigmoid() * f.select(1, 1).sigmoid() * (-f.select(1, 2)).sigmoid();
  const ClassTree tree{{0, 1}, {{{0}, {1}}}};
  const auto p = tree_gp(kernel, {.steps = 40, .chains = 4000}, tree, z, y, 2, 5)(at).exp();
  for (int64_t i = 0; i < 2; ++i) {
    const double expected =
        ((f.select(1, 3 + i).sigmoid() * likelihood).sum() / likelihood.sum()).item<double>();
    EXPECT_NEAR(p[i][0].item<double>(), expected, 0.006) << i;
  }
}

// The auxiliary variables do not depend on what is asked, so differences are exact there.
TEST(TreeGp, GradientAgreesWithFiniteDifferences) {
  const auto z = normal({7, 2}, 6).requires_grad_(true);
  const auto y = at::tensor({0, 1, 2, 0, 1, 2, 0}, at::kLong);
  const ClassTree tree{{0, 1, 2}, {{{0, 2}, {1}}, {{0}, {2}}}};
  const auto asked = normal({3, 2}, 7).requires_grad_(true);
  const auto wanted = at::tensor({2, 0, 1}, at::kLong);
  const auto gp = tree_gp({}, kFew, tree, z, y, 3, 8);
  const auto slopes = torch::autograd::grad({at::nll_loss(gp(asked), wanted)}, {asked, z});
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < 6; ++i) {
    auto up = asked.detach().clone(), down = asked.detach().clone();
    up.view(-1)[i] += kStep, down.view(-1)[i] -= kStep;
    const double by =
        (at::nll_loss(gp(up), wanted) - at::nll_loss(gp(down), wanted)).item<double>() /
        (2 * kStep);
    EXPECT_NEAR(slopes[0].view(-1)[i].item<double>(), by, 1e-7 + 1e-6 * std::abs(by)) << i;
  }
  EXPECT_TRUE(at::isfinite(slopes[1]).all().item<bool>());
  // A common shift of all points changes nothing: what the known points feel is the opposite.
  EXPECT_TRUE(at::allclose(slopes[1].sum(0), -slopes[0].sum(0), 1e-8, 1e-10));
}

TEST(TreeGp, DrawsAreAFunctionOfTheKey) {
  const auto z = normal({6, 2}, 1);
  const auto y = at::tensor({0, 1, 0, 1, 0, 1}, at::kLong);
  const auto p = [&](uint64_t key) {
    return tree_gp({}, kFew, class_tree(z, y, 1), z, y, 2, key)(z);
  };
  EXPECT_TRUE(p(1).equal(p(1)));
  EXPECT_FALSE(p(1).equal(p(2)));
}

}  // namespace
}  // namespace tessera
