// Models whose training is another function than their evaluation, with a gradient of it by hand.
#pragma once

#include <utility>

#include "model/model.hpp"

namespace tessera {

/// Beside Model, for those that can; `dynamic_cast` tells.
class TrainsApart {
 public:
  virtual ~TrainsApart() = default;
  /// Model::value_and_grad of forward(…, {true, key}), batch norm and dropout included; at.b
  /// becomes the running values after the pass. False = no such path for these arguments, nothing
  /// changed.
  virtual bool training_gradient(Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                                 uint64_t key, Tensor& grad, double& value) const = 0;
};

/// The same for any model: value_and_grad where training and evaluation are one function.
inline bool training_gradient(const Model& model, Weights& at, const Tensor& x, const Tensor& y,
                              Loss loss, uint64_t key, Tensor& grad, double& value) {
  if (const auto* apart = dynamic_cast<const TrainsApart*>(&model))
    return apart->training_gradient(at, x, y, std::move(loss), key, grad, value);
  return model.value_and_grad(at, x, y, std::move(loss), grad, value);
}

}  // namespace tessera
