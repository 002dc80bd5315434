#include "method/meta/meta.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/key.hpp"
#include "train/hvp.hpp"

namespace tessera {
namespace {

// Streams of a client's key in a round.
enum MetaStream : uint64_t { kSupportOrder = 1, kInnerSteps = 2 };

int64_t support_size(int64_t samples, double share) {
  const auto size = static_cast<int64_t>(std::llround(share * static_cast<double>(samples)));
  return std::clamp<int64_t>(size, 1, std::max<int64_t>(1, samples - 1));
}

// The first n positions of a part in this round's order, as inner steps take them.
Batches inner_batches(const Site& site, Part part, int64_t n, const TrainOptions& train,
                      const MetaOptions& options) {
  auto order = Rng(derive(site.key, kSupportOrder)).permutation(n);
  if (options.inner == "one_step") return {site.data, part, std::move(order), n};
  const int64_t most = options.max_inner_batches * train.batch;
  if (n > most) order.resize(static_cast<size_t>(most));
  return {site.data, part, std::move(order), train.batch};
}

Tensor rates_of(const Weights& learner, const Model& model, double alpha) {
  const int64_t d = model.layout().numel();
  return learner.w.numel() == d ? at::full({}, alpha, learner.w.options())
                                : learner.w.narrow(0, d, d);
}

}  // namespace

Batches::Batches(const ClientData& data, Part part, std::vector<int64_t> positions, int64_t batch)
    : data_(data), part_(part), positions_(std::move(positions)), batch_(batch) {}

Examples Batches::at(int64_t index) const {
  const int64_t begin = index * batch_, size = std::min(batch_, samples() - begin);
  return data_.take(
      part_, std::span(positions_).subspan(static_cast<size_t>(begin), static_cast<size_t>(size)));
}

MetaTask training_task(const Site& site, const TrainOptions& train, const MetaOptions& options) {
  const int64_t n = site.data.train_size();
  const auto cut = site.data.cut(n - support_size(n, options.support));
  std::vector<int64_t> query(static_cast<size_t>(n - cut.late));
  std::iota(query.begin(), query.end(), cut.late);
  return {inner_batches(site, Part::kTrain, cut.early, train, options),
          {site.data, Part::kTrain, std::move(query), train.batch}};
}

Batches evaluation_support(const Site& site, const TrainOptions& train,
                           const MetaOptions& options) {
  const Part part = site.data.adaptation();
  return inner_batches(site, part, site.data.size(part), train, options);
}

ModelObjective::ModelObjective(const Site& site, const TrainOptions& train)
    : ModelObjective(site.model, train.loss_on(site.data), derive(site.key, kInnerSteps)) {}

double ModelObjective::gradient(Weights& at, const Examples& batch, int64_t step,
                                Tensor& grad) const {
  return batch_gradient(model_, at, batch, loss_, derive(key_, step), grad);
}

Tensor ModelObjective::hessian_times(const Weights& at, const Examples& batch, int64_t step,
                                     const Tensor& v) const {
  return hvp(model_, at, batch, loss_, derive(key_, step), v);
}

Adapted adapt(const Objective& objective, const Weights& start, const Tensor& alpha,
              const Batches& support, int64_t passes, bool keep_way) {
  Adapted out{start.clone()};
  auto grad = at::empty_like(start.w);
  for (int64_t step = 0; step < passes * support.count(); ++step) {
    if (step % support.count() == 0) out.loss = 0;
    if (keep_way) out.points.push_back(out.weights.w.clone());
    out.loss += objective.gradient(out.weights, support.at(step % support.count()), step, grad) /
                static_cast<double>(support.count());
    if (keep_way) out.slopes.push_back(grad.clone());
    out.weights.w.addcmul_(alpha, grad, -1);
  }
  return out;
}

double query_gradient(const Objective& objective, Weights& at, const Batches& query, Tensor& grad) {
  grad = at::zeros_like(at.w);
  auto one = at::empty_like(at.w);
  const double share = 1 / static_cast<double>(query.count());
  double loss = 0;
  for (int64_t i = 0; i < query.count(); ++i) {
    // Counted downwards from −1: the inner steps have the other numbers.
    loss += share * objective.gradient(at, query.at(i), -1 - i, one);
    grad.add_(one, share);
  }
  return loss;
}

MetaGradient meta_gradient(const Objective& objective, const Weights& start, const Tensor& alpha,
                           const MetaTask& task, int64_t passes, bool second_order) {
  auto way = adapt(objective, start, alpha, task.support, passes, true);
  MetaGradient out;
  out.loss = query_gradient(objective, way.weights, task.query, out.w);
  out.buffers = way.weights.b;
  out.alpha = at::zeros_like(out.w);
  // out.w holds v_k, the derivative by w_k; it starts at k = K.
  for (auto k = static_cast<int64_t>(way.slopes.size()) - 1; k >= 0; --k) {
    const auto at = static_cast<size_t>(k);
    out.alpha.addcmul_(way.slopes[at], out.w, -1);
    if (!second_order) continue;
    const auto batch = task.support.at(k % task.support.count());
    out.w.sub_(objective.hessian_times({way.points[at], start.b}, batch, k, alpha * out.w));
  }
  return out;
}

Tensor outer_step(const Tensor& w, const Tensor& gradient, double rate, const std::string& outer) {
  constexpr double kEps = 1e-8;  // Adam's
  if (outer == "sgd") return w - rate * gradient;
  // Bias-corrected first moment g, second moment g².
  return w - rate * gradient / (gradient.abs() + kEps);
}

MetaStep meta_step(const Weights& learner, const Site& site, const TrainOptions& train,
                   const MetaOptions& options) {
  const auto task = training_task(site, train, options);
  const bool learned = learner.w.numel() > site.model.layout().numel();
  const auto by = meta_gradient(ModelObjective(site, train), start_of(learner, site.model),
                                rates_of(learner, site.model, options.alpha), task, train.epochs,
                                options.order == "second");
  const auto gradient = learned ? at::cat({by.w, by.alpha}) : by.w;
  const double rate = options.beta * train.decay_at(site.round);
  return {{outer_step(learner.w, gradient, rate, options.outer), by.buffers},
          static_cast<double>(task.query.samples()),
          by.loss};
}

Weights first_learner(const Weights& w, bool learned_rates, double alpha) {
  return learned_rates ? Weights{at::cat({w.w, at::full_like(w.w, alpha)}), w.b} : w;
}

Weights start_of(const Weights& learner, const Model& model) {
  return {learner.w.narrow(0, 0, model.layout().numel()), learner.b};
}

Adapted adapted(const Weights& learner, const Site& site, const TrainOptions& train,
                const MetaOptions& options) {
  return adapt(ModelObjective(site, train), start_of(learner, site.model),
               rates_of(learner, site.model, options.alpha),
               evaluation_support(site, train, options), train.epochs);
}

}  // namespace tessera
