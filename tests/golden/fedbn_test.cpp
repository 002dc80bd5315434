// FedBN: batch norms, and nothing else, stay at home, running statistics included.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/napkin.hpp"

namespace tessera::test {
namespace {

/// NapkinModel with misleading names: "bn" is a plain weight, "fc" a norm.
class Misnamed final : public Model {
 public:
  Misnamed() : layout_({{"bn.weight", {1}, Role::kBody}, {"fc.weight", {1}, Role::kNorm}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return none_; }
  Weights init(uint64_t key) const override { return NapkinModel().init(key); }
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override {
    return NapkinModel().forward(at, x, pass);
  }

 private:
  Layout layout_, none_;
};

ToyOptions fedbn_options(const std::string& method) {
  ToyOptions out{.method = method};
  out.train.batch = 8;
  out.train.lr = 0.05;
  return out;
}

Toy norms_on_images(const std::string& method, int64_t clients, int64_t newcomers = 0) {
  return Toy(toy_federation(clients, newcomers, 60, true),
             *make_model("lenet16-bn", {{1, 28, 28}, 3}), fedbn_options(method));
}

Personal of_newcomer(const Toy& toy, const ClientData& data, View view) {
  return toy.personal(toy.fresh(9), toy.download_guest(toy.server(), std::nullopt, 9),
                      toy.local(9, data, 3, 42), view);
}

TEST(FedBN, ByModuleTypeNotByNameOneRoundByHand) {
  auto opts = fedbn_options("fedbn");
  opts.train.lr = kNapkinLr, opts.train.batch = 100;
  Federation data;
  data.sample_shape = {1};
  data.classes = 2;
  data.clients = {napkin_client(kNapkinA.x, kNapkinA.y), napkin_client(kNapkinB.x, kNapkinB.y)};
  Toy toy(std::move(data), std::make_shared<Misnamed>(), opts);
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_up, 2 * 4);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(toy.server().at("g.w").item<float>(),
              kNapkinStart.body - kNapkinLr * (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_NEAR(toy.state(0).at("norms.w").item<float>(), kNapkinStart.head - kNapkinLr * a.head,
              1e-6);
  EXPECT_NEAR(toy.state(1).at("norms.w").item<float>(), kNapkinStart.head - kNapkinLr * b.head,
              1e-6);
}

TEST(FedBN, OfOneClientIsFedAvg) {
  auto bn = norms_on_images("fedbn", 1), avg = norms_on_images("fedavg", 1);
  bn.play(1, 3), avg.play(1, 3);
  const auto whole = bn.personal(bn.state(0), bn.download(bn.server(), 0, Why::kEvaluate),
                                 bn.local(0, 4, 42), View::kPre);
  EXPECT_TRUE(whole.weights->w.equal(avg.server().at("g.w")));
  EXPECT_TRUE(whole.weights->b.equal(avg.server().at("g.b")));
}

TEST(FedBN, StatisticsNeverTravelAndDifferBetweenClients) {
  auto toy = norms_on_images("fedbn", 3);
  toy.play(1, 2);
  EXPECT_EQ(toy.server().at("g.b").numel(), 0);
  const auto a = toy.state(0), b = toy.state(1);
  EXPECT_EQ(a.at("norms.b").numel(), toy.model->buffers().numel());
  EXPECT_FALSE(a.at("norms.b").equal(b.at("norms.b")));
  EXPECT_FALSE(a.at("norms.w").equal(b.at("norms.w")));
}

// A pass with momentum 0.1 from (0, 1) would leave nine tenths of that: measured ones stand still.
TEST(FedBN, ANewcomerMeasuresItsStatisticsExactly) {
  auto toy = norms_on_images("fedbn", 3, 1);
  toy.play(1, 2);
  const auto& data = toy.federation.newcomers[0];
  const auto fitted = *of_newcomer(toy, data, View::kPre).weights;
  const auto& layout = toy.model->layout();
  const auto all = data.range(Part::kTrain, 0, data.train_size());
  const auto again = toy.model->forward(fitted, all.x, {true, 1}).buffers;
  EXPECT_TRUE(at::allclose(again, fitted.b, 1e-4, 1e-6));
  // The first norm sees the convolution alone, which can be done here.
  const auto views = layout.views(fitted.w.to(at::kDouble));
  const auto maps = at::conv2d(all.x.to(at::kDouble), views[0], views[1]);
  const auto statistics = toy.model->buffers().views(fitted.b.to(at::kDouble));
  const auto values = maps.transpose(0, 1).flatten(1);
  EXPECT_TRUE(at::allclose(statistics[0], values.mean(1), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(statistics[1], values.var(1, true), 1e-5, 1e-6));
  // Weights and biases of the norms: the initial ones.
  const auto norms = layout.mask(Role::kNorm);
  EXPECT_TRUE(
      fitted.w.masked_select(norms).equal(toy.model->init(toy.setup().key).w.masked_select(norms)));
}

TEST(FedBN, WhoHasTrainedKeepsItsStatistics) {
  auto toy = norms_on_images("fedbn", 3);
  toy.play(1, 2);
  const auto state = toy.state(0);
  const auto pre = toy.personal(state, toy.download(toy.server(), 0, Why::kEvaluate),
                                toy.local(0, 3, 42), View::kPre);
  EXPECT_TRUE(pre.weights->b.equal(state.at("norms.b")));
}

TEST(FedBN, NeedsNormsAndTakesLayerNormsOnRequest) {
  for (const bool layernorm : {false, true}) {
    auto opts = fedbn_options("fedbn");
    opts.numbers = {{"layernorm", layernorm ? 1.0 : 0.0}};
    Toy toy(toy_federation(2, 0, 20, true), *make_model("vit-s28", {{1, 28, 28}, 3}), opts);
    EXPECT_EQ(toy.method->check(toy.setup()).ok(), layernorm);
    if (!layernorm) {
      EXPECT_NE(message(toy.method->check(toy.setup())).find("lenet16-bn"), std::string::npos);
    }
    const auto kept = toy.fresh(0).at("norms.w").numel();
    EXPECT_EQ(kept,
              layernorm ? toy.model->layout().mask(Role::kLayerNorm).sum().item<int64_t>() : 0);
  }
}

}  // namespace
}  // namespace tessera::test
