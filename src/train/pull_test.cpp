#include "train/pull.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Pull, IsTheGradientOfHalfTheSquaredDistance) {
  auto gradient = at::tensor({10.0F, 20.0F});
  pull_to(at::tensor({1.0F, 2.0F}), 0.5)(at::tensor({5.0F, -2.0F}), gradient);
  EXPECT_TRUE(gradient.equal(at::tensor({12.0F, 18.0F})));
  EXPECT_FALSE(pull_to(at::tensor({1.0F}), 0));
}

TEST(Pull, ProductsFromTheLimitOnAreRefused) {
  const auto sentence = [](double rate, double limit) {
    return message(check_pull({"me", "train.lr", "method.mu", rate, 4, limit}));
  };
  EXPECT_EQ(sentence(0.49, 2), "");
  EXPECT_EQ(sentence(0.5, 2),
            "me: train.lr times method.mu is 2, but training only settles below 2; lower one of "
            "them");
  EXPECT_NE(sentence(0.25, 1), "");
}

}  // namespace
}  // namespace tessera
