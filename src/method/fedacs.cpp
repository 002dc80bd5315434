// FedACS (Chen, Li, Shen, "Personalized Federated Learning with Attention-based Client Selection",
// ICASSP 2024, Algorithm 1, eqs. 4 and 5): before each round the server mixes, for every
// participant, its model with those of the others that are similar enough, u_i = Σ s_ij w_j / Σ
// s_ij; the client trains on from there.
//
// The server step needs the participants of the round that begins, hence convene(): cosines only
// among them, each by its latest upload, however old. An evaluation is a round of everybody.
// Deviations (methods.md §5.2): ">=" with a tolerance instead of ">", i is always in J_i, cosines
// that are not positive never collaborate, and the threshold is a quantile over pairs i < j
// (`quantile = all`: over the whole matrix, as printed). Who never uploaded is mixed with nobody
// and starts from the mean of all models: w_0 in round 1. A newcomer starts there too, trains one
// epoch, uploads, and gets its mixture of all models by the threshold of everybody.

#include <algorithm>
#include <cmath>
#include <limits>

#include "method/any_method.hpp"
#include "tensor/collaborate.hpp"
#include "tensor/gram.hpp"
#include "tensor/latest.hpp"

namespace tessera {
namespace {

struct FedAcs {
  /// Who is served together; only between convene() and the downloads.
  struct Circle {
    Tensor ids;         // int64 [m], ascending: those with an upload
    Tensor similarity;  // float64 [m, m]
    double threshold = 0, p = 0;
    static void fields(auto& m, auto&& f) {
      f("ids", m.ids), f("similarity", m.similarity), f("threshold", m.threshold), f("p", m.p);
    }
  };
  struct Server : LatestModels {
    Tensor first;  // w_0 [d] with space = delta0, else [0]
    int64_t round = 0, rounds = 1;
    std::optional<Circle> circle;
    static void fields(auto& m, auto&& f) {
      LatestModels::fields(m, f);
      f("first", m.first), f("round", m.round), f("rounds", m.rounds), f("circle", m.circle);
    }
  };
  struct Client {
    Weights w;  // its own model, to use between rounds
    static void fields(auto& m, auto&& f) { f("w", m.w); }
  };
  struct Guest {
    std::optional<Weights> own;
    static void fields(auto& m, auto&& f) { f("own", m.own); }
  };
  using Down = Weights;
  using Up = Weights;

  TrainOptions train;
  double p = 0.5;
  std::string quantile = "offdiag", space = "weights";
  int64_t min_group = 1, steps = 0;
  bool dynamic = false;
  static void options(auto& m, auto&& f) {
    f(between("p", 0, 1, "share of the pairs of clients that are too different to work together"),
      m.p);
    f(one_of("quantile", {"offdiag", "all"}, "what p counts: pairs, or all entries of the matrix"),
      m.quantile);
    f(one_of("space", {"weights", "delta0", "centred"},
             "cosines of the models, of their change since the start, or from their mean"),
      m.space);
    f(between("min_group", 1, 1e6, "models in a mixture at least, filled up by similarity"),
      m.min_group);
    f(any("dynamic", "p goes from 0.99 to its value in the first tenth of the rounds"), m.dynamic);
    f(between("steps", 0, 1e6, "gradient steps of a client per round; 0: train.epochs"), m.steps);
  }

  Status check(const Setup& setup) const {
    const auto most = static_cast<int64_t>(
        std::ceil(setup.participation * static_cast<double>(setup.clients) - 1e-9));
    if (min_group <= std::max<int64_t>(most, 1)) return ok();
    return fail(Error::kInvalid,
                "fedacs: method.min_group is {}, but only {} of {} clients take part in a round; "
                "lower it or raise federation.participation",
                min_group, most, setup.clients);
  }

  Server init_server(const Setup& setup) const {
    const auto w0 = setup.model.init(setup.key);
    Server out;
    out.begin(setup.clients, w0, least_buffers(setup.model));
    out.first = space == "delta0" ? w0.w : at::empty({0}, w0.w.options());
    out.rounds = setup.rounds;
    return out;
  }
  Client init_client(const Setup& setup, ClientId) const { return {setup.model.init(setup.key)}; }

  Server convene(const Server& server, std::span<const ClientId> clients) const {
    const auto ids = server.known(clients);
    const auto rows = server.vectors(ids);
    Circle circle;
    circle.ids = at::tensor(ids, at::kLong);
    circle.similarity = cosines(gram(rows, origin(server, rows)));
    circle.p = p_at(server);
    circle.threshold = similarity_threshold(circle.similarity, circle.p, quantile == "all");
    Server out = server;
    out.circle = std::move(circle);
    return out;
  }
  Down broadcast(const Server& server, ClientId id) const {
    if (!server.circle) return server.common;
    const auto ids = numbers<ClientId>(server.circle->ids);
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at == ids.end()) return server.common;
    return server.mixture(ids, weights(*server.circle, static_cast<size_t>(at - ids.begin())));
  }
  Step<Client, Up> local_update(const Client&, const Down& u, const Local& local) const {
    const auto job = local.newcomer ? Job{.epochs = 1} : work(local);
    const auto trained = local_sgd(u, local, train, job);
    return {{trained.weights}, trained.weights, trained.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    for (const auto& upload : uploads)
      server.latest.at(static_cast<size_t>(upload.client)) = upload.body;
    server.refresh_common();
    ++server.round;
    return server;
  }
  Personal personalize(const Client&, const Down& u, const Local& local, View view) const {
    return plain(local.model,
                 view == View::kPre ? u : local_sgd(u, local, train, work(local)).weights);
  }

  int64_t exchanges() const { return 1; }
  Guest greet(const Server&) const { return {}; }
  Guest learn(const Server&, Guest, const Up& up) const { return {up}; }
  Down broadcast(const Server& server, const Guest& guest) const {
    const auto ids = server.known();
    if (!guest.own || ids.empty()) return guest.own ? *guest.own : server.common;
    const auto rows = server.vectors(ids);
    auto row = numbers<double>(cosines(guest.own->w, rows, origin(server, rows)));
    row.push_back(1);
    const double threshold =
        server.circle ? server.circle->threshold : -std::numeric_limits<double>::infinity();
    return server.mixture(ids, collaborators(row, row.size() - 1, threshold, min_group), guest.own);
  }

  std::vector<Exhibit> exhibits(const Server& server, const Notes&) const {
    if (!server.circle || server.circle->ids.numel() == 0) return {};
    const auto& circle = *server.circle;
    const auto& ids = circle.ids;
    const auto n = static_cast<int64_t>(server.latest.size());
    auto shares = at::zeros_like(circle.similarity);
    for (int64_t i = 0; i < ids.numel(); ++i)
      shares[i].copy_(at::tensor(weights(circle, static_cast<size_t>(i)), at::kDouble));
    const double size = (shares > 0).sum().item<double>() / static_cast<double>(ids.numel());
    const double threshold = std::isfinite(circle.threshold) ? circle.threshold : std::nan("");
    return {{"similarity", "Cosine similarity of the clients' models", Exhibit::Kind::kMatrix,
             among_all(circle.similarity, ids, n)},
            {"collaboration", "Share of each model in a client's mixture", Exhibit::Kind::kGraph,
             among_all(shares / shares.sum(1, true), ids, n)},
            {"threshold",
             "Who works together",
             Exhibit::Kind::kMatrix,
             at::tensor({threshold, size, circle.p}, at::kDouble).view({3, 1}),
             {"threshold on the similarity", "mean size of a group", "p"},
             {"value"}}};
  }

  /// What the vectors are compared from; none is 0.
  std::optional<Tensor> origin(const Server& server, std::span<const Tensor> rows) const {
    if (space == "weights" || rows.empty()) return std::nullopt;
    if (space == "delta0") return server.first;
    return mean(rows, std::vector<double>(rows.size(), 1));
  }
  double p_at(const Server& server) const {
    constexpr double kFirst = 0.99;
    const double done =
        static_cast<double>(server.round) / (0.1 * static_cast<double>(server.rounds));
    return dynamic ? std::lerp(kFirst, p, std::min(done, 1.0)) : p;
  }
  std::vector<double> weights(const Circle& circle, size_t self) const {
    return collaborators(numbers<double>(circle.similarity[static_cast<int64_t>(self)]), self,
                         circle.threshold, min_group);
  }
  Job work(const Local& local) const {
    if (steps == 0) return {};
    const int64_t batches = (local.data.train_size() + train.batch - 1) / train.batch;
    return {.epochs = (steps + batches - 1) / std::max<int64_t>(batches, 1), .max_steps = steps};
  }
};

}  // namespace

MethodInfo fedacs() {
  return describe<FedAcs>(
      {.name = "fedacs",
       .line = "each client starts from a mixture of sufficiently similar models",
       .paper = "Chen, Li and Shen, ICASSP 2024",
       .headline = View::kPost});
}

}  // namespace tessera
