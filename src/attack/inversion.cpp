#include "attack/inversion.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "attack/lbfgs.hpp"
#include "base/key.hpp"
#include "tensor/linear_head.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

constexpr uint64_t kPictures = 0, kLabels = 1;  // streams of a restart

Tensor guessed_loss(const Loss& loss, const Tensor& logits, const Tensor& labels) {
  if (!labels.is_floating_point()) return loss_value(loss, logits, labels);
  if (loss != Loss::kCrossEntropy)
    throw std::invalid_argument("inversion: unknown labels need plain cross-entropy");
  return -(labels * at::log_softmax(logits, 1)).sum(1).mean();
}

/// The flat gradient at w, as a function that can be differentiated once more.
Tensor guessed_gradient(const Observation& seen, Weights& at, const Tensor& inputs,
                        const Tensor& labels) {
  const auto out = seen.model.forward(at, inputs, {.train = true});
  at.b = out.buffers;
  const auto loss = guessed_loss(seen.loss, out.logits, labels);
  return torch::autograd::grad({loss}, {at.w}, {}, true, true)[0];
}

/// What is searched for: pixels, and labels where they are not known.
struct Guess {
  Tensor pixels;  // [m, …]
  Tensor labels;  // int64 [m], or logits [m, classes] that softmax makes shares of
  bool searched() const { return labels.is_floating_point(); }
};

class Inversion {
 public:
  Inversion(const Observation& seen, const Tensor& labels) : seen_(seen), labels_(labels) {
    const auto dtype = seen.at.w.scalar_type();
    target_ = part(seen.seen.detach().to(dtype));
    if (labels_.defined() && labels_.numel() != seen.samples)
      throw std::invalid_argument("inversion: needs a label for every sample");
  }

  Guess first(uint64_t key) const {
    std::vector<int64_t> shape{seen_.samples};
    shape.insert(shape.end(), seen_.sample.begin(), seen_.sample.end());
    const auto dtype = seen_.at.w.scalar_type();
    const auto noise = gaussian_noise(shape, derive(key, kPictures)).to(dtype);
    Guess out{seen_.scale.to_pixels(noise).contiguous(), labels_};
    if (!labels_.defined())
      out.labels = gaussian_noise({seen_.samples, classes()}, derive(key, kLabels)).to(dtype);
    return out;
  }

  Tensor upload(const Guess& guess) const {
    const auto shares = guess.searched() ? at::softmax(guess.labels, 1) : guess.labels;
    return part(simulated_upload(seen_, seen_.scale.to_inputs(guess.pixels), shares));
  }
  const Tensor& target() const { return target_; }
  const std::function<bool()>& stop() const { return seen_.stop; }
  bool stopped() const { return seen_.stop && seen_.stop(); }

  Inverted finished(const Guess& guess, double objective, int64_t steps) const {
    auto labels = guess.searched() ? guess.labels.argmax(1) : guess.labels;
    return {guess.pixels.detach().clamp(0, 1).to(at::kFloat), labels, objective, steps};
  }

 private:
  int64_t classes() const {
    const auto head = linear_head(seen_.model.layout());
    if (!head) throw std::invalid_argument("inversion: unknown labels need a network with a head");
    return head->classes;
  }
  Tensor part(const Tensor& flat) const {
    return seen_.uploaded.defined() ? flat.masked_select(seen_.uploaded) : flat;
  }

  const Observation& seen_;
  Tensor labels_, target_;
};

/// The best of several starts, by the lowest final objective; the first of equals.
Inverted best_restart(int64_t restarts, uint64_t key,
                      const std::function<Inverted(uint64_t key)>& attempt) {
  auto best = attempt(derive(key, 0));
  for (int64_t i = 1; i < restarts; ++i) {
    auto next = attempt(derive(key, i));
    // A start that ended at NaN never wins, nor does it stay.
    if (next.objective < best.objective || std::isnan(best.objective)) best = std::move(next);
  }
  return best;
}

Tensor one_minus_cosine(const Tensor& a, const Tensor& b) {
  return 1 - (a * b).sum() / (a.norm() * b.norm());
}

/// ×0.1 at 3/8, 5/8 and 7/8.
double geiping_rate(const GeipingOptions& options, int64_t step) {
  double out = options.lr;
  for (const int64_t eighths : {3, 5, 7})
    if (8 * step >= eighths * options.iterations) out *= 0.1;
  return out;
}

Inverted descend_angle(const Inversion& problem, const GeipingOptions& options, uint64_t key) {
  TrainOptions adam;
  adam.optimizer = "adam";
  Optimizer pictures(adam, options.lr), shares(adam, options.lr);
  auto guess = problem.first(key);
  double value = 0;
  int64_t step = 0;
  for (;; ++step) {
    Guess here{guess.pixels.detach().requires_grad_(true), guess.labels};
    if (guess.searched()) here.labels = guess.labels.detach().requires_grad_(true);
    const auto objective = one_minus_cosine(problem.upload(here), problem.target()) +
                           options.tv * total_variation(here.pixels);
    value = objective.item<double>();
    // Only the value of where it ended.
    if (step == options.iterations || problem.stopped()) break;
    std::vector<Tensor> along{here.pixels};
    if (guess.searched()) along.push_back(here.labels);
    auto slopes = torch::autograd::grad({objective}, along);
    if (options.sign) slopes[0].sign_();
    pictures.set_lr(geiping_rate(options, step)), shares.set_lr(geiping_rate(options, step));
    pictures.step(guess.pixels, slopes[0]);
    guess.pixels.clamp_(0, 1);
    if (guess.searched()) shares.step(guess.labels, slopes[1]);
  }
  return problem.finished(guess, value, step);
}

Inverted descend_distance(const Inversion& problem, const DlgOptions& options, uint64_t key) {
  const auto start = problem.first(key);
  const int64_t pixels = start.pixels.numel();
  const auto guess_of = [&](const Tensor& flat) {
    Guess out{flat.narrow(0, 0, pixels).view(start.pixels.sizes()), start.labels};
    if (start.searched())
      out.labels = flat.narrow(0, pixels, start.labels.numel()).view(start.labels.sizes());
    return out;
  };
  const Objective objective = [&](const Tensor& x) {
    const auto at = x.detach().requires_grad_(true);
    const auto value = (problem.upload(guess_of(at)) - problem.target()).square().sum();
    return std::pair{value.item<double>(), torch::autograd::grad({value}, {at})[0]};
  };
  auto flat = start.pixels.flatten();
  if (start.searched()) flat = at::cat({flat, start.labels.flatten()});
  const auto end =
      minimize_lbfgs(objective, flat, {.iterations = options.iterations, .stop = problem.stop()});
  return problem.finished(guess_of(end.x), end.value, end.iterations);
}

}  // namespace

Tensor simulated_upload(const Observation& observation, const Tensor& inputs,
                        const Tensor& labels) {
  Weights now{observation.at.w.detach().requires_grad_(true), observation.at.b};
  if (!observation.steps) return guessed_gradient(observation, now, inputs, labels);
  const auto& steps = *observation.steps;
  const auto start = now.w;
  const int64_t m = inputs.size(0);
  for (int64_t epoch = 0; epoch < steps.epochs; ++epoch) {
    for (int64_t begin = 0; begin < m; begin += steps.batch) {
      const int64_t size = std::min(steps.batch, m - begin);
      const auto slope = guessed_gradient(observation, now, inputs.narrow(0, begin, size),
                                          labels.narrow(0, begin, size));
      now.w = now.w - steps.lr * slope;
    }
  }
  return start - now.w;
}

Inverted invert_by_distance(const Observation& observation, const Tensor& labels,
                            const DlgOptions& options, uint64_t key) {
  const Inversion problem(observation, labels);
  return best_restart(options.restarts, key,
                      [&](uint64_t start) { return descend_distance(problem, options, start); });
}

Inverted invert_by_angle(const Observation& observation, const Tensor& labels,
                         const GeipingOptions& options, uint64_t key) {
  const Inversion problem(observation, labels);
  return best_restart(options.restarts, key,
                      [&](uint64_t start) { return descend_angle(problem, options, start); });
}

}  // namespace tessera
