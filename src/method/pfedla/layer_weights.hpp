// pFedLA's hypernetworks on the server: one per client says which share of every client's model
// goes into each block of its own (docs/methods.md §7.2).
#pragma once

#include <cstdint>

#include "base/options.hpp"
#include "tensor/layout.hpp"

namespace tessera {

/// Embedding → linear → ReLU → linear → ReLU → a linear head per block → ReLU → shares of sum 1.
struct LayerWeights {
  int64_t embed = 100, hidden = 100;
  double server_lr = 5e-3;

  static void options(auto& o, auto&& f) {
    f(between("embed", 1, 1e4, "numbers of a client's embedding"), o.embed);
    f(between("hidden", 1, 1e4, "width of a client's hypernetwork"), o.hidden);
    f(at_least("server_lr", 0, "learning rate of the hypernetworks; 0: they stay as they are"),
      o.server_lr);
  }

  /// Of one client's numbers theta_i, embedding included.
  Layout layout(int64_t clients, int64_t blocks) const;
  /// Float32 [|theta_i|] of a client. Heads are U(0, 1), so that every share starts positive.
  Tensor init(int64_t client, int64_t clients, int64_t blocks, uint64_t key) const;
  /// Shares [blocks, clients] in the dtype of `theta` [|theta_i|], which can be differentiated by;
  /// a block whose outputs are all zero is the client's own.
  Tensor shares(const Tensor& theta, int64_t client, int64_t clients, int64_t blocks) const;
  /// `theta` after one step of SGD; `slope` [blocks, clients] is the loss's derivative by the
  /// shares.
  Tensor stepped(const Tensor& theta, int64_t client, const Tensor& slope) const;
};

}  // namespace tessera
