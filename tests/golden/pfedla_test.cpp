// pFedLA and HeurpFedLA: limits and what travels (methods.md §7.2, §10).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

ToyOptions options_of(const char* method, double keep = 0) {
  ToyOptions out{.method = method};
  out.train.batch = 8, out.train.lr = 0.1;
  if (keep > 0) out.numbers.emplace_back("keep_blocks", keep);
  return out;
}

// Local training, written out.
Weights alone(const Toy& toy, ClientId id, int64_t rounds) {
  auto w = toy.model->init(toy.setup->key);
  for (int64_t round = 1; round <= rounds; ++round)
    w = local_sgd(w,
                  {*toy.model, toy.federation.clients[static_cast<size_t>(id)], round,
                   derive(7, Purpose::kLocal, round, id)},
                  TrainOptions{.batch = 8, .lr = 0.1})
            .weights;
  return w;
}

TEST(PFedLA, OfOneClientIsLocalTraining) {
  auto toy = make_toy(options_of("pfedla"), 1, 0);
  toy.play(1, 3);
  EXPECT_TRUE(toy.driver->server().at("latest.0.w").equal(alone(toy, 0, 3).w));
}

TEST(HeurPFedLA, ThatKeepsEveryBlockIsLocalTrainingWithoutDownloads) {
  auto toy = make_toy(options_of("heurpfedla", 2), 3, 0);
  const auto reports = toy.play(1, 3);
  for (const auto& report : reports) {
    EXPECT_EQ(report.bytes_down, 0);
    EXPECT_EQ(report.bytes_up, 3 * 4 * toy.model->layout().numel());
  }
  for (ClientId id = 0; id < 3; ++id) {
    EXPECT_TRUE(toy.driver->server().at(fmt::format("latest.{}.w", id)).equal(alone(toy, id, 3).w));
  }
}

// What a client trains from is what the server takes it to have received: the kept block is the
// client's, the rest the mixture.
TEST(HeurPFedLA, ClientAndServerAgreeOnWhatWasReceived) {
  auto toy = make_toy(options_of("heurpfedla", 1), 3, 0);
  toy.play(1, 2);
  const auto& server = toy.driver->server();
  const auto blocks = toy.model->layout().blocks();
  for (ClientId id = 0; id < 3; ++id) {
    const auto down = toy.method->broadcast(server, id);
    const auto kept = static_cast<size_t>(down.at("kept.0").item<int64_t>());
    const auto state = toy.engine->states()[static_cast<size_t>(id)].second;
    const Local local{*toy.model, toy.federation.clients[static_cast<size_t>(id)], 3, 1};
    const auto pre = toy.method->personalize(state, down, local, View::kPre).weights->w;
    const auto& latest = server.at(fmt::format("latest.{}.w", id));
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
  auto options = options_of("pfedla");
  options.numbers = {{"server_lr", 0}};
  auto toy = make_toy(options, 3, 1);
  auto server = toy.driver->server();
  const int64_t outputs = 2 * 3, hidden = 100;
  auto theta = server.at("theta").clone();
  theta.narrow(1, theta.size(1) - outputs * (hidden + 1), outputs * (hidden + 1)).fill_(1);
  server["theta"] = theta;
  toy.driver->restore(server);
  toy.play(1, 2);
  const auto& now = toy.driver->server();
  const auto mean = (now.at("latest.0.w").to(at::kDouble) + now.at("latest.1.w").to(at::kDouble) +
                     now.at("latest.2.w").to(at::kDouble)) /
                    3;
  // Client 3 is a newcomer: uniform weights, whatever the hypernetworks say.
  for (ClientId id = 0; id < 4; ++id) {
    EXPECT_TRUE(at::allclose(toy.method->broadcast(now, id).at("rest.w").to(at::kDouble), mean,
                             1e-5, 1e-6));
  }
}

// The one server step of a round, worked out from its parts: received − trained, block by block,
// times everybody's weights as they were mixed, not as they came back.
TEST(PFedLA, LearnsFromTheModelsThatWereMixed) {
  auto toy = make_toy(options_of("pfedla"), 2, 0);
  toy.play(1, 1);
  const auto before = toy.driver->server();
  TensorDict copy;
  for (const auto& [name, tensor] : before) copy.emplace(name, tensor.clone());
  std::vector<Received<TensorDict>> both, first;
  for (ClientId id = 0; id < 2; ++id) {
    const auto step = toy.method->local_update(
        {}, toy.method->broadcast(before, id),
        {*toy.model, toy.federation.clients[static_cast<size_t>(id)], 2, 5U});
    both.push_back({id, 2, step.upload});
    if (id == 1) first.push_back(both.back());
  }
  TensorDict again;
  for (const auto& [name, tensor] : before) again.emplace(name, tensor.clone());
  const auto together = toy.method->aggregate(std::move(copy), both);
  const auto single = toy.method->aggregate(std::move(again), first);
  // Client 1's hypernetwork learns the same whether or not client 0 replied.
  EXPECT_TRUE(together.at("theta")[1].equal(single.at("theta")[1]));
  EXPECT_FALSE(together.at("theta")[1].equal(before.at("theta")[1]));
  EXPECT_TRUE(single.at("theta")[0].equal(before.at("theta")[0])) << "an absent client rests";
}

TEST(PFedLA, ShowsSharesThatSumToOne) {
  auto toy = make_toy(options_of("pfedla"), 4, 1);
  toy.play(1, 2);
  const auto report = toy.evaluate(2);
  ASSERT_EQ(report.exhibits.size(), 2U);
  EXPECT_EQ(report.exhibits[0].value.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_TRUE(at::allclose(report.exhibits[0].value.sum(1), at::ones({4}, at::kDouble)));
  EXPECT_EQ(report.exhibits[1].value.sizes(), (std::vector<int64_t>{4, 2}));
}

TEST(HeurPFedLA, MoreBlocksThanThereAreAreRefused) {
  const auto model = *make_model("mlp100", {{6}, 3});
  auto draft = find_method("heurpfedla")->draft();
  for (auto& option : draft->options())
    if (option.spec.key == "keep_blocks") **std::get_if<int64_t*>(&option.target) = 3;
  const auto status = draft->build({})->check({*model, 4, 5, 1.0, 1});
  EXPECT_THAT(message(status), HasSubstr("method.keep_blocks is 3"));
}

}  // namespace
}  // namespace tessera::test
