// Training the GAN of docs/methods.md §7.6 on somebody's pictures, and what its pictures are for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "model/gan.hpp"
#include "train/site.hpp"

namespace tessera {

/// How a generator and a discriminator are trained: Adam (0.5, 0.999) for both, one step each per
/// batch of real pairs.
struct GanTraining {
  int64_t epochs = 1, batch = 32;
  double lr = 2e-4;
  /// Above 0: of each real picture with its made partner the discriminator's gradient is cut to
  /// `clip`, and their sum gets normal noise of noise_std · clip. The generator learns only through
  /// the discriminator. Which classes there are is not hidden, and no epsilon follows.
  double noise_std = 0, clip = 1;

  static void options(auto& o, auto&& f) {
    f(between("gan_epochs", 1, 10000, "passes of the GAN over a client's training data per round"),
      o.epochs);
    f(between("gan_batch", 1, 1e6, "real pictures per step of the GAN"), o.batch);
    f(above("gan_lr", 0, "learning rate of generator and discriminator"), o.lr);
    f(at_least("gan_noise_std", 0,
               "noise on the discriminator's clipped gradients, in units of gan_clip; 0: neither"),
      o.noise_std);
    f(above("gan_clip", 0, "largest norm of a picture's gradient, where there is noise"), o.clip);
  }
};

/// Inputs of a network as pixels and back: linear, the darkest training value is 0, the brightest
/// 1. It is the client's own and stays with it.
struct PixelRange {
  double low = 0, high = 1;

  Tensor to_pixels(const Tensor& inputs) const;
  Tensor to_inputs(const Tensor& pixels) const;
};
/// Of the training rows; 0 … 1 where there are none or all values are the same.
PixelRange pixel_range(const ClientData& data);

struct GanTrained {
  GanWeights weights;
  double discriminator_loss = 0, generator_loss = 0;  // means over the steps, as seen before each
  int64_t steps = 0;
};

/// From `start`, which is left as it is, on the training pairs of `pairs.data`: a client's own, or
/// virtual ones that stand for them (§7.5) as a ClientData of their own. Made pictures have the
/// classes of the batch they stand beside, so a class that is not there is never called false. Of
/// the site data and key count, not its model.
GanTrained train_gan(const Gan& gan, const GanWeights& start, const Site& pairs,
                     const GanTraining& options);

/// Gradient [d_D] of discriminator_loss at real pixels and made ones of the same classes: of the
/// mean, or with noise as GanTraining says. Gives the loss.
double discriminator_gradient(const Gan& gan, const Tensor& w, const Examples& real,
                              const Tensor& made, const GanTraining& options, uint64_t key,
                              Tensor& grad);
/// Gradient [d_G] of generator_loss through a discriminator that stands still.
double generator_gradient(const Gan& gan, const GanWeights& at, const Tensor& z, const Tensor& y,
                          Tensor& grad);

/// How likely each class is to be generated: inversely to how many samples (plus one) a client has
/// of it; with `own_only` the classes it has none of are left out.
std::vector<double> inverse_shares(std::span<const int64_t> counts, bool own_only);
/// n classes drawn from these shares: int64 [n].
Tensor draw_classes(std::span<const double> shares, int64_t n, uint64_t key);

/// What a client does with the common generator.
struct GanUse {
  std::string use = "augment";
  std::string classes = "all";
  double ratio = 0.5, warmup = 0.5;

  static void options(auto& o, auto&& f) {
    f(one_of("gan_use", {"augment", "replace", "nothing"},
             "made pictures join a client's own in training, stand in for them, or are not used"),
      o.use);
    f(between("gan_ratio", 0, 100, "augment: made pictures per own training picture"), o.ratio);
    f(one_of("gan_classes", {"all", "own"},
             "augment: made pictures are of all classes, or of those a client has; the rarer at "
             "the client, the more"),
      o.classes);
    f(between("gan_warmup", 0, 1, "share of the rounds in which the generator only learns"),
      o.warmup);
  }

  /// Whether made pictures are trained on in this round.
  bool due(int64_t round, int64_t rounds) const {
    return use != "nothing" && static_cast<double>(round) > warmup * static_cast<double>(rounds);
  }
  /// A client whose training samples are `data`'s with made ones beside them or in their place (as
  /// many, of the same classes); its other parts are empty. Rows stand in random order.
  ClientData apply(const Gan& gan, const Tensor& generator, const ClientData& data,
                   uint64_t key) const;
};

}  // namespace tessera
