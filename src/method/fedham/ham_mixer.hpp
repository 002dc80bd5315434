// FedHAM's two attention layers over models (docs/methods.md §5.3.2 – §5.3.4): how a client weighs
// the models it was sent, and the gradient of its loss with respect to how it weighs.
//
// Nothing here differentiates through a model: the mixed model is linear in a few coefficients, so
// one ordinary gradient v at the mixed model, and its inner products with the models, are enough.
#pragma once

#include <optional>
#include <span>

#include "model/model.hpp"

namespace tessera {

/// kBoth: FedHAM. kFirst: the others' mixture alone (AML1). kSecond: own and global model (AML2).
enum class HamLayers { kBoth, kFirst, kSecond };

struct HamShape {
  HamLayers layers = HamLayers::kBoth;
  bool by_block = false;   // weights of their own for every module of the model
  bool slot_bias = true;   // layer 2 may prefer a slot whatever it holds
  int64_t width = 32;      // numbers per block of a sketch
  int64_t rank = 8;        // of what is learned on top of plain similarity
  double sharpness = 1.0;  // of layer 1 at the start
  uint64_t basis = 0;      // key of the sketches: the same for all who compare, in all rounds
};

/// Theta, what a client learns: float64 [groups, 5 + 8 R rank]. A group is the whole model (R =
/// blocks × width) or a block (R = width); a row holds the two sharpnesses, the three slot biases,
/// then U and V [R, rank] of query 1, key 1, query 2 and key 2. At the start V = 0: scores are
/// plain similarities.
Tensor ham_start(const Layout& layout, const HamShape& shape, uint64_t key);

struct HamScores {
  Tensor a;  // [groups, others]: layer 1; rows sum to 1
  Tensor b;  // [groups, 3]: own, attention, global; rows sum to 1, 0 where there is no such model
};

/// Holds the differences of all models to the own one, [others + 1, d], for one round.
class HamMixer {
 public:
  /// `global` is needed by layer 2 only. Borrows nothing but the model.
  HamMixer(const Model& model, const HamShape& shape, const Weights& own,
           std::span<const Weights> others, const std::optional<Weights>& global);

  /// Differentiable in theta.
  HamScores scores(const Tensor& theta) const;
  /// b_own w_i + b_att Σ a_j w_j + b_glob g, running statistics too.
  Weights mix(const HamScores& scores) const;
  /// Gradient in theta, at which `scores` were computed, of a loss with gradient v [d] at mix().
  Tensor gradient(const HamScores& scores, const Tensor& theta, const Tensor& v) const;
  /// b_own for every parameter: [d], or one number where there is one group.
  Tensor own_share(const HamScores& scores) const;

 private:
  Tensor coefficients(const HamScores& scores) const;  // [groups, rows of the differences]
  void features(const Tensor& own, const Tensor& differences);

  const Model& model_;
  HamShape shape_;
  Weights own_;
  int64_t others_;
  Tensor differences_, buffer_differences_;  // w_m − w_i: others, then global
  std::vector<Block> parts_;                 // one per group
  Tensor centred_;                           // phi: [groups, 1 + others, R], own first
  Tensor raw_;                               // psi0: [groups, 1 + others + (global), R]
  Tensor closed_;                            // [3]: 0, or −inf for a slot that is not there
};

}  // namespace tessera
