#include "train/hvp.hpp"

#include <gtest/gtest.h>

#include "method/fedham/ham_test_net.hpp"

namespace tessera {
namespace {

// A smooth network in float64: what is left is the error of the difference itself.
TEST(Hvp, DifferenceOfGradientsIsTheExactProduct) {
  const testing::SmallNet net;
  const auto at = net.moved(3);
  const Examples batch{testing::normal({20, testing::SmallNet::kIn}, 4),
                       at::arange(20, at::kLong).remainder(testing::SmallNet::kClasses)};
  for (const double size : {1e-4, 1.0, 1e4}) {  // the step does not depend on |v|
    const auto v = testing::normal({net.layout().numel()}, 5) * size;
    const auto exact = hvp(net, at, batch, Loss::kCrossEntropy, 0, v);
    const auto near = hvp_by_difference(net, at, batch, Loss::kCrossEntropy, 0, v);
    EXPECT_GT(exact.norm().item<double>(), 1e-2 * size);
    EXPECT_LT((near - exact).norm().item<double>(), 1e-5 * exact.norm().item<double>());
  }
  const auto none = at::zeros({net.layout().numel()}, at::kDouble);
  EXPECT_EQ(hvp_by_difference(net, at, batch, Loss::kCrossEntropy, 0, none).norm().item<double>(),
            0);
}

}  // namespace
}  // namespace tessera
