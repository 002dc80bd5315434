// FedRoD: a generic head for balanced classes, a private one on top, and no gradient from the
// latter into the body.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "method/fedrod/two_heads.hpp"
#include "model/sequential.hpp"
#include "support/napkin.hpp"

namespace tessera::test {
namespace {

// Two classes on one input without a hidden layer: logits (w0 x + b0, w1 x + b1), features x.
using Line = std::array<double, 4>;

std::shared_ptr<const Model> line_model() {
  return std::make_shared<Sequential>(SequentialSpec{{1}, {}, {{1, 2, false}}}, Init::kTorch);
}

/// Gradient of the mean cross-entropy of logits that are `at` x, plus a constant shift of class 0.
Line slope(const Line& at, double shift, const NapkinData& data) {
  Line g{};
  for (size_t i = 0; i < data.x.size(); ++i) {
    const double x = data.x[i];
    const double p0 = 1 / (1 + std::exp(-((at[0] - at[1]) * x + at[2] - at[3] + shift)));
    const double share = (p0 - (data.y[i] == 0)) / static_cast<double>(data.x.size());
    g[0] += share * x, g[1] -= share * x, g[2] += share, g[3] -= share;
  }
  return g;
}

/// Two steps of both heads; class 0 has `shift` = m_0 − m_1.
std::pair<Line, Line> by_hand(Line generic, double shift, const NapkinData& data) {
  Line own{};
  for (int step = 0; step < 2; ++step) {
    Line both{};
    for (size_t k = 0; k < 4; ++k) both[k] = generic[k] + own[k];
    const auto a = slope(generic, shift, data), b = slope(both, 0, data);
    for (size_t k = 0; k < 4; ++k) generic[k] -= kNapkinLr * a[k], own[k] -= kNapkinLr * b[k];
  }
  return {generic, own};
}

TEST(FedRod, OneRoundByHand) {
  ToyOptions options{.method = "fedrod"};
  options.train.lr = kNapkinLr, options.train.batch = 100, options.train.epochs = 2;
  Federation data;
  data.sample_shape = {1};
  data.classes = 2;
  data.clients = {napkin_client(kNapkinA.x, kNapkinA.y), napkin_client(kNapkinB.x, kNapkinB.y)};
  Toy toy(std::move(data), line_model(), options);
  Line start{};
  for (int k = 0; k < 4; ++k) start[k] = toy.server().at("shared.w")[k].item<float>();
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_down, 2 * 4 * 4);
  EXPECT_EQ(report.bytes_up, 2 * 4 * 4);  // the private head never travels
  // A has one sample of class 0 and none of class 1; B two of class 0 and one of class 1.
  const auto [ga, pa] = by_hand(start, 0 - -30, kNapkinA);
  const auto [gb, pb] = by_hand(start, std::log(2.0), kNapkinB);
  const auto server = toy.server(), state_a = toy.state(0), state_b = toy.state(1);
  for (int k = 0; k < 4; ++k) {
    const auto at = static_cast<size_t>(k);
    EXPECT_NEAR(server.at("shared.w")[k].item<float>(), (ga[at] + 3 * gb[at]) / 4, 1e-6);
    EXPECT_NEAR(state_a.at("head")[k].item<float>(), pa[at], 1e-6);
    EXPECT_NEAR(state_b.at("head")[k].item<float>(), pb[at], 1e-6);
  }
}

TEST(FedRod, BalanceIsTheLogarithmOfCounts) {
  const std::vector<int64_t> counts{4, 0, 1};
  const auto m = balance(counts, 0.5);
  EXPECT_FLOAT_EQ(m[0].item<float>(), std::log(2.0F));
  EXPECT_EQ(m[1].item<float>(), -30);
  EXPECT_EQ(m[2].item<float>(), 0);
}

ToyOptions images(const std::string& method) {
  ToyOptions out{.method = method};
  out.train.batch = 8;
  out.train.lr = 0.05;
  out.train.momentum = 0.9;
  return out;
}

Toy on_images(const ToyOptions& options, int64_t newcomers = 0) {
  return Toy(toy_federation(3, newcomers, 60, true), *make_model("lenet16-bn", {{1, 28, 28}, 3}),
             options);
}

TEST(FedRod, WithoutBalanceTheGenericModelIsFedAvg) {
  auto options = images("fedrod");
  options.numbers = {{"gamma", 0}};
  auto rod = on_images(options), avg = on_images(images("fedavg"));
  for (const auto& client : rod.federation.clients)
    for (const int64_t n : client.class_counts(Part::kTrain)) ASSERT_GT(n, 0);
  rod.play(1, 2), avg.play(1, 2);
  EXPECT_TRUE(rod.server().at("shared.w").equal(avg.server().at("g.w")));
  EXPECT_TRUE(rod.server().at("shared.b").equal(avg.server().at("g.b")));
}

// The pitfall of docs/methods.md §2.6: whatever the private head is, body and G learn the same.
TEST(FedRod, ThePrivateHeadSendsNoGradientIntoTheBody) {
  auto toy = on_images(images("fedrod"));
  const auto g = toy.model->init(1);
  for (const bool hyper : {false, true}) {
    const PrivateHead head(*linear_head(toy.model->layout()), hyper);
    const auto local = toy.local(0, 1, 42);
    TrainOptions train;
    train.batch = 8;
    const auto zero = head.init(3);
    const auto a = train_two_heads({g, zero}, head, local, train, 1);
    const auto b = train_two_heads({g, at::ones_like(zero)}, head, local, train, 1);
    EXPECT_TRUE(a.weights.w.equal(b.weights.w));
    EXPECT_FALSE(a.weights.w.equal(g.w));
    EXPECT_FALSE(a.source.equal(zero));
    EXPECT_FALSE(a.source.equal(b.source));
  }
}

TEST(FedRod, PredictsWithBothHeads) {
  auto toy = on_images(images("fedrod"));
  toy.play(1, 2);
  const auto state = toy.state(0);
  const auto down = toy.download(toy.server(), 0, Why::kEvaluate);
  const auto pre = toy.personal(state, down, toy.local(0, 3, 42), View::kPre);
  const auto x = toy.federation.clients[0].range(Part::kTest, 0, 12).x;
  const auto out = toy.model->forward({down.at("g.w"), down.at("g.b")}, x, Pass{});
  const auto p = state.at("head");
  const auto v = at::linear(out.features, p.slice(0, 0, 84 * 3).view({3, 84}), p.slice(0, 84 * 3));
  EXPECT_GT(v.abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(at::allclose(pre.predict(x), out.logits + v, 1e-4, 1e-5));
  // The generic view is the server's own.
  EXPECT_TRUE(toy.global(toy.server())->w.equal(down.at("g.w")));
}

TEST(FedRod, ANewcomerPredictsGenerically) {
  auto toy = on_images(images("fedrod"), 1);
  toy.play(1, 2);
  const auto pre = toy.personal(toy.fresh(3), toy.download_guest(toy.server(), std::nullopt, 3),
                                toy.local(3, 3), View::kPre);
  EXPECT_TRUE(pre.weights->w.equal(toy.server().at("shared.w")));
}

TEST(FedRod, AHypernetworkMakesHeadsOfClassShares) {
  auto options = images("fedrod");
  options.numbers = {{"hyper", 1}};
  auto toy = on_images(options, 1);
  const auto head_of = [&](const ClientData& data) {
    const auto down = toy.download_guest(toy.server(), std::nullopt, 3);
    const auto pre = toy.personal(toy.fresh(3), down, toy.local(3, data, 3), View::kPre);
    return (pre.weights->w - down.at("g.w")).slice(0, -85 * 3);
  };
  auto one_class = toy.federation.newcomers[0];
  std::erase_if(one_class.train,
                [&](int64_t row) { return one_class.pool->y[row].item<int64_t>() != 0; });
  EXPECT_EQ(head_of(one_class).abs().max().item<float>(), 0);  // zero at first
  const int64_t d = toy.model->layout().numel();
  const int64_t made = 16 * 3 + 16 + 17 * 85 * 3;
  const auto report = toy.play(1, 3).at(0);
  EXPECT_EQ(report.bytes_down, 3 * 4 * (d + made + toy.model->buffers().numel()));
  EXPECT_EQ(report.bytes_up, report.bytes_down);
  const auto a = head_of(one_class), b = head_of(toy.federation.newcomers[0]);
  EXPECT_GT(a.abs().max().item<double>(), 1e-4);
  EXPECT_FALSE(at::allclose(a, b));
  EXPECT_EQ(toy.fresh(0).at("head").numel(), 0);
}

TEST(FedRod, RefusesWhatItCannotBalance) {
  auto headless = napkin_toy({.method = "fedrod"});
  EXPECT_NE(message(headless.method->check(headless.setup())).find("model.name"),
            std::string::npos);
  auto options = images("fedrod");
  options.train.loss = "multilabel";
  auto toy = on_images(options);
  EXPECT_NE(message(toy.method->check(toy.setup())).find("train.loss = \"ce\""), std::string::npos);
}

}  // namespace
}  // namespace tessera::test
