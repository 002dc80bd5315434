#include "tensor/linear_head.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(LinearHead, IsTheLastWeightAndBias) {
  const Layout layout({{"conv1.weight", {4}},
                       {"head.weight", {2, 3}, Role::kHead},
                       {"head.bias", {2}, Role::kHead}});
  const auto head = linear_head(layout);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->classes, 2);
  EXPECT_EQ(head->width, 3);
  EXPECT_EQ(head->begin, 4);
  EXPECT_EQ(head->begin + head->numel(), layout.numel());
}

TEST(LinearHead, LogitsByHand) {
  const LinearHead head{2, 3, 0};
  const auto numbers = at::tensor({1.0F, 2.0F, 3.0F, -1.0F, 0.0F, 1.0F, 10.0F, 20.0F});
  const auto z = at::tensor({1.0F, 1.0F, 2.0F}).view({1, 3});
  EXPECT_TRUE(head.logits(numbers, z).equal(at::tensor({19.0F, 21.0F}).view({1, 2})));
}

TEST(LinearHead, NoneWhereANetworkEndsDifferently) {
  EXPECT_FALSE(linear_head(Layout()));
  EXPECT_FALSE(linear_head(Layout({{"a.weight", {2, 3}}, {"a.bias", {2}}})));  // not a head
  EXPECT_FALSE(
      linear_head(Layout({{"head.weight", {2, 3}, Role::kHead}, {"head.bias", {3}, Role::kHead}})));
  EXPECT_FALSE(
      linear_head(Layout({{"body.weight", {1}, Role::kBody}, {"head.weight", {1}, Role::kHead}})));
}

}  // namespace
}  // namespace tessera
