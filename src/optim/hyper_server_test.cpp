#include "optim/hyper_server.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/key.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTarget = 12;

Tensor normal(std::vector<int64_t> shape, uint64_t key) {
  auto out = at::empty(shape, at::kFloat);
  Rng rng(key);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  return out;
}

/// Four clients; the output's weights are made large so that embeddings matter.
HyperState state_of(const HyperServer& server) {
  return server.init(server.spec(4, kTarget, 1), 4, normal({kTarget}, 1), at::full({kTarget}, 10.0),
                     2);
}

HyperState copy_of(const HyperState& s) {
  return {s.phi.clone(), s.phi_velocity.clone(), s.z.clone(), s.z_velocity.clone(), s.target,
          s.depths};
}

const HyperServer kSmall{.embed = 3, .hidden = 8, .layers = 2, .server_lr = 0.01};

// The classic bug is the sign: methods.md §7.0.
TEST(HyperServer, AStepBringsTheWeightsNearerToTheTrainedOnes) {
  auto state = state_of(kSmall);
  const auto before = kSmall.generate(state, 2), trained = before + 0.1 * normal({kTarget}, 5);
  kSmall.step(state, std::vector<HyperReply>{{2, before - trained, 10}});
  const double left = norm64(kSmall.generate(state, 2) - trained);
  EXPECT_LT(left, 0.98 * norm64(before - trained));
  auto wrong = state_of(kSmall);
  kSmall.step(wrong, std::vector<HyperReply>{{2, trained - before, 10}});
  EXPECT_GT(norm64(kSmall.generate(wrong, 2) - trained), norm64(before - trained));
}

// J = Σ q_i <W_i(phi, z_i), Delta_i> by autograd, then torch's SGD written out, twice.
TEST(HyperServer, StepIsSgdOnTheWeightedInnerProduct) {
  HyperServer server = kSmall;
  server.weight_decay = 0.05, server.embed_lr = 0.3, server.clip = 0;
  auto state = state_of(server);
  auto expected = copy_of(state);
  const Hypernet net(server.spec(4, kTarget, 1));
  for (uint64_t turn = 0; turn < 2; ++turn) {
    const auto a = normal({kTarget}, 10 + turn), b = normal({kTarget}, 20 + turn);
    const auto phi = expected.phi.clone().requires_grad_(true);
    const auto z = expected.z.clone().requires_grad_(true);
    const auto w = net.generate(phi, z);
    const auto j = 0.25 * (w[0] * a).sum() + 0.75 * (w[3] * b).sum();
    const auto slopes = torch::autograd::grad({j}, {phi, z});
    const auto update = [&](Tensor& w_now, Tensor& velocity, const Tensor& g, double lr) {
      velocity = 0.9 * velocity + g + 0.05 * w_now;
      w_now = w_now - lr * velocity;
    };
    update(expected.phi, expected.phi_velocity, slopes[0], 0.01);
    for (const int64_t row : {0, 3}) {
      auto here = expected.z[row].clone(), velocity = expected.z_velocity[row].clone();
      update(here, velocity, slopes[1][row], 0.3);
      expected.z[row].copy_(here), expected.z_velocity[row].copy_(velocity);
    }
    server.step(state, std::vector<HyperReply>{{0, a, 20}, {3, b, 60}});
  }
  EXPECT_TRUE(at::allclose(state.phi, expected.phi, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(state.phi_velocity, expected.phi_velocity, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(state.z, expected.z, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(state.z_velocity, expected.z_velocity, 1e-4, 1e-5));
}

// Eq. 18 sums over clients; z_i receives its own term only (methods.md §7.4, resolution 2).
TEST(HyperServer, AbsentClientsEmbeddingsRest) {
  auto state = state_of(kSmall);
  const auto first = state.z.clone();
  kSmall.step(state, std::vector<HyperReply>{{1, normal({kTarget}, 5), 1}});
  const auto second = state.z.clone();
  EXPECT_FALSE(second[1].equal(first[1]));
  kSmall.step(state, std::vector<HyperReply>{{2, normal({kTarget}, 6), 1}});
  for (const int64_t row : {0, 3}) EXPECT_TRUE(state.z[row].equal(first[row])) << row;
  EXPECT_TRUE(state.z[1].equal(second[1])) << "no coasting on old momentum";
  EXPECT_FALSE(state.z[2].equal(first[2]));
}

TEST(HyperServer, LongGradientsAreCutToTheClip) {
  HyperServer server = kSmall;
  server.weight_decay = 0, server.momentum = 0, server.server_lr = 1, server.clip = 0.5;
  auto state = state_of(server);
  const auto before = copy_of(state);
  server.step(state, std::vector<HyperReply>{{1, 100 * normal({kTarget}, 5), 1}});
  const double moved = std::hypot(norm64(state.phi - before.phi), norm64(state.z - before.z));
  EXPECT_NEAR(moved, 0.5, 1e-4);
}

TEST(HyperServer, NoLearningRateNoMove) {
  HyperServer server = kSmall;
  server.server_lr = 0;
  auto state = state_of(server);
  const auto before = copy_of(state);
  server.step(state, std::vector<HyperReply>{{1, normal({kTarget}, 5), 1}});
  EXPECT_TRUE(state.phi.equal(before.phi));
  EXPECT_TRUE(state.z.equal(before.z));
}

TEST(HyperServer, ANewcomerLearnsItsEmbeddingAndNothingElse) {
  HyperServer server = kSmall;
  server.new_lr = 1e-2;
  const auto state = state_of(server);
  const auto before = copy_of(state);
  auto guest = server.greet(state);
  EXPECT_TRUE(guest.z.equal(state.z.mean(0)));
  EXPECT_TRUE(server.generate(state, guest).equal(server.generate(state, 4)))
      << "an unseen id is a newcomer";
  const auto trained = server.generate(state, 2);  // another client's weights: within reach
  double distance = norm64(server.generate(state, guest) - trained);
  for (int i = 0; i < 30; ++i)
    guest = server.learn(state, guest, server.generate(state, guest) - trained);
  EXPECT_LT(norm64(server.generate(state, guest) - trained), 0.7 * distance);
  EXPECT_TRUE(state.phi.equal(before.phi));
  EXPECT_TRUE(state.z.equal(before.z));
}

TEST(HyperServer, EmbeddingsAreStandardNormalAndDiffer) {
  HyperServer server = kSmall;
  server.embed = 0;
  const auto state =
      server.init(server.spec(400, kTarget, 1), 400, normal({kTarget}, 1), at::ones({kTarget}), 2);
  EXPECT_EQ(state.z.size(1), 101);  // 1 + N/4
  EXPECT_NEAR(state.z.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(state.z.std().item<double>(), 1, 0.02);
  EXPECT_LT(std::abs(at::dot(state.z[0], state.z[1]).item<double>()), 50);
}

TEST(HyperServer, SaysHowLargeWhenItDoesNotFit) {
  const HyperServer server{.embed = 128, .hidden = 150, .layers = 3};
  const auto spec = server.spec(50, 1'179'648, 1);
  EXPECT_TRUE(server.check_memory("pfedht", spec, 2'138'569'776).ok());
  const auto status = server.check_memory("pfedht", spec, 2'138'569'775);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(error_of(status), Error::kInvalid);
  EXPECT_THAT(message(status), HasSubstr("178.2 million numbers"));
  EXPECT_THAT(message(status), HasSubstr("2.14 GB"));
  EXPECT_THAT(message(status), HasSubstr("method.hidden"));
}

}  // namespace
}  // namespace tessera
