// A network as a list of words: "conv 32 5", "norm", "pool 2", "linear 512", "dropout 0.5".
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "model/sequential.hpp"

namespace tessera {

/// Stages whose `in` is still open, without the head: what does not depend on the data.
struct LayerList {
  std::vector<ConvStage> convs;
  std::vector<LinearStage> linears;
};

/// An item is one of
///   conv OUT KERNEL [pad P] [stride S]
///                             square, then the activation; stride 1 if not given
///   linear OUT                then the activation; no convolution after it
///   norm                      batch norm, right after conv or linear
///   pool WINDOW [STRIDE]      maximum, after conv (and its norm); the stride is the window if not
///                             given
///   dropout P                 last of what follows a conv or linear
/// kInvalid quotes the item that is wrong: "item 3 'pol 2' …".
Result<LayerList> parse_layers(const std::vector<std::string>& items);

}  // namespace tessera
