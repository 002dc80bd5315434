// Section [train]: what a client does with its data in one round, for every method.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/options.hpp"
#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// What guard 'dp-sgd' asks of every step (train/sample_privacy.hpp).
struct SamplePrivacy {
  double bound = 1;     // longest gradient of a sample
  double sigma = 1;     // deviation of the noise, in bounds; 0: none, and batches as ever
  bool system = false;  // draws come from the system, not from the site's key
};

struct VirtualTraining;

/// The same for all clients and rounds of a run. A plain value; methods hold a copy in which `loss`
/// is resolved. Ranges are checked when an experiment is loaded, not here.
struct TrainOptions {
  int64_t epochs = 1;
  /// The last one of an epoch may be smaller.
  int64_t batch = 32;
  /// Of round 1; see lr_at() for later ones.
  double lr = 0.01;
  double lr_decay = 1.0;
  /// Its state never outlives a round. Momentum is of sgd only: with adam it must be 0.
  std::string optimizer = "sgd";
  double momentum = 0.0;
  /// Not decoupled: adam scales it like the rest of the gradient.
  double weight_decay = 0.0;
  /// "auto" only before the data are known.
  std::string loss = "auto";
  /// Of training alone: evaluations and validation losses count every sample once.
  std::string class_weights = "none";
  /// No option of [train]: steps of a round instead of `epochs`, where a method counts them; 0: it
  /// does not.
  int64_t steps = 0;
  /// No option of [train]: set for the guard by whoever begins the run.
  std::optional<SamplePrivacy> privacy = std::nullopt;
  /// The same of guard 'transform' (train/virtual_steps.hpp); null: samples as they are.
  std::shared_ptr<const VirtualTraining> transform = nullptr;

  static void options(auto& o, auto&& f) {
    f(between("epochs", 1, 100000, "passes over a client's training data per round"), o.epochs);
    f(between("batch", 1, 1e6, "samples per step"), o.batch);
    f(above("lr", 0, "learning rate of the first round"), o.lr);
    f(between("lr_decay", 1e-6, 1, "factor on the learning rate after each round"), o.lr_decay);
    f(one_of("optimizer", {"sgd", "adam"}, "local optimiser, fresh in every round"), o.optimizer);
    f(between("momentum", 0, 0.9999, "momentum of sgd"), o.momentum);
    f(at_least("weight_decay", 0, "L2 penalty, added to the gradient"), o.weight_decay);
    f(one_of("loss", {"auto", "ce", "multilabel"},
             "cross-entropy, or binary logistic per class; auto: what the dataset asks for"),
      o.loss);
    f(one_of("class_weights", {"none", "balanced"},
             "what a sample counts for in training; balanced: the rarer its class among the "
             "client's training samples, the more"),
      o.class_weights);
  }

  /// Learning rate in round t = 1, 2, …; an evaluation after round t trains with that of t + 1.
  double lr_at(int64_t round) const { return lr * decay_at(round); }
  /// The factor on any learning rate by then; 1 in round 1.
  double decay_at(int64_t round) const {
    return std::pow(lr_decay, static_cast<double>(round - 1));
  }
  /// Steps of a round on n samples: those of `epochs` passes, or `steps`.
  int64_t steps_on(int64_t n) const {
    return steps > 0 && n > 0 ? steps : epochs * ((n + batch - 1) / batch);
  }
  /// "auto" must have been resolved before training: it would count as cross-entropy.
  Loss loss_kind() const { return loss == "multilabel" ? Loss::kMultiLabel : Loss::kCrossEntropy; }
  /// The loss that training on these data makes small: loss_kind() with the weights of the classes.
  /// Balanced, a class with n_k of n training samples, one of K that are present, counts
  /// n / (K n_k), so that the mean over the training samples is 1; a class without any counts 1.
  Loss loss_on(const ClientData& data) const;
};

}  // namespace tessera
