// What differential privacy the guards of a run give: epsilon and delta, and words for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

/// The same for single samples (guard dp-sgd): of the client whose samples it hides worst.
struct SamplesSpent {
  double epsilon = 0, delta = 0;
  double rate = 1;      // chance of a sample to be in a step's batch
  int64_t client = 0;   // whose
  int64_t samples = 0;  // it has for training
  int64_t steps = 0;    // in all of its uploads
  /// "epsilon 3.21 at delta 1e-05 for a single sample of the client with the weakest promise (120
  /// samples, 40 steps)"
  std::string text() const;
  /// Said where the guarantee is too weak to be one; else empty.
  std::string warning() const;
};

/// After `rounds` rounds of clients with so many training samples; 0: not known, left out. Counts
/// what clients uploaded in the rounds that asked them: the cohorts are known beforehand, and who
/// is in them hides nobody. None without guard dp-sgd, without its noise, or where nobody is known.
std::optional<SamplesSpent> samples_spent(const Experiment& experiment,
                                          const std::vector<int64_t>& samples, int64_t rounds);

/// After `rounds` rounds of the experiment with so many clients. None without guard dp, or without
/// its noise.
std::optional<PrivacySpent> privacy_spent(const Experiment& experiment, int64_t clients,
                                          int64_t rounds);

}  // namespace tessera
