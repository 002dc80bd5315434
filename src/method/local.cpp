// Local-Train (docs/methods.md §1.1): every client alone, from the common initial model. The lower
// reference: a federation that does not beat it is not worth its traffic.
// Deviation: early stopping on the validation loss, as the specification asks; then the best
// weights stand.

#include "base/key.hpp"
#include "method/any_method.hpp"

namespace tessera {
namespace {

struct LocalTrain {
  using Server = Nothing;
  using Down = Nothing;
  using Up = Nothing;
  struct Client {
    Weights w, best;
    double best_loss = INFINITY;
    int64_t stale = 0;  // rounds since the validation loss last fell
    static void fields(auto& m, auto&& f) {
      f("w", m.w), f("best", m.best), f("best_loss", m.best_loss), f("stale", m.stale);
    }
  };

  TrainOptions train;
  int64_t patience = 20;
  std::string budget = "participation";
  static void options(auto& m, auto&& f) {
    f(between("patience", 0, 1e6,
              "rounds without a lower validation loss before a client stops; 0: never"),
      m.patience);
    f(one_of("budget", {"participation", "full"},
             "epochs in all: those of a federated client, or rounds x epochs whatever the "
             "participation"),
      m.budget);
  }

  Server init_server(const Setup&) const { return {}; }
  Client init_client(const Local& local) const {
    const auto first = local.model.init(local.setup.key);
    return {first, first};
  }
  void broadcast(const Server&, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, {});
  }
  Up expected(const Server&, Why, const Setup&) const { return {}; }
  Server aggregate(Server server, const Sum<Up>&, const Setup&) const { return server; }

  bool stopped(const Client& me) const { return patience > 0 && me.stale >= patience; }
  /// Of a round in which the client takes part.
  int64_t epochs(const Setup& setup) const {
    const double scale = budget == "full" ? 1 / setup.participation : 1;
    return std::llround(scale * static_cast<double>(train.epochs));
  }
  Step<Client, Up> trained(const Client& me, const Site& site, int64_t epochs) const {
    if (stopped(me)) return {me, {}, me.best_loss};
    const auto after = local_sgd(me.w, site, train, {.epochs = epochs});
    Client next{after.weights, me.best, me.best_loss, me.stale};
    if (patience == 0 || site.data.size(Part::kVal) == 0) {
      next.best = next.w;
      return {next, {}, after.loss};
    }
    const double loss = part_loss(site.model, next.w, site.data, Part::kVal, train.loss_kind());
    if (loss < me.best_loss)
      next.best = next.w, next.best_loss = loss, next.stale = 0;
    else
      ++next.stale;
    return {next, {}, after.loss};
  }
  Step<Client, Up> local_update(const Client& me, const Down&, const Local& local) const {
    return trained(me, local, epochs(local.setup));
  }

  // Nothing is received, so no local pass is due at evaluation: both views are the model held.
  Personal personalize(const Client& me, const Down&, const Local& local, View) const {
    Client now = me;
    // A newcomer trains from scratch for as long as the others have.
    for (int64_t round = 1; local.newcomer && round < local.round; ++round) {
      const Site past{local.model, local.data, round, derive(local.key, round)};
      now = trained(now, past, epochs(local.setup)).next;
    }
    return plain(local.model, stopped(now) ? now.best : now.w);
  }
};

}  // namespace

MethodInfo local() {
  return describe<LocalTrain>(
      {.name = "local",
       .line = "every client alone: the lower reference",
       .paper = "-",
       .section = "1.1",
       .down = "0",
       .up = "0",
       .exposure = {},
       .headline = View::kPost,
       .beyond_sgd = "sends nothing that would have to be hidden",
       .no_vote = "answers with a model that it holds, trained on all of a client's data"});
}

}  // namespace tessera
