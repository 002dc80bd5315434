// fedavg-gan and pfedht-gan (docs/methods.md §7.6): without use of the generator they are their
// base methods bit for bit; what travels, what is averaged, and what the report shows.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "method/gan_round.hpp"
#include "support/toy.hpp"
#include "train/virtual_steps.hpp"

namespace tessera::test {
namespace {

Toy picture_toy(const ToyOptions& options, const char* network, int64_t clients = 3) {
  auto data = toy_federation(clients, 1, 40, true);
  auto model = make_model(network, {data.sample_shape, 3});
  EXPECT_TRUE(model.ok()) << message(model.status());
  return {std::move(data), *std::move(model), options};
}

ToyOptions with(const std::string& method, const std::string& use, double warmup = 0) {
  auto out = noisy(method);
  if (!use.empty()) out.words = {{"gan_use", use}}, out.numbers = {{"gan_warmup", warmup}};
  return out;
}

bool same_but_gan(const TensorDict& with_gan, const TensorDict& plain) {
  auto rest = with_gan;
  std::erase_if(rest, [](const auto& entry) { return entry.first.starts_with("gan."); });
  EXPECT_LT(rest.size(), with_gan.size());
  return fingerprint(rest) == fingerprint(plain);
}

TEST(Gan, UnusedGeneratorsLeaveTheMethodAsItIs) {
  for (const auto& [gan, base, network] : {std::tuple("fedavg-gan", "fedavg", "lenet"),
                                           std::tuple("pfedht-gan", "pfedht", "vit-s28")}) {
    auto unused = picture_toy(with(gan, "nothing"), network, 2);
    auto plain = picture_toy(with(base, ""), network, 2);
    const auto first = unused.server();
    unused.play(1, 2), plain.play(1, 2);
    EXPECT_TRUE(same_but_gan(unused.server(), plain.server())) << gan;
    EXPECT_FALSE(unused.server().at("gan.generator").equal(first.at("gan.generator"))) << gan;
    // The views, too, and those of newcomers.
    const auto a = unused.evaluate(2), b = plain.evaluate(2);
    for (size_t i = 0; i < a.clients.size(); ++i) {
      EXPECT_EQ(a.clients[i].pre_test.loss, b.clients[i].pre_test.loss) << gan;
      EXPECT_EQ(a.clients[i].post_test.loss, b.clients[i].post_test.loss) << gan;
    }
    EXPECT_EQ(a.newcomers[0].pre_test.loss, b.newcomers[0].pre_test.loss) << gan;
    EXPECT_EQ(a.newcomers[0].post_test.loss, b.newcomers[0].post_test.loss) << gan;
  }
}

/// Pixels are known to be 0 … 1 behind a shift and a scale.
Toy transformed_toy(ToyOptions options, const char* network, const char* when) {
  options.guard.transform = TransformGuard{.when = when, .iterations = 3};
  return picture_toy(options, network, 2);
}

// With guard 'transform' the model is trained on the same virtual pairs as by its base method.
TEST(Gan, VirtualPairsLeaveTheMethodAsItIs) {
  for (const auto& [gan, base, network, when] :
       {std::tuple("fedavg-gan", "fedavg", "lenet", "round"),
        std::tuple("fedavg-gan", "fedavg", "lenet", "once"),
        std::tuple("fedavg-gan", "fedavg", "lenet", "step"),
        std::tuple("pfedht-gan", "pfedht", "vit-s28", "round")}) {
    auto unused = transformed_toy(with(gan, "nothing"), network, when);
    auto plain = transformed_toy(with(base, ""), network, when);
    unused.play(1, 2), plain.play(1, 2);
    EXPECT_TRUE(same_but_gan(unused.server(), plain.server())) << gan << " " << when;
  }
}

// The real pairs of the discriminator are (X', argmax y'): by the transformation itself.
TEST(Gan, TheGanLearnsFromVirtualPairs) {
  auto toy = transformed_toy(with("fedavg-gan", "nothing"), "lenet", "round");
  const auto server = toy.server();
  const auto local = toy.local(0);
  const auto up = toy.method->local_update(toy.fresh(0), toy.download(server, 0), local).upload;
  const auto& own = local.data;
  std::vector<Tensor> x, y;
  ASSERT_EQ(own.train_size(), 24);  // three groups of eight
  for (int64_t group = 0; group < 3; ++group) {
    const auto made = transformed(*toy.model, {server.at("g.w"), server.at("g.b")},
                                  own.range(Part::kTrain, 8 * group, 8 * group + 8),
                                  {own.pool->pixel_mean, own.pool->pixel_std}, {.iterations = 3},
                                  derive(local.key, 0x7472'616e'7300'0000ULL, group));
    x.push_back(made.x), y.push_back(made.y.argmax(1));
  }
  ClientData pairs;
  pairs.pool = std::make_shared<Pool>(Pool{at::cat(x), at::cat(y), own.classes()});
  for (int64_t i = 0; i < 24; ++i) pairs.train.push_back(i);
  const GanWeights start{server.at("gan.generator"), server.at("gan.discriminator")};
  const GanRound round{.use = {}, .training = {}};
  const auto [generator, discriminator] = round.learned(local, pairs, start);
  const int64_t d = toy.model->layout().numel();
  EXPECT_TRUE(up.at("value.w").slice(0, d).equal(at::cat({generator, discriminator})));
  EXPECT_FALSE(round.learned(local, own, start).generator.equal(generator));
}

// Own pictures keep their shares of classes, made ones have one class each.
TEST(Gan, MadePicturesJoinVirtualOnes) {
  auto toy = transformed_toy(with("fedavg-gan", "augment"), "lenet", "round");
  const auto server = toy.server();
  const auto local = toy.local(0);
  TrainOptions train;
  VirtualTraining guard;
  guard.options.iterations = 3;
  train.transform = std::make_shared<const VirtualTraining>(guard);
  const auto pairs = GanRound::pairs(local, {server.at("g.w"), server.at("g.b")}, train);
  const GanRound round{.use = {.warmup = 0}, .training = {}};
  const auto mixed = round.training_data(local, pairs.model, server.at("gan.generator"));
  ASSERT_EQ(mixed->train_size(), 24 + 12);
  const auto all = mixed->range(Part::kTrain, 0, 36);
  EXPECT_EQ(all.y.sizes(), at::IntArrayRef({36, 3}));
  EXPECT_TRUE(at::allclose(all.y.sum(1), at::ones({36})));
  EXPECT_EQ((all.y.amax(1) == 1).sum().item<int64_t>(), 12);
  // What the guard replaced is nowhere among them.
  const auto own = local.data.range(Part::kTrain, 0, 24);
  EXPECT_GT(at::cdist(all.x.flatten(1), own.x.flatten(1)).min().item<double>(), 1);
  GanRound replace = round;
  replace.use.use = "replace";
  EXPECT_FALSE(replace.training_data(local, pairs.model, server.at("gan.generator"))
                   ->pool->shares.defined());
}

TEST(Gan, PicturesAreUsedAfterTheWarmUp) {
  auto half = with("fedavg-gan", "augment", 0.5);
  half.rounds = 4;
  auto used = picture_toy(half, "lenet");
  auto options = with("fedavg", "");
  options.rounds = 4;
  auto plain = picture_toy(options, "lenet");
  used.play(1, 2), plain.play(1, 2);
  EXPECT_TRUE(same_but_gan(used.server(), plain.server()));
  // An evaluation after round 2 is asked as round 3, in which pictures are used.
  EXPECT_NE(used.evaluate(2).clients[0].post_test.loss,
            plain.evaluate(2).clients[0].post_test.loss);
  used.play(3, 3), plain.play(3, 3);
  EXPECT_FALSE(same_but_gan(used.server(), plain.server()));
}

TEST(Gan, NetworksAreAveragedByNumbersOfSamples) {
  for (const auto& [method, network] :
       {std::pair("fedavg-gan", "lenet"), std::pair("pfedht-gan", "vit-s28")}) {
    auto toy = picture_toy(with(method, "nothing"), network, 2);
    toy.federation.clients[1].train.resize(8);
    const auto server = toy.server();
    const auto setup_gan = GanRound::networks(*toy.model);
    std::vector<Received<TensorDict>> uploads;
    auto expected = at::zeros({setup_gan.generator.layout().numel()}, at::kDouble);
    double all = 0;
    for (const ClientId id : {0, 1}) {
      const auto local = toy.local(id);
      auto step = toy.method->local_update(toy.fresh(id), toy.download(server, id), local);
      const double n = static_cast<double>(local.data.train_size());
      const auto own = GanRound{.use = {}, .training = {}}.learned(
          local, local.data, {server.at("gan.generator"), server.at("gan.discriminator")});
      expected += own.generator.to(at::kDouble) * n, all += n;
      uploads.push_back({id, step.upload});
    }
    const auto after = toy.aggregate(server, uploads);
    const auto far = (after.at("gan.generator").to(at::kDouble) - expected / all).abs().max();
    EXPECT_LT(far.item<double>(), 1e-6) << method;
    EXPECT_EQ(all, 24 + 8);
  }
}

// What a client trained on made pictures alone uploads tells of its own pictures only by labels,
// darkest and brightest value; generator and discriminator still tell more.
TEST(Gan, ReplacedPicturesDoNotReachTheModel) {
  auto toy = picture_toy(with("fedavg-gan", "replace"), "lenet");
  const auto server = toy.server();
  const auto& own = toy.federation.clients[0];
  auto pool = std::make_shared<Pool>(*own.pool);
  pool->x = own.pool->x.flip({2, 3}).contiguous();
  auto other = own;
  other.pool = pool;
  const auto model_of = [&](const ClientData& data) {
    const auto local = toy.local(0, data);
    const auto up = toy.method->local_update(toy.fresh(0), toy.download(server, 0), local).upload;
    const int64_t d = toy.model->layout().numel();
    return std::pair(up.at("value.w").slice(0, 0, d), up.at("value.w").slice(0, d));
  };
  const auto [mine, my_gan] = model_of(own);
  const auto [theirs, their_gan] = model_of(other);
  EXPECT_TRUE(mine.equal(theirs));
  EXPECT_FALSE(my_gan.equal(their_gan));
}

TEST(Gan, EvaluationsGetNoDiscriminator) {
  auto options = with("fedavg-gan", "augment", 0.5);
  options.rounds = 4;
  auto toy = picture_toy(options, "lenet");
  const auto gan = GanRound::networks(*toy.model);
  const int64_t d = toy.model->layout().numel(), g = gan.generator.layout().numel(),
                both = g + gan.discriminator.layout().numel();
  const auto sent = [&](Why why, int64_t round) {
    return toy.download(toy.server(), 0, why, {}, round).at("w").numel();
  };
  EXPECT_EQ(sent(Why::kTrain, 1), d + both);
  EXPECT_EQ(sent(Why::kEvaluate, 2), d) << "not used yet";
  EXPECT_EQ(sent(Why::kEvaluate, 3), d + g);
  EXPECT_EQ(sent(Why::kJoin, 3), d);
}

TEST(Gan, TheReportShowsWhatTheServerMakes) {
  auto toy = picture_toy(with("fedavg-gan", "augment"), "lenet");
  toy.play(1, 1);
  const auto shown = toy.exhibits(toy.server(), {{0, 1, 2}, {}}, 2);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].name, "generated");
  EXPECT_EQ(shown[0].kind, Exhibit::Kind::kImages);
  EXPECT_EQ(shown[0].value.sizes(), at::IntArrayRef({3, 8, 28, 28}));
  EXPECT_EQ(shown[0].rows.size(), 3U);
  EXPECT_GE(shown[0].value.min().item<double>(), 0);
  EXPECT_LE(shown[0].value.max().item<double>(), 1);
  // A function of the server's state: whatever clients tell is not looked at.
  const auto told =
      toy.exhibits(toy.server(), {{0, 1, 2}, {{0, {{"image", at::ones({1, 28, 28})}}}}}, 2);
  EXPECT_TRUE(told[0].value.equal(shown[0].value));
}

TEST(Gan, OnlyPicturesAreTaken) {
  const auto vectors = make_model("mlp100", {{6}, 3});
  const auto refused = GanRound::check("fedavg-gan", **vectors);
  EXPECT_THAT(message(refused), ::testing::HasSubstr("pictures"));
  const auto pictures = make_model("mlp100", {{1, 28, 28}, 3});
  EXPECT_TRUE(GanRound::check("fedavg-gan", **pictures).ok());
}

}  // namespace
}  // namespace tessera::test
