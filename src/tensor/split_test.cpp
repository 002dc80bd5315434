#include "tensor/split.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

const Layout kLayout({{"embed.weight", {2}},
                      {"block1.qkv.weight", {3, 1}, Role::kAttention},
                      {"block1.mlp.weight", {1}},
                      {"block2.qkv.weight", {1, 2}, Role::kAttention},
                      {"head.weight", {2}, Role::kHead}});

TEST(Split, PartsComeOutInOrderAndGoBackWhereTheyWere) {
  const Split split(kLayout, Role::kAttention);
  const Weights whole{at::arange(10, at::kFloat), at::full({1}, 7.0)};
  EXPECT_EQ(split.numel(), 5);
  const auto part = split.part_of(whole.w);
  const auto rest = split.rest_of(whole);
  EXPECT_TRUE(part.equal(at::tensor({2.0F, 3.0F, 4.0F, 6.0F, 7.0F})));
  EXPECT_TRUE(rest.w.equal(at::tensor({0.0F, 1.0F, 5.0F, 8.0F, 9.0F})));
  EXPECT_TRUE(rest.b.equal(whole.b));
  const auto back = split.joined(part, rest);
  EXPECT_TRUE(back.w.equal(whole.w));
  EXPECT_TRUE(back.b.equal(whole.b));
}

TEST(Split, JoinedLetsGradientsThrough) {
  const Split split(kLayout, Role::kAttention);
  const auto part = at::ones({5}).requires_grad_(true), rest = at::ones({5}).requires_grad_(true);
  const auto whole = split.joined(part, {rest, at::empty({0})}).w;
  (whole * at::arange(10, at::kFloat)).sum().backward();
  EXPECT_TRUE(part.grad().equal(at::tensor({2.0F, 3.0F, 4.0F, 6.0F, 7.0F})));
  EXPECT_TRUE(rest.grad().equal(at::tensor({0.0F, 1.0F, 5.0F, 8.0F, 9.0F})));
}

TEST(Split, JoinedRefusesAPartOfAnotherSize) {
  const Split split(kLayout, Role::kAttention);
  EXPECT_THROW(split.joined(at::ones({4}), {at::ones({5}), {}}), std::exception);
  EXPECT_THROW(split.joined(at::ones({5}), {at::ones({6}), {}}), std::exception);
}

TEST(Split, MaskIsThePart) {
  EXPECT_TRUE(Split(kLayout, Role::kAttention).mask().equal(kLayout.mask(Role::kAttention)));
}

TEST(Split, AnEmptyPartLeavesEverything) {
  const Split split(kLayout, Role::kNorm);
  const Weights whole{at::arange(10, at::kFloat), at::empty({0})};
  EXPECT_EQ(split.numel(), 0);
  EXPECT_TRUE(split.joined(split.part_of(whole.w), split.rest_of(whole)).w.equal(whole.w));
}

TEST(Split, TheLastModulesAgainstTheRest) {
  const Split split(kLayout, 2);
  EXPECT_TRUE(split.part_of(at::arange(10)).equal(at::tensor({6, 7, 8, 9}, at::kLong)));
}

TEST(Split, PerLayersMustLeaveSomething) {
  EXPECT_TRUE(check_per_layers(kLayout, 4, "fedrep").ok());
  EXPECT_EQ(message(check_per_layers(kLayout, 5, "fedrep")),
            "fedrep: per_layers = 5 takes all 5 layers of this model; set method.per_layers to 4 "
            "or less");
}

}  // namespace
}  // namespace tessera
