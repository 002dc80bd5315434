#include "method/hypernet/hyper_server.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/test_data.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTarget = 12;

Tensor normal_floats(std::vector<int64_t> shape, uint64_t key) {
  return testing::normal(std::move(shape), key).to(at::kFloat);
}

/// Four clients of a server with momentum, and what they have in common.
struct HyperScene {
  HyperServer server{.embed = 3, .hidden = 8, .layers = 2, .server_lr = 0.01};
  HyperRun run;
  HyperState state;

  explicit HyperScene(const std::function<void(HyperServer&)>& change = {}) {
    if (change) change(server);
    run = {{server.embed, server.hidden, server.layers, kTarget, 1}, 4, 2};
    // The output's weights are made large so that embeddings matter.
    state = server.init(run, normal_floats({kTarget}, 1), at::full({kTarget}, 10.0));
  }
  Tensor weights(ClientId client) const {
    return server.generate(state, run, server.embedding(state, run, client).z);
  }
  Tensor z() const { return server.embeddings(state, run); }
  void step(const std::vector<HyperReply>& replies) { server.step(state, run, replies); }
};

// The classic bug is the sign: docs/methods.md §7.0.
TEST(HyperServer, AStepBringsTheWeightsNearerToTheTrainedOnes) {
  HyperScene scene, wrong;
  const auto before = scene.weights(2), trained = before + 0.1 * normal_floats({kTarget}, 5);
  scene.step({{2, before - trained, 10}});
  EXPECT_LT(norm64(scene.weights(2) - trained), 0.98 * norm64(before - trained));
  wrong.step({{2, trained - before, 10}});
  EXPECT_GT(norm64(wrong.weights(2) - trained), norm64(before - trained));
}

// J = Σ q_i <W_i(phi, z_i), Delta_i> by autograd, then torch's SGD written out, twice.
TEST(HyperServer, StepIsSgdOnTheWeightedInnerProduct) {
  HyperScene scene([](auto& o) { o.weight_decay = 0.05, o.embed_lr = 0.3, o.clip = 0; });
  auto phi_now = scene.state.phi.clone(), phi_velocity = at::zeros_like(phi_now);
  auto z_now = scene.z(), z_velocity = at::zeros_like(z_now);
  const Hypernet net(scene.run.spec);
  for (uint64_t turn = 0; turn < 2; ++turn) {
    const auto a = normal_floats({kTarget}, 10 + turn), b = normal_floats({kTarget}, 20 + turn);
    const auto phi = phi_now.clone().requires_grad_(true);
    const auto z = z_now.clone().requires_grad_(true);
    const auto w = net.generate(phi, z);
    const auto j = 0.25 * (w[0] * a).sum() + 0.75 * (w[3] * b).sum();
    const auto slopes = torch::autograd::grad({j}, {phi, z});
    const auto update = [&](Tensor& w_now, Tensor& velocity, const Tensor& g, double lr) {
      velocity = 0.9 * velocity + g + 0.05 * w_now;
      w_now = w_now - lr * velocity;
    };
    update(phi_now, phi_velocity, slopes[0], 0.01);
    for (const int64_t row : {0, 3}) {
      auto here = z_now[row].clone(), velocity = z_velocity[row].clone();
      update(here, velocity, slopes[1][row], 0.3);
      z_now[row].copy_(here), z_velocity[row].copy_(velocity);
    }
    scene.step({{0, a, 20}, {3, b, 60}});
  }
  EXPECT_TRUE(at::allclose(scene.state.phi, phi_now, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(scene.state.phi_velocity, phi_velocity, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(scene.z(), z_now, 1e-4, 1e-5));
  for (ClientId id = 0; id < 4; ++id)
    EXPECT_TRUE(at::allclose(scene.server.embedding(scene.state, scene.run, id).velocity,
                             z_velocity[id], 1e-4, 1e-5));
}

// Eq. 18 sums over clients; z_i receives its own term only (docs/methods.md §7.4, resolution 2).
TEST(HyperServer, AbsentClientsEmbeddingsRest) {
  HyperScene scene;
  const auto first = scene.z();
  scene.step({{1, normal_floats({kTarget}, 5), 1}});
  const auto second = scene.z();
  EXPECT_FALSE(second[1].equal(first[1]));
  scene.step({{2, normal_floats({kTarget}, 6), 1}});
  const auto third = scene.z();
  for (const int64_t row : {0, 3}) EXPECT_TRUE(third[row].equal(first[row])) << row;
  EXPECT_TRUE(third[1].equal(second[1])) << "no coasting on old momentum";
  EXPECT_FALSE(third[2].equal(first[2]));
  EXPECT_EQ(scene.state.embeddings.ids(), (std::vector<ClientId>{1, 2}));
}

TEST(HyperServer, LongGradientsAreCutToTheClip) {
  HyperScene scene(
      [](auto& o) { o.weight_decay = 0, o.momentum = 0, o.server_lr = 1, o.clip = 0.5; });
  const auto phi = scene.state.phi.clone(), z = scene.z();
  scene.step({{1, 100 * normal_floats({kTarget}, 5), 1}});
  const double moved = std::hypot(norm64(scene.state.phi - phi), norm64(scene.z() - z));
  EXPECT_NEAR(moved, 0.5, 1e-4);
}

// docs/methods.md §7.4: pFedHT cuts phi's gradient by its own length and leaves embeddings alone.
TEST(HyperServer, TheClipMayBeOfPhiAlone) {
  const auto changed = [](double clip) {
    return [=](HyperServer& o) {
      o.weight_decay = 0, o.momentum = 0, o.server_lr = 1, o.clip = clip, o.clip_embeddings = false;
    };
  };
  HyperScene scene(changed(0.5)), free(changed(0));
  const auto phi = scene.state.phi.clone();
  const auto delta = 100 * normal_floats({kTarget}, 5);
  scene.step({{1, delta, 1}}), free.step({{1, delta, 1}});
  EXPECT_NEAR(norm64(scene.state.phi - phi), 0.5, 1e-4);
  EXPECT_TRUE(scene.z().equal(free.z()));
  const auto learned = [&](const HyperScene& by) {
    return by.server.learn(by.state, by.run, nullptr, delta).z - by.z().mean(0);
  };
  HyperScene joint([](auto& o) { o.weight_decay = 0, o.momentum = 0, o.clip = 0.5; });
  EXPECT_NEAR(norm64(learned(joint)), 0.5 * joint.server.new_lr, 1e-5);
  EXPECT_GT(norm64(learned(scene)), 0.5 * scene.server.new_lr);
}

// One optimiser over the whole table, as in public code: with a gradient of 0, v ← 0.9 v + 0.05 z
// and z ← z − 0.01 v, also for who never took part.
TEST(HyperServer, AbsentClientsEmbeddingsMayCoast) {
  HyperScene scene([](auto& o) { o.weight_decay = 0.05, o.absent = "coast"; });
  scene.step({{1, normal_floats({kTarget}, 5), 1}});
  const auto z = scene.z();
  const auto v = scene.server.embedding(scene.state, scene.run, 1).velocity;
  scene.step({{2, normal_floats({kTarget}, 6), 1}});
  const auto next = 0.9 * v + 0.05 * z[1];
  EXPECT_TRUE(at::allclose(scene.z()[1], z[1] - 0.01 * next, 1e-5, 1e-6));
  EXPECT_GT(norm64(scene.z()[1] - z[1]), 1e-4);
  const auto first = HyperScene().z();
  EXPECT_TRUE(at::allclose(z[3], first[3] * (1 - 0.01 * 0.05), 1e-5, 1e-7));
  EXPECT_EQ(scene.state.embeddings.ids(), (std::vector<ClientId>{0, 1, 2, 3}));
}

TEST(HyperServer, NoLearningRateNoMove) {
  HyperScene scene([](auto& o) { o.server_lr = 0; });
  const auto phi = scene.state.phi.clone(), z = scene.z();
  scene.step({{1, normal_floats({kTarget}, 5), 1}});
  EXPECT_TRUE(scene.state.phi.equal(phi));
  EXPECT_TRUE(scene.z().equal(z));
}

TEST(HyperServer, ANewcomerLearnsItsEmbeddingAndNothingElse) {
  HyperScene scene([](auto& o) { o.new_lr = 1e-2; });
  const auto& [server, run, state] = scene;
  const auto phi = state.phi.clone(), z = scene.z();
  auto guest = server.mean_embedding(state, run);
  EXPECT_TRUE(guest.z.equal(z.mean(0)));
  const auto served = [&](const Embedding* known) {
    Tensor out;
    const Ask<Embedding> ask{4, Why::kJoin, known};
    server.generate(state, run, std::span(&ask, 1), [&](const auto&, Tensor w) { out = w; });
    return out;
  };
  EXPECT_TRUE(served(nullptr).equal(served(&guest))) << "an unseen id is a newcomer";
  const auto trained = scene.weights(2);  // another client's weights: within reach
  const double distance = norm64(served(&guest) - trained);
  EXPECT_TRUE(server.learn(state, run, nullptr, served(nullptr) - trained)
                  .z.equal(server.learn(state, run, &guest, served(&guest) - trained).z));
  for (int i = 0; i < 30; ++i) guest = server.learn(state, run, &guest, served(&guest) - trained);
  EXPECT_LT(norm64(served(&guest) - trained), 0.7 * distance);
  EXPECT_TRUE(state.phi.equal(phi));
  EXPECT_TRUE(scene.z().equal(z));
}

TEST(HyperServer, EverybodyIsServedInOrder) {
  HyperScene scene;
  scene.step({{1, normal_floats({kTarget}, 5), 1}});
  const auto guest = scene.server.embedding(scene.state, scene.run, 3);
  const std::vector<Ask<Embedding>> asks{
      {2, Why::kTrain}, {1, Why::kEvaluate}, {4, Why::kJoin}, {5, Why::kJoin, &guest}};
  std::vector<Tensor> got;
  scene.server.generate(scene.state, scene.run, asks, [&](const auto& ask, Tensor w) {
    EXPECT_EQ(ask.client, asks[got.size()].client);
    got.push_back(w);
  });
  ASSERT_EQ(got.size(), 4U);
  EXPECT_TRUE(got[0].equal(scene.weights(2)));
  EXPECT_TRUE(got[1].equal(scene.weights(1)));
  EXPECT_TRUE(got[2].equal(scene.server.generate(scene.state, scene.run, scene.z().mean(0))));
  EXPECT_TRUE(got[3].equal(scene.weights(3)));
}

TEST(HyperServer, EmbeddingsAreStandardNormalAndDiffer) {
  const HyperServer server{.embed = 0};
  const auto model = *make_model("mlp100", {{6}, 3});
  const auto run = server.run(tessera::Setup{*model, 400, 5, 1.0, 2}, kTarget, 1);
  const auto z = server.embeddings({}, run);
  EXPECT_EQ(z.sizes(), (std::vector<int64_t>{400, 101}));  // 1 + N/4
  EXPECT_NEAR(z.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(z.std().item<double>(), 1, 0.02);
  EXPECT_LT(std::abs(at::dot(z[0], z[1]).item<double>()), 50);
}

TEST(HyperServer, SaysHowLargeWhenItDoesNotFit) {
  const HyperServer server{.embed = 128, .hidden = 150, .layers = 3};
  const HyperRun run{{server.embed, server.hidden, server.layers, 1'179'648, 1}, 50, 0};
  EXPECT_TRUE(server.check_memory("pfedht", run, 2'138'569'776).ok());
  const auto status = server.check_memory("pfedht", run, 2'138'569'775);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(error_of(status), Error::kInvalid);
  EXPECT_THAT(message(status), HasSubstr("178.2 million numbers"));
  EXPECT_THAT(message(status), HasSubstr("2.14 GB"));
  EXPECT_THAT(message(status), HasSubstr("method.hidden"));
}

}  // namespace
}  // namespace tessera
