// FedHAM and its ablations as a federation: warm-up, downloads, clusters, newcomers, what is shown.

#include "method/fedham.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "support/toy.hpp"

namespace tessera::test {
namespace {

ToyOptions options(const std::string& method, int64_t p,
                   std::vector<std::pair<std::string, std::string>> words = {},
                   std::vector<std::pair<std::string, double>> numbers = {}) {
  ToyOptions out{.method = method, .numbers = std::move(numbers), .words = std::move(words)};
  out.numbers.emplace_back("p", static_cast<double>(p));
  out.train.batch = 8;
  out.train.lr = 0.1;
  return out;
}

FedHam::Server server_of(const Toy& toy) { return unpack<FedHam::Server>(toy.driver->server()); }

FedHam::Down down_of(const Toy& toy, ClientId id) {
  return unpack<FedHam::Down>(toy.method->broadcast(toy.driver->server(), id));
}

// Whose models a download holds, in the order of the message.
std::vector<ClientId> senders(const FedHam::Server& server, const FedHam::Down& down) {
  std::vector<ClientId> out;
  for (const auto& other : down.others)
    for (const auto& held : server.models)
      if (held.w.w.is_same(other.w)) out.push_back(held.client);
  EXPECT_EQ(out.size(), down.others.size());
  return out;
}

TEST(FedHam, WarmUpIsFedAvgBitForBit) {
  auto plain = options("fedavg", 0);
  plain.numbers.clear();
  auto fedavg = make_toy(plain);
  fedavg.play(1, 3);
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    auto toy = make_toy(options(method, 3, {{"theta_data", "train"}}));
    toy.play(1, 3);
    EXPECT_TRUE(toy.driver->server().at("g.w").equal(fedavg.driver->server().at("g.w"))) << method;
    EXPECT_TRUE(down_of(toy, 0).mixes);
  }
}

TEST(FedHam, AloneItIsLocalTraining) {
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    for (const auto* grain : {"model", "block"}) {
      auto toy = make_toy(options(method, 2, {{"theta_data", "train"}, {"grain", grain}}), 1, 0);
      auto alone_options = options("local", 0);
      alone_options.numbers = {{"patience", 0}};
      auto alone = make_toy(alone_options, 1, 0);
      toy.play(1, 5), alone.play(1, 5);
      EXPECT_TRUE(toy.engine->states().at(0).second.at("own.w").equal(
          alone.engine->states().at(0).second.at("w.w")))
          << method << " " << grain;
    }
  }
}

// Rows that attention is learned on must not reach the network, the warm-up included.
TEST(FedHam, NetworkNeverSeesWhatAttentionIsLearnedOn) {
  const auto after = [](int64_t rounds, int64_t spoiled) {
    auto federation = toy_federation(1, 0, 60);
    auto pool = std::make_shared<Pool>(*federation.clients[0].pool);
    pool->y = pool->y.clone();
    auto& train = federation.clients[0].train;  // 36 rows: 5 are held out
    for (size_t i = 0; i < 5; ++i) {
      const int64_t row = train[spoiled == 1 ? train.size() - 1 - i : i];
      if (spoiled > 0) pool->y[row] = (pool->y[row] + 1) % 3;
    }
    federation.clients[0].pool = pool;
    auto made = make_model("mlp100", {{6}, 3});
    Toy toy(std::move(federation), *std::move(made), options("fedham", 2));
    toy.play(1, rounds);
    return toy.engine->states().at(0).second.at("own.w").clone();
  };
  EXPECT_TRUE(after(2, 0).equal(after(2, 1)));
  EXPECT_FALSE(after(2, 0).equal(after(2, 2)));
  EXPECT_TRUE(after(4, 0).equal(after(4, 1)));  // alone there is nothing to choose between
}

TEST(FedHam, DownloadsAreTheOthersShuffledAndTheGlobalModel) {
  auto toy = make_toy(options("fedham", 1), 6, 0);
  toy.play(1, 1);
  std::set<std::vector<ClientId>> orders;
  for (int64_t round = 2; round <= 5; ++round) {
    const auto server = server_of(toy);
    for (ClientId id = 0; id < 6; ++id) {
      const auto down = down_of(toy, id);
      auto from = senders(server, down);
      orders.insert(from);
      std::sort(from.begin(), from.end());
      std::vector<ClientId> expected{0, 1, 2, 3, 4, 5};
      std::erase(expected, id);
      EXPECT_EQ(from, expected);
      EXPECT_TRUE(down.g->w.equal(server.g.w));
    }
    toy.play(round, round);
  }
  EXPECT_GT(orders.size(), 20U);  // 24 messages of 120 possible orders each
}

// Two runs that differ in one client's loss alone send in different orders to everybody.
TEST(FedHam, OrderHangsOnWhatOnlyTheServerKnows) {
  auto toy = make_toy(options("fedham", 1), 6, 0);
  const auto draft = toy.info.draft();
  const FedHam method;
  auto server = method.init_server(*toy.setup);
  server.mixing.fill_(true);
  std::vector<Received<FedHam::Up>> uploads;
  for (ClientId id = 0; id < 6; ++id)
    uploads.push_back({id, 1, {{toy.model->init(static_cast<uint64_t>(id)), 1.0}, 0.5}});
  const auto one = method.aggregate(server, uploads);
  uploads[3].body.loss = 0.5000000001;
  const auto two = method.aggregate(server, uploads);
  int64_t differing = 0;
  for (ClientId id = 0; id < 6; ++id)
    differing += senders(one, method.broadcast(one, id)) != senders(two, method.broadcast(two, id));
  EXPECT_GE(differing, 4);
}

TEST(FedHam, TrafficAfterTheWarmUp) {
  const int64_t d = 1003, n = 6;
  const auto bytes = [&](const ToyOptions& opts) {
    auto toy = make_toy(opts, n, 0);
    const auto reports = toy.play(1, 2);
    EXPECT_EQ(reports.at(1).bytes_up, 4 * n * d);
    return reports.at(1).bytes_down;
  };
  EXPECT_EQ(bytes(options("fedham", 1)), 4 * n * n * d);
  EXPECT_EQ(bytes(options("aml1", 1)), 4 * n * (n - 1) * d);
  EXPECT_EQ(bytes(options("aml2", 1)), 4 * n * d);
  EXPECT_EQ(bytes(options("fedham", 1, {{"cluster", "knn"}}, {{"k", 2}})), 4 * n * 3 * d);
  EXPECT_EQ(bytes(options("aml1", 1, {{"cluster", "knn"}}, {{"k", 2}})), 4 * n * 2 * d);
}

TEST(FedHam, OneClusterIsNoClustering) {
  auto one = make_toy(options("fedham", 1, {{"cluster", "kmeans"}}, {{"k", 1}}));
  auto none = make_toy(options("fedham", 1, {{"cluster", "none"}}));
  auto near = make_toy(options("fedham", 1, {{"cluster", "knn"}}, {{"k", 1}}));
  one.play(1, 3), none.play(1, 3), near.play(1, 3);
  EXPECT_EQ(fingerprint(one), fingerprint(none));
  EXPECT_EQ(fingerprint(one), fingerprint(near));
}

// Toy clients i and i + 6 draw from the same distribution only by i mod 6, so clusters are by
// chance but never too small.
TEST(FedHam, NoClusterIsSmallerThanAsked) {
  for (const auto* kind : {"kmeans", "meanshift", "knn"})
    for (const int64_t least : {2, 4}) {
      std::vector<std::pair<std::string, double>> numbers{
          {"min_cluster", static_cast<double>(least)}};
      if (kind != std::string("meanshift")) numbers.emplace_back("k", 3);
      auto toy = make_toy(options("fedham", 1, {{"cluster", kind}}, numbers), 12, 1);
      toy.play(1, 2);
      for (ClientId id = 0; id < 12; ++id) {
        const auto together = static_cast<int64_t>(down_of(toy, id).others.size()) + 1;
        EXPECT_GE(together, least) << kind;
        if (kind == std::string("knn")) {
          EXPECT_EQ(together, 4);  // 12 / 3, enough for both
        }
      }
      const auto guest = toy.method->learn(toy.driver->server(), {},
                                           pack(FedHam::Up{{toy.model->init(3), 1.0}, 0.5}));
      const auto down =
          unpack<FedHam::Down>(toy.method->broadcast_guest(toy.driver->server(), guest, 12));
      EXPECT_GE(static_cast<int64_t>(down.others.size()), least) << kind;
    }
}

// Models 0–2 and 3–5 are two heaps; whoever is near one gets that one.
struct TwoHeaps {
  Toy toy;
  FedHam method;
  FedHam::Server server;

  explicit TwoHeaps(const std::string& cluster) : toy(make_toy(options("fedham", 1), 7, 1)) {
    method.cluster = cluster;
    method.k = cluster == "meanshift" ? 0 : 2;
    method.p = 1;
    server = method.init_server(*toy.setup);
    std::vector<Received<FedHam::Up>> uploads;
    for (ClientId id = 0; id < 6; ++id) uploads.push_back({id, 1, {{near(id / 3, id), 1.0}, 0.5}});
    server = method.aggregate(server, uploads);
  }
  Weights near(int64_t heap, int64_t salt) const {
    auto out = toy.model->init(static_cast<uint64_t>(heap));
    return {out.w + 0.01 * toy.model->init(100 + static_cast<uint64_t>(salt)).w, out.b};
  }
  std::set<ClientId> sent(const FedHam::Down& down) const {
    const auto from = senders(server, down);
    return {from.begin(), from.end()};
  }
};

TEST(FedHam, ClustersAreTheHeapsAndGuestsGetTheNearest) {
  for (const auto* kind : {"kmeans", "meanshift", "knn"}) {
    const TwoHeaps scene(kind);
    const auto& [toy, method, server] = scene;
    EXPECT_EQ(scene.sent(method.broadcast(server, 1)), (std::set<ClientId>{0, 2})) << kind;
    EXPECT_EQ(scene.sent(method.broadcast(server, 3)), (std::set<ClientId>{4, 5})) << kind;
    const auto guest = method.learn(server, method.greet(server), {{scene.near(1, 50), 1.0}, 0.5});
    EXPECT_EQ(scene.sent(method.broadcast(server, guest)), (std::set<ClientId>{3, 4, 5})) << kind;
    EXPECT_FALSE(method.broadcast(server, method.greet(server)).mixes);
    // Client 6 never took part: it counts as holding the global model.
    const auto stranger = method.broadcast(server, 6);
    EXPECT_EQ(scene.sent(stranger).size(), 3U) << kind;
    EXPECT_TRUE(stranger.g.has_value());
  }
}

TEST(FedHam, ServerKeepsHandlesNotCopies) {
  const TwoHeaps scene("none");
  std::vector<Received<FedHam::Up>> uploads{{2, 2, {{scene.near(1, 9), 1.0}, 0.5}}};
  const auto next = scene.method.aggregate(scene.server, uploads);
  ASSERT_EQ(next.models.size(), 6U);
  EXPECT_TRUE(next.models[2].w.w.is_same(uploads[0].body.model.value.w));
  for (const size_t i : {0, 1, 3, 4, 5})
    EXPECT_TRUE(next.models[i].w.w.is_same(scene.server.models[i].w.w));
}

TEST(FedHam, NewcomerMixesAfterOneExchange) {
  const TwoHeaps scene("kmeans");
  const auto& [toy, method, server] = scene;
  auto mine = method;
  mine.train = TrainOptions{.epochs = 3, .batch = 8, .lr = 0.1};
  const Local local{*toy.model, toy.federation.newcomers[0], 2, 77, true};
  const auto fresh = mine.init_client(*toy.setup, 7);
  const auto step = mine.local_update(fresh, mine.broadcast(server, mine.greet(server)), local);
  // One epoch from g, whatever train.epochs says, without the held-out rows.
  const auto [base, held] = held_out(local.data, 0.15);
  const Local here{*toy.model, base, 2, 77, true};
  const auto once = local_sgd(server.g, here, mine.train, {.epochs = 1});
  EXPECT_TRUE(step.upload.model.value.w.equal(once.weights.w));
  const auto guest = mine.learn(server, mine.greet(server), step.upload);
  const auto down = mine.broadcast(server, guest);
  const auto post = mine.personalize(step.next, down, local, View::kPost);
  EXPECT_EQ(post.notes.at("a").size(1), static_cast<int64_t>(down.others.size()));
  EXPECT_EQ(held.train_size(), 5);
}

TEST(FedHam, WarmUpEndsWhenTheLossStandsStill) {
  const auto first_mixing = [](const std::string& when, double lr) {
    auto opts = options("fedham", 9, {{"switch", when}});
    opts.train.lr = lr;
    auto toy = make_toy(opts);
    for (int64_t round = 1; round <= 10; ++round) {
      if (down_of(toy, 0).mixes) return round;
      toy.play(round, round);
    }
    return int64_t{11};
  };
  // Without learning the loss is flat: six rounds are the shortest history with a window before it.
  EXPECT_EQ(first_mixing("loss", 1e-7), 7);
  EXPECT_EQ(first_mixing("per_client_loss", 1e-7), 7);
  EXPECT_EQ(first_mixing("rounds", 1e-7), 10);
  EXPECT_EQ(first_mixing("loss", 0.1), 10);  // p is the latest
}

TEST(FedHam, ClientsLeaveTheWarmUpOneByOne) {
  auto toy = make_toy(options("fedham", 100), 4, 0);
  FedHam method;
  method.p = 100, method.when = "per_client_loss";
  auto server = method.init_server(*toy.setup);
  for (int64_t round = 1; round <= 6; ++round) {
    std::vector<Received<FedHam::Up>> uploads;
    for (ClientId id = 0; id < 4; ++id)
      uploads.push_back(
          {id, round, {{server.g, 1.0}, id == 2 ? 0.5 : 1.0 / static_cast<double>(round)}});
    server = method.aggregate(server, uploads);
  }
  for (ClientId id = 0; id < 4; ++id) EXPECT_EQ(method.broadcast(server, id).mixes, id == 2);
}

TEST(FedHam, ExhibitsNameWhoWasMixed) {
  for (const auto* grain : {"model", "block"}) {
    auto toy =
        make_toy(options("fedham", 1, {{"cluster", "knn"}, {"grain", grain}}, {{"k", 2}}), 6, 1);
    toy.play(1, 2);
    EXPECT_EQ(down_of(toy, 0).others.size(), 2U);
    Notes notes;
    const auto server = server_of(toy);
    std::map<ClientId, std::vector<ClientId>> from;
    for (ClientId id = 0; id < 6; ++id) {
      if (id == 4) continue;  // tells nothing
      const Local local{*toy.model, toy.federation.clients[static_cast<size_t>(id)], 3, 5};
      const auto down = toy.method->broadcast_eval(toy.driver->server(), id);
      notes[id] = toy.method
                      ->personalize(toy.engine->states().at(static_cast<size_t>(id)).second, down,
                                    local, View::kPost)
                      .notes;
      from[id] = senders(server, unpack<FedHam::Down>(down));
    }
    const auto shown = toy.method->exhibits(toy.driver->server(), notes);
    ASSERT_EQ(shown.size(), 3U);
    EXPECT_EQ(shown[0].name, "attention");
    EXPECT_EQ(shown[1].name, "mixture");
    EXPECT_EQ(shown[1].columns, (std::vector<std::string>{"own", "attention", "global"}));
    EXPECT_EQ(shown[2].name, "clusters");
    for (ClientId id = 0; id < 6; ++id) {
      if (id == 4) {
        EXPECT_TRUE(shown[0].value[id].isnan().all().item<bool>());
        EXPECT_TRUE(shown[1].value[id].isnan().all().item<bool>());
        continue;
      }
      const auto a = notes.at(id).at("a").mean(0);
      for (ClientId other = 0; other < 6; ++other) {
        const auto at = std::find(from[id].begin(), from[id].end(), other);
        const double value = shown[0].value[id][other].item<double>();
        EXPECT_EQ(std::isnan(value), at == from[id].end());
        EXPECT_EQ(shown[2].value[id][other].item<double>(), at != from[id].end());
        if (at != from[id].end()) {
          EXPECT_EQ(value, a[at - from[id].begin()].item<double>());
        }
      }
      EXPECT_NEAR(shown[0].value[id].nansum().item<double>(), 1, 1e-12);
      EXPECT_NEAR(shown[1].value[id].sum().item<double>(), 1, 1e-12);
    }
  }
}

TEST(FedHam, AblationsShowTheLayerTheyHave) {
  for (const auto* method : {"aml1", "aml2"}) {
    auto toy = make_toy(options(method, 1));
    toy.play(1, 2);
    const Local local{*toy.model, toy.federation.clients[0], 3, 5};
    const Notes notes{
        {0, toy.method
                ->personalize(toy.engine->states().at(0).second,
                              toy.method->broadcast(toy.driver->server(), 0), local, View::kPost)
                .notes}};
    const auto shown = toy.method->exhibits(toy.driver->server(), notes);
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].name, method == std::string("aml1") ? "attention" : "mixture");
    EXPECT_EQ(toy.driver->server().at("models.size").item<int64_t>(),
              method == std::string("aml1") ? 4 : 0);
  }
}

TEST(FedHam, ViewsAreTheHeldModelAndTheNextUpload) {
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    auto toy = make_toy(options(method, 1));
    toy.play(1, 2);
    const Local local{*toy.model, toy.federation.clients[1], 3, 5};
    const auto state = toy.engine->states().at(1).second;
    const auto down = toy.method->broadcast(toy.driver->server(), 1);
    const auto pre = toy.method->personalize(state, down, local, View::kPre);
    EXPECT_TRUE(pre.weights->w.equal(state.at("own.w")));
    const auto post = toy.method->personalize(state, down, local, View::kPost);
    const auto next = toy.method->local_update(state, down, local);
    EXPECT_TRUE(post.weights->w.equal(next.upload.at("model.value.w")));
  }
}

TEST(FedHam, ChecksSayWhatToChange) {
  auto toy = make_toy(options("fedham", 1), 8, 0);
  FedHam method;
  method.k = 9;
  EXPECT_EQ(message(method.check(*toy.setup)), "fedham: k = 9 is more than the 8 clients; lower k");
  method.k = 3;
  EXPECT_EQ(message(method.check(*toy.setup)),
            "fedham: k = 3 clusters of at least min_cluster = 3 need 9 clients and there are 8; "
            "lower k or min_cluster");
  method.min_cluster = 2;
  EXPECT_TRUE(method.check(*toy.setup).ok());
  method.cluster = "none";
  EXPECT_EQ(message(method.check(*toy.setup)),
            "fedham: k = 3 has no meaning with cluster = \"none\"; remove one");
  Aml1 first;
  first.cluster = "meanshift", first.min_cluster = 9;
  EXPECT_EQ(message(first.check(*toy.setup)),
            "aml1: clusters of at least min_cluster = 9 need 9 clients and there are 8; lower "
            "min_cluster");
  ClientData bare;
  method.theta_data = "val";
  EXPECT_EQ(message(method.check(bare)),
            "fedham: theta_data = \"val\" needs validation data and there are none; raise "
            "data.val or use theta_data = \"hold\"");
}

}  // namespace
}  // namespace tessera::test
