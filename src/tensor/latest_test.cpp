#include "tensor/latest.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

Weights model(float w, float b) { return {at::tensor({w}), at::tensor({b})}; }

LatestModels desk() {
  LatestModels out;
  out.begin(4, model(9, 9), at::tensor({0.5F}));
  return out;
}

TEST(LatestModels, NobodyIsKnownAtFirst) {
  const auto models = desk();
  EXPECT_TRUE(models.known().empty());
  EXPECT_EQ(models.common.w.item<float>(), 9);
}

TEST(LatestModels, KnowsWhoUploaded) {
  auto models = desk();
  models.latest[1] = model(2, 1), models.latest[3] = model(4, 3);
  models.refresh_common();
  EXPECT_EQ(models.known(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(models.known(std::vector<int64_t>{0, 3}), (std::vector<int64_t>{3}));
  EXPECT_EQ(models.common.w.item<float>(), 3);  // the first model is nobody's
  EXPECT_EQ(models.common.b.item<float>(), 2);
}

TEST(LatestModels, MixesBySharesAndKeepsVariancesPositive) {
  auto models = desk();
  models.latest[1] = model(2, 0.1F), models.latest[3] = model(4, 0.3F);
  const std::vector<int64_t> ids{1, 3};
  const auto mixed = models.mixture(ids, std::vector<double>{3, 1});
  EXPECT_FLOAT_EQ(mixed.w.item<float>(), 2.5F);
  EXPECT_EQ(mixed.b.item<float>(), 0.5F);  // the least
  const auto own = models.mixture(ids, std::vector<double>{1, 0, 1}, model(10, 10));
  EXPECT_FLOAT_EQ(own.w.item<float>(), 6);
  // A single model is handed on, not copied and not corrected.
  const auto alone = models.mixture(ids, std::vector<double>{0, 0.3});
  EXPECT_EQ(alone.w.data_ptr(), models.latest[3].w.data_ptr());
  EXPECT_EQ(alone.b.item<float>(), 0.3F);
}

TEST(LatestModels, MatrixAmongSomeIsOneAmongAll) {
  const auto some = at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble).view({2, 2});
  const auto all = among_all(some, at::tensor({0, 2}, at::kLong), 3);
  EXPECT_EQ(all[2][0].item<double>(), 3);
  EXPECT_EQ(at::isnan(all).sum().item<int64_t>(), 5);
}

}  // namespace
}  // namespace tessera
