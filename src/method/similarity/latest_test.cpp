#include "method/similarity/latest.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using Ids = std::vector<ClientId>;
using Shares = std::vector<double>;

Weights model(float w, float b) { return {at::tensor({w}), at::tensor({b})}; }
const Tensor kLeast = at::tensor({0.5F});

TEST(LatestModels, KnowsWhoUploaded) {
  PerClient<Weights> models;
  EXPECT_TRUE(known(models, Ids{0, 1}).empty());
  models.put(1, model(2, 1)), models.put(3, model(4, 3));
  EXPECT_EQ(known(models, Ids{0, 1, 2, 3}), (Ids{1, 3}));
  EXPECT_EQ(known(models, Ids{0, 3}), (Ids{3}));
  EXPECT_EQ(vectors(models, Ids{3, 1})[0].item<float>(), 4);
  EXPECT_EQ(place_of(Ids{1, 3}, 3), 1U);
  EXPECT_EQ(place_of(Ids{1, 3}, 2), std::nullopt);
}

TEST(LatestModels, NewcomersAreNoMembers) {
  const std::vector<Ask<GuestModel>> asks{
      {4, Why::kEvaluate}, {2, Why::kTrain}, {7, Why::kJoin}, {0, Why::kEvaluate}};
  EXPECT_EQ(members(asks), (Ids{0, 2, 4}));
}

TEST(LatestModels, WhoHasNoModelStartsFromTheMeanOfAll) {
  const auto net = *make_model("lenet16-bn", {{3, 32, 32}, 10});
  const tessera::Setup setup{*net, 4, 5, 1.0, 9};  // gtest has a Setup too
  PerClient<Weights> models;
  EXPECT_TRUE(common_start(models, setup).w.equal(net->init(9).w));
  models.put(1, net->init(1)), models.put(3, net->init(3));
  const auto start = common_start(models, setup);  // the first model is nobody's
  EXPECT_TRUE(at::allclose(start.w, (net->init(1).w + net->init(3).w) / 2));
  require_form(blank(*net), start);
}

TEST(LatestModels, MixesBySharesAndKeepsVariancesPositive) {
  PerClient<Weights> models;
  models.put(1, model(2, 0.1F)), models.put(3, model(4, 0.3F));
  const Ids ids{1, 3};
  const auto mixed = mixture(models, ids, Shares{3, 1}, nullptr, kLeast);
  EXPECT_FLOAT_EQ(mixed.w.item<float>(), 2.5F);
  EXPECT_EQ(mixed.b.item<float>(), 0.5F);  // the least
  const auto own = model(10, 10);
  EXPECT_FLOAT_EQ(mixture(models, ids, Shares{1, 0, 1}, &own, kLeast).w.item<float>(), 6);
  // A single model is handed on, not copied and not corrected.
  const auto alone = mixture(models, ids, Shares{0, 0.3}, nullptr, kLeast);
  EXPECT_EQ(alone.w.data_ptr(), models.find(3)->w.data_ptr());
  EXPECT_EQ(alone.b.item<float>(), 0.3F);
}

TEST(LatestModels, MatrixAmongSomeIsOneAmongAll) {
  const auto some = at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble).view({2, 2});
  const auto all = among_all(some, Ids{0, 2}, 3);
  EXPECT_EQ(all[2][0].item<double>(), 3);
  EXPECT_EQ(at::isnan(all).sum().item<int64_t>(), 5);
}

}  // namespace
}  // namespace tessera
