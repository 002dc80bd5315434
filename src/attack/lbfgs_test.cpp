#include "attack/lbfgs.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "model/test_data.hpp"

namespace tessera {
namespace {

Objective differentiated(std::function<Tensor(const Tensor&)> f) {
  return [f = std::move(f)](const Tensor& x) {
    const auto at = x.detach().requires_grad_(true);
    const auto value = f(at);
    return std::pair{value.item<double>(), torch::autograd::grad({value}, {at})[0]};
  };
}

TEST(Lbfgs, FindsTheEndOfRosenbrocksValley) {
  const auto banana = differentiated(
      [](const Tensor& x) { return 100 * (x[1] - x[0].square()).square() + (1 - x[0]).square(); });
  const auto start = at::tensor({-1.2, 1.0}, at::kDouble);
  const auto got = minimize_lbfgs(banana, start);
  EXPECT_NEAR(got.x[0].item<double>(), 1, 1e-6);
  EXPECT_NEAR(got.x[1].item<double>(), 1, 1e-6);
  EXPECT_LT(got.iterations, 100);
  EXPECT_EQ(start[0].item<double>(), -1.2);
  // Cut short it is on its way.
  const auto some = minimize_lbfgs(banana, start, {.iterations = 5});
  EXPECT_EQ(some.iterations, 5);
  EXPECT_GT(some.value, got.value);
  EXPECT_LT(some.value, 24.2);  // the start's
}

// Of a quadratic of condition 1e4 the minimum is A⁻¹ b.
TEST(Lbfgs, SolvesLinearSystems) {
  const auto scales = at::logspace(-2, 2, 20, 10.0, at::kDouble);
  const auto turn = std::get<0>(at::linalg_qr(testing::normal({20, 20}, 1)));
  const auto a = turn.matmul(at::diag(scales)).matmul(turn.t());
  const auto b = testing::normal({20}, 2);
  const auto got = minimize_lbfgs(
      differentiated([&](const Tensor& x) { return x.dot(a.matmul(x)) / 2 - x.dot(b); }),
      at::zeros({20}, at::kDouble));
  EXPECT_LT(testing::distance(got.x, at::linalg_solve(a, b)), 1e-6);
}

TEST(Lbfgs, EndsWhereNothingGetsBetter) {
  const auto flat = differentiated([](const Tensor& x) { return (x * 0).sum(); });
  EXPECT_EQ(minimize_lbfgs(flat, at::ones({3}, at::kDouble)).iterations, 0);
  const auto broken = differentiated([](const Tensor& x) { return x.log().sum(); });
  const auto got = minimize_lbfgs(broken, at::full({1}, -1.0, at::kDouble));
  EXPECT_EQ(got.iterations, 0);
  EXPECT_TRUE(std::isnan(got.value));
}

}  // namespace
}  // namespace tessera
