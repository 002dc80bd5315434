// What a FedHAM client does in a round: learn how to weigh models, mix them, train the mixture
// (docs/methods.md §5.3.4 – §5.3.6).
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "method/fedham/ham_mixer.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

struct HamTraining {
  HamShape shape;
  int64_t theta_epochs = 5;
  double theta_lr = 3e-3;
  bool strict = false;       // Theta by plain SGD instead of Adam
  double lambda = 0;         // > 0: w also follows the loss of the mixture it is part of
  bool every_epoch = false;  // learn and mix before every local epoch, not once
};

/// Models to mix; `global` only where layer 2 is used.
struct HamModels {
  Weights own;
  std::span<const Weights> others;
  std::optional<Weights> global;
};

/// A client's data with the training rows that the network may see, and with those that Theta is
/// learned on: the last `share` of them, at least one (ClientData::cut). A single row serves both.
std::pair<ClientData, ClientData> held_out(const ClientData& data, double share);

/// Theta after passes over `part` of theta_site's data. Gradients are clipped to length 1.
Tensor learn_theta(const HamMixer& mixer, const Tensor& theta, const Site& theta_site, Part part,
                   const TrainOptions& train, const HamTraining& ham);

struct HamTrained {
  SgdResult trained;  // the mixture after the local epochs
  Tensor theta;
  HamScores scores;  // of the last mixture
};

/// One round; the inputs stay as they are. `theta_site` differs from `site` in its data only.
HamTrained ham_round(const HamModels& models, const Tensor& theta, const Site& site,
                     const Site& theta_site, Part theta_part, const TrainOptions& train,
                     const HamTraining& ham);

}  // namespace tessera
