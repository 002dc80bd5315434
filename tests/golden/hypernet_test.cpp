// pFedHN, pFedHT and its ablation on models that fit in the head (docs/methods.md §7, §10.6).

#include "model/hypernet.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"
#include "support/toy.hpp"
#include "tensor/split.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = 3, kWidth = 2, kDepths = 2;

/// The toy's six features as three tokens of two; two layers of attention with a residual; the mean
/// token decides. d = 33, of which the 2 × [Q; K; V] of 2×2 each are d_A = 24.
class TinyAttention final : public Model {
 public:
  TinyAttention()
      : layout_({{"layer1.to_qkv.weight", {3 * kWidth, kWidth}, Role::kAttention},
                 {"layer2.to_qkv.weight", {3 * kWidth, kWidth}, Role::kAttention},
                 {"head.weight", {3, kWidth}, Role::kHead},
                 {"head.bias", {3}, Role::kHead}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override {
    auto w = at::empty({layout_.numel()}, at::kFloat);
    Rng rng(key);
    for (int64_t i = 0; i < w.numel(); ++i)
      w.data_ptr<float>()[i] = static_cast<float>(0.4 * rng.normal());
    return {w, at::empty({0})};
  }
  Output forward(const Weights& at, const Tensor& x, const Pass&) const override {
    const auto parts = layout_.views(at.w);
    auto h = x.view({-1, kTokens, kWidth});
    for (int64_t layer = 0; layer < kDepths; ++layer) {
      const auto qkv = h.matmul(parts[static_cast<size_t>(layer)].t()).chunk(3, -1);
      const auto score = qkv[0].matmul(qkv[1].transpose(1, 2)) / std::sqrt(kWidth);
      h = h + score.softmax(-1).matmul(qkv[2]);
    }
    const auto features = h.mean(1);
    return {features.matmul(parts[2].t()) + parts[3], features, at.b};
  }

 private:
  Layout layout_, buffers_;
};

constexpr int64_t kAll = 33, kAttention = 24;

Toy tiny(ToyOptions options, int64_t clients = 4, int64_t newcomers = 2) {
  options.train.batch = 8;
  options.train.lr = 0.1;
  return Toy(toy_federation(clients, newcomers, 60), std::make_shared<TinyAttention>(), options);
}

Local local_of(const Toy& toy, ClientId id, int64_t round) {
  return toy.local(id, round, derive(7, Purpose::kLocal, round, id));
}

// Zero output weights: W is the output's bias, the model's own initial attention, for everyone.
void make_constant(Toy& toy, int64_t hidden) {
  auto server = toy.server();
  auto phi = server.at("hn.phi").clone();
  phi.narrow(0, phi.numel() - kAttention * (hidden + 1), kAttention * hidden).zero_();
  server["hn.phi"] = phi;
  ASSERT_TRUE(toy.driver->restore(server).ok());
}

// docs/methods.md §10.6: the loop is written out here, without method and driver.
TEST(PFedHT, ConstantHypernetworkIsFedAvgWithTheAttentionResetEveryRound) {
  auto toy = tiny({.method = "pfedht", .numbers = {{"server_lr", 0}, {"hidden", 8}}});
  make_constant(toy, 8);
  toy.play(1, 3);
  const TrainOptions train{.batch = 8, .lr = 0.1};
  const Split split(toy.model->layout(), Role::kAttention);
  const auto first = toy.model->init(toy.setup().key);
  auto eta = split.rest_of(first);
  for (int64_t round = 1; round <= 3; ++round) {
    std::vector<Weighted> uploads;
    for (ClientId id = 0; id < 4; ++id) {
      const auto local = local_of(toy, id, round);
      const auto start = split.joined(split.part_of(first.w), eta);
      uploads.push_back({split.rest_of(local_sgd(start, local, train).weights),
                         static_cast<double>(local.data.train_size())});
    }
    eta = mean(uploads);
  }
  EXPECT_TRUE(toy.server().at("eta.w").equal(eta.w));
}

TEST(PFedHT, OneServerStepBringsTheAttentionNearerToTheTrainedOne) {
  auto toy = tiny({.method = "pfedht", .numbers = {{"server_lr", 0.002}}});
  const auto server = toy.server();
  const auto down = toy.download(server, 1);
  const auto step = toy.method->local_update({}, down, local_of(toy, 1, 1));
  const auto trained = down.at("attention") - step.upload.at("delta");
  const auto next = toy.aggregate(server, {{1, step.upload}});
  const auto now = toy.download(next, 1).at("attention");
  EXPECT_LT(norm64(now - trained), norm64(down.at("attention") - trained));
}

// Upload and download are the model: the attention that travels is what the model then uses.
TEST(PFedHT, UploadIsReceivedMinusTrainedAndTheTrainedRest) {
  auto toy = tiny({.method = "pfedht"});
  const auto down = toy.download(toy.server(), 2);
  const auto local = local_of(toy, 2, 1);
  const auto step = toy.method->local_update({}, down, local);
  // d_A leads the tiny layout.
  const auto start = at::cat({down.at("attention"), down.at("eta.w")});
  const auto after =
      local_sgd({start, at::empty({0})}, local, TrainOptions{.batch = 8, .lr = 0.1}).weights.w;
  EXPECT_TRUE(step.upload.at("delta").equal((start - after).narrow(0, 0, kAttention)));
  EXPECT_TRUE(step.upload.at("eta.w").equal(after.narrow(0, kAttention, kAll - kAttention)));
  EXPECT_EQ(step.upload.at("samples").item<double>(), 36);
}

// [W_Q; W_K; W_V] along rows: without V the layer is the identity, without Q every token counts the
// same, whatever K is.
TEST(PFedHT, GeneratedRowsAreQueryKeyValue) {
  const TinyAttention model;
  const Split split(model.layout(), Role::kAttention);
  const auto whole = model.init(3);
  const auto x = at::linspace(-1, 1, 12).view({2, 6});
  const auto with_rows = [&](int64_t third) {
    auto part = split.part_of(whole.w).clone();
    for (int64_t layer = 0; layer < kDepths; ++layer)
      part.view({kDepths, 3, kWidth, kWidth})[layer][third].zero_();
    return model.predict(split.joined(part, split.rest_of(whole)), x);
  };
  const auto parts = model.layout().views(whole.w);
  const auto mean_token = x.view({2, kTokens, kWidth}).mean(1);
  EXPECT_TRUE(at::allclose(with_rows(2), mean_token.matmul(parts[2].t()) + parts[3]));
  EXPECT_TRUE(at::allclose(with_rows(0), with_rows(1)));
  EXPECT_FALSE(at::allclose(with_rows(0), with_rows(2)));
}

TensorDict sent(const AnyMethod& method, const ServerState& server, ClientId id,
                const tessera::Setup& setup) {
  TensorDict out;
  method.broadcast(server, std::vector<Ask<TensorDict>>{{id, Why::kTrain}}, setup,
                   [&](const auto&, TensorDict down) { out = std::move(down); });
  return out;
}

// docs/experiments.md §2: d_A and the size of the small preset; what is generated is what attends.
TEST(PFedHT, OnVitSTheGeneratedNumbersAreToQkvDepthByDepth) {
  const auto model = *make_model("vit-s", {{3, 32, 32}, 10});
  const auto method = find_method("pfedht")->draft()->build({});
  const tessera::Setup setup{*model, 20, 5, 0.25, 1, 0, 1};
  ASSERT_TRUE(method->check(setup).ok());
  const auto server = method->init_server(setup);
  EXPECT_EQ(server->tensors().at("hn.phi").numel(), 2'402'432);
  const auto down = sent(*method, *server, 3, setup);
  EXPECT_EQ(down.at("attention").numel(), 36'864);
  const ClientData none;
  const Local local{{*model, none, 1, 42}, setup, 3};
  const auto pre = method->local_update({}, down, local).before.value().w;
  const auto views = model->layout().views(pre);
  int64_t depth = 0;
  for (size_t i = 0; i < views.size(); ++i) {
    if (!model->layout().slices()[i].name.ends_with("to_qkv.weight")) continue;
    EXPECT_EQ(views[i].sizes(), (std::vector<int64_t>{3 * 64, 64}));
    EXPECT_TRUE(views[i].equal(down.at("attention").view({3, 3 * 64, 64})[depth++]));
  }
  EXPECT_EQ(depth, 3);
}

TEST(PFedHT, NewcomersReceiveTheRestOnceAndSendOnlyAttention) {
  auto toy = tiny({.method = "pfedht", .numbers = {{"exchanges", 5}}});
  toy.play(1, 1);
  const auto report = toy.evaluate(1);
  EXPECT_EQ(report.exchanges, 5);
  EXPECT_EQ(report.onboard_up, 2 * 4 * 5 * kAttention);
  EXPECT_EQ(report.onboard_down, 2 * 4 * (6 * kAttention + (kAll - kAttention)));
}

TEST(PFedHT, FineTunedNewcomersNeedOneDownload) {
  auto toy = tiny({.method = "pfedht", .words = {{"newclient", "finetune"}}});
  toy.play(1, 1);
  const auto report = toy.evaluate(1);
  EXPECT_EQ(report.exchanges, 0);
  EXPECT_EQ(report.onboard_up, 0);
  EXPECT_EQ(report.onboard_down, 2 * 4 * kAll);
}

// Freeze phi, eta: whatever a newcomer does before its evaluation leaves the rest as it was.
TEST(PFedHT, NewcomersTrainTheirAttentionOnly) {
  for (const char* mode : {"embed", "finetune", "both"}) {
    auto toy = tiny({.method = "pfedht", .words = {{"newclient", mode}}});
    toy.play(1, 1);
    const auto server = toy.server();
    const auto down = toy.download_guest(server, std::nullopt, 4, {}, 2);
    const auto local = toy.local(4, 2, 42, Why::kJoin);
    const auto pre = toy.personal({}, down, local, View::kPre).weights->w;
    const auto rest = pre.narrow(0, kAttention, kAll - kAttention);
    EXPECT_TRUE(rest.equal(server.at("eta.w"))) << mode;
    EXPECT_EQ(pre.narrow(0, 0, kAttention).equal(down.at("attention")),
              mode == std::string("embed"));
    const auto step = toy.method->local_update({}, down, local);
    EXPECT_FALSE(step.upload.contains("eta.w"));
    EXPECT_NO_THROW(toy.method->require_upload(
        toy.method->expected(*toy.typed(server), Why::kJoin, toy.setup(2)), step.upload));
    const TrainOptions train{.batch = 8, .lr = 0.1};
    const Weights start{at::cat({down.at("attention"), down.at("eta.w")}), at::empty({0})};
    const auto only = toy.model->layout().mask(Role::kAttention);
    const auto after = local_sgd(start, local, train, {.only = only}).weights.w;
    EXPECT_TRUE(step.upload.at("delta").equal((start.w - after).narrow(0, 0, kAttention)));
    // It holds eta from now on; what it trains in the post view is everything.
    EXPECT_TRUE(step.next.at("eta.w").equal(server.at("eta.w")));
    const auto guest = toy.learn(server, std::nullopt, step.upload, 2);
    const auto again = toy.download_guest(server, guest, 4, {}, 2);
    EXPECT_FALSE(again.contains("eta.w"));
    const auto post = toy.personal(step.next, again, local, View::kPost).weights->w;
    EXPECT_FALSE(post.narrow(0, kAttention, kAll - kAttention).equal(server.at("eta.w")));
  }
}

// A newcomer's eta is the one thing that a fresh state does not show.
TEST(PFedHT, ForgedClientStatesAreRefused) {
  const auto toy = tiny({.method = "pfedht"});
  const auto local = toy.local(4);
  const auto with = [](Tensor w) { return TensorDict{{"eta.w", w}, {"eta.b", at::empty({0})}}; };
  EXPECT_NO_THROW(toy.method->check_client({}, local));
  EXPECT_NO_THROW(toy.method->check_client(with(at::zeros({kAll - kAttention})), local));
  EXPECT_THROW(toy.method->check_client(with(at::zeros({kAll})), local), std::invalid_argument);
}

TEST(PFedHT, AModelWithoutAttentionIsRefused) {
  const NapkinModel model;
  const tessera::Setup setup{model, 4, 5, 1.0, 1};
  for (const char* name : {"pfedht", "pfedht-nohn"}) {
    const auto status = find_method(name)->draft()->build({})->check(setup);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(error_of(status), Error::kInvalid);
    EXPECT_THAT(message(status), HasSubstr(name));
    EXPECT_THAT(message(status), HasSubstr("model.name to vit-s"));
  }
}

TEST(PFedHT, ShareHeadsUsesOneOutputForAllDepths) {
  auto draft = find_method("pfedht")->draft();
  for (auto& option : draft->options())
    if (option.spec.key == "share_heads") **std::get_if<bool*>(&option.target) = true;
  const TinyAttention model;
  const tessera::Setup setup{model, 4, 5, 1.0, 1, 0, 1};
  const auto method = draft->build({});
  ASSERT_TRUE(method->check(setup).ok());
  const auto server = method->init_server(setup);
  EXPECT_EQ(server->tensors().at("hn.phi").numel(),
            hypernet_numel({32, 64, 1, kAttention, kDepths}));
  EXPECT_EQ(sent(*method, *server, 0, setup).at("attention").numel(), kAttention);
}

TEST(PFedHTWithoutHypernetwork, AttentionStaysAtTheClient) {
  auto toy = tiny({.method = "pfedht-nohn"});
  const auto report = toy.play(1, 2).at(0);
  EXPECT_EQ(report.bytes_down, 4 * 4 * (kAll - kAttention));
  EXPECT_EQ(report.bytes_up, 4 * 4 * (kAll - kAttention));
  // Two clients' attention after two rounds, by the loop written out.
  const TrainOptions train{.batch = 8, .lr = 0.1};
  const Split split(toy.model->layout(), Role::kAttention);
  const auto first = toy.model->init(toy.setup().key);
  auto eta = split.rest_of(first);
  std::vector<Tensor> own(4, split.part_of(first.w));
  for (int64_t round = 1; round <= 2; ++round) {
    std::vector<Tensor> uploads;
    for (ClientId id = 0; id < 4; ++id) {
      auto& mine = own[static_cast<size_t>(id)];
      const auto after = local_sgd(split.joined(mine, eta), local_of(toy, id, round), train);
      mine = split.part_of(after.weights.w);
      uploads.push_back(36 * split.rest_of(after.weights).w.to(at::kDouble));
    }
    // Along the trie of ids: 0 with 1, 2 with 3, then both.
    eta.w = (((uploads[0] + uploads[1]) + (uploads[2] + uploads[3])) / 144).to(at::kFloat);
  }
  EXPECT_TRUE(toy.server().at("eta.w").equal(eta.w));
  for (ClientId id = 0; id < 4; ++id)
    EXPECT_TRUE(toy.state(id).at("attention").equal(own[static_cast<size_t>(id)])) << id;
}

TEST(PFedHTWithoutHypernetwork, MeanAttentionIsUploadedAndGivenToNewcomers) {
  auto toy = tiny({.method = "pfedht-nohn", .words = {{"new_attention", "mean"}}});
  const auto round = toy.play(1, 1).at(0);
  EXPECT_EQ(round.bytes_down, 4 * 4 * (kAll - kAttention));
  EXPECT_EQ(round.bytes_up, 4 * 4 * kAll);
  auto sum = at::zeros({kAttention});
  for (ClientId id = 0; id < 4; ++id) sum += toy.state(id).at("attention");
  const auto server = toy.server();
  EXPECT_TRUE(at::allclose(server.at("mean_attention"), sum / 4));
  EXPECT_FALSE(toy.download(server, 0, Why::kEvaluate).contains("attention"));
  const auto down = toy.download_guest(server, std::nullopt, 4);
  EXPECT_TRUE(down.at("attention").equal(server.at("mean_attention")));
  EXPECT_EQ(toy.evaluate(1).onboard_down, 2 * 4 * kAll);
}

TEST(PFedHN, ServesEveryClientItsOwnGeneratedModel) {
  auto toy = make_toy({.method = "pfedhn"}, 5);
  const auto server = toy.server();
  EXPECT_EQ(toy.exhibits(server, {}).at(0).value.sizes(), (std::vector<int64_t>{5, 2}));  // 1 + N/4
  const auto a = toy.download(server, 0).at("w"), b = toy.download(server, 1).at("w");
  const auto first = toy.model->init(toy.setup().key).w;
  EXPECT_FALSE(a.equal(b));
  EXPECT_LT(norm64(a - first), 0.3 * norm64(first));
  const auto pre = toy.personal({}, toy.download(server, 0), toy.local(0), View::kPre);
  EXPECT_TRUE(pre.weights->w.equal(a));
}

// A state holds the embeddings of those who took part; the others' are drawn when they are needed.
TEST(PFedHN, EmbeddingsAreKeptForThoseWhoTookPart) {
  ToyOptions options{.method = "pfedhn"};
  options.federation.participation = 0.4;
  auto toy = make_toy(options, 5);
  const auto before = toy.exhibits(toy.server(), {}).at(0).value;
  toy.play(1, 1);
  const auto after = toy.exhibits(toy.server(), {}).at(0).value;
  int64_t kept = 0;
  for (ClientId id = 0; id < 5; ++id) {
    const bool took_part = toy.server().contains(fmt::format("hn.embeddings@{}.z", id));
    kept += took_part;
    EXPECT_EQ(after[id].equal(before[id]), !took_part) << id;
  }
  EXPECT_EQ(kept, 2);
}

TEST(PFedHN, LocalTrainingIsCountedInSteps) {
  ToyOptions options{.method = "pfedhn", .numbers = {{"steps", 7}}};
  options.train.batch = 8;  // 36 samples: 5 steps an epoch
  auto toy = make_toy(options);
  const auto down = toy.download(toy.server(), 0);
  const auto local = toy.local(0);
  const auto step = toy.method->local_update({}, down, local);
  const Weights start{down.at("w"), down.at("b")};
  const auto seven = local_sgd(start, local, options.train, {.epochs = 2, .max_steps = 7});
  EXPECT_EQ(seven.steps, 7);
  EXPECT_TRUE(step.upload.at("delta.w").equal(start.w - seven.weights.w));
  options.numbers = {{"steps", 0}};
  auto by_epochs = make_toy(options);
  const auto epoch = by_epochs.method->local_update({}, down, local);
  const auto five = local_sgd(start, local, options.train);
  EXPECT_EQ(five.steps, 5);
  EXPECT_TRUE(epoch.upload.at("delta.w").equal(start.w - five.weights.w));
}

TEST(PFedHN, TooLargeAHypernetworkIsRefusedBeforeItIsAllocated) {
  auto draft = find_method("pfedhn")->draft();
  for (auto& option : draft->options())
    if (option.spec.key == "hidden") **std::get_if<int64_t*>(&option.target) = 100000;
  const auto model = *make_model("lenet16", {{3, 32, 32}, 10});
  const auto status = draft->build({})->check(tessera::Setup{*model, 50, 5, 1.0, 1});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(message(status), HasSubstr("pfedhn: the hypernetwork would have 42"));
  EXPECT_THAT(message(status), HasSubstr("GB with its gradient and momentum"));
}

}  // namespace
}  // namespace tessera::test
