#include "engine/local/local_engine.hpp"

#include <ATen/ATen.h>

#include <mutex>

#include "base/key.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

// Predicts class 0 with probability by its only weight; never trained.
class Fixed final : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t) const override { return {at::zeros({1}), at::empty({0})}; }
  Output forward(const Weights& at, const Tensor& x, const Pass&) const override {
    return {at::cat({x * at.w, -x * at.w}, 1), x, at.b};
  }

 private:
  Layout layout_{{{"w", {1}}}}, buffers_;
};

// Counts its updates in the client's state and says everything it was told.
struct Counting {
  struct Server {
    Weights g;
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  struct Client {
    int64_t updates = 0;
    static void fields(auto& m, auto&& f) { f("updates", m.updates); }
  };
  struct Up {
    Tensor seen;  // the download, plus the number of updates before
    int64_t samples = 0, round = 0;
    Tensor random;
    static void fields(auto& m, auto&& f) {
      f("seen", m.seen), f("samples", m.samples), f("round", m.round), f("random", m.random);
    }
  };
  using Down = Weights;

  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Client init_client(const Setup&, ClientId id) const { return {100 * id}; }
  Down broadcast(const Server& server, ClientId) const { return server.g; }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    if (local.data.name == "bad" && local.round == 2) throw std::runtime_error("it broke");
    const auto draw = static_cast<int64_t>(Rng(local.key).bits() >> 2);
    return {{me.updates + 1},
            {down.w + static_cast<double>(me.updates), local.data.train_size(), local.round,
             at::scalar_tensor(draw, at::kLong)},
            0.5};
  }
  Server aggregate(Server server, std::span<const Received<Up>>) const { return server; }
  Personal personalize(const Client&, const Down& down, const Local& local, View view) const {
    if (local.data.name == "bad" && local.round == 3) throw std::runtime_error("no model");
    return plain(local.model, view == View::kPre ? down : Weights{-down.w, down.b});
  }
};

class Engines : public ::testing::Test {
 protected:
  Engines() {
    auto pool = std::make_shared<Pool>();
    pool->x = at::ones({8, 1});
    pool->y = at::tensor({0, 0, 0, 1, 0, 0, 0, 0}, at::kLong);
    pool->classes = 2;
    data_ = {{"a", pool, {0}, {1}, {0, 1, 2, 3}, {}},
             {"bad", pool, {0, 1}, {}, {4}, {}},
             {"c", pool, {0, 1, 2}, {}, {3}, {}}};
  }
  LocalEngine engine(LocalEngineOptions options = {}) {
    std::vector<ClientRuntime> clients;
    for (const auto& one : data_)
      clients.emplace_back(context_, static_cast<ClientId>(clients.size()), one,
                           clients.empty() ? data_[2] : one, false);
    return {std::move(clients), std::move(options)};
  }
  std::vector<Outgoing> messages(int64_t round, std::vector<ClientId> ids = {0, 1, 2}) {
    std::vector<Outgoing> out;
    for (const ClientId id : ids) out.push_back({id, round, down_});
    return out;
  }
  std::vector<EvalRequest> requests(int64_t round) {
    std::vector<EvalRequest> out;
    for (auto& message : messages(round)) out.push_back({std::move(message), std::nullopt});
    return out;
  }
  static int64_t updates(const LocalEngine& engine, ClientId id) {
    for (const auto& [client, state] : engine.states())
      if (client == id) return state.at("updates").item<int64_t>();
    return -1;
  }

  Fixed model_;
  std::unique_ptr<AnyMethod> method_ = erase(Counting{});
  ClientContext context_{*method_, "counting", {model_, 3, 5, 1.0, 1}, 9, Loss::kCrossEntropy};
  std::vector<ClientData> data_;
  TensorDict down_ = pack(Weights{at::tensor({2.0F}), at::empty({0})});
};

TEST_F(Engines, EachClientWorksOnItsOwnMessageStateAndData) {
  for (const int threads : {1, 3}) {
    auto local = engine({.threads = threads});
    auto out = messages(1, {2, 0});
    out[0].down["w"] = at::tensor({5.0F});
    const auto replies = local.exchange(std::move(out));
    ASSERT_EQ(replies.size(), 2U);
    EXPECT_EQ(replies[0].client, 2);
    EXPECT_EQ(replies[1].client, 0);
    EXPECT_EQ(replies[0].up.at("seen").item<float>(), 205);
    EXPECT_EQ(replies[1].up.at("seen").item<float>(), 2);
    // Client 0 trains on what it was given to train on, which need not be its own.
    EXPECT_EQ(replies[1].up.at("samples").item<int64_t>(), 3);
    EXPECT_EQ(replies[0].base_round, 1);
    EXPECT_EQ(replies[0].loss, 0.5);
    EXPECT_GE(replies[0].cpu_seconds, 0);
    const auto expected = Rng(derive(9, Purpose::kLocal, 1, 2)).bits() >> 2;
    EXPECT_EQ(replies[0].up.at("random").item<int64_t>(), static_cast<int64_t>(expected));
  }
}

TEST_F(Engines, OnlyAcknowledgedClientsKeepTheirNewState) {
  auto local = engine();
  EXPECT_TRUE(local.states().empty()) << "states are made when first needed";
  local.exchange(messages(1));
  EXPECT_EQ(updates(local, 0), 0) << "not yet acknowledged";
  const std::vector<ClientId> accepted{0, 2};
  local.acknowledge(accepted);
  EXPECT_EQ(updates(local, 0), 1);
  EXPECT_EQ(updates(local, 1), 100);
  EXPECT_EQ(updates(local, 2), 201);
  local.exchange(messages(3, {0}));
  local.acknowledge({});
  local.acknowledge(accepted);  // nothing waits any more
  EXPECT_EQ(updates(local, 0), 1);
  EXPECT_EQ(updates(local, 2), 201);
}

TEST_F(Engines, AFailedUpdateLeavesNoOlderOneBehind) {
  auto local = engine();
  local.exchange(messages(1, {1}));
  EXPECT_FALSE(local.exchange(messages(2, {1}))[0].status.ok());
  const std::vector<ClientId> accepted{1};
  local.acknowledge(accepted);
  EXPECT_EQ(updates(local, 1), 100);
}

TEST_F(Engines, RestoredStatesAreUsed) {
  auto local = engine();
  local.restore(1, pack(Counting::Client{41}));
  EXPECT_EQ(local.states().size(), 1U);
  EXPECT_EQ(local.exchange(messages(1, {1}))[0].up.at("seen").item<float>(), 43);
}

TEST_F(Engines, AnExceptionOfAMethodIsOneBadReply) {
  auto local = engine({.threads = 2});
  const auto replies = local.exchange(messages(2));
  EXPECT_THAT(replies[0].status, Succeeds());
  EXPECT_THAT(replies[1].status,
              FailsWith(Error::kInternal, "method counting, round 2, client 1: it broke"));
  EXPECT_EQ(replies[1].client, 1);
  EXPECT_TRUE(replies[1].up.empty());
  EXPECT_EQ(replies[1].wire_up, 0);
  EXPECT_THAT(replies[2].status, Succeeds());
  const auto seen = local.evaluate(requests(3), nullptr);
  EXPECT_THAT(seen[0].status, Succeeds());
  EXPECT_THAT(seen[1].status,
              FailsWith(Error::kInternal, "evaluation after round 2, client 1: no model"));
}

TEST_F(Engines, AStateThatDoesNotFitTheMethodIsABadReply) {
  auto local = engine();
  local.restore(2, {{"other", at::zeros({1})}});
  EXPECT_THAT(local.exchange(messages(1, {2}))[0].status,
              FailsWith(Error::kInternal, "client 2: "));
}

TEST_F(Engines, AStopSkipsClientsThatHaveNotBegun) {
  std::atomic<bool> stop{false};
  int calls = 0;
  auto local = engine({.stop = &stop, .on_client = [&] { stop = ++calls == 2; }});
  const auto replies = local.exchange(messages(1));
  EXPECT_THAT(replies[0].status, Succeeds());
  EXPECT_THAT(replies[1].status, Succeeds());
  EXPECT_THAT(replies[2].status, FailsWith(Error::kInterrupted, "stopped"));
  EXPECT_EQ(replies[2].client, 2);
  EXPECT_EQ(calls, 2);
  const auto seen = local.evaluate(requests(1), nullptr);
  for (ClientId id = 0; id < 3; ++id) {
    EXPECT_THAT(seen[static_cast<size_t>(id)].status, FailsWith(Error::kInterrupted, "stopped"));
    EXPECT_EQ(seen[static_cast<size_t>(id)].client, id);
  }
}

TEST_F(Engines, OnClientIsCalledOncePerClient) {
  std::atomic<int> calls{0};
  auto local = engine({.threads = 3, .on_client = [&] { ++calls; }});
  local.exchange(messages(1));
  EXPECT_EQ(calls, 3);
  local.evaluate(requests(1), nullptr);
  EXPECT_EQ(calls, 6);
}

TEST_F(Engines, TheWireChangesNoBitAndIsCountedEitherWay) {
  auto plain_engine = engine(), wired = engine({.through_wire = true});
  const auto a = plain_engine.exchange(messages(1)), b = wired.exchange(messages(1));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(encode(a[i].up), encode(b[i].up));
    EXPECT_EQ(a[i].wire_up, static_cast<int64_t>(encode(a[i].up).size()));
    EXPECT_EQ(a[i].wire_down, static_cast<int64_t>(encode(down_).size()));
    EXPECT_EQ(a[i].wire_up, b[i].wire_up);
    EXPECT_EQ(a[i].wire_down, b[i].wire_down);
  }
}

TEST_F(Engines, EvaluationMeasuresBothViewsOnOwnDataAndChangesNoState) {
  auto local = engine({.threads = 2});
  std::mutex mutex;
  std::vector<std::pair<ClientId, View>> seen;
  auto asked = requests(1);
  asked[1].global = Weights{at::tensor({-1.0F}), at::empty({0})};
  asked[2].global = Weights{asked[2].message.down.at("w"), at::empty({0})};
  const auto out = local.evaluate(std::move(asked), [&](ClientId id, View view, const Personal&) {
    const std::scoped_lock guard(mutex);
    seen.emplace_back(id, view);
    return id == 2 ? fail(Error::kIo, "disk full") : ok();
  });
  // A weight of 2 predicts class 0; three of the four samples of client 0 are of it.
  EXPECT_EQ(out[0].pre_test.n, 4);
  EXPECT_EQ(out[0].pre_test.correct, 3);
  EXPECT_EQ(out[0].post_test.correct, 1);
  EXPECT_EQ(out[0].pre_val.n, 1);
  EXPECT_EQ(out[1].pre_val.n, 0);
  const double right = std::log1p(std::exp(-4.0)), wrong = right + 4;
  EXPECT_NEAR(out[0].pre_test.loss, (3 * right + wrong) / 4, 1e-6);
  EXPECT_FALSE(out[0].global_test.has_value());
  EXPECT_EQ(out[1].global_test->correct, 0);
  EXPECT_EQ(out[1].pre_test.correct, 1);
  EXPECT_EQ(out[2].global_test->correct, out[2].pre_test.correct);
  EXPECT_THAT(out[2].status, FailsWith(Error::kIo, "disk full"));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), 6U);
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(updates(local, 2), 200);
}

}  // namespace
}  // namespace tessera
