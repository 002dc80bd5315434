#include "method/fedham/ham_round.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "method/fedham/ham_test_net.hpp"

namespace tessera {
namespace {

using testing::normal;
using testing::SmallNet;

struct HamScene {
  SmallNet net;
  ClientData data = net.client(40, 7);
  std::vector<Weights> others{net.moved(1), net.moved(2), net.moved(3)};
  HamModels models{net.moved(4), others, net.moved(5)};
  Site site{net, data, 1, 11};
  TrainOptions train{.epochs = 1, .batch = 8, .lr = 0.1};
  HamTraining ham{.shape = {.width = 6, .rank = 2}};
  Tensor theta = ham_start(net.layout(), ham.shape, 9);

  HamTrained round() const {
    return ham_round(models, theta, site, site, Part::kTrain, train, ham);
  }
  double loss_at(const Tensor& at_theta, Part part) const {
    const HamMixer mixer(net, ham.shape, models.own, models.others, models.global);
    return part_loss(net, mixer.mix(mixer.scores(at_theta)), data, part, Loss::kCrossEntropy);
  }
};

TEST(HeldOut, LastShareAndNothingTwice) {
  ClientData data;
  for (int64_t i = 0; i < 40; ++i) data.train.push_back(100 + i);
  const auto [base, held] = held_out(data, 0.15);
  EXPECT_EQ(held.train, (std::vector<int64_t>{134, 135, 136, 137, 138, 139}));
  EXPECT_EQ(base.train.size(), 34U);
  EXPECT_EQ(base.train.back(), 133);
  auto series = data;
  series.order = {true, 3};  // 131, 132 and 133 overlap with 134
  EXPECT_EQ(held_out(series, 0.15).second.train, held.train);
  EXPECT_EQ(held_out(series, 0.15).first.train.back(), 130);
  data.train.resize(3);
  EXPECT_EQ(held_out(data, 0.15).second.train.size(), 1U);
  data.train.resize(1);
  EXPECT_EQ(held_out(data, 0.15).first.train, held_out(data, 0.15).second.train);
}

TEST(HamRound, ThetaLowersTheLossOfTheMixture) {
  HamScene scene;
  scene.ham.theta_epochs = 100;
  for (const bool strict : {false, true})
    for (const Part part : {Part::kTrain, Part::kVal}) {
      scene.ham.strict = strict, scene.ham.theta_lr = strict ? 0.1 : 3e-3;
      const HamMixer mixer(scene.net, scene.ham.shape, scene.models.own, scene.others,
                           scene.models.global);
      const auto learned =
          learn_theta(mixer, scene.theta, scene.site, part, scene.train, scene.ham);
      EXPECT_LT(scene.loss_at(learned, part), scene.loss_at(scene.theta, part) - 0.01);
    }
}

TEST(HamRound, StepsOfThetaAreClippedToLengthOne) {
  HamScene scene;
  // Models so far apart that the slope in the coefficients is far above 1.
  for (auto& other : scene.others) other.w = 50 * other.w;
  scene.ham.strict = true, scene.ham.theta_lr = 1, scene.ham.theta_epochs = 1;
  scene.train.batch = 1000;
  const auto done = scene.round();
  EXPECT_NEAR((done.theta - scene.theta).norm().item<double>(), 1, 1e-9);
}

TEST(HamRound, TrainsFromTheMixtureOnce) {
  HamScene scene;
  const auto done = scene.round();
  const HamMixer mixer(scene.net, scene.ham.shape, scene.models.own, scene.others,
                       scene.models.global);
  const auto mixed = mixer.mix(mixer.scores(done.theta));
  EXPECT_TRUE(local_sgd(mixed, scene.site, scene.train).weights.w.equal(done.trained.weights.w));
  EXPECT_FALSE(done.theta.equal(scene.theta));
}

TEST(HamRound, EveryEpochIsTheSameForOneEpochAndMixesAgainForTwo) {
  HamScene scene;
  const auto one = scene.round();
  scene.ham.every_epoch = true;
  EXPECT_TRUE(scene.round().trained.weights.w.equal(one.trained.weights.w));
  scene.train.epochs = 2;
  const auto literal = scene.round();
  scene.ham.every_epoch = false;
  EXPECT_FALSE(scene.round().trained.weights.w.equal(literal.trained.weights.w));
  EXPECT_EQ(literal.trained.steps, 2 * one.trained.steps);
  // The second mixture starts from the first one's training.
  scene.train.epochs = 1;
  scene.models.own = one.trained.weights;
  const HamMixer again(scene.net, scene.ham.shape, one.trained.weights, scene.others,
                       scene.models.global);
  EXPECT_TRUE(again.scores(literal.theta).b.allclose(literal.scores.b));
}

// Eq. 15 with attention held fixed, against finite differences of F(w) + lambda F(mixture(w)).
TEST(HamRound, DirectFollowsBothLosses) {
  for (const bool by_block : {false, true}) {
    HamScene scene;
    scene.train.batch = 1000, scene.train.lr = 1;
    scene.ham.shape.by_block = by_block, scene.ham.lambda = 0.7, scene.ham.theta_epochs = 0;
    scene.theta = ham_start(scene.net.layout(), scene.ham.shape, 9);
    scene.theta = scene.theta + 0.5 * normal(scene.theta.sizes().vec(), 3);
    const auto done = scene.round();
    const HamMixer mixer(scene.net, scene.ham.shape, scene.models.own, scene.others,
                         scene.models.global);
    const auto start = mixer.mix(done.scores).w;
    const auto blocks = scene.net.layout().blocks();
    const auto objective = [&](const Tensor& w) {
      auto mixture = start.clone();
      for (size_t i = 0; i < blocks.size(); ++i) {
        const auto part = [&](const Tensor& t) {
          return t.narrow(0, blocks[i].begin, blocks[i].size);
        };
        const double b = done.scores.b[by_block ? static_cast<int64_t>(i) : 0][0].item<double>();
        part(mixture).add_(part(w) - part(scene.models.own.w), b);
      }
      const auto loss = [&](const Tensor& x) {
        return part_loss(scene.net, {x, scene.models.own.b}, scene.data, Part::kTrain,
                         Loss::kCrossEntropy);
      };
      return loss(w) + 0.7 * loss(mixture);
    };
    for (int64_t i = 0; i < start.numel(); ++i) {
      constexpr double kStep = 1e-5;
      auto up = start.clone(), down = start.clone();
      up[i] += kStep, down[i] -= kStep;
      const double slope = (objective(up) - objective(down)) / (2 * kStep);
      EXPECT_NEAR((start[i] - done.trained.weights.w[i]).item<double>(), slope, 1e-8) << i;
    }
  }
}

TEST(HamRound, InputsStayAsTheyAre) {
  HamScene scene;
  const auto own = scene.models.own.w.clone(), theta = scene.theta.clone();
  scene.ham.lambda = 0.1;
  scene.round();
  EXPECT_TRUE(scene.models.own.w.equal(own));
  EXPECT_TRUE(scene.theta.equal(theta));
}

}  // namespace
}  // namespace tessera
