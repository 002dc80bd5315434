// A model in two: a part that goes its own way (a head, attention projections), and the rest.
#pragma once

#include "tensor/layout.hpp"
#include "tensor/weights.hpp"

namespace tessera {

/// Immutable; positions in a flat vector.
class Split {
 public:
  /// `part`: ascending positions, as Layout::positions gives them.
  Split(const Layout& layout, Tensor part);
  /// The slices of a role against all others.
  Split(const Layout& layout, Role role);

  int64_t numel() const { return part_.numel(); }  // of the part

  Tensor part_of(const Tensor& w) const { return w.index_select(0, part_); }
  /// Running statistics belong to the rest.
  Weights rest_of(const Weights& whole) const { return {whole.w.index_select(0, rest_), whole.b}; }
  Weights joined(const Tensor& part, const Weights& rest) const;
  /// Bool [d]: true in the part.
  Tensor mask() const;

 private:
  Tensor part_, rest_;
};

}  // namespace tessera
