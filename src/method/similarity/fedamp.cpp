// FedAMP and HeurFedAMP (Huang et al., "Personalized Cross-Silo Federated Learning on Non-IID
// Data", AAAI 2021, Algorithm 1): the server makes every client a model of its own, u_i = Σ_j xi_ij
// w_j, of which similar models get more, and the client trains on L(w) + pull/2 |w − u_i|².
//
// As in FedACS only the participants of the round that begins are mixed with each other.
// Deviations (docs/methods.md §5.1): sigma follows the models (a fixed one makes all xi underflow:
// local training); alpha is such that xi_ii >= 0.1; cosines are of centred models. Who never
// uploaded is mixed with nobody and starts from the mean of all models, as a newcomer does. With an
// automatic alpha the pull lambda/alpha is `prox` at most: alpha shrinks with the distances of the
// models, so that near models would be pulled together the harder until nobody learns any more.

#include <algorithm>

#include "method/any_method.hpp"
#include "method/similarity/attention.hpp"
#include "method/similarity/latest.hpp"
#include "train/pull.hpp"

namespace tessera {
namespace {

struct FedAmp {
  struct Server {
    PerClient<Weights> latest;
    static void fields(auto& m, auto&& f) { f("latest", m.latest); }
  };
  struct Client {
    std::optional<Weights> w;  // its own model, once it has trained one
    static void fields(auto& m, auto&& f) { f("w", m.w); }
  };
  using Guest = GuestModel;
  struct Down {
    Weights u;
    double pull = 0;  // lambda/alpha, or prox
    static void fields(auto& m, auto&& f) { f("u", m.u), f("pull", m.pull); }
  };
  using Up = Trained<Weights, &Down::u>;

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
    // Distances and shares while an evaluation asks everybody, and the shares as an exhibit.
    TESSERA_RETURN_IF_ERROR(check_pairs("fedamp", setup, 3));
    if (train.optimizer != "sgd") return ok();
    const bool given = exact(setup.model.layout().numel()) && alpha > 0;
    return check_pull({.method = "fedamp",
                       .rate_key = "train.lr",
                       .pull_key = given ? "method.lambda / method.alpha" : "method.prox",
                       .rate = train.lr,
                       .strength = given ? lambda / alpha : prox});
  }

  /// A fresh state has no model to compare with.
  Status check(const Client& me, const Setup& setup) const {
    if (me.w) require_form(blank(setup.model), *me.w);
    return ok();
  }

  Server init_server(const Setup& setup) const { return {PerClient<Weights>(blank(setup.model))}; }
  Client init_client(const Local&) const { return {}; }

  AttentionRule rule(const Setup& setup) const {
    return {exact(setup.model.layout().numel()), sigma, alpha, x0, s};
  }
  double pull(const Attraction& attraction, const Setup& setup) const {
    if (!exact(setup.model.layout().numel())) return prox;
    if (lambda == 0) return 0;
    return alpha > 0 ? lambda / alpha : std::min(lambda / attraction.alpha(), prox);
  }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    const auto asked = members(asks);
    // Newcomers that are asked alone are attracted and pulled as everybody is.
    const auto ids =
        asked.empty() && rule(setup).exact ? server.latest.ids() : known(server.latest, asked);
    const auto attention = attention_among(vectors(server.latest, ids), rule(setup));
    const auto least = least_buffers(setup.model);
    std::optional<Weights> common;  // made for the first who needs it
    const auto mixture_for = [&](const Ask<Guest>& ask) -> Weights {
      if (ask.why != Why::kJoin)
        if (const auto place = place_of(ids, ask.client))
          return mixture(server.latest, ids,
                         numbers<double>(attention.shares[static_cast<int64_t>(*place)]), nullptr,
                         least);
      if (!common) common = common_start(server.latest, setup);
      if (!ask.guest) return *common;
      const auto all = server.latest.ids();
      if (all.empty()) return *ask.guest;
      const auto shares = attention_of(ask.guest->w, vectors(server.latest, all), common->w,
                                       attention.attraction, rule(setup));
      return mixture(server.latest, all, shares, ask.guest, least);
    };
    const double strength = pull(attention.attraction, setup);
    for (const auto& ask : asks) send(ask, {mixture_for(ask), strength});
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto before = me.w ? *me.w : down.u;
    const auto after = local_sgd(start == "w" ? before : down.u, local, train,
                                 {.hook = pull_to(down.u.w, down.pull)});
    return {{after.weights}, after.weights, after.loss, before, after.weights};
  }
  Up expected(const Server&, Why, const Setup& setup) const { return blank(setup.model); }
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup&) const {
    for (const auto& upload : uploads) server.latest.put(upload.client, upload.body);
    return server;
  }

  int64_t exchanges() const { return 1; }
  Guest learn(const Server&, const Guest*, const Up& up, const Setup&) const { return up; }

  std::vector<Exhibit> exhibits(const Server& server, const Evaluated& evaluated,
                                const Setup& setup) const {
    const auto ids = known(server.latest, evaluated.clients);
    if (ids.empty()) return {};
    const auto shares = attention_among(vectors(server.latest, ids), rule(setup)).shares;
    return {{"collaboration", "Share of each model in a client's mixture", Exhibit::Kind::kMatrix,
             among_all(shares, ids, setup.clients)}};
  }
};

}  // namespace

MethodInfo fedamp() {
  return describe<FedAmp>({.name = "fedamp",
                           .line = "own models pulled to a mixture of similar clients' models",
                           .paper = "Huang et al., AAAI 2021",
                           .equation = "Algorithm 1",
                           .section = "5.1",
                           .down = "d",
                           .up = "d",
                           .exposure = {.server = {{.tensor = "w", .words = "its latest model"}},
                                        .peers = Shown::kMixed,
                                        .sent = "mixtures with it",
                                        .kept = true},
                           .headline = View::kPost,
                           .beyond_sgd = ""});
}

}  // namespace tessera
