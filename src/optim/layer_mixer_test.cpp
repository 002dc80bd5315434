#include "optim/layer_mixer.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"
#include "tensor/layer_mix.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kClients = 3, kBlocks = 2;
const LayerWeights kNet{.embed = 4, .hidden = 5, .server_lr = 0.1};

TEST(LayerWeights, SharesStartPositiveAndSumToOne) {
  const LayerWeights net;
  const auto theta = net.init(20, 5, 3);
  for (int64_t i = 0; i < 20; ++i) {
    const auto a = net.shares(theta[i], i, 20, 5);
    EXPECT_GT(a.min().item<float>(), 0);
    EXPECT_TRUE(at::allclose(a.sum(1), at::ones({5})));
  }
}

TEST(LayerWeights, ABlockWithoutAnyShareIsTheClientsOwn) {
  auto theta = kNet.init(kClients, kBlocks, 1)[2].clone();
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
  const auto theta = kNet.init(kClients, kBlocks, 1)[0].to(at::kDouble);
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

struct Scene {
  Scene() : model(*make_model("mlp100", {{6}, 3})), state(mixer.init(*model, kClients, 7)) {
    for (uint64_t j = 0; j < 3; ++j) state.latest[j] = model->init(100 + j);
  }
  LayerMixer mixer{.net = {.server_lr = 1}};
  std::unique_ptr<Model> model;
  LayerState state;
};

// The classic bug is the sign (methods.md §7.0): a step must bring the mixture nearer to what the
// client made of it.
TEST(LayerMixer, AStepBringsTheMixtureNearerToTheTrainedModel) {
  Scene scene;
  const auto before = scene.mixer.mixture(scene.state, 1);
  // Training that moves towards client 2 in the first block, towards client 0 in the second.
  auto shares = scene.mixer.shares(scene.state, 1);
  shares[0].mul_(0.5)[2] += 0.5, shares[1].mul_(0.5)[0] += 0.5;
  std::vector<Tensor> rows;
  for (const auto& one : scene.state.latest) rows.push_back(one.w);
  const Weights trained{mixed(rows, shares, scene.state.table), before.b};
  scene.mixer.learn(scene.state, 1, trained);
  const auto after = scene.mixer.mixture(scene.state, 1);
  EXPECT_LT(norm64(after.w - trained.w), norm64(before.w - trained.w) - 1e-4);
  // With the sign turned round it moves away.
  Scene wrong;
  wrong.mixer.learn(wrong.state, 1, {2 * before.w - trained.w, before.b});
  EXPECT_GT(norm64(wrong.mixer.mixture(wrong.state, 1).w - trained.w),
            norm64(before.w - trained.w));
}

TEST(LayerMixer, KeptBlocksAreTheMostPersonalAndUnmixed) {
  Scene scene;
  scene.mixer.keep_blocks = 1;
  for (int64_t i = 0; i < kClients; ++i) {
    const auto own = scene.mixer.shares(scene.state, i).select(1, i);
    const auto kept = scene.mixer.kept(scene.state, i);
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(kept[0], own.argmax().item<int64_t>());
    const auto mixture = scene.mixer.mixture(scene.state, i).w;
    const auto& mine = scene.state.latest[static_cast<size_t>(i)].w;
    const auto block = scene.model->layout().blocks()[static_cast<size_t>(kept[0])];
    EXPECT_TRUE(
        mixture.narrow(0, block.begin, block.size).equal(mine.narrow(0, block.begin, block.size)));
    EXPECT_FALSE(mixture.equal(mine));
  }
}

TEST(LayerMixer, StrangersGetTheUniformMixture) {
  Scene scene;
  scene.mixer.keep_blocks = 1;
  const auto& latest = scene.state.latest;
  const auto expected = (latest[0].w.to(at::kDouble) + latest[1].w + latest[2].w) / 3;
  EXPECT_TRUE(at::allclose(scene.mixer.mixture(scene.state, 3).w.to(at::kDouble), expected, 1e-6));
  EXPECT_TRUE(scene.mixer.kept(scene.state, 3).empty());
}

TEST(LayerMixer, WhatDoesNotFitIsRefused) {
  Scene scene;
  EXPECT_TRUE(scene.mixer.check_memory("pfedla", *scene.model, 3, int64_t{1} << 40).ok());
  const auto status = scene.mixer.check_memory("pfedla", *scene.model, 1'000'000, 1 << 20);
  EXPECT_THAT(message(status), HasSubstr("pfedla"));
  EXPECT_THAT(message(status), HasSubstr("method.hidden"));
}

TEST(LayerMixer, AHypernetworkThatDivergedSaysSo) {
  LayerState state;
  state.latest.resize(kClients);
  state.table = at::zeros({kBlocks, 2}, at::kLong);
  state.theta = kNet.init(kClients, kBlocks, 1);
  state.theta[1].fill_(NAN);
  const LayerMixer mixer{kNet};
  EXPECT_NO_THROW(mixer.shares(state, 0));
  EXPECT_THAT([&] { mixer.shares(state, 1); },
              ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("lower method.server_lr")));
}

}  // namespace
}  // namespace tessera
