// What differential privacy the guards of a run give: epsilon and delta, and words for people.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "privacy/accountant.hpp"
#include "run/experiment.hpp"

namespace tessera {

struct PrivacySpent {
  /// Against other members and outsiders, who see the models of all rounds.
  double epsilon = 0, delta = 0;
  /// Against the server. None: it sees uploads before any noise, so nothing is promised.
  std::optional<double> server_epsilon;
  bool simulated = false;   // noise and draws follow from the seed: who knows it subtracts them
  double rate = 1;          // chance of a client to be drawn in a round; 1 where that does not help
  bool of_uploads = false;  // noise is in every upload, not only in the sum: also the server sees
                            // no more than that
  /// "epsilon 3.21 at delta 1e-03 for a whole client, after 50 rounds, against members and
  /// outsiders; …", and what holds against the server.
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

/// Both while a run goes on: asked after every round, it costs a round's cohort and no more,
/// however many rounds were played. Borrows the experiment.
class PrivacyMeter {
 public:
  /// Of clients with so many training samples; 0: not known, left out.
  PrivacyMeter(const Experiment& experiment, std::vector<int64_t> samples);

  /// So many rounds were played, no fewer than the time before. Rounds that did not count have been
  /// answered all the same.
  void advance(int64_t rounds);
  /// So far. None without guard dp, or without its noise.
  std::optional<PrivacySpent> clients() const;
  /// So far. Counts what clients uploaded in the rounds that asked them: the cohorts are known
  /// beforehand, and who is in them hides nobody. None without guard dp-sgd, without its noise, or
  /// where nobody's samples are known.
  std::optional<SamplesSpent> samples() const;
  /// A sentence for each of the two that there is, with its warning.
  std::vector<std::string> text() const;

 private:
  /// Of the clients with so many samples the first that was asked most often: the others, equal in
  /// all else, spent no more.
  struct Size {
    int64_t client = 0, asked = 0;
    int64_t steps = 0;  // of training in a round
    Accountant spent;
  };
  /// The chance of a sample to be in a batch, of so many.
  double rate_of(int64_t samples) const;

  const Experiment& experiment_;
  const std::vector<int64_t> samples_;
  std::vector<int64_t> asked_;  // rounds, by client
  std::map<int64_t, Size> sizes_;
  std::optional<PrivacySpent> clients_;  // all but its epsilon
  Accountant released_, to_server_;
  int64_t rounds_ = 0;
};

/// What the meter says after `rounds` rounds.
std::optional<SamplesSpent> samples_spent(const Experiment& experiment,
                                          const std::vector<int64_t>& samples, int64_t rounds);
std::optional<PrivacySpent> privacy_spent(const Experiment& experiment, int64_t clients,
                                          int64_t rounds);

}  // namespace tessera
