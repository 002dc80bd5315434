// A model in two: a part that goes its own way (a head, attention projections), and the rest.
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "tensor/layout.hpp"
#include "tensor/weights.hpp"

namespace tessera {

/// Immutable; positions in a flat vector.
class Split {
 public:
  /// `part`: ascending positions, as Layout::positions gives them.
  Split(const Layout& layout, Tensor part);
  /// The last `modules` modules against all before them.
  Split(const Layout& layout, int64_t modules);
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

/// Whether `method`'s per_layers leave anything before the last modules: a sentence if not.
Status check_per_layers(const Layout& layout, int64_t per_layers, std::string_view method);

}  // namespace tessera
