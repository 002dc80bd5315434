// ftl, fed_t, fed_t_a: what is frozen stays, what is trained is trained as by the plain way.

#include "train/transfer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/cbam.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

ToyOptions transfer_options(const std::string& method) {
  ToyOptions out{.method = method};
  out.train.batch = 7;
  out.train.epochs = 2;
  out.train.lr = 0.05;
  out.train.momentum = 0.9;
  out.train.weight_decay = 0.1;  // must not reach what is frozen
  return out;
}

Toy transfer_on_images(const std::string& model, const ToyOptions& options) {
  return Toy(toy_federation(4, 1, 60, true), *make_model(model, {{1, 28, 28}, 3}), options);
}

Personal personal(const Toy& toy, ClientId id, int64_t round, View view = View::kPost) {
  return toy.personal(toy.fresh(id), toy.download(toy.server(), id, Why::kEvaluate),
                      toy.local(id, round), view);
}

Weights global_of(const Toy& toy) { return *toy.global(toy.server()); }

/// Which slices of two flat vectors are equal bit for bit.
void expect_only_features_kept(const Layout& layout, const Tensor& before, const Tensor& after) {
  const auto a = layout.views(before), b = layout.views(after);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(at::equal(a[i], b[i]), layout.slices()[i].features) << layout.slices()[i].name;
}

class Frozen : public ::testing::TestWithParam<std::string> {};

TEST_P(Frozen, FeaturesStayBitForBitAndTheRestMoves) {
  auto toy = transfer_on_images(GetParam(), transfer_options("fed_t"));
  toy.play(1, 2);
  const auto g = global_of(toy);
  const auto fitted = *personal(toy, 1, 3).weights;
  expect_only_features_kept(toy.model->layout(), g.w, fitted.w);
  if (g.b.numel() > 0) expect_only_features_kept(toy.model->buffers(), g.b, fitted.b);
}
INSTANTIATE_TEST_SUITE_P(Models, Frozen, ::testing::Values("lenet", "lenet16-bn"),
                         [](const auto& model) {
                           return model.param.substr(0, 6) == "lenet1" ? "lenet16_bn" : "lenet";
                         });

TEST(Ftl, FreezesTheFirstRecurrentLayer) {
  auto data = toy_federation(2, 0, 60);
  auto pool = std::make_shared<Pool>(*data.clients[0].pool);
  pool->x = pool->x.view({-1, 3, 2});  // three steps of two features
  for (auto& client : data.clients) client.pool = pool;
  data.sample_shape = {3, 2};
  Toy toy(std::move(data), *make_model("gru64", {{3, 2}, 3}), transfer_options("ftl"));
  toy.play(1, 1);
  expect_only_features_kept(toy.model->layout(), global_of(toy).w, personal(toy, 0, 2).weights->w);
}

TEST(FedT, WithoutFreezingItIsFedAvgsFineTuning) {
  auto options = transfer_options("fed_t");
  options.words = {{"freeze", "none"}};
  options.numbers = {{"ft_epochs", 2}};
  auto toy = transfer_on_images("lenet", options),
       avg = transfer_on_images("lenet", transfer_options("fedavg"));
  toy.play(1, 2), avg.play(1, 2);
  EXPECT_TRUE(at::equal(personal(toy, 2, 3).weights->w, personal(avg, 2, 3).weights->w));
}

TEST(FedT, TheRateIsThatOfTheRoundOrItsOwn) {
  auto options = transfer_options("fed_t");
  options.train.lr_decay = 0.5;
  auto own = options;
  own.numbers = {{"ft_lr", 0.05 * 0.25}};
  auto toy = transfer_on_images("lenet", options), same = transfer_on_images("lenet", own);
  EXPECT_TRUE(at::equal(personal(toy, 0, 3).weights->w, personal(same, 0, 3).weights->w));
  EXPECT_FALSE(at::equal(personal(toy, 0, 4).weights->w, personal(same, 0, 4).weights->w));
}

/// Trains through the whole network, everything but the feature layers.
Weights the_long_way(const Model& model, const Weights& start, const Toy& toy,
                     const TrainOptions& train) {
  const auto& layout = model.layout();
  const auto features = layout.positions([](const Slice& slice) { return slice.features; });
  const auto only = at::ones({layout.numel()}, at::kBool).index_fill_(0, features, false);
  return local_sgd(start, {model, toy.federation.clients[1], 3, 42}, train, {.only = only}).weights;
}

TEST(FedT, OnMapsItIsTrainingThroughTheWholeNetwork) {
  auto options = transfer_options("fed_t");
  options.numbers = {{"ft_epochs", 2}};
  // With dropout: its masks, too, must be those of the whole network.
  const auto net = std::make_shared<Sequential>(
      SequentialSpec{{1, 28, 28},
                     {{.in = 1, .out = 4, .kernel = 5, .pool = 2, .pool_stride = 2},
                      {.in = 4, .out = 6, .kernel = 5, .pool = 2, .pool_stride = 2}},
                     {{96, 20, true, 0.5}, {20, 3, false}}},
      Init::kHe0);
  for (const auto& model : {std::shared_ptr<const Model>(net),
                            std::shared_ptr<const Model>(*make_model("lenet", {{1, 28, 28}, 3}))}) {
    Toy toy(toy_federation(4, 0, 60, true), model, options);
    toy.play(1, 2);
    const auto expected = the_long_way(*model, global_of(toy), toy, options.train);
    const auto got = *personal(toy, 1, 3).weights;
    EXPECT_TRUE(at::allclose(got.w, expected.w, 1e-4, 1e-6));
    EXPECT_FALSE(at::allclose(got.w, global_of(toy).w, 1e-4, 1e-6));
  }
}

TEST(FedTA, OnMapsItIsTrainingThroughTheWholeNetwork) {
  auto options = transfer_options("fed_t_a");
  options.numbers = {{"ft_epochs", 2}, {"bias", 1}, {"std", 0.1}};
  auto toy = transfer_on_images("lenet", options);
  toy.play(1, 2);
  const auto base = std::dynamic_pointer_cast<const Sequential>(toy.model);
  const Cbam whole(base, {.bias = 1, .std = 0.1});
  const auto expected = the_long_way(whole, whole.inserted(global_of(toy), 42), toy, options.train);
  const auto got = personal(toy, 1, 3);
  EXPECT_TRUE(at::allclose(got.weights->w, expected.w, 1e-3, 1e-5));
  const auto x = toy.federation.clients[1].range(Part::kTest, 0, 12).x;
  EXPECT_TRUE(at::allclose(got.predict(x), whole.predict(expected, x), 1e-3, 1e-4));
  ASSERT_TRUE(got.model);
  EXPECT_TRUE(at::allclose(got.predict(x), got.model->predict(*got.weights, x), 1e-4, 1e-5));
}

TEST(FedTA, ConvolutionsStayAndAttentionIsTrained) {
  for (const double train_fc1 : {0.0, 1.0}) {
    auto options = transfer_options("fed_t_a");
    options.numbers = {{"train_fc1", train_fc1}};
    auto toy = transfer_on_images("lenet16-bn", options);
    toy.play(1, 2);
    const auto g = global_of(toy);
    const auto fitted = personal(toy, 1, 3);
    const auto& layout = fitted.model->layout();
    const auto base = std::dynamic_pointer_cast<const Sequential>(toy.model);
    const auto start = Cbam(base, {}).inserted(g, 42);
    const auto before = layout.views(start.w), after = layout.views(fitted.weights->w);
    for (size_t i = 0; i < before.size(); ++i) {
      const auto& slice = layout.slices()[i];
      const bool kept = slice.features || (slice.block() == "fc1" && train_fc1 == 0);
      EXPECT_EQ(at::equal(before[i], after[i]), kept) << slice.name;
    }
    expect_only_features_kept(toy.model->buffers(), g.b, fitted.weights->b);
  }
}

// Rate 1e-30: stage 2 runs and moves nothing that a prediction could see. Every gate is ½ to the
// bit and the factor 4, so the maps are multiplied by exactly 1; what is left is how fed_t's own
// path through the network rounds.
TEST(FedTA, NeutralGatesPredictAsFedTBeforeTraining) {
  for (const bool neutral : {true, false}) {
    auto options = transfer_options("fed_t_a");
    options.numbers = {{"ft_epochs", 1}, {"ft_lr", 1e-30}, {"neutral", neutral ? 1.0 : 0.0}};
    auto toy = transfer_on_images("lenet", options);
    options.method = "fed_t", options.numbers.pop_back();
    auto plain = transfer_on_images("lenet", options);
    toy.play(1, 2), plain.play(1, 2);
    const auto x = toy.federation.clients[1].range(Part::kTest, 0, 12).x;
    const auto fitted = personal(toy, 1, 3);
    const auto& module = dynamic_cast<const Cbam&>(*fitted.model);
    const auto gates = module.gates(*fitted.weights, x);
    EXPECT_EQ(gates.channel.eq(0.5).all().item<bool>(), neutral);
    EXPECT_EQ(gates.spatial.eq(0.5).all().item<bool>(), neutral);
    EXPECT_EQ(module.scale() == 4, neutral);
    EXPECT_EQ(at::allclose(fitted.predict(x), personal(plain, 1, 3).predict(x), 1e-5, 1e-6),
              neutral);
  }
}

// Every part of a neutral module learns: W1, the convolution and the biases in the first step, W0
// as soon as W1 is not 0.
TEST(FedTA, NeutralGatesMove) {
  auto options = transfer_options("fed_t_a");
  options.numbers = {{"ft_epochs", 2}, {"neutral", 1}, {"std", 0.1}};
  auto toy = transfer_on_images("lenet", options);
  toy.play(1, 2);
  const auto fitted = personal(toy, 1, 3);
  const auto base = std::dynamic_pointer_cast<const Sequential>(toy.model);
  const auto start = Cbam(base, {.std = 0.1, .neutral = true}).inserted(global_of(toy), 42);
  const auto& layout = fitted.model->layout();
  const auto before = layout.views(start.w), after = layout.views(fitted.weights->w);
  for (size_t i = 0; i < before.size(); ++i)
    if (layout.slices()[i].block() == "cbam") {
      EXPECT_FALSE(before[i].equal(after[i])) << layout.slices()[i].name;
    }
}

// The control of fed_t_a's train_fc1 = false: convolutions and the first linear layer stay.
TEST(FedT, MayFreezeTheFirstLinearLayerToo) {
  for (const std::string model : {"lenet", "lenet16-bn"}) {
    auto options = transfer_options("fed_t");
    options.numbers = {{"train_fc1", 0}};
    auto toy = transfer_on_images(model, options);
    toy.play(1, 2);
    const auto& layout = toy.model->layout();
    const auto before = layout.views(global_of(toy).w),
               after = layout.views(personal(toy, 1, 3).weights->w);
    for (size_t i = 0; i < before.size(); ++i) {
      const auto& slice = layout.slices()[i];
      EXPECT_EQ(at::equal(before[i], after[i]), slice.features || slice.block() == "fc1")
          << slice.name;
    }
  }
}

TEST(FedTA, AttentionNeverTravels) {
  auto toy = transfer_on_images("lenet", transfer_options("fed_t_a"));
  auto avg = transfer_on_images("lenet", transfer_options("fedavg"));
  toy.play(1, 3), avg.play(1, 3);
  EXPECT_EQ(fingerprint(toy.server()), fingerprint(avg.server()));
}

TEST(Transfer, MayWaitForTheLastRound) {
  for (const std::string method : {"ftl", "fed_t", "fed_t_a"}) {
    auto options = transfer_options(method);
    options.rounds = 3;
    options.numbers = {{"every_eval", 0}};
    auto toy = transfer_on_images("lenet", options);
    toy.play(1, 2);
    const auto x = toy.federation.clients[0].range(Part::kTest, 0, 5).x;
    EXPECT_TRUE(at::equal(personal(toy, 0, 3).predict(x), toy.model->predict(global_of(toy), x)));
    EXPECT_TRUE(personal(toy, 0, 3).notes.empty());
    toy.play(3, 3);
    EXPECT_FALSE(at::equal(personal(toy, 0, 4).predict(x), toy.model->predict(global_of(toy), x)));
    EXPECT_TRUE(at::equal(personal(toy, 0, 4, View::kPre).predict(x),
                          toy.model->predict(global_of(toy), x)));
  }
}

TEST(FedTA, ShowsTheMapsOfTheFirstClientsOnly) {
  auto options = transfer_options("fed_t_a");
  options.numbers = {{"show", 2}};
  auto toy = transfer_on_images("lenet", options);
  toy.play(1, 1);
  const auto report = toy.evaluate(1);
  ASSERT_EQ(report.exhibits.size(), 2U);
  const auto& maps = report.exhibits[0];
  EXPECT_EQ(maps.name, "cbam");
  EXPECT_EQ(maps.kind, Exhibit::Kind::kImages);
  EXPECT_EQ(maps.value.sizes().vec(), (std::vector<int64_t>{8, 3, 28, 28}));
  EXPECT_EQ(maps.rows.size(), 8U);
  EXPECT_EQ(maps.rows[4], "client 1, test image 1");
  EXPECT_EQ(maps.columns.size(), 3U);
  EXPECT_GE(maps.value.min().item<double>(), 0);
  EXPECT_LE(maps.value.max().item<double>(), 1);
  const auto gate = maps.value.select(1, 1);
  EXPECT_GT(gate.min().item<double>(), 0);
  EXPECT_LT(gate.max().item<double>(), 1);
  const auto& channels = report.exhibits[1];
  EXPECT_EQ(channels.value.sizes().vec(), (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(channels.columns.size(), 16U);
  EXPECT_GT(channels.value.min().item<double>(), 0);
  EXPECT_LT(channels.value.max().item<double>(), 1);

  options.numbers = {{"show", 0}};
  EXPECT_TRUE(transfer_on_images("lenet", options).evaluate(0).exhibits.empty());
}

TEST(Transfer, SaysWhichModelsItNeeds) {
  const auto problem = [](ToyOptions options) {
    Toy toy(toy_federation(2, 0, 60), *make_model("mlp100", {{6}, 3}), options);
    return message(toy.method->check(toy.setup()));
  };
  EXPECT_NE(problem({.method = "fed_t_a"}).find("cnn32-s"), std::string::npos);
  EXPECT_NE(problem({.method = "fed_t"}).find("freeze = \"none\""), std::string::npos);
  EXPECT_EQ(problem({.method = "fed_t", .words = {{"freeze", "none"}}}), "");
  const auto without_fc1 = [](const std::string& freeze) {
    auto toy = transfer_on_images(
        "lenet", {.method = "fed_t", .numbers = {{"train_fc1", 0}}, .words = {{"freeze", freeze}}});
    return message(toy.method->check(toy.setup()));
  };
  EXPECT_EQ(without_fc1("features"), "");
  EXPECT_NE(without_fc1("none").find("train_fc1 = false"), std::string::npos);
  EXPECT_NE(problem({.method = "fed_t", .numbers = {{"train_fc1", 0}}}).find("such as lenet"),
            std::string::npos);
  for (const double kernel : {4, 9}) {
    auto toy = transfer_on_images("lenet", {.method = "fed_t_a", .numbers = {{"kernel", kernel}}});
    EXPECT_NE(message(toy.method->check(toy.setup())).find("must be odd and at most 7"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::test
