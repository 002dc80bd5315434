// The server of pFedLA: everybody's latest model, and the hypernetworks that mix them.
#pragma once

#include <string>
#include <vector>

#include "method/method.hpp"
#include "method/pfedla/layer_weights.hpp"

namespace tessera {

/// What persists.
struct LayerState {
  PerClient<Weights> latest;  // w_0 before the first upload
  PerClient<Tensor> theta;    // a hypernetwork with an embedding; as drawn before the first upload
  static void fields(auto& m, auto&& f) { f("latest", m.latest), f("theta", m.theta); }
};

/// Options of the mixing; state is passed in.
struct LayerRule {
  LayerWeights net;
  int64_t keep_blocks = 0;  // that are the client's own, whatever the hypernetwork says

  /// Whether models and hypernetworks fit into `available` bytes; a sentence if not.
  Status check_memory(const std::string& method, const Setup& setup, int64_t available) const;
  LayerState init(const Setup& setup) const;
};

/// Mixtures of the models as they are at construction. Borrows all three arguments.
class LayerMixer {
 public:
  LayerMixer(const LayerRule& rule, const LayerState& state, const Setup& setup);

  const Tensor& table() const { return table_; }  // which parameters are which block

  /// a_i: float64 [blocks, N]; uniform for newcomers. Throws if the hypernetwork diverged.
  Tensor shares(ClientId client) const;
  /// The keep_blocks blocks in which the client's own share is largest, ascending.
  std::vector<int64_t> kept(ClientId client) const;
  /// Σ_j a_ij^l w_j^l in every block l that is not kept. Buffers follow the shares of their block.
  Weights mixture(ClientId client) const;
  /// The client's hypernetwork after a step by what its training made of the mixture:
  /// dL/da_ij^l = <received − trained, w_j> over block l.
  Tensor learned(ClientId client, const Weights& trained) const;

 private:
  Tensor theta(ClientId client) const;

  const LayerRule& rule_;
  const LayerState& state_;
  const Setup& setup_;
  std::vector<Tensor> w_, b_;  // by client
  Tensor table_, buffer_table_;
  int64_t blocks_;
};

}  // namespace tessera
