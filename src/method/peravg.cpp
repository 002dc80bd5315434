// Per-FedAvg (Fallah, Mokhtari, Ozdaglar, "Personalized Federated Learning with Theoretical
// Guarantees: A Model-Agnostic Meta-Learning Approach", NeurIPS 2020, Algorithm 1):
// find a g that is good after one gradient step, min Σ q_i L_i(g − alpha ∇L_i(g)). Mode fo drops
// the second derivative, hf takes its product with a vector from two gradients. Deviations
// (docs/methods.md §4.2): batches without replacement where a client has enough samples for one
// step, whole steps only; the outer step is one of [train]'s optimiser.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/epochs.hpp"
#include "train/hvp.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

struct PerFedAvg : FedAvg {
  std::string mode = "fo";
  double alpha = 0.01, beta = 0;
  int64_t adapt_batches = 1, ft_steps = 1;
  static void options(auto& m, auto&& f) {
    f(one_of("mode", {"fo", "hf"}, "first order, or second order from differences of gradients"),
      m.mode);
    f(above("alpha", 0, "rate of the step that adapts the model to a client"), m.alpha);
    f(at_least("beta", 0, "rate of the step that trains the model; 0: train.lr"), m.beta);
    f(between("adapt_batches", 0, 1e6, "batches the adapting step sees at evaluation; 0: all"),
      m.adapt_batches);
    f(between("ft_steps", 1, 1e6, "such steps of a newcomer"), m.ft_steps);
  }

  int64_t batches() const { return mode == "hf" ? 3 : 2; }  // of a step
  bool enough(int64_t samples) const { return samples >= batches() * train.batch; }
  int64_t steps(int64_t samples) const {
    return std::max<int64_t>(1, samples / (batches() * train.batch));
  }
  /// Positions for all steps of a pass, one batch after the other.
  std::vector<int64_t> draw(int64_t samples, uint64_t key) const {
    Rng rng(key);
    if (enough(samples)) return rng.permutation(samples);
    std::vector<int64_t> out(static_cast<size_t>(batches() * train.batch));
    for (auto& position : out)
      position = static_cast<int64_t>(rng.below(static_cast<uint64_t>(samples)));
    return out;
  }

  /// Gradient of L(w − alpha ∇L(w)) into `grad`; w's running statistics follow the adapted model.
  double meta_gradient(Weights& w, std::span<const Examples> batch, const Model& model,
                       const Loss& loss, uint64_t key, Tensor& grad) const {
    Weights adapted = w;
    batch_gradient(model, adapted, batch[0], loss, derive(key, 0), grad);
    adapted.w = w.w.sub(grad, alpha);
    const double value = batch_gradient(model, adapted, batch[1], loss, derive(key, 1), grad);
    if (mode == "hf")
      grad.sub_(hvp_by_difference(model, w, batch[2], loss, derive(key, 2), grad), alpha);
    w.b = adapted.b;
    return value;
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const int64_t n = local.data.train_size(), passes = n > 0 ? train.epochs : 0;
    SgdResult out{g.clone()};
    Optimizer optimizer(train, (beta > 0 ? beta : train.lr) * train.decay_at(local.round));
    const auto loss = train.loss_on(local.data);
    auto grad = at::empty_like(g.w);
    for (int64_t pass = 0; pass < passes; ++pass) {
      const auto order = draw(n, derive(local.key, pass));
      auto next = order.begin();
      for (int64_t step = 0; step < steps(n); ++step, ++out.steps) {
        std::vector<Examples> batch;
        for (int64_t k = 0; k < batches(); ++k, next += train.batch)
          batch.push_back(local.data.take(Part::kTrain, std::span(next, next + train.batch)));
        out.loss += meta_gradient(out.weights, batch, local.model, loss,
                                  derive(local.key, pass, step), grad);
        optimizer.step(out.weights.w, grad);
      }
    }
    out.loss /= static_cast<double>(std::max<int64_t>(1, out.steps));
    return {me, {out.weights, samples_of(local)}, out.loss};
  }

  /// Steps of rate alpha from g, each on the mean gradient of `adapt_batches` batches.
  Weights adapted(const Weights& g, const Local& local) const {
    EpochStream stream(local, local.data.adaptation(), train.batch);
    const int64_t all = stream.per_epoch(), taken = adapt_batches > 0 ? adapt_batches : all;
    Weights out = g.clone();
    const auto loss = train.loss_on(local.data);
    auto grad = at::empty_like(g.w);
    for (int64_t step = 0; all > 0 && step < (local.newcomer ? ft_steps : 1); ++step) {
      auto sum = at::zeros_like(g.w);
      double samples = 0;
      for (int64_t k = 0; k < std::min(taken, all); ++k) {
        const auto [batch, key] = stream.next();
        batch_gradient(local.model, out, batch, loss, key, grad);
        sum.add_(grad, static_cast<double>(batch.size()));
        samples += static_cast<double>(batch.size());
      }
      out.w.sub_(sum, alpha / samples);
    }
    return out;
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    auto out = plain(local.model, view == View::kPre ? g : adapted(g, local));
    const int64_t n = local.data.train_size();
    out.notes = {{"steps", at::scalar_tensor(static_cast<double>(steps(n)))},
                 {"replacement", at::scalar_tensor(enough(n) ? 0.0 : 1.0)}};
    return out;
  }
  std::vector<Exhibit> exhibits(const Server&, const Evaluated& evaluated,
                                const Setup& setup) const {
    auto rows = at::full({setup.clients, 2}, NAN);
    for (const auto& [id, notes] : evaluated.notes) {
      const auto steps = notes.find("steps"), replacement = notes.find("replacement");
      // A client may tell anything.
      if (id >= setup.clients || steps == notes.end() || replacement == notes.end() ||
          steps->second.numel() != 1 || replacement->second.numel() != 1)
        continue;
      rows[id][0] = steps->second.item<double>(), rows[id][1] = replacement->second.item<double>();
    }
    return {{"batches",
             "Steps of a local pass, and whether its batches are drawn with replacement",
             Exhibit::Kind::kMatrix,
             rows,
             {},
             {"steps", "with replacement"}}};
  }
};

}  // namespace

MethodInfo peravg() {
  return describe<PerFedAvg>(
      {.name = "peravg",
       .line = "a global model that is good after one gradient step",
       .paper = "Fallah, Mokhtari and Ozdaglar, NeurIPS 2020",
       .equation = "Algorithm 1",
       .section = "4.2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPost,
       .beyond_sgd = "takes its gradient after steps of its own on other samples"});
}

}  // namespace tessera
