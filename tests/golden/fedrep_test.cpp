// FedRep: head first, then base, never both; nothing of the frozen part moves.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/napkin.hpp"

namespace tessera::test {
namespace {

constexpr double kMomentum = 0.9, kDecay = 0.1;

/// Two steps on the head, one on the base, each with an optimiser of its own.
Napkin by_hand(const NapkinData& data) {
  auto [body, head] = kNapkinStart;
  double velocity = 0;
  for (int step = 0; step < 2; ++step) {
    velocity = kMomentum * velocity + napkin_slope({body, head}, data).head + kDecay * head;
    head -= kNapkinLr * velocity;
  }
  body -= kNapkinLr * (napkin_slope({body, head}, data).body + kDecay * body);
  return {body, head};
}

// Momentum and weight decay would move the frozen part if one optimiser served both phases.
TEST(FedRep, OneRoundByHand) {
  ToyOptions options{.method = "fedrep", .numbers = {{"head_epochs", 2}}};
  options.train.momentum = kMomentum, options.train.weight_decay = kDecay;
  auto toy = napkin_toy(options);
  toy.play(1, 1);
  const auto a = by_hand(kNapkinA), b = by_hand(kNapkinB);
  EXPECT_NEAR(toy.server().at("base.w").item<float>(), (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_NEAR(toy.state(0).at("head").item<float>(), a.head, 1e-6);
  EXPECT_NEAR(toy.state(1).at("head").item<float>(), b.head, 1e-6);
}

TEST(FedRep, ViewsAreBeforeAndAfterTheRound) {
  auto toy = napkin_toy({.method = "fedrep", .numbers = {{"head_epochs", 1}}});
  const auto state = toy.fresh(1);
  const auto down = toy.download(toy.server(), 1);
  const auto local = toy.local(1, 1, 42);
  const auto pre = toy.personal(state, down, local, View::kPre).weights->w;
  EXPECT_TRUE(pre.equal(toy.model->init(0).w));
  const auto post = toy.personal(state, down, local, View::kPost).weights->w;
  const auto step = toy.method->local_update(state, down, local);
  EXPECT_TRUE(post.slice(0, 0, 1).equal(step.upload.at("value.w")));
  EXPECT_TRUE(post.slice(0, 1).equal(step.next.at("head")));
}

TEST(FedRep, ANewcomerFitsAHeadOnTheFrozenBase) {
  auto toy = make_toy({.method = "fedrep"});
  toy.play(1, 2);
  const auto down = toy.download_guest(toy.server(), std::nullopt, 4);
  const auto state = toy.fresh(4);
  const auto local = toy.local(4, 3, 42);
  const auto pre = *toy.personal(state, down, local, View::kPre).weights;
  const auto& base = down.at("w");
  EXPECT_TRUE(pre.w.slice(0, 0, base.numel()).equal(base));
  const auto head = pre.w.slice(0, base.numel());
  EXPECT_GT((head - state.at("head")).abs().max().item<double>(), 0);
  const auto loss = [&](const Tensor& of) {
    const Weights w{at::cat({base, of}), pre.b};
    return part_loss(*toy.model, w, local.data, Part::kTrain, Loss::kCrossEntropy);
  };
  EXPECT_LT(loss(head), loss(state.at("head")));
}

TEST(FedRep, RefusesToShareNothing) {
  auto toy = napkin_toy({.method = "fedrep", .numbers = {{"per_layers", 2}}});
  EXPECT_NE(message(toy.method->check(toy.setup())).find("method.per_layers to 1 or less"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::test
