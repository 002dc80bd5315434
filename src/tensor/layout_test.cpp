#include "tensor/layout.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Layout example_layout() {
  return Layout({{"conv1.weight", {2, 1, 2}, Role::kBody, true},
                 {"bn1.weight", {2}, Role::kNorm},
                 {"head.weight", {3, 2}, Role::kHead},
                 {"head.bias", {3}, Role::kHead}});
}

TEST(Layout, ViewsAreTheFlatVectorInOrder) {
  const auto flat = at::arange(15, at::kFloat);
  const auto views = example_layout().views(flat);
  EXPECT_EQ(views[0].sizes(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(views[2][1][0].item<float>(), 8);  // 4 + 2 + one row of 2
  EXPECT_EQ(views[3].data_ptr<float>(), flat.data_ptr<float>() + 12);
}

TEST(Layout, BackwardThroughViewsIsTheGradientOfTheFlatVector) {
  const auto flat = at::arange(15, at::kDouble).requires_grad_(true);
  const auto views = example_layout().views(flat);
  const auto y = (views[0] * views[0]).sum() + 5 * views[3].sum();
  const auto g = torch::autograd::grad({y}, {flat})[0];
  EXPECT_TRUE(at::equal(g.slice(0, 0, 4), 2 * at::arange(4, at::kDouble)));
  EXPECT_TRUE(at::equal(g.slice(0, 4, 12), at::zeros({8}, at::kDouble)));
  EXPECT_TRUE(at::equal(g.slice(0, 12), at::full({3}, 5, at::kDouble)));
}

TEST(Layout, MaskAndPositionsAgree) {
  const auto layout = example_layout();
  const auto head = layout.positions([](const Slice& s) { return s.role == Role::kHead; });
  EXPECT_TRUE(at::equal(head, at::arange(6, 15, at::kLong)));
  EXPECT_TRUE(at::equal(layout.mask(Role::kHead).nonzero().flatten(), head));
  EXPECT_EQ(layout.mask(Role::kNorm).sum().item<int64_t>(), 2);
}

TEST(Layout, TrailingModulesAndTheOthers) {
  const auto layout = example_layout();
  EXPECT_TRUE(at::equal(layout.trailing(1), at::arange(6, 15, at::kLong)));  // head
  EXPECT_TRUE(at::equal(layout.trailing(2), at::arange(4, 15, at::kLong)));  // bn1, head
  EXPECT_TRUE(at::equal(layout.trailing(9), at::arange(0, 15, at::kLong)));
  EXPECT_TRUE(at::equal(layout.others(layout.trailing(2)), at::arange(0, 4, at::kLong)));
}

TEST(Layout, PositionsThatDoNotAscendHaveNoOthers) {
  const Layout layout({{"a.weight", {3}}});
  EXPECT_TRUE(layout.others(at::tensor({1}, at::kLong)).equal(at::tensor({0, 2}, at::kLong)));
  EXPECT_EQ(layout.others(at::tensor({0, 1, 2}, at::kLong)).numel(), 0);
  for (const auto& bad : {at::tensor({1, 0}, at::kLong), at::tensor({1, 1}, at::kLong),
                          at::tensor({3}, at::kLong), at::tensor({-1}, at::kLong)})
    EXPECT_THROW(layout.others(bad), std::exception);
}

TEST(Layout, FingerprintSeesNamesShapesRolesAndOrder) {
  const auto with = [](Slice a, Slice b) { return Layout({a, b}).fingerprint(); };
  const Slice a{"a.w", {2, 3}}, b{"b.w", {3}};
  const auto base = with(a, b);
  EXPECT_EQ(base, with(a, b));
  EXPECT_NE(base, with(b, a));
  EXPECT_NE(base, with({"a.v", {2, 3}}, b));
  EXPECT_NE(base, with({"a.w", {3, 2}}, b));
  EXPECT_NE(base, with({"a.w", {2, 3}, Role::kHead}, b));
}

TEST(Layout, RefusesDuplicatesAndWrongLength) {
  EXPECT_THROW(Layout({{"a", {1}}, {"a", {2}}}), std::invalid_argument);
  EXPECT_THROW(example_layout().views(at::zeros({14})), std::invalid_argument);
}

}  // namespace
}  // namespace tessera
