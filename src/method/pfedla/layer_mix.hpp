// Mixtures of models that weigh every block on its own (pFedLA).
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "tensor/layout.hpp"

namespace tessera {

/// The blocks of a layout as stretches of the flat vector: int64 [stretches, 3] of begin, size and
/// number of the block.
Tensor block_table(const Layout& layout);
/// The same for buffers, each with the block of its module in `layout`; throws
/// std::invalid_argument if there is none.
Tensor block_table(const Layout& buffers, const Layout& layout);

/// Stretch by stretch Σ_j shares[block, j] rows[j]; shares are float64 [blocks, n] of sum 1. Where
/// one row has it all the result is that row, bit for bit.
Tensor mixed(std::span<const Tensor> rows, const Tensor& shares, const Tensor& table);

/// <one, rows[j]> within every block, float64 [blocks, n]: products are summed in short pieces of
/// float32 and those in float64.
Tensor block_products(const Tensor& one, std::span<const Tensor> rows, const Tensor& table);

/// The blocks of `whole` that are not among `kept` (ascending), one after the other.
Tensor without_blocks(const Tensor& whole, std::span<const int64_t> kept, const Tensor& table);
/// The way back: `own` with the other blocks taken from `rest`.
Tensor with_blocks(const Tensor& own, const Tensor& rest, std::span<const int64_t> kept,
                   const Tensor& table);

}  // namespace tessera
