// Fitting the upper layers of a network on one client while its feature layers stand still.
#pragma once

#include "model/sequential.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

/// When and how a client fits its copy of the global model ("stage 2").
struct TransferOptions {
  int64_t ft_epochs = 3;
  double ft_lr = 0;
  bool every_eval = true;

  static void options(auto& o, auto&& f) {
    f(between("ft_epochs", 1, 10000, "passes over a client's data to fit its own copy"),
      o.ft_epochs);
    f(at_least("ft_lr", 0, "learning rate of these passes; 0: that of the round"), o.ft_lr);
    f(any("every_eval", "fit at every evaluation, or (false) only after the last round"),
      o.every_eval);
  }

  /// `train` with the rate and the epochs of stage 2.
  TrainOptions stage2(TrainOptions train) const {
    train.epochs = ft_epochs;
    if (ft_lr > 0) train.lr = ft_lr, train.lr_decay = 1;
    return train;
  }
  /// Whether in a round of a run of so many; an evaluation after round t is asked as round t + 1.
  bool due(int64_t round, int64_t rounds) const { return every_eval || round > rounds; }
};

/// The model as a network whose feature layers are convolutions; nullptr for any other.
const Sequential* convolutional(const Model& model);

/// A client whose training samples are the maps that `net` makes of `data`'s, in the same order;
/// its other parts are empty. Frozen convolutions need to be computed only once.
ClientData training_maps(const Sequential& net, const Weights& at, const ClientData& data);

/// The weights and buffers of `net` in two: its convolutions, and net.upper().
struct Cut {
  Weights below, above;
};
Cut cut(const Sequential& net, const Weights& whole);
/// The way back; `above` may have grown.
Weights joined(const Weights& below, const Weights& above);

/// [layout.numel()], bool: all but the first module, of the layers above the convolutions the first
/// linear one.
Tensor all_but_first(const Layout& layout);

/// A BatchGradient of whichever model is trained.
using ModelGradient = std::function<double(const Model& model, Weights& at, const Examples& batch,
                                           uint64_t key, Tensor& grad)>;

/// local_sgd on what is not a feature layer (Slice::features). Feature layers keep their weights
/// and running statistics bit for bit and work in evaluation mode; weight decay does not reach
/// them. `gradient`, if given, replaces that of the mean loss; its model may be the upper layers
/// alone. `first_too` = false, of convolutional networks only: the first linear layer stands still,
/// too.
SgdResult train_upper(const Weights& start, const Site& site, const TrainOptions& options,
                      const ModelGradient& gradient = nullptr, bool first_too = true);

}  // namespace tessera
