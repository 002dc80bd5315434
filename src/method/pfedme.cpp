// pFedMe (Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS
// 2020, Algorithm 1): a client's own model solves theta(w) = argmin L(theta) + lambda/2 |theta −
// w|² and its copy w of the global model follows theta. Deviation: K gradient steps for the inner
// problem instead of a given accuracy, from where the last batch left theta. Of [train] it uses
// batch, lr_decay (on eta and eta_p), loss and, with R = 0, epochs.

#include <cmath>
#include <stdexcept>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/epochs.hpp"
#include "train/pull.hpp"

namespace tessera {
namespace {

struct PFedMe : FedAvg {
  struct Client {
    Weights theta;
    static void fields(auto& m, auto&& f) { f("theta", m.theta); }
  };
  double lambda = 15, eta = 0.005, eta_p = 0.03, beta = 1;
  int64_t inner = 5, batches = 20;
  static void options(auto& m, auto&& f) {
    f(above("lambda", 0, "pull of a client's own model to its copy of the global one"), m.lambda);
    f(between("K", 1, 1e6, "steps of the own model on a batch"), m.inner);
    f(between("R", 0, 1e6, "batches per round; 0: those of train.epochs"), m.batches);
    f(above("eta", 0, "rate at which the copy of the global model follows the own one"), m.eta);
    f(above("eta_p", 0, "learning rate of the own model"), m.eta_p);
    f(above("beta", 0, "part of the way to the clients' mean that the server goes; 1: all"),
      m.beta);
  }

  Status check(const Setup&) const {
    TESSERA_RETURN_IF_ERROR(
        check_pull({"pfedme", "method.eta_p", "method.lambda", eta_p, lambda, 2}));
    return check_pull({"pfedme", "method.eta", "method.lambda", eta, lambda, 1});
  }

  Client init_client(const Local& local) const { return {local.model.init(local.setup.key)}; }

  struct Solved {
    Weights theta, w;
    double loss = 0;  // mean of theta's before each step
  };
  /// From theta = w = g. With rate 0 for w this is the inner problem at g alone.
  Solved solve(const Weights& g, const Site& site, double rate) const {
    EpochStream stream(site, Part::kTrain, train.batch);
    Solved out{g.clone(), g.clone()};
    if (stream.per_epoch() == 0) return out;
    const double decay = train.decay_at(site.round);
    const auto pull = pull_to(out.w.w, lambda);  // moves with w, which is stepped in place
    const auto loss = train.loss_on(site.data);
    auto grad = at::empty_like(g.w);
    const int64_t count = batches > 0 ? batches : train.steps_on(site.data.train_size());
    for (int64_t r = 0; r < count; ++r) {
      const auto [batch, key] = stream.next();
      for (int64_t k = 0; k < inner; ++k) {
        out.loss += batch_gradient(site.model, out.theta, batch, loss, derive(key, k), grad);
        pull(out.theta.w, grad);
        out.theta.w.sub_(grad, decay * eta_p);
      }
      out.w.w.sub_(out.w.w.sub(out.theta.w), decay * rate * lambda);
    }
    out.w.b = out.theta.b;
    out.loss /= static_cast<double>(count * inner);
    // Stable on the pull alone is not stable on a steep loss; train.lr is not to blame here.
    if (!std::isfinite(out.loss))
      throw std::runtime_error("the own model diverged; lower method.eta_p");
    return out;
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto solved = solve(g, local, local.newcomer ? 0 : eta);
    return {{solved.theta},
            {solved.w, samples_of(local)},
            solved.loss,
            local.newcomer ? g : me.theta,
            solved.theta};
  }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup&) const {
    const Weights& target = sum->value;
    // Written so that a full step lands exactly on the mean.
    return {{beta == 1 ? target.w : at::lerp(server.g.w, target.w, beta), target.b}};
  }
};

}  // namespace

MethodInfo pfedme() {
  return describe<PFedMe>(
      {.name = "pfedme",
       .line = "own models by Moreau envelopes; the global one follows",
       .paper = "Dinh, Tran and Nguyen, NeurIPS 2020",
       .equation = "Algorithm 1",
       .section = "4.3",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w",
                                .words = "the model that its own one is pulled to"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its own model"},
       .headline = View::kPost,
       .beyond_sgd = "solves for a personal model with several gradients of each batch"});
}

}  // namespace tessera
