// Alignment of features by their covariances (Sun and Saenko, "Deep CORAL", 2016, eqs. 1 to 3).
#pragma once

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// Of rows [n, z], n >= 2, around their mean and divided by n − 1: [z, z]. Differentiable.
Tensor covariance(const Tensor& features);
/// ||source − covariance(features)||²_F / (4 z²).
Tensor coral_loss(const Tensor& source, const Tensor& features);

/// Covariance of what the model's last layer sees of a client's training samples, in evaluation
/// mode; float32.
Tensor feature_covariance(const Model& model, const Weights& at, const ClientData& data);

/// Gradient of the mean loss over a batch plus `weight` times its coral_loss, as a BatchGradient
/// fills it; returns the loss alone. A batch of one sample has no covariance and no such term.
double aligned_gradient(const Model& model, Weights& at, const Examples& batch, Loss loss,
                        uint64_t key, const Tensor& source, double weight, Tensor& grad);

}  // namespace tessera
