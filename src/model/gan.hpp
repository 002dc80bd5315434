// The two networks of pFedHT's federated GAN (docs/methods.md §7.6), conditional on a class: one
// makes pictures of it, the other tells them from real ones. Pictures are pixels in 0 … 1.
//
// Like models they are functions of flat weights and own nothing; they work in the dtype of the
// weights (float32, or float64 for tests) and can be differentiated.
#pragma once

#include <cstdint>
#include <vector>

#include "model/fill.hpp"
#include "model/model.hpp"
#include "tensor/fields.hpp"
#include "tensor/layout.hpp"

namespace tessera {

/// Pictures {channels, height, width} of so many classes. Sizes are those of the specification.
struct GanSpec {
  std::vector<int64_t> sample;
  int64_t classes = 10;
  int64_t noise = 64, code = 16;             // what a generator reads: z and a class's embedding
  std::vector<int64_t> hidden = {256, 512};  // its layers
  std::vector<int64_t> channels = {32, 64};  // of the discriminator's two convolutions

  int64_t pixels() const { return sample[0] * sample[1] * sample[2]; }
};

/// [z, embedding of the class] → linear and ReLU for each of `hidden` → linear → sigmoid.
class Generator {
 public:
  explicit Generator(const GanSpec& spec);

  const Layout& layout() const { return layout_; }
  /// Float32 [d_G].
  Tensor init(uint64_t key) const { return drawn(layout_, fills_, key); }
  /// Pixels [n, C, H, W] from z [n, noise] and classes y (int64 [n]).
  Tensor forward(const Tensor& w, const Tensor& z, const Tensor& y) const;

 private:
  GanSpec spec_;
  Layout layout_;
  std::vector<Fill> fills_;
};

/// Pixels, moved to −1 … 1 → two convolutions of 4×4 and stride 2, each with a leaky ReLU of slope
/// 0.2 → h; the score is <h, linear + projection · embedding of the class> + bias (Miyato and
/// Koyama, "cGANs with projection discriminator", ICLR 2018). Above 0: rather real.
class Discriminator {
 public:
  /// Throws std::invalid_argument unless samples are pictures and there are two convolutions.
  explicit Discriminator(const GanSpec& spec);

  const Layout& layout() const { return layout_; }
  /// Float32 [d_D].
  Tensor init(uint64_t key) const { return drawn(layout_, fills_, key); }
  /// Scores [n] of pixels x [n, C, H, W], taken for pictures of classes y.
  Tensor forward(const Tensor& w, const Tensor& x, const Tensor& y) const;

  /// The scores without autograd, and what a gradient of each sample alone needs.
  struct Trace {
    Tensor x, y;      // moved pixels, classes
    Tensor one, two;  // before the leaky ReLUs: [n, channels, …]
    Tensor scores;    // [n]
  };
  Trace trace(const Tensor& w, const Tensor& x, const Tensor& y) const;
  /// [n, d_D]: in row n the gradient of the n-th score, times slopes[n] (its loss's derivative).
  Tensor sample_gradients(const Tensor& w, const Trace& trace, const Tensor& slopes) const;

 private:
  GanSpec spec_;
  Layout layout_;
  std::vector<Fill> fills_;
};

/// The pictures {channels, height, width} that a network of the table takes; empty where samples
/// are no pictures, and for networks from elsewhere, which do not say.
std::vector<int64_t> picture_shape(const Model& model);

/// Both networks' numbers: what travels and is averaged.
struct GanWeights {
  Tensor generator, discriminator;  // [d_G], [d_D]
  static void fields(auto& m, auto&& f) {
    f("generator", m.generator), f("discriminator", m.discriminator);
  }
};

/// The pair. Immutable and thread-safe.
struct Gan {
  explicit Gan(const GanSpec& which) : spec(which), generator(which), discriminator(which) {}

  GanSpec spec;
  Generator generator;
  Discriminator discriminator;

  GanWeights init(uint64_t key) const;
  /// Standard normal z [n, noise], float32.
  Tensor draw(int64_t n, uint64_t key) const;
  /// Pictures of these classes (int64 [n]) by a generator's numbers, without autograd.
  Tensor pictures(const Tensor& generator_weights, const Tensor& y, uint64_t key) const;
};

/// What either network wants to be small, for scores [n] of real and of made pictures:
/// mean softplus(−real) + mean softplus(made), and mean softplus(−made).
Tensor discriminator_loss(const Tensor& real, const Tensor& made);
Tensor generator_loss(const Tensor& made);

}  // namespace tessera
