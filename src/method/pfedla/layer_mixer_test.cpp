#include "method/pfedla/layer_mixer.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "method/pfedla/layer_mix.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kClients = 3, kBlocks = 2;
const LayerWeights kNet{.embed = 4, .hidden = 5, .server_lr = 0.1};

TEST(LayerWeights, SharesStartPositiveAndSumToOne) {
  const LayerWeights net;
  for (int64_t i = 0; i < 20; ++i) {
    const auto a = net.shares(net.init(i, 20, 5, 3), i, 20, 5);
    EXPECT_GT(a.min().item<float>(), 0);
    EXPECT_TRUE(at::allclose(a.sum(1), at::ones({5})));
  }
}

TEST(LayerWeights, ABlockWithoutAnyShareIsTheClientsOwn) {
  const auto theta = kNet.init(2, kClients, kBlocks, 1);
  const auto parts = kNet.layout(kClients, kBlocks).views(theta);
  parts[5].narrow(0, 0, kClients).fill_(-1), parts[6].narrow(0, 0, kClients).fill_(-1);
  const auto a = kNet.shares(theta, 2, kClients, kBlocks);
  EXPECT_TRUE(a[0].equal(at::tensor({0.0F, 0.0F, 1.0F})));
  EXPECT_GT(a[1].min().item<float>(), 0);
  // Nor does it get lost in the derivative.
  const auto next = kNet.stepped(theta, 2, at::ones({kBlocks, kClients}, at::kDouble));
  EXPECT_TRUE(at::isfinite(next).all().item<bool>());
}

TEST(LayerWeights, StepGoesDownTheSlopeOfTheShares) {
  const auto theta = kNet.init(0, kClients, kBlocks, 1).to(at::kDouble);
  const auto slope = at::linspace(-1, 2, kBlocks * kClients, at::kDouble).view({kBlocks, kClients});
  const auto value = [&](const Tensor& at) {
    return (kNet.shares(at, 0, kClients, kBlocks) * slope).sum().item<double>();
  };
  const auto moved = kNet.stepped(theta, 0, slope) - theta;
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < theta.numel(); ++i) {
    auto up = theta.clone(), down = theta.clone();
    up[i] += kStep, down[i] -= kStep;
    EXPECT_NEAR(moved[i].item<double>(), -0.1 * (value(up) - value(down)) / (2 * kStep), 1e-8) << i;
  }
}

struct LayerScene {
  LayerScene() : model(*make_model("mlp100", {{6}, 3})), setup{*model, kClients, 5, 1.0, 7} {
    state = rule.init(setup);
    for (ClientId j = 0; j < kClients; ++j) state.latest.put(j, w(j));
  }
  Weights w(ClientId j) const { return model->init(100 + static_cast<uint64_t>(j)); }
  LayerMixer mixer() const { return {rule, state, setup}; }

  LayerRule rule{.net = {.server_lr = 1}};
  std::unique_ptr<Model> model;
  tessera::Setup setup;  // gtest has a Setup too
  LayerState state;
};

// The classic bug is the sign (docs/methods.md §7.0): a step must bring the mixture nearer to what
// the client made of it.
TEST(LayerMixer, AStepBringsTheMixtureNearerToTheTrainedModel) {
  LayerScene scene;
  const auto before = scene.mixer().mixture(1);
  // Training that moves towards client 2 in the first block, towards client 0 in the second.
  auto shares = scene.mixer().shares(1);
  shares[0].mul_(0.5)[2] += 0.5, shares[1].mul_(0.5)[0] += 0.5;
  std::vector<Tensor> rows;
  for (ClientId j = 0; j < kClients; ++j) rows.push_back(scene.w(j).w);
  const Weights trained{mixed(rows, shares, scene.mixer().table()), before.b};
  const auto right = scene.mixer().learned(1, trained);
  const auto wrong = scene.mixer().learned(1, {2 * before.w - trained.w, before.b});
  scene.state.theta.put(1, right);
  const auto after = scene.mixer().mixture(1);
  EXPECT_LT(norm64(after.w - trained.w), norm64(before.w - trained.w) - 1e-4);
  // With the sign turned round it moves away.
  scene.state.theta.put(1, wrong);
  EXPECT_GT(norm64(scene.mixer().mixture(1).w - trained.w), norm64(before.w - trained.w));
}

TEST(LayerMixer, KeptBlocksAreTheMostPersonalAndUnmixed) {
  LayerScene scene;
  scene.rule.keep_blocks = 1;
  for (ClientId i = 0; i < kClients; ++i) {
    const auto own = scene.mixer().shares(i).select(1, i);
    const auto kept = scene.mixer().kept(i);
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept[0], own.argmax().item<int64_t>());
    const auto mixture = scene.mixer().mixture(i).w;
    const auto mine = scene.w(i).w;
    const auto block = scene.model->layout().blocks()[static_cast<size_t>(kept[0])];
    EXPECT_TRUE(
        mixture.narrow(0, block.begin, block.size).equal(mine.narrow(0, block.begin, block.size)));
    EXPECT_FALSE(mixture.equal(mine));
  }
}

TEST(LayerMixer, StrangersGetTheUniformMixture) {
  LayerScene scene;
  scene.rule.keep_blocks = 1;
  const auto expected = (scene.w(0).w.to(at::kDouble) + scene.w(1).w + scene.w(2).w) / 3;
  EXPECT_TRUE(at::allclose(scene.mixer().mixture(3).w.to(at::kDouble), expected, 1e-6));
  EXPECT_TRUE(scene.mixer().kept(3).empty());
}

// Who never uploaded has the common initial model and a hypernetwork drawn for it alone.
TEST(LayerMixer, WhoNeverUploadedIsAsAtTheStart) {
  LayerScene scene;
  scene.state = scene.rule.init(scene.setup);
  const auto first = scene.model->init(7);
  EXPECT_TRUE(at::allclose(scene.mixer().mixture(1).w, first.w, 1e-5, 1e-7));
  const auto theta = scene.rule.net.init(1, kClients, kBlocks, 7);
  EXPECT_TRUE(scene.mixer().shares(1).equal(
      scene.rule.net.shares(theta, 1, kClients, kBlocks).to(at::kDouble)));
  scene.state.theta.put(1, theta.clone());
  EXPECT_TRUE(
      scene.mixer()
          .learned(1, scene.w(0))
          .equal(LayerScene{}.rule.net.stepped(
              theta, 1,
              block_products(scene.mixer().mixture(1).w - scene.w(0).w,
                             std::vector<Tensor>(kClients, first.w), scene.mixer().table()))));
}

TEST(LayerMixer, WhatDoesNotFitIsRefused) {
  LayerScene scene;
  EXPECT_TRUE(scene.rule.check_memory("pfedla", scene.setup, int64_t{1} << 40).ok());
  scene.setup.clients = 1'000'000;
  const auto status = scene.rule.check_memory("pfedla", scene.setup, 1 << 20);
  EXPECT_THAT(message(status), HasSubstr("pfedla"));
  EXPECT_THAT(message(status), HasSubstr("method.hidden"));
}

TEST(LayerMixer, AHypernetworkThatDivergedSaysSo) {
  LayerScene scene;
  scene.state.theta.put(1, at::full_like(*scene.state.theta.like(), NAN));
  EXPECT_NO_THROW(scene.mixer().shares(0));
  EXPECT_THAT([&] { scene.mixer().shares(1); },
              ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("lower method.server_lr")));
}

}  // namespace
}  // namespace tessera
