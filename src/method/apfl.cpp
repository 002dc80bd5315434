// APFL (Deng, Kamani, Mahdavi, "Adaptive Personalized Federated Learning", 2020, Algorithm 1):
// FedAvg, and a client's model is the mixture a v + (1 − a) w of a model v of its own and its copy
// w of the global one, with a learned share a. As in the paper v is stepped by the gradient at the
// mixture and stays a model of its own. Deviations (docs/methods.md §4.4): w is stepped first, and
// a once a round, after its first batch. Running statistics kept with v are those of the mixture.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/epochs.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

struct Apfl : FedAvg {
  struct Client {
    Weights v;
    double a = 0;
    static void fields(auto& m, auto&& f) { f("v", m.v), f("alpha", m.a); }
  };
  double alpha0 = 0.5, eta_a = 0, reg = 0;
  static void options(auto& m, auto&& f) {
    f(between("alpha0", 0, 1, "share of a client's own model in its mixture at first"), m.alpha0);
    f(at_least("eta_a", 0, "rate at which the share is learned; 0: train.lr"), m.eta_a);
    f(at_least("reg", 0, "pull of the share to 0; public code has 0.02"), m.reg);
  }

  Client init_client(const Local& local) const {
    return {local.model.init(local.setup.key), alpha0};
  }

  static Weights mixture(const Client& me, const Weights& w, const Model& model) {
    // lerp is exact at both ends: a = 0 is w and a = 1 is v bit for bit.
    Weights out{at::lerp(w.w, me.v.w, me.a), at::lerp(w.b, me.v.b, me.a)};
    if (out.b.numel() > 0) out.b = at::maximum(out.b, least_buffers(model));
    return out;
  }

  struct Round {
    Client me;
    Weights w;
    double loss = 0;  // mean of the mixture's before each step
  };
  Round trained(const Client& me, const Weights& g, const Site& site) const {
    Round out{{me.v.clone(), me.a}, g.clone()};
    EpochStream stream(site, Part::kTrain, train.batch);
    const int64_t steps = train.epochs * stream.per_epoch();
    Optimizer shared(train, train.lr_at(site.round)), own(train, train.lr_at(site.round));
    const auto loss = train.loss_on(site.data);
    auto slope = at::empty_like(g.w);
    for (int64_t step = 0; step < steps; ++step) {
      const auto [batch, key] = stream.next();
      batch_gradient(site.model, out.w, batch, loss, key, slope);
      shared.step(out.w.w, slope);
      auto mixed = mixture(out.me, out.w, site.model);
      out.loss += batch_gradient(site.model, mixed, batch, loss, key, slope);
      // Both by the slope at the mixture of the old v and a.
      const double share = step == 0 ? next_share(out, slope, site.round) : out.me.a;
      auto part = slope.mul(out.me.a);
      own.step(out.me.v.w, part);
      out.me = {{out.me.v.w, mixed.b}, share};
    }
    out.loss /= static_cast<double>(std::max<int64_t>(1, steps));
    return out;
  }
  /// One step down d L(a v + (1 − a) w) / da = <v − w, slope at the mixture>.
  double next_share(const Round& at, const Tensor& slope, int64_t round) const {
    const double rate = (eta_a > 0 ? eta_a : train.lr) * train.decay_at(round);
    const double down = dot64(at.me.v.w - at.w.w, slope) + reg * at.me.a;
    return std::clamp(at.me.a - rate * down, 0.0, 1.0);
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const Client start = local.newcomer ? Client{g, alpha0} : me;
    const auto done = trained(start, g, local);
    return {done.me,
            {done.w, samples_of(local)},
            done.loss,
            mixture(start, g, local.model),
            mixture(done.me, done.w, local.model),
            {{"alpha", at::scalar_tensor(done.me.a, at::kDouble)}}};
  }
  std::vector<Exhibit> exhibits(const Server&, const Evaluated& evaluated,
                                const Setup& setup) const {
    auto shares = at::full({setup.clients, 1}, NAN, at::kDouble);
    for (const auto& [id, notes] : evaluated.notes) {
      const auto share = notes.find("alpha");
      // A client may tell anything.
      if (id < setup.clients && share != notes.end() && share->second.numel() == 1)
        shares[id].copy_(share->second.view({1}));
    }
    return {{"alpha",
             "Share of a client's own model in its mixture",
             Exhibit::Kind::kMatrix,
             shares,
             {},
             {"share"}}};
  }
};

}  // namespace

MethodInfo apfl() {
  return describe<Apfl>(
      {.name = "apfl",
       .line = "a learned mixture of an own model and the global one",
       .paper = "Deng, Kamani and Mahdavi, 2020",
       .equation = "Algorithm 1",
       .section = "4.4",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w",
                                .words = "a copy of the global model that it trained"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its own model"},
       .headline = View::kPost,
       .beyond_sgd = "takes two gradients of each batch, and one more for its mixture"});
}

}  // namespace tessera
