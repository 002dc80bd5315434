// pFedLA and HeurpFedLA: limits and what travels (docs/methods.md §7.2, §10).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "method/pfedla/layer_weights.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

ToyOptions layerwise_options(const char* method, double keep = 0) {
  ToyOptions out{.method = method};
  out.train.batch = 8, out.train.lr = 0.1;
  if (keep > 0) out.numbers.emplace_back("keep_blocks", keep);
  return out;
}

// Local training, written out.
Weights alone(const Toy& toy, ClientId id, int64_t rounds) {
  auto w = toy.model->init(toy.setup().key);
  for (int64_t round = 1; round <= rounds; ++round)
    w = local_sgd(w, toy.local(id, round, derive(7, Purpose::kLocal, round, id)),
                  TrainOptions{.batch = 8, .lr = 0.1})
            .weights;
  return w;
}

TEST(PFedLA, OfOneClientIsLocalTraining) {
  auto toy = make_toy(layerwise_options("pfedla"), 1, 0);
  toy.play(1, 3);
  EXPECT_TRUE(toy.server().at("latest@0.w").equal(alone(toy, 0, 3).w));
}

TEST(HeurPFedLA, ThatKeepsEveryBlockIsLocalTrainingWithoutDownloads) {
  auto toy = make_toy(layerwise_options("heurpfedla", 2), 3, 0);
  const auto reports = toy.play(1, 3);
  for (const auto& report : reports) {
    EXPECT_EQ(report.bytes_down, 0);
    EXPECT_EQ(report.bytes_up, 3 * 4 * toy.model->layout().numel());
  }
  for (ClientId id = 0; id < 3; ++id) {
    EXPECT_TRUE(toy.server().at(fmt::format("latest@{}.w", id)).equal(alone(toy, id, 3).w));
  }
}

// What a client trains from is what the server takes it to have received: the kept block is the
// client's, the rest the mixture.
TEST(HeurPFedLA, ClientAndServerAgreeOnWhatWasReceived) {
  auto toy = make_toy(layerwise_options("heurpfedla", 1), 3, 0);
  toy.play(1, 2);
  const auto server = toy.server();
  const auto blocks = toy.model->layout().blocks();
  for (ClientId id = 0; id < 3; ++id) {
    const auto down = toy.download(server, id, Why::kTrain, {}, 3);
    const auto kept = static_cast<size_t>(down.at("kept.0").item<int64_t>());
    const auto pre = toy.personal(toy.state(id), down, toy.local(id, 3, 1), View::kPre).weights->w;
    const auto& latest = server.at(fmt::format("latest@{}.w", id));
    for (size_t l = 0; l < blocks.size(); ++l) {
      const auto cut = [&](const Tensor& w) {
        return w.narrow(0, blocks[l].begin, blocks[l].size);
      };
      EXPECT_EQ(cut(pre).equal(cut(latest)), l == kept) << "client " << id << " block " << l;
    }
    EXPECT_EQ(down.at("rest.w").numel(), toy.model->layout().numel() - blocks[kept].size);
  }
}

// With frozen uniform shares every client starts from the plain mean of the latest models.
TEST(PFedLA, UniformSharesAreTheUnweightedMean) {
  auto options = layerwise_options("pfedla");
  options.numbers = {{"server_lr", 0}};
  auto toy = make_toy(options, 3, 1);
  auto server = toy.server();
  const int64_t outputs = 2 * 3, hidden = 100;
  for (ClientId id = 0; id < 3; ++id) {
    const auto theta = LayerWeights{}.init(id, 3, 2, toy.setup().key);
    theta.narrow(0, theta.numel() - outputs * (hidden + 1), outputs * (hidden + 1)).fill_(1);
    server[fmt::format("theta@{}", id)] = theta;
  }
  ASSERT_TRUE(toy.driver->restore(server).ok());
  toy.play(1, 2);
  const auto now = toy.server();
  const auto mean = (now.at("latest@0.w").to(at::kDouble) + now.at("latest@1.w").to(at::kDouble) +
                     now.at("latest@2.w").to(at::kDouble)) /
                    3;
  // Client 3 is a newcomer: uniform weights, whatever the hypernetworks say.
  for (ClientId id = 0; id < 4; ++id) {
    EXPECT_TRUE(at::allclose(toy.download(now, id).at("rest.w").to(at::kDouble), mean, 1e-5, 1e-6));
  }
}

// The one server step of a round, worked out from its parts: received − trained, block by block,
// times everybody's weights as they were mixed, not as they came back.
TEST(PFedLA, LearnsFromTheModelsThatWereMixed) {
  auto toy = make_toy(layerwise_options("pfedla"), 2, 0);
  toy.play(1, 1);
  const auto before = toy.server();
  std::vector<Received<TensorDict>> both;
  for (ClientId id = 0; id < 2; ++id) {
    const auto down = toy.download(before, id, Why::kTrain, {}, 2);
    const auto step = toy.method->local_update(toy.fresh(id), down, toy.local(id, 2, 5));
    both.push_back({id, step.upload});
  }
  const auto together = toy.aggregate(before, both, 2);
  const auto single = toy.aggregate(before, {both[1]}, 2);
  // Client 1's hypernetwork learns the same whether or not client 0 replied.
  EXPECT_TRUE(together.at("theta@1").equal(single.at("theta@1")));
  EXPECT_FALSE(together.at("theta@1").equal(before.at("theta@1")));
  EXPECT_TRUE(single.at("theta@0").equal(before.at("theta@0"))) << "an absent client rests";
}

// Who never took part costs nothing, and is what it was at the start.
TEST(PFedLA, StateGrowsWithThoseWhoTookPart) {
  auto options = layerwise_options("pfedla");
  options.federation.participation = 0.25;
  auto toy = make_toy(options, 4, 0);
  EXPECT_TRUE(toy.server().empty());
  toy.play(1, 1);
  EXPECT_EQ(toy.server().size(), 3U);  // w, b and theta of one client
}

TEST(PFedLA, ShowsSharesThatSumToOne) {
  auto toy = make_toy(layerwise_options("pfedla"), 4, 1);
  toy.play(1, 2);
  const auto report = toy.evaluate(2);
  ASSERT_EQ(report.exhibits.size(), 2U);
  EXPECT_EQ(report.exhibits[0].value.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_TRUE(at::allclose(report.exhibits[0].value.sum(1), at::ones({4}, at::kDouble)));
  EXPECT_EQ(report.exhibits[1].value.sizes(), (std::vector<int64_t>{4, 2}));
}

// A client that keeps blocks and has lost its model could not put the two together.
TEST(HeurPFedLA, ForgedClientStatesAreRefused) {
  const auto toy = make_toy(layerwise_options("heurpfedla", 1), 3, 0);
  const auto local = toy.local(0);
  EXPECT_NO_THROW(toy.method->check_client(toy.fresh(0), local));
  EXPECT_THROW(toy.method->check_client({}, local), std::invalid_argument);
  EXPECT_THROW(toy.method->check_client({{"own", at::empty({0})}}, local), std::invalid_argument);
}

TEST(HeurPFedLA, MoreBlocksThanThereAreAreRefused) {
  const auto model = *make_model("mlp100", {{6}, 3});
  auto draft = find_method("heurpfedla")->draft();
  for (auto& option : draft->options())
    if (option.spec.key == "keep_blocks") **std::get_if<int64_t*>(&option.target) = 3;
  const auto status = draft->build({})->check(tessera::Setup{*model, 4, 5, 1.0, 1});
  EXPECT_THAT(message(status), HasSubstr("method.keep_blocks is 3"));
}

}  // namespace
}  // namespace tessera::test
