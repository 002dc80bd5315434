// Batch norm in evaluation is a scale and a shift per channel, which the layer before it can
// absorb.
#pragma once

#include "model/sequential.hpp"

namespace tessera::fast {

/// The same network with its batch norms left out.
SequentialSpec without_norms(SequentialSpec spec);

/// Flat weights with which without_norms(spec) computes what `at` computes in evaluation, up to
/// rounding. `layout` and `buffers` are those of the network with batch norms.
Tensor folded(const SequentialSpec& spec, const Layout& layout, const Layout& buffers,
              const Weights& at);

}  // namespace tessera::fast
