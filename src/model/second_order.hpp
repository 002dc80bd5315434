// Models that know the product of their Hessian with a vector without autograd.
#pragma once

#include "model/model.hpp"

namespace tessera {

/// Beside Model, for those that can; `dynamic_cast` tells.
class SecondOrder {
 public:
  virtual ~SecondOrder() = default;
  /// The Hessian of the mean loss over the batch, times v [d], into `product` [d] (every entry).
  /// False = no such path for these arguments; as Model::value_and_grad.
  virtual bool hessian_times(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                             const Tensor& v, Tensor& product) const = 0;
};

}  // namespace tessera
