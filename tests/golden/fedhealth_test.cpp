// FedHealth: its three stages, each worked out from its parts (docs/methods.md §3.3).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "method/fedhealth/coral.hpp"
#include "support/toy.hpp"
#include "train/transfer.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

const TrainOptions kTrain{.batch = 8, .lr = 0.05};

Toy health(std::vector<std::pair<std::string, double>> numbers = {}, int64_t clients = 2) {
  return make_toy({.method = "fedhealth", .numbers = std::move(numbers), .train = kTrain}, clients,
                  1);
}

Site commons_of(const Toy& toy, int64_t round, int64_t counted) {
  return {*toy.model, toy.federation.commons, counted, derive(7, Purpose::kCommons, round)};
}

TEST(FedHealth, StageZeroTrainsOnPublicDataBeforeTheFirstRound) {
  auto toy = health();
  const auto first = toy.model->init(toy.setup().key);
  const auto expected = local_sgd(first, commons_of(toy, 0, 1), kTrain, {.epochs = 10}).weights;
  const auto server = toy.server();
  EXPECT_TRUE(server.at("g.w").equal(expected.w));
  EXPECT_TRUE(server.at("covariance")
                  .equal(feature_covariance(*toy.model, expected, toy.federation.commons)));
}

TEST(FedHealth, CovarianceFollowsTheGlobalModelAndTravelsOnlyToEvaluations) {
  auto toy = health();
  const int64_t d = toy.model->layout().numel();
  EXPECT_EQ(toy.play(1, 1).at(0).bytes_down, 2 * 4 * d);
  const auto server = toy.server();
  const Weights g{server.at("g.w"), server.at("g.b")};
  const auto expected = feature_covariance(*toy.model, g, toy.federation.commons);
  const auto down = toy.download(server, 0, Why::kEvaluate);
  EXPECT_TRUE(down.at("covariance").equal(expected));
  EXPECT_FALSE(toy.download(server, 0).contains("covariance"));
  const int64_t z = expected.size(0);
  EXPECT_EQ(toy.evaluate(1).eval_down, 2 * 4 * (d + z * z));
}

// Without `mix` a round is FedAvg; with it the public data count like a client's that started from
// the same model.
TEST(FedHealth, MixAddsTheServersOwnModelByItsSamples) {
  for (const bool mix : {false, true}) {
    auto toy = health({{"mix", mix}});
    const auto before = toy.server();
    const Weights start{before.at("g.w").clone(), before.at("g.b").clone()};
    std::vector<Weighted> parts;
    for (ClientId id = 0; id < 2; ++id) {
      const auto local = toy.local(id, 1, derive(7, Purpose::kLocal, 1, id));
      parts.push_back({local_sgd(start, local, kTrain).weights, 36});
    }
    if (mix) parts.push_back({local_sgd(start, commons_of(toy, 1, 1), kTrain).weights, 36});
    ASSERT_EQ(toy.federation.commons.train_size(), 36);
    toy.play(1, 1);
    EXPECT_TRUE(at::allclose(toy.server().at("g.w"), mean(parts).w, 1e-5, 1e-6)) << mix;
    EXPECT_EQ(toy.server().size(), 3U) << "the model and a covariance";
  }
}

Weights stage2(const Toy& toy, ClientId id) {
  return *toy.personal(toy.fresh(id), toy.download(toy.server(), id, Why::kEvaluate),
                       toy.local(id, 2, 11), View::kPost)
              .weights;
}

TEST(FedHealth, FeatureLayersStayBitForBitAndTheRestMoves) {
  for (const char* name : {"lenet", "lenet16-bn"}) {
    auto data = toy_federation(2, 0, 60, true);
    std::shared_ptr<const Model> model = *make_model(name, {data.sample_shape, 3});
    Toy toy(std::move(data), model,
            {.method = "fedhealth", .numbers = {{"eta_c", 10}}, .train = kTrain});
    toy.play(1, 1);
    const auto after = stage2(toy, 0);
    const auto server = toy.server();
    const auto compare = [&](const Layout& layout, const Tensor& was, const Tensor& is) {
      const auto a = layout.views(was), b = layout.views(is);
      for (size_t i = 0; i < a.size(); ++i) {
        if (layout.slices()[i].features) {
          EXPECT_TRUE(a[i].equal(b[i])) << name << " " << layout.slices()[i].name;
        } else {
          EXPECT_FALSE(a[i].equal(b[i])) << name << " " << layout.slices()[i].name;
        }
      }
    };
    compare(model->layout(), server.at("g.w"), after.w);
    compare(model->buffers(), server.at("g.b"), after.b);
  }
}

TEST(FedHealth, WithoutAlignmentStageTwoIsPlainTransferInBatchesOfThirtyTwo) {
  auto toy = health({{"eta_c", 0}});
  toy.play(1, 1);
  const auto server = toy.server();
  auto options = kTrain;
  options.batch = 32;
  const auto local = toy.local(0, 2, 11);
  const auto expected = train_upper({server.at("g.w"), server.at("g.b")}, local, options);
  EXPECT_TRUE(stage2(toy, 0).w.equal(expected.weights.w));
}

TEST(FedHealth, AlignmentBringsTheCovariancesNearer) {
  const auto distance = [](double eta_c) {
    auto toy = health({{"eta_c", eta_c}, {"ft_epochs", 5}});
    toy.play(1, 1);
    const auto own = feature_covariance(*toy.model, stage2(toy, 0), toy.federation.clients[0]);
    return norm64(own - toy.server().at("covariance"));
  };
  EXPECT_LT(distance(1), 0.95 * distance(0));
}

TEST(FedHealth, PublicDataAndFeatureLayersAreAskedFor) {
  const auto method = find_method("fedhealth")->draft()->build({});
  const auto lenet = *make_model("lenet", {{1, 28, 28}, 3}), mlp = *make_model("mlp100", {{6}, 3});
  const auto enough = toy_federation(2, 0, 20).commons;
  auto single = enough;
  single.train.resize(1);
  const auto said = [&](const Model& model, const ClientData* commons) {
    return message(method->check(tessera::Setup{.model = model,
                                                .clients = 4,
                                                .rounds = 5,
                                                .participation = 1,
                                                .key = 1,
                                                .commons = commons}));
  };
  EXPECT_THAT(said(*lenet, nullptr), HasSubstr("there are 0 such samples; set data.public = 0.1"));
  EXPECT_THAT(said(*lenet, &single), HasSubstr("there are 1 such samples"));
  EXPECT_THAT(said(*mlp, &enough), HasSubstr("model.name"));
  EXPECT_EQ(said(*lenet, &enough), "");
}

TEST(FedHealth, ARestoredStateHasTheCovarianceOfItsFeatures) {
  auto toy = health();
  auto server = toy.server();
  EXPECT_NO_THROW(toy.typed(server));
  const auto z = server.at("covariance").size(0);
  server["covariance"] = at::zeros({z, 1});
  EXPECT_THROW(toy.typed(server), std::invalid_argument);
  server.erase("covariance");
  EXPECT_THROW(toy.typed(server), std::invalid_argument);
}

}  // namespace
}  // namespace tessera::test
