// Meta-learning: adapt a copy of the model on a client's support set, judge it on the query set and
// move the start so that the adapted model gets better (docs/methods.md §6).
//
// A learner is what the outer step trains: the parameters w [d], or with learned rates (Meta-SGD)
// the parameters and behind them a rate for each, [2d]. Splitting, averaging and stepping then
// treat both alike.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

/// What guards inside local training are told of (MethodInfo::beyond_sgd).
inline constexpr const char* kMetaBeyond =
    "takes its gradient after steps of its own on other samples";

/// Of [train] these methods use epochs (passes over the support set), batch, lr_decay (on beta),
/// loss and class_weights.
struct MetaOptions {
  double alpha = 0.001, beta = 0.001;
  std::string inner = "per_batch", outer = "adam", order = "second";
  double support = 0.2;
  int64_t max_inner_batches = 32;

  /// Without `order`, which first-order methods fix.
  static void common_options(auto& o, auto&& f) {
    f(above("alpha", 0, "rate of the inner steps (initial rate where rates are learned)"), o.alpha);
    f(above("beta", 0, "rate of the outer step"), o.beta);
    f(one_of("inner", {"per_batch", "one_step"},
             "an inner step per support batch, or one on the whole support set"),
      o.inner);
    f(one_of("outer", {"adam", "sgd"}, "outer optimiser, a single step with a fresh state"),
      o.outer);
    f(between("support", 0.01, 0.99, "share of the training data that is adapted on"), o.support);
    f(between("max_inner_batches", 1, 1e6, "support batches used at most"), o.max_inner_batches);
  }
  static void options(auto& o, auto&& f) {
    common_options(o, f);
    f(one_of("order", {"second", "first"},
             "derivatives through the inner steps, or as if they were constant"),
      o.order);
  }
};

/// Samples of a client in batches of a fixed order, gathered when asked for. Borrows the data.
class Batches {
 public:
  /// Batches of `batch` of these positions of a part; the last may be smaller.
  Batches(const ClientData& data, Part part, std::vector<int64_t> positions, int64_t batch);

  int64_t samples() const { return static_cast<int64_t>(positions_.size()); }
  int64_t count() const { return (samples() + batch_ - 1) / batch_; }
  Examples at(int64_t index) const;

 private:
  const ClientData& data_;
  Part part_;
  std::vector<int64_t> positions_;
  int64_t batch_;
};

/// What an outer step works with: the training part cut in two (ClientData::cut). Its first rows
/// are the support set, a random subset or the oldest ones; their batches are drawn anew every
/// round.
struct MetaTask {
  Batches support, query;
};
MetaTask training_task(const Site& site, const TrainOptions& train, const MetaOptions& options);
/// What is adapted on at evaluation: the support part, or where there is none the training part.
Batches evaluation_support(const Site& site, const TrainOptions& train, const MetaOptions& options);

/// What is differentiated. `step` numbers the looks at the data: one step is always the same
/// function, whatever is random in it.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Loss and gradient [d] of a batch at `at`, whose running statistics follow.
  virtual double gradient(Weights& at, const Examples& batch, int64_t step, Tensor& grad) const = 0;
  /// Hessian of a batch at `at`, times v [d].
  virtual Tensor hessian_times(const Weights& at, const Examples& batch, int64_t step,
                               const Tensor& v) const = 0;
};

/// The mean loss of a model over a batch in training mode, dropout drawn from `key`. Borrows.
class ModelObjective final : public Objective {
 public:
  ModelObjective(const Model& model, Loss loss, uint64_t key)
      : model_(model), loss_(std::move(loss)), key_(key) {}
  /// As a client's key in a round gives it.
  ModelObjective(const Site& site, const TrainOptions& train);
  double gradient(Weights& at, const Examples& batch, int64_t step, Tensor& grad) const override;
  Tensor hessian_times(const Weights& at, const Examples& batch, int64_t step,
                       const Tensor& v) const override;

 private:
  const Model& model_;
  Loss loss_;
  uint64_t key_;
};

/// The inner learner's way: w_{k+1} = w_k − alpha ∘ g_k.
struct Adapted {
  Weights weights;                     // where it ends
  double loss = 0;                     // mean of the batch losses before each step, last pass
  std::vector<Tensor> points, slopes;  // w_k and g_k of every step, if asked for
};
/// `alpha` is one number [] or one per coordinate [d]. `start` is left as it is.
Adapted adapt(const Objective& objective, const Weights& start, const Tensor& alpha,
              const Batches& support, int64_t passes, bool keep_way = false);

/// Mean loss of the query batches (each counts the same) and its gradient at `at`, whose running
/// statistics follow.
double query_gradient(const Objective& objective, Weights& at, const Batches& query, Tensor& grad);

/// Derivatives of the query loss after adaptation.
struct MetaGradient {
  Tensor w;      // [d]: by the start
  Tensor alpha;  // [d]: by each coordinate's rate
  Tensor buffers;
  double loss = 0;  // of the adapted model on the query set
};
/// Swept backwards over the inner steps, one exact Hessian-vector product each (second order) or
/// none (first): memory does not grow with the activations of all steps.
MetaGradient meta_gradient(const Objective& objective, const Weights& start, const Tensor& alpha,
                           const MetaTask& task, int64_t passes, bool second_order);

/// A single outer step from w: sgd, or the first step of a fresh Adam, which moves every coordinate
/// by rate · sign(gradient).
Tensor outer_step(const Tensor& w, const Tensor& gradient, double rate, const std::string& outer);

/// One outer step of a learner [d] or [2d] on the client's training task.
struct MetaStep {
  Weights learner;
  double weight = 0;  // |query|: what it counts for in the mean
  double loss = 0;    // on the query set after adaptation
};
MetaStep meta_step(const Weights& learner, const Site& site, const TrainOptions& train,
                   const MetaOptions& options);

/// The learner before the first round, with constant rates if they are learned.
Weights first_learner(const Weights& w, bool learned_rates, double alpha);
/// The model [d] that a learner starts from.
Weights start_of(const Weights& learner, const Model& model);
/// Its model after adaptation for an evaluation.
Adapted adapted(const Weights& learner, const Site& site, const TrainOptions& train,
                const MetaOptions& options);

}  // namespace tessera
