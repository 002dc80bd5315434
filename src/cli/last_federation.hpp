// The data of the run before, for commands whose runs follow each other on the same data.
#pragma once

#include <optional>
#include <string>

#include "data/federation.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// Holds one federation: never are two in memory. Not thread-safe.
class LastFederation {
 public:
  /// That of an experiment, loaded unless the last one was the same. Valid until the next call or
  /// let_go().
  Result<const Federation*> of(const Experiment& experiment);
  void let_go() { key_.clear(), federation_.reset(); }

 private:
  std::string key_;  // data_of() what is loaded; empty: nothing
  std::optional<Federation> federation_;
};

}  // namespace tessera
