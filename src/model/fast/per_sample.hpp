// Gradients of single samples, for the hand-written networks: their norms, and what clips them.
//
// A gradient is linear in that of the logits. So the norms come from one pass back that forms no
// sum over samples, and the clipped sum from an ordinary one whose logits' gradients were scaled,
// row by row: where nothing is clipped, that is the ordinary gradient bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model.hpp"

namespace tessera::fast {

/// Sum of squares in double, in an order that no compiler changes.
double squares_of(const float* x, int64_t count);

/// From the squared norms of gradients of a mean loss over n samples to the norms of the samples'
/// own.
std::vector<double> norms_of(const std::vector<double>& squares);

/// Scales rows [n, classes] of a gradient of the mean loss over all `total` samples to what a clip
/// leaves of each; `norms` are those of these n.
void clip_rows(const Clip& clip, int64_t total, int64_t n, int64_t classes, const double* norms,
               float* rows);

}  // namespace tessera::fast
