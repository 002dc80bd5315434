// Count-sketches of models: a few numbers per block whose inner products are, in expectation, those
// of the blocks. Linear, the same on every machine and in every round (docs/formats.md).
#pragma once

#include "tensor/layout.hpp"

namespace tessera {

/// Sketches of the rows [n, d] (float32 or float64) as float64 [n, blocks, width]; blocks are those
/// of the layout. A block of at most `width` numbers is itself, followed by zeros. Tables with the
/// same key and width have the same basis.
Tensor sketch(const Tensor& rows, const Layout& layout, int64_t width, uint64_t key);

}  // namespace tessera
