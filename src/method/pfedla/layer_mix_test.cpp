#include "method/pfedla/layer_mix.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/weights.hpp"

namespace tessera {
namespace {

const Layout kMixed(
    {{"conv1.weight", {2}}, {"conv1.bias", {1}}, {"bn1.weight", {1}}, {"head.weight", {2}}});

TEST(LayerMix, TablesNameBlocksAndBuffersFollowTheirModule) {
  EXPECT_TRUE(
      block_table(kMixed).equal(at::tensor({0, 3, 0, 3, 1, 1, 4, 2, 2}, at::kLong).view({3, 3})));
  const Layout buffers({{"bn1.running_mean", {2}}, {"bn1.running_var", {2}}});
  EXPECT_TRUE(block_table(buffers, kMixed).equal(at::tensor({0, 4, 1}, at::kLong).view({1, 3})));
  EXPECT_EQ(block_table(Layout(), kMixed).size(0), 0);
  EXPECT_THROW(block_table(Layout({{"bn9.running_mean", {1}}}), kMixed), std::invalid_argument);
}

TEST(LayerMix, EveryBlockHasItsOwnShares) {
  const std::vector<Tensor> rows{at::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}),
                                 at::tensor({10.0F, 20.0F, 30.0F, 40.0F, 50.0F, 60.0F})};
  const auto shares = at::tensor({0.5, 0.5, 0.0, 1.0, 0.75, 0.25}, at::kDouble).view({3, 2});
  const auto got = mixed(rows, shares, block_table(kMixed));
  EXPECT_TRUE(got.equal(at::tensor({5.5F, 11.0F, 16.5F, 40.0F, 16.25F, 19.5F})));
  const auto none = at::empty({0});
  EXPECT_EQ(mixed(std::vector<Tensor>{none, none}, shares, block_table(Layout(), kMixed)).numel(),
            0);
}

TEST(LayerMix, ProductsAreThoseOfTheBlocks) {
  const Layout layout({{"a.weight", {3000}}, {"b.weight", {17}}});
  const std::vector<Tensor> rows{at::linspace(-1, 2, 3017), at::linspace(3, -1, 3017)};
  const auto one = at::linspace(0, 1, 3017).square();
  const auto got = block_products(one, rows, block_table(layout));
  for (int64_t j = 0; j < 2; ++j) {
    const auto& row = rows[static_cast<size_t>(j)];
    EXPECT_NEAR(got[0][j].item<double>(), dot64(one.slice(0, 0, 3000), row.slice(0, 0, 3000)),
                1e-3);
    EXPECT_NEAR(got[1][j].item<double>(), dot64(one.slice(0, 3000), row.slice(0, 3000)), 1e-5);
  }
}

TEST(LayerMix, KeptBlocksStayBehindAndComeBack) {
  const auto table = block_table(kMixed);
  const auto sent = at::arange(6, at::kFloat), own = -sent - 1;
  const std::vector<int64_t> kept{1}, all{0, 1, 2};
  const auto rest = without_blocks(sent, kept, table);
  EXPECT_TRUE(rest.equal(at::tensor({0.0F, 1.0F, 2.0F, 4.0F, 5.0F})));
  EXPECT_TRUE(
      with_blocks(own, rest, kept, table).equal(at::tensor({0.0F, 1.0F, 2.0F, -4.0F, 4.0F, 5.0F})));
  EXPECT_EQ(without_blocks(sent, all, table).numel(), 0);
  EXPECT_TRUE(without_blocks(sent, {}, table).equal(sent));
}

}  // namespace
}  // namespace tessera
