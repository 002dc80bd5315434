// Second derivatives as products with a vector; the matrix is never formed.
#pragma once

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// H v, where H is the Hessian of the mean loss over the batch at `at`, in training mode with
/// dropout drawn from `key`; v and the result [d]. Exact: by hand where the model has it, else the
/// gradient is differentiated once more. Needs memory for the activations of this batch only.
Tensor hvp(const Model& model, const Weights& at, const Examples& batch, Loss loss, uint64_t key,
           const Tensor& v);

/// The same from two gradients, [∇L(w + delta v) − ∇L(w − delta v)] / (2 delta), so that no second
/// derivative is needed; delta makes a way of 1e-3 of v. Running statistics stay as they are.
Tensor hvp_by_difference(const Model& model, const Weights& at, const Examples& batch, Loss loss,
                         uint64_t key, const Tensor& v);

}  // namespace tessera
