// FedACS (Chen, Li, Shen, "Personalized Federated Learning with Attention-based Client Selection",
// ICASSP 2024, Algorithm 1, eqs. 4 and 5): before each round the server mixes, for every
// participant, its model with those of the others that are similar enough, u_i = Σ s_ij w_j / Σ
// s_ij; the client trains on from there. `alpha` < 1 goes only so far towards it (Theorem 2.1).
//
// Cosines are only among the participants of the round that begins, each by its latest upload,
// however old. An evaluation is a round of those who are evaluated.
// Deviations (docs/methods.md §5.2): ">=" with a tolerance instead of ">", i is always in J_i,
// cosines that are not positive never collaborate, and the threshold is a quantile over pairs i < j
// (`quantile = all`: over the whole matrix, as printed). Who never uploaded is mixed with nobody
// and starts from the mean of all models: w_0 in round 1. A newcomer starts there too, trains one
// epoch, uploads, and gets its mixture of all models by the threshold of those who are evaluated
// with it.

#include <algorithm>
#include <cmath>

#include "method/any_method.hpp"
#include "method/similarity/collaborate.hpp"
#include "method/similarity/latest.hpp"
#include "tensor/gram.hpp"

namespace tessera {
namespace {

struct FedAcs {
  struct Server {
    PerClient<Weights> latest;
    static void fields(auto& m, auto&& f) { f("latest", m.latest); }
  };
  using Client = Nothing;
  using Guest = GuestModel;
  using Down = Weights;
  using Up = Trained<Weights>;
  /// Who is served together.
  struct Circle {
    std::vector<ClientId> ids;  // ascending: those with an upload
    Tensor similarity;          // float64 [m, m]
    double threshold = 0;
  };

  TrainOptions train;
  double p = 0.5, alpha = 1;
  std::string quantile = "offdiag", space = "weights";
  int64_t min_group = 3;
  bool dynamic = false;
  static void options(auto& m, auto&& f) {
    f(between("p", 0, 1, "share of the pairs of clients that are too different to work together"),
      m.p);
    f(between("alpha", 0, 1,
              "step from a client's own model to the mixture; 1: the mixture replaces it"),
      m.alpha);
    f(one_of("quantile", {"offdiag", "all"}, "what p counts: pairs, or all entries of the matrix"),
      m.quantile);
    f(one_of("space", {"weights", "delta0", "centred"},
             "cosines of the models, of their change since the start, or from their mean"),
      m.space);
    f(between("min_group", 1, 1e6,
              "models in a mixture of several at least, filled up by similarity"),
      m.min_group);
    f(any("dynamic", "p goes from 0.99 to its value in the first tenth of the rounds"), m.dynamic);
    f(between("steps", 0, 1e6, "gradient steps of a client per round; 0: train.epochs"),
      m.train.steps);
  }

  Status check(const Setup& setup) const {
    // Similarities and shares while an evaluation asks everybody, and both as exhibits.
    TESSERA_RETURN_IF_ERROR(check_pairs("fedacs", setup, 4));
    const auto most = static_cast<int64_t>(
        std::ceil(setup.participation * static_cast<double>(setup.clients) - 1e-9));
    if (most <= 1 || min_group <= most) return ok();  // one alone has nobody to mix with
    return fail(Error::kInvalid,
                "fedacs: method.min_group is {}, but only {} of {} clients take part in a round; "
                "lower it (below 3 a client can compute another's model) or raise "
                "federation.participation",
                min_group, most, setup.clients);
  }

  Server init_server(const Setup& setup) const { return {PerClient<Weights>(blank(setup.model))}; }
  Client init_client(const Local&) const { return {}; }

  Circle circle_of(const Server& server, std::span<const ClientId> clients,
                   const Setup& setup) const {
    Circle out{known(server.latest, clients)};
    const auto rows = vectors(server.latest, out.ids);
    out.similarity = cosines(gram(rows, origin(rows, setup)));
    out.threshold = similarity_threshold(out.similarity, p_at(setup), quantile == "all");
    return out;
  }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    const auto circle = circle_of(server, members(asks), setup);
    const auto least = least_buffers(setup.model);
    std::optional<Weights> common;  // made for the first who needs it
    for (const auto& ask : asks) {
      if (ask.guest) {
        send(ask, guest_mixture(server, *ask.guest, circle.threshold, setup));
      } else if (const auto place = place_of(circle.ids, ask.client)) {
        send(ask, mixture(server.latest, circle.ids, weights(circle, *place), nullptr, least));
      } else {
        if (!common) common = common_start(server.latest, setup);
        send(ask, *common);
      }
    }
  }
  Down guest_mixture(const Server& server, const Guest& own, double threshold,
                     const Setup& setup) const {
    const auto ids = server.latest.ids();
    const auto rows = vectors(server.latest, ids);
    if (ids.empty()) return own;
    auto row = numbers<double>(cosines(own.w, rows, origin(rows, setup)));
    row.push_back(1);
    const size_t self = row.size() - 1;
    const auto shares = towards(collaborators(row, self, threshold, min_group), self, alpha);
    return mixture(server.latest, ids, shares, &own, least_buffers(setup.model));
  }
  Step<Client, Up> local_update(const Client& me, const Down& u, const Local& local) const {
    // A newcomer introduces itself after one epoch.
    const auto job = local.why == Why::kJoin ? Job{.epochs = 1} : Job{};
    const auto trained = local_sgd(u, local, train, job);
    return {me, trained.weights, trained.loss, u, trained.weights};
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
    const auto circle = circle_of(server, evaluated.clients, setup);
    if (circle.ids.empty()) return {};
    auto shares = at::zeros_like(circle.similarity);
    for (size_t i = 0; i < circle.ids.size(); ++i)
      shares[static_cast<int64_t>(i)].copy_(at::tensor(weights(circle, i), at::kDouble));
    const double size = (shares > 0).sum().item<double>() / static_cast<double>(circle.ids.size());
    const double threshold = std::isfinite(circle.threshold) ? circle.threshold : std::nan("");
    return {{"similarity", "Cosine similarity of the clients' models", Exhibit::Kind::kMatrix,
             among_all(circle.similarity, circle.ids, setup.clients)},
            {"collaboration", "Share of each model in a client's mixture", Exhibit::Kind::kGraph,
             among_all(shares / shares.sum(1, true), circle.ids, setup.clients)},
            {"threshold",
             "Who works together",
             Exhibit::Kind::kMatrix,
             at::tensor({threshold, size, p_at(setup)}, at::kDouble).view({3, 1}),
             {"threshold on the similarity", "mean size of a group", "p"},
             {"value"}}};
  }

  /// What the vectors are compared from; none is 0.
  std::optional<Tensor> origin(std::span<const Tensor> rows, const Setup& setup) const {
    if (space == "weights" || rows.empty()) return std::nullopt;
    if (space == "delta0") return setup.model.init(setup.key).w;
    return mean(rows, std::vector<double>(rows.size(), 1));
  }
  double p_at(const Setup& setup) const {
    constexpr double kFirst = 0.99;
    const double done =
        static_cast<double>(setup.round - 1) / (0.1 * static_cast<double>(setup.rounds));
    return dynamic ? std::lerp(kFirst, p, std::clamp(done, 0.0, 1.0)) : p;
  }
  std::vector<double> weights(const Circle& circle, size_t self) const {
    const auto row = numbers<double>(circle.similarity[static_cast<int64_t>(self)]);
    return towards(collaborators(row, self, circle.threshold, min_group), self, alpha);
  }
};

}  // namespace

MethodInfo fedacs() {
  return describe<FedAcs>({.name = "fedacs",
                           .line = "each client starts from a mixture of similar models",
                           .paper = "Chen, Li and Shen, ICASSP 2024",
                           .equation = "Algorithm 1, eqs. 4 and 5",
                           .section = "5.2",
                           .down = "d",
                           .up = "d",
                           .exposure = {.server = {{.tensor = "w", .words = "its latest model"}},
                                        .peers = Shown::kMixed,
                                        .sent = "mixtures of at least min_group models",
                                        .kept = true},
                           .headline = View::kPost,
                           .beyond_sgd = ""});
}

}  // namespace tessera
