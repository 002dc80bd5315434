// The experts of a client: ways to read one FedAvg federation (docs/methods.md §12.2).
//
//   g    the global model
//   pri  its logits, shifted by the client's class frequencies
//   ft   the global model after some more training on the client
//   loc  a model that the client trained alone
//   lda  a linear discriminant on the global model's features
//   last in a series that shows its label's past: what usually follows the last value
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "method/mosaic/moments.hpp"

namespace tessera {

/// Samples by which `pri` draws a client's class shares to the federation's.
inline constexpr double kPoolPrior = 1;

/// Some of them, each once, in the order of a pool.
using ExpertNames = std::vector<std::string>;
bool has_expert(const ExpertNames& names, const std::string& name);

/// What experts are made of, for n samples: logits [n, classes] of the three networks, g's features
/// [n, p], and the bins of the last values [n]. What a client has not, or nobody asked for, is
/// undefined; g is always there.
struct Readings {
  Tensor g, ft, loc, features, bins = {};
};

/// How a client reads them: what `pri` adds, the discriminant if there is one, and what follows a
/// bin (log-shares [bins, classes]) if that is known.
struct Reader {
  ExpertNames names;
  Tensor shift;  // [classes]
  std::optional<Discriminant> lda;
  Tensor follows = {};

  /// float64 [experts, n, classes]. Where an expert is missing or not finite for a sample, `pri`
  /// stands in for it: one model that diverged must not sink the pool. `last` without a past finds
  /// all classes equal, which changes nothing in a pool.
  Tensor logits(const Readings& readings) const;
  /// bool [experts]: which ones are more than a stand-in for these readings.
  Tensor there(const Readings& readings) const;
};

/// By what is known of the federation and of the client. `known`: whether `all` was ever measured;
/// without it there is no discriminant. `balanced`: g takes all classes for equally frequent.
Reader make_reader(const ExpertNames& names, const FeatureMoments& all, const ClassSums& own,
                   double k, bool known, bool balanced);

/// The networks of a client, g among them.
struct Networks {
  Weights g;
  std::optional<Weights> ft, loc;
  /// Of samples x [n, …], in evaluation mode; features as far as `map` has any.
  Readings read(const Model& model, const Tensor& x, const FeatureMap& map) const;
};

}  // namespace tessera
