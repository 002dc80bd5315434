// FedHAM and its ablations as a federation: warm-up, downloads, clusters, newcomers, what is shown.

#include "method/fedham/fedham.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "support/toy.hpp"

namespace tessera::test {
namespace {

ToyOptions fedham_options(const std::string& method, int64_t p,
                          std::vector<std::pair<std::string, std::string>> words = {},
                          std::vector<std::pair<std::string, double>> numbers = {}) {
  ToyOptions out{.method = method, .numbers = std::move(numbers), .words = std::move(words)};
  out.numbers.emplace_back("p", static_cast<double>(p));
  out.train.batch = 8;
  out.train.lr = 0.1;
  return out;
}

FedHam::Server server_of(const Toy& toy) { return unpack<FedHam::Server>(toy.server()); }

// What a client is sent in a round in which it is asked alone.
FedHam::Down down_of(const Toy& toy, ClientId id, int64_t round) {
  return unpack<FedHam::Down>(toy.download(toy.server(), id, Why::kTrain, {}, round));
}
FedHam::Down down_of(const FedHam& method, const FedHam::Server& server,
                     const Ask<FedHam::Guest>& ask, const tessera::Setup& setup) {
  FedHam::Down out;
  method.broadcast(server, std::span(&ask, 1), setup,
                   [&](const auto&, FedHam::Down down) { out = std::move(down); });
  return out;
}

// Whose models a download holds, in the order of the message.
std::vector<ClientId> senders(const FedHam::Server& server, const FedHam::Down& down) {
  std::vector<ClientId> out;
  for (const auto& other : down.others)
    for (const auto& [id, held] : server.models)
      if (held.w.is_same(other.w)) out.push_back(id);
  EXPECT_EQ(out.size(), down.others.size());
  return out;
}

TEST(FedHam, WarmUpIsFedAvgBitForBit) {
  auto plain = fedham_options("fedavg", 0);
  plain.numbers.clear();
  auto fedavg = make_toy(plain);
  fedavg.play(1, 3);
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    auto toy = make_toy(fedham_options(method, 3, {{"theta_data", "train"}}));
    toy.play(1, 3);
    EXPECT_TRUE(toy.server().at("g.w").equal(fedavg.server().at("g.w"))) << method;
    EXPECT_FALSE(down_of(toy, 0, 3).mixes);
    EXPECT_TRUE(down_of(toy, 0, 4).mixes);
  }
}

TEST(FedHam, AloneItIsLocalTraining) {
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    for (const auto* grain : {"model", "block"}) {
      auto toy =
          make_toy(fedham_options(method, 2, {{"theta_data", "train"}, {"grain", grain}}), 1, 0);
      auto alone_options = fedham_options("local", 0);
      alone_options.numbers = {{"patience", 0}};
      auto alone = make_toy(alone_options, 1, 0);
      toy.play(1, 5), alone.play(1, 5);
      EXPECT_TRUE(toy.state(0).at("own.w").equal(alone.state(0).at("w.w")))
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
    Toy toy(std::move(federation), *std::move(made), fedham_options("fedham", 2));
    toy.play(1, rounds);
    return toy.state(0).at("own.w").clone();
  };
  EXPECT_TRUE(after(2, 0).equal(after(2, 1)));
  EXPECT_FALSE(after(2, 0).equal(after(2, 2)));
  EXPECT_TRUE(after(4, 0).equal(after(4, 1)));  // alone there is nothing to choose between
}

TEST(FedHam, DownloadsAreTheOthersShuffledAndTheGlobalModel) {
  auto toy = make_toy(fedham_options("fedham", 1), 6, 0);
  toy.play(1, 1);
  std::set<std::vector<ClientId>> orders;
  for (int64_t round = 2; round <= 5; ++round) {
    const auto server = server_of(toy);
    for (ClientId id = 0; id < 6; ++id) {
      const auto down = down_of(toy, id, round);
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
  auto toy = make_toy(fedham_options("fedham", 1), 6, 0);
  FedHam method;
  method.p = 0;
  const auto& setup = toy.setup(1);
  const auto server = method.init_server(setup);
  std::vector<Received<FedHam::Up>> uploads;
  for (ClientId id = 0; id < 6; ++id)
    uploads.push_back({id, {{toy.model->init(static_cast<uint64_t>(id)), 1.0}, 0.5}});
  const auto one = method.aggregate(server, uploads, setup);
  uploads[3].body.loss = 0.5000000001;
  const auto two = method.aggregate(server, uploads, setup);
  int64_t differing = 0;
  for (ClientId id = 0; id < 6; ++id)
    differing += senders(one, down_of(method, one, {id, Why::kTrain}, setup)) !=
                 senders(two, down_of(method, two, {id, Why::kTrain}, setup));
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
  EXPECT_EQ(bytes(fedham_options("fedham", 1)), 4 * n * n * d);
  EXPECT_EQ(bytes(fedham_options("aml1", 1)), 4 * n * (n - 1) * d);
  EXPECT_EQ(bytes(fedham_options("aml2", 1)), 4 * n * d);
  EXPECT_EQ(bytes(fedham_options("fedham", 1, {{"cluster", "knn"}}, {{"k", 2}})), 4 * n * 3 * d);
  EXPECT_EQ(bytes(fedham_options("aml1", 1, {{"cluster", "knn"}}, {{"k", 2}})), 4 * n * 2 * d);
}

TEST(FedHam, OneClusterIsNoClustering) {
  auto one = make_toy(fedham_options("fedham", 1, {{"cluster", "kmeans"}}, {{"k", 1}}));
  auto none = make_toy(fedham_options("fedham", 1, {{"cluster", "none"}}));
  auto near = make_toy(fedham_options("fedham", 1, {{"cluster", "knn"}}, {{"k", 1}}));
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
      auto toy = make_toy(fedham_options("fedham", 1, {{"cluster", kind}}, numbers), 12, 1);
      toy.play(1, 2);
      for (ClientId id = 0; id < 12; ++id) {
        const auto together = static_cast<int64_t>(down_of(toy, id, 3).others.size()) + 1;
        EXPECT_GE(together, least) << kind;
        if (kind == std::string("knn")) {
          EXPECT_EQ(together, 4);  // 12 / 3, enough for both
        }
      }
      const auto guest = toy.learn(toy.server(), std::nullopt,
                                   pack(FedHam::Up{{toy.model->init(3), 1.0}, 0.5}), 3);
      const auto down = unpack<FedHam::Down>(toy.download_guest(toy.server(), guest, 12, {}, 3));
      EXPECT_GE(static_cast<int64_t>(down.others.size()), least) << kind;
    }
}

// Models 0–2 and 3–5 are two heaps; whoever is near one gets that one.
struct TwoHeaps {
  Toy toy;
  FedHam method;
  FedHam::Server server;

  explicit TwoHeaps(const std::string& cluster) : toy(make_toy(fedham_options("fedham", 1), 7, 1)) {
    method.cluster = cluster;
    method.k = cluster == "meanshift" ? 0 : 2;
    method.p = 1;
    server = method.init_server(toy.setup(1));
    std::vector<Received<FedHam::Up>> uploads;
    for (ClientId id = 0; id < 6; ++id) uploads.push_back({id, {{near(id / 3, id), 1.0}, 0.5}});
    server = method.aggregate(server, uploads, toy.setup(1));
  }
  /// In round 2, the first after the warm-up.
  FedHam::Down down(const Ask<FedHam::Guest>& ask) const {
    return down_of(method, server, ask, toy.setup(2));
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
    EXPECT_EQ(scene.sent(scene.down({1, Why::kTrain})), (std::set<ClientId>{0, 2})) << kind;
    EXPECT_EQ(scene.sent(scene.down({3, Why::kTrain})), (std::set<ClientId>{4, 5})) << kind;
    const auto guest = method.learn(server, nullptr, {{scene.near(1, 50), 1.0}, 0.5}, toy.setup(2));
    EXPECT_EQ(scene.sent(scene.down({7, Why::kJoin, &guest})), (std::set<ClientId>{3, 4, 5}))
        << kind;
    EXPECT_FALSE(scene.down({7, Why::kJoin}).mixes);
    // Client 6 never took part: it counts as holding the global model.
    const auto stranger = scene.down({6, Why::kTrain});
    EXPECT_EQ(scene.sent(stranger).size(), 3U) << kind;
    EXPECT_TRUE(stranger.g.has_value());
  }
}

// Attention before anything is learned is plain similarity of sketches whose key follows from the
// run's (docs/formats.md): another seed, another basis.
TEST(FedHam, SketchesAreKeyedByTheRun) {
  const TwoHeaps scene("none");
  auto method = scene.method;
  method.theta_lr = 1e-30;
  const auto local = scene.toy.local(1, 2);
  const auto down = scene.down({1, Why::kTrain});
  FedHam::Client me = method.init_client(local);
  me.own = scene.near(0, 1), me.trained = true;
  const auto told = method.local_update(me, down, local).notes.at("a");
  const auto attention = [&](uint64_t basis) {
    const HamShape shape{.width = 64, .basis = basis};
    return HamMixer(local.model, shape, me.own, down.others, down.g).scores(me.theta).a;
  };
  EXPECT_TRUE(at::allclose(told, attention(derive(local.setup.key, 0x736b65746368)), 0, 1e-12));
  EXPECT_FALSE(at::allclose(told, attention(0), 0, 1e-6));
}

TEST(FedHam, ABandwidthIsForMeanShift) {
  TwoHeaps scene("meanshift");
  scene.method.bandwidth = 1e6;
  EXPECT_EQ(scene.sent(scene.down({1, Why::kTrain})), (std::set<ClientId>{0, 2, 3, 4, 5}));
  scene.method.cluster = "kmeans";
  EXPECT_EQ(message(scene.method.check(scene.toy.setup())),
            "fedham: bandwidth = 1000000 has no meaning with cluster = \"kmeans\"; use "
            "\"meanshift\"");
}

TEST(FedHam, ServerKeepsHandlesNotCopies) {
  const TwoHeaps scene("none");
  std::vector<Received<FedHam::Up>> uploads{{2, {{scene.near(1, 9), 1.0}, 0.5}}};
  const auto next = scene.method.aggregate(scene.server, uploads, scene.toy.setup(2));
  ASSERT_EQ(next.models.size(), 6);
  EXPECT_TRUE(next.models.find(2)->w.is_same(uploads[0].body.model.value->w));
  for (const ClientId id : {0, 1, 3, 4, 5})
    EXPECT_TRUE(next.models.find(id)->w.is_same(scene.server.models.find(id)->w));
}

TEST(FedHam, NewcomerMixesAfterOneExchange) {
  const TwoHeaps scene("kmeans");
  const auto& [toy, method, server] = scene;
  auto mine = method;
  mine.train = TrainOptions{.epochs = 3, .batch = 8, .lr = 0.1};
  const auto local = toy.local(7, 2, 77, Why::kJoin);
  const auto step = mine.local_update(mine.init_client(local), scene.down({7, Why::kJoin}), local);
  // One epoch from g, whatever train.epochs says, without the held-out rows.
  const auto [base, held] = held_out(local.data, 0.15);
  const Site here{*toy.model, base, 2, 77};
  const auto once = local_sgd(server.g, here, mine.train, {.epochs = 1});
  EXPECT_TRUE(step.upload.model.value->w.equal(once.weights.w));
  const auto guest = mine.learn(server, nullptr, step.upload, toy.setup(2));
  const auto down = scene.down({7, Why::kJoin, &guest});
  const auto evaluated = mine.local_update(step.next, down, toy.local(7, 2, 77, Why::kEvaluate));
  EXPECT_EQ(evaluated.notes.at("a").size(1), static_cast<int64_t>(down.others.size()));
  EXPECT_TRUE(evaluated.before->w.equal(once.weights.w));
  EXPECT_EQ(held.train_size(), 5);
  // Still in the warm-up, it is evaluated after all of its epochs.
  const auto warm =
      mine.local_update(step.next, {false, {}, server.g}, toy.local(7, 2, 77, Why::kEvaluate));
  EXPECT_TRUE(warm.after->w.equal(local_sgd(server.g, here, mine.train).weights.w));
}

TEST(FedHam, WarmUpEndsWhenTheLossStandsStill) {
  const auto first_mixing = [](const std::string& when, double lr) {
    auto opts = fedham_options("fedham", 9, {{"switch", when}});
    opts.train.lr = lr;
    auto toy = make_toy(opts);
    for (int64_t round = 1; round <= 10; ++round) {
      if (down_of(toy, 0, round).mixes) return round;
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

// By the round that is played, however many before it failed.
TEST(FedHam, WarmUpIsCountedInRoundsNotInUploads) {
  const auto toy = make_toy(fedham_options("fedham", 3), 4, 1);
  for (int64_t round = 1; round <= 6; ++round) EXPECT_EQ(down_of(toy, 0, round).mixes, round > 3);
  const auto at_once = make_toy(fedham_options("fedham", 0), 4, 1);
  EXPECT_TRUE(down_of(at_once, 0, 1).mixes);
}

TEST(FedHam, ClientsLeaveTheWarmUpOneByOne) {
  auto toy = make_toy(fedham_options("fedham", 100), 4, 0);
  FedHam method;
  method.p = 100, method.when = "per_client_loss";
  auto server = method.init_server(toy.setup(1));
  for (int64_t round = 1; round <= 6; ++round) {
    std::vector<Received<FedHam::Up>> uploads;
    for (ClientId id = 0; id < 4; ++id)
      uploads.push_back({id, {{server.g, 1.0}, id == 2 ? 0.5 : 1.0 / static_cast<double>(round)}});
    // A newcomer mixes as soon as anybody does.
    const Ask<FedHam::Guest> guest{4, Why::kJoin, &server.g};
    EXPECT_FALSE(down_of(method, server, guest, toy.setup(round)).mixes);
    server = method.aggregate(server, uploads, toy.setup(round));
    EXPECT_EQ(down_of(method, server, guest, toy.setup(round + 1)).mixes, round == 6);
  }
  for (ClientId id = 0; id < 4; ++id)
    EXPECT_EQ(down_of(method, server, {id, Why::kTrain}, toy.setup(7)).mixes, id == 2);
}

// The best of the last five must beat the best of all before them by a hundredth; once it does
// not, the client mixes for good. Rounds without it do not count.
TEST(FedHam, ALossThatFellAgainDoesNotBringTheWarmUpBack) {
  auto toy = make_toy(fedham_options("fedham", 100), 4, 0);
  FedHam method;
  method.p = 100, method.when = "per_client_loss";
  auto server = method.init_server(toy.setup(1));
  const std::vector<double> losses{0.9, 1.0, 0.98, 0.97, 0.96, 0.95, 0.895, 0.1};
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto round = static_cast<int64_t>(2 * i + 1);
    server = method.aggregate(server,
                              std::vector<Received<FedHam::Up>>{{1, {{server.g, 1.0}, losses[i]}}},
                              toy.setup(round));
    // Six losses: the least of 1.0 … 0.95 against 0.9.
    EXPECT_EQ(down_of(method, server, {1, Why::kTrain}, toy.setup(round + 1)).mixes, i >= 5) << i;
    EXPECT_FALSE(down_of(method, server, {0, Why::kTrain}, toy.setup(round + 1)).mixes);
  }
}

TEST(FedHam, ExhibitsNameWhoWasMixed) {
  for (const auto* grain : {"model", "block"}) {
    auto toy = make_toy(
        fedham_options("fedham", 1, {{"cluster", "knn"}, {"grain", grain}}, {{"k", 2}}), 6, 1);
    toy.play(1, 2);
    EXPECT_EQ(down_of(toy, 0, 3).others.size(), 2U);
    Notes notes;
    const auto server = server_of(toy);
    std::map<ClientId, std::vector<ClientId>> from;
    for (ClientId id = 0; id < 6; ++id) {
      if (id == 4) continue;  // tells nothing
      const auto down = toy.download(toy.server(), id, Why::kEvaluate, {}, 3);
      notes[id] = toy.personal(toy.state(id), down, toy.local(id, 3, 5), View::kPost).notes;
      from[id] = senders(server, unpack<FedHam::Down>(down));
    }
    // Whatever a client tells, the others are shown.
    auto forged = notes;
    forged[4] = {{"a", at::ones({1, 9})}, {"b", at::ones({1})}};
    const auto shown = toy.exhibits(toy.server(), {{0, 1, 2, 3, 4, 5}, forged}, 3);
    ASSERT_EQ(shown.size(), 4U);
    EXPECT_EQ(shown[0].name, "attention");
    EXPECT_EQ(shown[1].name, "mixture");
    EXPECT_EQ(shown[1].columns, (std::vector<std::string>{"own", "attention", "global"}));
    EXPECT_EQ(shown[2].name, "clusters");
    std::set<std::string> groups;  // which clients are in it, as 0 and 1
    for (const auto& [id, others] : from) {
      std::string members(6, '0');
      members[static_cast<size_t>(id)] = '1';
      for (const ClientId other : others) members[static_cast<size_t>(other)] = '1';
      groups.insert(members);
    }
    EXPECT_EQ(shown[3].rows, (std::vector<std::string>{"number of groups"}));
    EXPECT_EQ(shown[3].value.item<double>(), static_cast<double>(groups.size()));
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
    auto toy = make_toy(fedham_options(method, 1));
    toy.play(1, 2);
    const auto down = toy.download(toy.server(), 0, Why::kEvaluate, {}, 3);
    const Notes notes{{0, toy.personal(toy.state(0), down, toy.local(0, 3, 5), View::kPost).notes}};
    const auto shown = toy.exhibits(toy.server(), {{0, 1, 2, 3}, notes}, 3);
    ASSERT_EQ(shown.size(), 1U);
    EXPECT_EQ(shown[0].name, method == std::string("aml1") ? "attention" : "mixture");
    EXPECT_EQ(server_of(toy).models.size(), method == std::string("aml1") ? 4 : 0);
  }
}

TEST(FedHam, ViewsAreTheHeldModelAndTheNextUpload) {
  for (const auto* method : {"fedham", "aml1", "aml2"}) {
    auto toy = make_toy(fedham_options(method, 1));
    toy.play(1, 2);
    const auto local = toy.local(1, 3, 5);
    const auto state = toy.state(1);
    const auto down = toy.download(toy.server(), 1, Why::kTrain, {}, 3);
    const auto pre = toy.personal(state, down, local, View::kPre);
    EXPECT_TRUE(pre.weights->w.equal(state.at("own.w")));
    const auto post = toy.personal(state, down, local, View::kPost);
    const auto next = toy.method->local_update(state, down, local);
    EXPECT_TRUE(post.weights->w.equal(next.upload.at("model.value.w")));
  }
}

TEST(FedHam, ForgedStatesAreRefused) {
  const auto toy = make_toy(fedham_options("fedham", 1, {{"switch", "per_client_loss"}}));
  auto server = toy.server();
  const auto refused = [&](const char* name, Tensor value) {
    auto forged = server;
    forged[name] = std::move(value);
    EXPECT_THROW(toy.typed(forged), std::invalid_argument) << name;
  };
  refused("mean.recent", at::zeros({5}, at::kDouble));
  refused("mean.recent", at::zeros({6}));
  server["losses@1.flat"] = at::scalar_tensor(0, at::kLong);
  server["losses@1.recent"] = at::zeros({6}, at::kDouble);
  EXPECT_NO_THROW(toy.typed(server));
  refused("losses@1.recent", at::zeros({0}, at::kDouble));
  server["models@1.b"] = at::empty({0});
  refused("models@1.w", at::zeros({7}));
}

TEST(FedHam, ChecksSayWhatToChange) {
  auto toy = make_toy(fedham_options("fedham", 1), 8, 0);
  FedHam method;
  method.k = 9;
  EXPECT_EQ(message(method.check(toy.setup())),
            "fedham: k = 9 is more than the 8 clients; lower k");
  method.k = 3;
  EXPECT_EQ(message(method.check(toy.setup())),
            "fedham: k = 3 clusters of at least min_cluster = 3 need 9 clients and there are 8; "
            "lower k or min_cluster");
  method.min_cluster = 2;
  EXPECT_TRUE(method.check(toy.setup()).ok());
  method.cluster = "none";
  EXPECT_EQ(message(method.check(toy.setup())),
            "fedham: k = 3 has no meaning with cluster = \"none\"; remove one");
  Aml1 first;
  first.cluster = "meanshift", first.min_cluster = 9;
  EXPECT_EQ(message(first.check(toy.setup())),
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
