// The server of pFedLA: everybody's latest model, and the hypernetworks that mix them.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "model/model.hpp"
#include "optim/layer_weights.hpp"

namespace tessera {

/// What persists.
struct LayerState {
  std::vector<Weights> latest;  // by client; w_0 before its first upload
  Tensor theta;                 // [N, ·]: a hypernetwork and an embedding per client
  Tensor table, buffer_table;   // which numbers are which block
  Tensor least;                 // [d_b]: what buffers must not fall below in a mixture
  static void fields(auto& m, auto&& f) {
    f("latest", m.latest), f("theta", m.theta), f("table", m.table);
    f("buffer_table", m.buffer_table), f("least", m.least);
  }
  int64_t clients() const { return static_cast<int64_t>(latest.size()); }
  int64_t blocks() const { return table.size(0); }
};

/// Options and rules; state is passed in and out.
struct LayerMixer {
  LayerWeights net;
  int64_t keep_blocks = 0;  // that are the client's own, whatever the hypernetwork says

  /// Whether models and hypernetworks fit into `available` bytes; a sentence if not.
  Status check_memory(const std::string& method, const Model& model, int64_t clients,
                      int64_t available) const;
  LayerState init(const Model& model, int64_t clients, uint64_t key) const;

  /// a_i: float64 [blocks, N]; uniform for who has no hypernetwork yet.
  Tensor shares(const LayerState& state, int64_t client) const;
  /// The keep_blocks blocks in which the client's own share is largest, ascending.
  std::vector<int64_t> kept(const LayerState& state, int64_t client) const;
  /// Σ_j a_ij^l w_j^l in every block l that is not kept. Buffers follow the shares of their block.
  Weights mixture(const LayerState& state, int64_t client) const;
  /// A step of the client's hypernetwork, in place, by what its training made of the mixture:
  /// dL/da_ij^l = <received − trained, w_j> over block l.
  void learn(LayerState& state, int64_t client, const Weights& trained) const;
};

}  // namespace tessera
