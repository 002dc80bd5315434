// What an experiment may not hold where data are secret.
#pragma once

#include "base/status.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// Whether the experiment can be played by members that keep their data to themselves. The server
/// asks it before it listens, and every member again before it does anything: a server may lie.
/// kInvalid names the key and what to set.
Status check_servable(const Experiment& experiment);

/// Whether a promise of differential privacy counts on nobody but the server knowing who was asked
/// in a round. Then the server draws by a key of its own, and members do not see of each other who
/// is working.
bool draws_in_secret(const Experiment& experiment);

}  // namespace tessera
