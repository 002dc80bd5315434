// FedBABU: one random head that nobody changes, a body that is averaged, copies that are tuned.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/napkin.hpp"

namespace tessera::test {
namespace {

ToyOptions options() {
  ToyOptions out{.method = "fedbabu"};
  out.train.batch = 7;
  out.train.lr = 0.05;
  out.train.momentum = 0.9, out.train.weight_decay = 0.1;  // must not reach the head
  return out;
}

Tensor head_of(const Toy& toy, size_t client) {
  return toy.engine->states().at(client).second.at("head");
}

TEST(FedBabu, OneRoundByHand) {
  auto toy = napkin_toy({.method = "fedbabu"});
  toy.play(1, 1);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(toy.driver->server().at("body.w").item<float>(),
              kNapkinStart.body - kNapkinLr * (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_EQ(head_of(toy, 0).item<float>(), -0.25F);
}

TEST(FedBabu, FineTuningByHand) {
  auto toy = napkin_toy(
      {.method = "fedbabu", .numbers = {{"ft_epochs", 2}}, .words = {{"ft_part", "head"}}});
  const auto tuned = *toy.method
                          ->personalize(toy.method->init_client(*toy.setup, 1),
                                        toy.method->broadcast(toy.driver->server(), 1),
                                        {*toy.model, toy.federation.clients[1], 1, 42}, View::kPost)
                          .weights;
  auto w = kNapkinStart;
  for (int step = 0; step < 2; ++step) w.head -= kNapkinLr * napkin_slope(w, kNapkinB).head;
  EXPECT_EQ(tuned.w[0].item<float>(), 0.5F);
  EXPECT_NEAR(tuned.w[1].item<float>(), w.head, 1e-6);
}

TEST(FedBabu, TheHeadIsOrthonormalAndTheSameForAll) {
  auto toy = make_toy(options(), 3, 1);
  const auto first = toy.method->init_client(*toy.setup, 0).at("head");
  const auto rows = first.slice(0, 0, 300).view({3, 100});
  EXPECT_TRUE(at::allclose(rows.matmul(rows.t()), at::eye(3), 0, 1e-6));
  EXPECT_EQ(first.slice(0, 300).abs().max().item<float>(), 0);
  EXPECT_TRUE(first.equal(toy.method->init_client(*toy.setup, 3).at("head")));
  auto other = options();
  other.seed = 8;
  auto elsewhere = make_toy(other, 3, 1);
  EXPECT_FALSE(first.equal(elsewhere.method->init_client(*elsewhere.setup, 0).at("head")));
}

TEST(FedBabu, TheHeadStaysBitForBitAndTheBodyMoves) {
  auto toy = make_toy(options());
  const auto head = toy.method->init_client(*toy.setup, 0).at("head");
  const auto body = toy.driver->server().at("body.w").clone();
  toy.play(1, 3);
  toy.evaluate(3);  // tunes copies
  for (size_t client = 0; client < 4; ++client) EXPECT_TRUE(head_of(toy, client).equal(head));
  EXPECT_GT((toy.driver->server().at("body.w") - body).abs().max().item<double>(), 0);
  const auto pre = toy.method->personalize(
      toy.engine->states().at(1).second, toy.method->broadcast_eval(toy.driver->server(), 1),
      {*toy.model, toy.federation.clients[1], 4, 42}, View::kPre);
  EXPECT_TRUE(pre.weights->w.slice(0, body.numel()).equal(head));
}

TEST(FedBabu, FineTuningChangesWhatItMay) {
  for (const std::string part : {"body+head", "head", "body"}) {
    auto opts = options();
    opts.words = {{"ft_part", part}};
    auto toy = make_toy(opts);
    toy.play(1, 1);
    const auto view = [&](View which) {
      return toy.method
          ->personalize(toy.engine->states().at(0).second,
                        toy.method->broadcast_eval(toy.driver->server(), 0),
                        {*toy.model, toy.federation.clients[0], 2, 42}, which)
          .weights->w;
    };
    const auto before = toy.model->layout().views(view(View::kPre));
    const auto after = toy.model->layout().views(view(View::kPost));
    for (size_t i = 0; i < before.size(); ++i) {
      const bool head = toy.model->layout().slices()[i].role == Role::kHead;
      const bool may = part == "body+head" || part == (head ? "head" : "body");
      EXPECT_EQ(before[i].equal(after[i]), !may) << part << toy.model->layout().slices()[i].name;
    }
  }
}

TEST(FedBabu, OnlyTheBodyTravels) {
  auto toy = napkin_toy({.method = "fedbabu"});
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_down, 2 * 4);
  EXPECT_EQ(report.bytes_up, 2 * 4);
}

}  // namespace
}  // namespace tessera::test
