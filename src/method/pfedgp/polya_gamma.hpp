// Exact draws from the Pólya-Gamma distribution, which turns logistic likelihoods into Gaussian
// ones (Polson, Scott, Windle, JASA 2013).
#pragma once

#include "base/key.hpp"

namespace tessera {

/// PG(1, c) by Devroye's method: mean tanh(c/2) / (2c), 1/4 at c = 0. Any finite c.
double polya_gamma(Rng& rng, double c);

}  // namespace tessera
