// FedBABU: one random head that nobody changes, a body that is averaged, copies that are tuned.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/napkin.hpp"

namespace tessera::test {
namespace {

ToyOptions fedbabu_options() {
  ToyOptions out{.method = "fedbabu"};
  out.train.batch = 7;
  out.train.lr = 0.05;
  out.train.momentum = 0.9, out.train.weight_decay = 0.1;  // must not reach the head
  return out;
}

/// What a client has above the body before it is tuned.
Tensor head_of(const Toy& toy, ClientId client) {
  const auto down = toy.download(toy.server(), client, Why::kEvaluate);
  const auto pre = toy.personal(toy.state(client), down, toy.local(client), View::kPre);
  return pre.weights->w.slice(0, down.at("w").numel());
}

TEST(FedBabu, OneRoundByHand) {
  auto toy = napkin_toy({.method = "fedbabu"});
  toy.play(1, 1);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(toy.server().at("body.w").item<float>(),
              kNapkinStart.body - kNapkinLr * (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_EQ(head_of(toy, 0).item<float>(), -0.25F);
}

TEST(FedBabu, FineTuningByHand) {
  auto toy = napkin_toy(
      {.method = "fedbabu", .numbers = {{"ft_epochs", 2}}, .words = {{"ft_part", "head"}}});
  const auto tuned =
      *toy.personal(toy.fresh(1), toy.download(toy.server(), 1), toy.local(1), View::kPost).weights;
  auto w = kNapkinStart;
  for (int step = 0; step < 2; ++step) w.head -= kNapkinLr * napkin_slope(w, kNapkinB).head;
  EXPECT_EQ(tuned.w[0].item<float>(), 0.5F);
  EXPECT_NEAR(tuned.w[1].item<float>(), w.head, 1e-6);
}

TEST(FedBabu, TheHeadIsOrthonormalAndTheSameForAll) {
  auto toy = make_toy(fedbabu_options(), 3, 1);
  const auto first = head_of(toy, 0);
  const auto rows = first.slice(0, 0, 300).view({3, 100});
  EXPECT_TRUE(at::allclose(rows.matmul(rows.t()), at::eye(3), 0, 1e-6));
  EXPECT_EQ(first.slice(0, 300).abs().max().item<float>(), 0);
  EXPECT_TRUE(first.equal(head_of(toy, 3)));
  auto other = fedbabu_options();
  other.seed = 8;
  const auto other_run = make_toy(other, 3, 1);
  EXPECT_FALSE(first.equal(head_of(other_run, 0)));
}

TEST(FedBabu, TheHeadStaysBitForBitAndTheBodyMoves) {
  auto toy = make_toy(fedbabu_options());
  const auto head = head_of(toy, 0);
  const auto body = toy.server().at("body.w").clone();
  toy.play(1, 3);
  toy.evaluate(3);  // tunes copies
  for (ClientId client = 0; client < 4; ++client) {
    EXPECT_TRUE(head_of(toy, client).equal(head));
    EXPECT_TRUE(toy.state(client).empty()) << "both ends know the head: nobody has to keep it";
  }
  EXPECT_GT((toy.server().at("body.w") - body).abs().max().item<double>(), 0);
}

TEST(FedBabu, FineTuningChangesWhatItMay) {
  for (const std::string part : {"body+head", "head", "body"}) {
    auto opts = fedbabu_options();
    opts.words = {{"ft_part", part}};
    auto toy = make_toy(opts);
    toy.play(1, 1);
    const auto view = [&](View which) {
      return toy
          .personal(toy.state(0), toy.download(toy.server(), 0, Why::kEvaluate), toy.local(0, 2),
                    which)
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
