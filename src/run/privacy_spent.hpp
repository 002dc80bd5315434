// What differential privacy the guards of a run give: epsilon and delta, and words for people.
#pragma once

#include <optional>
#include <string>

#include "run/experiment.hpp"

namespace tessera {

struct PrivacySpent {
  double epsilon = 0, delta = 0;
  double rate = 1;          // chance of a client to be drawn in a round; 1 where that does not help
  bool of_uploads = false;  // noise is in every upload, not only in the sum: also the server sees
                            // no more than that
  /// "epsilon 3.21 at delta 1e-03 (a client more or less), after 50 rounds"
  std::string text(int64_t rounds) const;
  /// Said where the guarantee is too weak to be one; else empty.
  std::string warning(int64_t clients) const;
};

/// After `rounds` rounds of the experiment with so many clients. None without guard dp, or without
/// its noise.
std::optional<PrivacySpent> privacy_spent(const Experiment& experiment, int64_t clients,
                                          int64_t rounds);

}  // namespace tessera
