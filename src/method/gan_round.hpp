// What methods with a federated GAN share (docs/methods.md §7.6): its options, a client's part of a
// round, and its pictures in the report. The method itself says what travels and how it is
// averaged.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "method/method.hpp"
#include "train/gan_training.hpp"

namespace tessera {

/// What guards inside local training are told of (MethodInfo::beyond_sgd).
inline constexpr const char* kGanBeyond = "trains a generator and a discriminator beside its model";

/// Options; what is learned is passed in and out.
struct GanRound {
  GanUse use;
  GanTraining training;
  static void options(auto& o, auto&& f) {
    GanUse::options(o.use, f);
    GanTraining::options(o.training, f);
  }

  /// kInvalid in a sentence of `method`: samples that are no pictures, or a network from elsewhere,
  /// which does not say what its samples look like.
  static Status check(const std::string& method, const Model& model);
  /// The networks for a model's samples and classes; check() must hold.
  static Gan networks(const Model& model);
  /// What all begin with; `key` is that of the common initial model.
  static GanWeights init(const Model& model, uint64_t key);

  /// What stands for a client's samples in a round that begins with the model `at`: themselves, or
  /// with guard 'transform' virtual ones (§7.5), for the model with shares of classes as labels,
  /// for the GAN with the likeliest class.
  struct Pairs {
    std::shared_ptr<const ClientData> model, gan;  // may borrow the client's data
  };
  static Pairs pairs(const Local& local, const Weights& at, const TrainOptions& train);

  /// What the client's model is trained on in this round: `own`, until the warm-up is over; then
  /// with made pictures among them, or in their place. They come from the common generator as it
  /// arrived: the client's own one would forget the classes it has none of.
  std::shared_ptr<const ClientData> training_data(const Local& local,
                                                  const std::shared_ptr<const ClientData>& own,
                                                  const Tensor& generator) const;
  /// Both networks after a round at this client, whose real pairs are `real`.
  GanWeights learned(const Local& local, const ClientData& real, const GanWeights& at) const;

  /// A row of pictures for each class, the first 20; from the same z at every evaluation. They are
  /// made at the server from what everybody gets, and show no client's sample.
  static Exhibit exhibit(const Model& model, const Tensor& generator, uint64_t key);
};

/// The same client with other data.
inline Local on(const Local& local, const ClientData& data) {
  return {{local.model, data, local.round, local.key},
          local.setup,
          local.client,
          local.newcomer,
          local.why};
}

}  // namespace tessera
