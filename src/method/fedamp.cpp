// FedAMP and HeurFedAMP (Huang et al., "Personalized Cross-Silo Federated Learning on Non-IID
// Data", AAAI 2021, Algorithm 1): the server makes every client a model of its own, u_i = Σ_j xi_ij
// w_j, of which similar models get more, and the client trains on L(w) + pull/2 |w − u_i|².
//
// As in FedACS the server step needs the participants of the round that begins, hence convene().
// Deviations (methods.md §5.1): sigma follows the models (a fixed one makes all xi underflow:
// local training); alpha is such that xi_ii >= 0.1; cosines are of centred models. Who never
// uploaded is mixed with nobody and starts from the mean of all models, as a newcomer does. With an
// automatic alpha the pull lambda/alpha is `prox` at most: alpha shrinks with the distances of the
// models, so that near models would be pulled together the harder until nobody learns any more.

#include <algorithm>

#include "method/any_method.hpp"
#include "optim/pull.hpp"
#include "tensor/attention.hpp"
#include "tensor/latest.hpp"

namespace tessera {
namespace {

struct FedAmp {
  /// Who is served together; only between convene() and the downloads.
  struct Circle {
    Tensor ids;           // int64 [m], ascending: those with an upload
    Attention attention;  // xi
    static void fields(auto& m, auto&& f) { f("ids", m.ids), f("attention", m.attention); }
  };
  struct Server : LatestModels {
    std::optional<Circle> circle;
    static void fields(auto& m, auto&& f) { LatestModels::fields(m, f), f("circle", m.circle); }
  };
  struct Client {
    std::optional<Weights> w;  // its own model, once it has trained one
    static void fields(auto& m, auto&& f) { f("w", m.w); }
  };
  struct Guest {
    std::optional<Weights> own;
    static void fields(auto& m, auto&& f) { f("own", m.own); }
  };
  struct Down {
    Weights u;
    double pull = 0;  // lambda/alpha, or prox
    static void fields(auto& m, auto&& f) { f("u", m.u), f("pull", m.pull); }
  };
  using Up = Weights;

  TrainOptions train;
  std::string mode = "auto", start = "u";
  double sigma = 0, alpha = 0, lambda = 1, x0 = 0, s = 10, prox = 0.1;
  static void options(auto& m, auto&& f) {
    f(one_of("mode", {"auto", "exact", "heur"},
             "shares by distance, or by cosine; auto: by cosine above 1e5 parameters"),
      m.mode);
    f(at_least("sigma", 0, "exact: squared distance of similar models; 0: their median"), m.sigma);
    f(at_least("alpha", 0, "exact: step of the server; 0: others' shares sum to 0.9 at most"),
      m.alpha);
    f(at_least("lambda", 0, "exact: weight of the pull to the mixture, over alpha"), m.lambda);
    f(between("x0", 0, 1, "heur: share of the own model; 0: 1 / models in the mixture"), m.x0);
    f(at_least("s", 0, "heur: sharpness of the shares; 0: all equal"), m.s);
    f(at_least("prox", 0,
               "weight of the pull to the mixture; exact: its greatest, unless alpha is given"),
      m.prox);
    f(one_of("start", {"u", "w"}, "clients train from their mixture, or from their own model"),
      m.start);
  }

  bool exact(int64_t d) const { return mode == "exact" || (mode == "auto" && d <= 100'000); }
  Status check(const Setup& setup) const {
    if (train.optimizer != "sgd") return ok();
    const bool given = exact(setup.model.layout().numel()) && alpha > 0;
    return check_pull({.method = "fedamp",
                       .rate_key = "train.lr",
                       .pull_key = given ? "method.lambda / method.alpha" : "method.prox",
                       .rate = train.lr,
                       .strength = given ? lambda / alpha : prox});
  }

  Server init_server(const Setup& setup) const {
    Server out;
    out.begin(setup.clients, setup.model.init(setup.key), least_buffers(setup.model));
    return out;
  }
  Client init_client(const Setup&, ClientId) const { return {}; }

  Server convene(const Server& server, std::span<const ClientId> clients) const {
    const auto ids = server.known(clients);
    Server out = server;
    out.circle = {at::tensor(ids, at::kLong), attention_among(server.vectors(ids), rule(server))};
    return out;
  }
  AttentionRule rule(const Server& server) const {
    return {exact(server.common.w.numel()), sigma, alpha, x0, s};
  }
  static Attraction attraction(const Server& server) {
    return server.circle ? server.circle->attention.attraction : Attraction{};
  }
  double pull(const Server& server) const {
    if (!exact(server.common.w.numel())) return prox;
    if (lambda == 0) return 0;
    return alpha > 0 ? lambda / alpha : std::min(lambda / attraction(server).alpha(), prox);
  }

  Down broadcast(const Server& server, ClientId id) const {
    if (!server.circle) return {server.common, pull(server)};
    const auto ids = numbers<ClientId>(server.circle->ids);
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at == ids.end()) return {server.common, pull(server)};
    const auto shares = numbers<double>(server.circle->attention.shares[at - ids.begin()]);
    return {server.mixture(ids, shares), pull(server)};
  }
  Trained trained(const Client& me, const Down& down, const Local& local) const {
    return local_sgd(start == "w" && me.w ? *me.w : down.u, local, train,
                     {.hook = pull_to(down.u.w, down.pull)});
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto after = trained(me, down, local);
    return {{after.weights}, after.weights, after.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    for (const auto& upload : uploads)
      server.latest.at(static_cast<size_t>(upload.client)) = upload.body;
    server.refresh_common();
    return server;
  }
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, me.w ? *me.w : down.u);
    return plain(local.model, trained(me, down, local).weights);
  }

  int64_t exchanges() const { return 1; }
  Guest greet(const Server&) const { return {}; }
  Guest learn(const Server&, Guest, const Up& up) const { return {up}; }
  Down broadcast(const Server& server, const Guest& guest) const {
    const auto ids = server.known();
    if (!guest.own || ids.empty()) return {guest.own ? *guest.own : server.common, pull(server)};
    const auto shares = attention_of(guest.own->w, server.vectors(ids), server.common.w,
                                     attraction(server), rule(server));
    return {server.mixture(ids, shares, guest.own), pull(server)};
  }

  std::vector<Exhibit> exhibits(const Server& server, const Notes&) const {
    if (!server.circle || server.circle->ids.numel() == 0) return {};
    return {{"collaboration", "Share of each model in a client's mixture", Exhibit::Kind::kMatrix,
             among_all(server.circle->attention.shares, server.circle->ids,
                       static_cast<int64_t>(server.latest.size()))}};
  }
};

}  // namespace

MethodInfo fedamp() {
  return describe<FedAmp>({.name = "fedamp",
                           .line = "own models pulled to a mixture of similar clients' models",
                           .paper = "Huang et al., AAAI 2021",
                           .headline = View::kPost});
}

}  // namespace tessera
