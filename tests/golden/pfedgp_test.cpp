// pFedGP: the local step against differences, the classifier against its formula, what travels
// (docs/methods.md §7.3).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "method/pfedgp/gp.hpp"
#include "support/toy.hpp"
#include "tensor/split.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

ToyOptions gp_options(const char* likelihood = "dirichlet") {
  ToyOptions out{.method = "pfedgp", .words = {{"likelihood", likelihood}}};
  out.train.lr = 0.1;
  return out;
}

Split split(const Model& model) { return {model.layout(), model.layout().trailing(1)}; }

/// The toy's first client with some of its rows only.
ClientData some_of(const Toy& toy, const std::vector<int64_t>& rows) {
  auto out = toy.federation.clients[0];
  out.train = rows;
  return out;
}

// 36 rows: 2, 3, 4, 7, 8, 9, … 59. The later half starts at 32; of the earlier one 28 and 29 share
// values with it, and 16 are left.
TEST(PFedGP, OfATimeSeriesTheLaterHalfIsPredictedFromTheEarlier) {
  auto options = gp_options();
  options.numbers = {{"inner_steps", 1}};
  auto toy = make_toy(options);
  auto data = toy.federation.clients[0];
  data.order = {true, 4};
  const auto down = toy.download(toy.server(), 0);
  const auto step = toy.method->local_update({}, down, toy.local(0, data, 1, 42));

  const auto parts = split(*toy.model);
  const auto all = data.range(Part::kTrain, 0, 36);
  const auto g = down.at("w").to(at::kDouble);
  const auto w = parts.joined(at::zeros({parts.numel()}, at::kDouble), {g, at::empty({0})});
  const auto raw = toy.model->forward(w, all.x.to(at::kDouble), {}).features;
  const auto z = raw / raw.norm(2, 1, true);
  const auto gp = dirichlet_gp({}, z.narrow(0, 0, 16), all.y.narrow(0, 0, 16), 3);
  EXPECT_NEAR(step.loss,
              at::nll_loss(gp(z.narrow(0, 18, 18)), all.y.narrow(0, 18, 18)).item<double>(), 1e-5);
}

// One step is g − lr ∇L, L the cross-entropy of the second half of the shuffled samples given the
// first half; a loss on samples that were conditioned on would have another slope.
TEST(PFedGP, AStepDescendsThePredictiveLossOfTheOtherHalf) {
  auto options = gp_options();
  options.numbers = {{"inner_steps", 1}};
  auto toy = make_toy(options);
  const auto down = toy.download(toy.server(), 0);
  const auto local = toy.local(0, 1, 42);
  const auto step = toy.method->local_update({}, down, local);

  const auto parts = split(*toy.model);
  const auto order = Rng(derive(42, 0)).permutation(36);
  const auto batch = local.data.take(Part::kTrain, order);
  const auto loss = [&](const Tensor& g) {
    const auto w = parts.joined(at::zeros({parts.numel()}, at::kDouble), {g, at::empty({0})});
    const auto raw = toy.model->forward(w, batch.x.to(at::kDouble), {}).features;
    const auto z = raw / raw.norm(2, 1, true);
    const auto gp = dirichlet_gp({}, z.narrow(0, 0, 18), batch.y.narrow(0, 0, 18), 3);
    return at::nll_loss(gp(z.narrow(0, 18, 18)), batch.y.narrow(0, 18, 18)).item<double>();
  };
  const auto g = down.at("w").to(at::kDouble);
  EXPECT_NEAR(step.loss, loss(g), 1e-5);
  const auto slope = (g - step.upload.at("value.w").to(at::kDouble)) / 0.1;
  Rng rng(3);
  for (int turn = 0; turn < 5; ++turn) {
    auto along = at::empty_like(g);
    for (int64_t i = 0; i < g.numel(); ++i) along.data_ptr<double>()[i] = rng.normal();
    const double by = (loss(g + 1e-7 * along) - loss(g - 1e-7 * along)) / 2e-7;
    EXPECT_NEAR(at::dot(slope, along).item<double>(), by, 1e-3 * slope.norm().item<double>());
  }
  EXPECT_GT(slope.norm().item<double>(), 1e-3);
}

TEST(PFedGP, TheAverageCountsClientsNotSamples) {
  auto toy = make_toy(gp_options());
  TensorDict server = toy.server();
  std::vector<Received<TensorDict>> uploads;
  for (ClientId id = 0; id < 2; ++id) {
    const auto data = id == 0 ? some_of(toy, {2, 3, 4, 7}) : toy.federation.clients[1];
    uploads.push_back(
        {id,
         toy.method->local_update({}, toy.download(server, id), toy.local(id, data, 1, 5)).upload});
  }
  const auto g = toy.aggregate(server, uploads).at("g.w");
  EXPECT_TRUE(at::allclose(g, (uploads[0].body.at("value.w") + uploads[1].body.at("value.w")) / 2,
                           1e-6, 1e-7));
}

// A newcomer's model is the common extractor and its own samples: nothing is trained.
TEST(PFedGP, NewcomersNeedNoTraining) {
  auto toy = make_toy(gp_options(), 4, 1);
  toy.play(1, 2);
  const auto down = toy.download_guest(toy.server(), std::nullopt, 4);
  const auto& data = toy.federation.newcomers[0];
  const auto local = toy.local(4, 3, 9);
  const auto personal = toy.personal({}, down, local, View::kPre);
  const auto parts = split(*toy.model);
  // Any head will do.
  const auto w = parts.joined(at::randn({parts.numel()}), {down.at("w"), down.at("b")});
  const auto features = [&](const Tensor& x) {
    return unit_rows(toy.model->forward(w, x, {}).features);
  };
  const auto own = data.range(Part::kTrain, 0, data.train_size());
  const auto gp = dirichlet_gp({}, features(own.x), own.y, 3);
  const auto test = data.range(Part::kTest, 0, 12);
  EXPECT_TRUE(personal.predict(test.x).equal(gp(features(test.x)).to(at::kFloat)));
  EXPECT_FALSE(personal.weights.has_value());
}

TEST(PFedGP, TheCapLimitsTheKernel) {
  auto options = gp_options();
  options.numbers = {{"cap", 10}};
  auto toy = make_toy(options);
  const auto down = toy.download(toy.server(), 0);
  const auto& rows = toy.federation.clients[0].train;
  const auto ten = some_of(toy, {rows.begin(), rows.begin() + 10});
  const auto x = toy.federation.clients[0].range(Part::kTest, 0, 12).x;
  const auto all = toy.local(0, 1, 5), few = toy.local(0, ten, 1, 5);
  EXPECT_TRUE(toy.personal({}, down, all, View::kPre)
                  .predict(x)
                  .equal(toy.personal({}, down, few, View::kPre).predict(x)));
}

class Likelihood : public ::testing::TestWithParam<const char*> {};

TEST_P(Likelihood, AClientWithASingleClassWorks) {
  auto toy = make_toy(gp_options(GetParam()));
  std::vector<int64_t> rows;
  const auto& all = toy.federation.clients[0];
  for (const int64_t row : all.train)
    if (all.pool->y[row].item<int64_t>() == 2) rows.push_back(row);
  ASSERT_GE(rows.size(), 5U);
  const auto data = some_of(toy, rows);
  const auto down = toy.download(toy.server(), 0);
  const auto local = toy.local(0, data, 1, 5);
  const auto step = toy.method->local_update({}, down, local);
  EXPECT_TRUE(at::isfinite(step.upload.at("value.w")).all().item<bool>());
  const auto log_p =
      toy.personal({}, down, local, View::kPost).predict(all.range(Part::kTest, 0, 12).x);
  EXPECT_TRUE(at::isfinite(log_p).all().item<bool>());
  EXPECT_TRUE(log_p.argmax(1).eq(2).all().item<bool>());
}

TEST_P(Likelihood, TwoSamplesAreEnoughAndOneIsNot) {
  auto toy = make_toy(gp_options(GetParam()));
  const auto down = toy.download(toy.server(), 0);
  const auto two = some_of(toy, {2, 3}), one = some_of(toy, {2});
  EXPECT_TRUE(toy.method->check(two).ok());
  const auto step = toy.method->local_update({}, down, toy.local(0, two, 1, 5));
  EXPECT_TRUE(at::isfinite(step.upload.at("value.w")).all().item<bool>());
  EXPECT_FALSE(toy.method->check(one).ok());
}

TEST_P(Likelihood, LearnsTheToyFederation) {
  auto options = gp_options(GetParam());
  // As in the conformance test: a kernel so long that untrained features do not do.
  options.numbers = {{"chains", 5}, {"length", 3}};
  options.train.lr = 3;
  auto toy = make_toy(options);
  const auto loss = [&](int64_t round) {
    double sum = 0;
    for (const auto& client : toy.evaluate(round).clients) sum += client.pre_test.loss / 4;
    return sum;
  };
  const double before = loss(0);
  toy.play(1, 20);
  const double after = loss(20);
  EXPECT_LT(after, 0.8 * before);
}

TEST_P(Likelihood, AnswersAreAFunctionOfTheKey) {
  auto toy = make_toy(gp_options(GetParam()));
  const auto down = toy.download(toy.server(), 0);
  const auto local = toy.local(0, 1, 5);
  EXPECT_EQ(fingerprint(toy.method->local_update({}, down, local).upload),
            fingerprint(toy.method->local_update({}, down, local).upload));
}

INSTANTIATE_TEST_SUITE_P(PFedGP, Likelihood, ::testing::Values("dirichlet", "pg_tree"));

TEST(PFedGP, MultilabelLossIsRefused) {
  const auto model = *make_model("mlp100", {{6}, 3});
  const auto method = find_method("pfedgp")->draft()->build({.loss = "multilabel"});
  EXPECT_THAT(message(method->check(tessera::Setup{*model, 4, 5, 1.0, 1})),
              HasSubstr("set train.loss to ce"));
}

}  // namespace
}  // namespace tessera::test
