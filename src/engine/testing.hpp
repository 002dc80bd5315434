// A federation of three whose every answer can be told in advance, for tests of the engine.
#pragma once

#include <ATen/ATen.h>

#include <stdexcept>

#include "engine/client_host.hpp"
#include "engine/local/local_engine.hpp"

namespace tessera::testing {

/// Predicts class 0 with probability by its only weight; never trained.
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

/// Counts its updates in the client's state and uploads everything it was told.
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
    Trained<Tensor, &Weights::w> seen;  // the download, plus the number of updates before
    Open<int64_t> samples = 0, round = 0;
    Open<Tensor> random;
    static void fields(auto& m, auto&& f) {
      f("seen", m.seen), f("samples", m.samples), f("round", m.round), f("random", m.random);
    }
  };
  using Down = Weights;

  std::atomic<int>* steps = nullptr;  // counts local updates

  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Client init_client(const Local& local) const { return {100 * local.client}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    if (local.data.name == "bad" && local.round == 2) throw std::runtime_error("it broke");
    if (steps) ++*steps;
    const auto draw = static_cast<int64_t>(Rng(local.key).bits() >> 2);
    return {{me.updates + 1},
            {down.w + static_cast<double>(me.updates), local.data.train_size(), local.setup.round,
             at::scalar_tensor(draw, at::kLong)},
            0.5,
            down,
            Weights{-down.w, down.b}};
  }
  Up expected(const Server& server, Why, const Setup&) const {
    return {server.g.w, 0, 0, at::scalar_tensor(0, at::kLong)};
  }
  Server aggregate(Server server, std::span<const Received<Up>>, const Setup&) const {
    return server;
  }
};

/// The same with two exchanges for newcomers, of which the server learns nothing.
struct CountingMeetings : Counting {
  struct Guest {
    static void fields(auto&, auto&&) {}
  };
  int64_t exchanges() const { return 2; }
  Guest learn(const Server&, const Guest*, const Up&, const Setup&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup&,
                 const Send<Down, Guest>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }
};

/// Clients "a", "bad" and "c" with 1, 2 and 3 training samples; seed 9.
struct Trio {
  explicit Trio(Counting counting = {}, int64_t newcomers = 0) {
    auto pool = std::make_shared<Pool>();
    pool->x = at::ones({8, 1});
    pool->y = at::tensor({0, 0, 0, 1, 0, 0, 0, 0}, at::kLong);
    pool->classes = 2;
    data = {{"a", pool, {0}, {1}, {0, 1, 2, 3}, {}},
            {"bad", pool, {0, 1}, {}, {4}, {}},
            {"c", pool, {0, 1, 2}, {}, {3}, {}}};
    session = std::make_unique<Session>(SessionParts{.model = std::make_shared<Fixed>(),
                                                     .method = erase(counting),
                                                     .info = {.name = "counting"},
                                                     .seed = 9,
                                                     .clients = 3 - newcomers,
                                                     .newcomers = newcomers,
                                                     .rounds = 5});
  }
  std::vector<HostedClient> hosted() const {
    return {{0, &data[0], nullptr}, {1, &data[1], nullptr}, {2, &data[2], nullptr}};
  }
  Task train(ClientId id, int64_t round, int64_t attempt = 1) const {
    return {
        .client = id, .kind = TaskKind::kTrain, .round = round, .attempt = attempt, .down = down};
  }
  Task evaluate(ClientId id, int64_t round) const {
    return {.client = id, .kind = TaskKind::kEvaluate, .round = round, .down = down};
  }
  static Task settle(ClientId id, int64_t round, bool accepted, int64_t attempt = 1) {
    return {.client = id,
            .kind = TaskKind::kSettle,
            .round = round,
            .attempt = attempt,
            .accepted = accepted};
  }

  std::vector<ClientData> data;
  std::unique_ptr<Session> session;
  TensorDict down = pack(Weights{at::tensor({2.0F}), at::empty({0})});
};

/// The same; the last of them is a newcomer that introduces itself.
struct TrioWithGuest : Trio {
  TrioWithGuest() : Trio({}, 1) {
    session = std::make_unique<Session>(SessionParts{.model = std::make_shared<Fixed>(),
                                                     .method = erase(CountingMeetings{}),
                                                     .info = {.name = "counting"},
                                                     .seed = 9,
                                                     .clients = 2,
                                                     .newcomers = 1,
                                                     .rounds = 5});
  }
};

/// The number in a state of Counting; −1 without one.
inline int64_t updates(const ClientStore& store, ClientId id) {
  const auto state = store.get(id);
  return state ? state->at("updates").item<int64_t>() : -1;
}

}  // namespace tessera::testing
