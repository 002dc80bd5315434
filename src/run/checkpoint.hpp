// checkpoint/state.safetensors: everything a run needs to go on, in one file written whole.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "method/method.hpp"

namespace tessera {

struct Checkpoint {
  int64_t round = 0;   // completed
  std::string config;  // the resolved experiment; another one must not continue it
  TensorDict server;
  std::vector<std::pair<ClientId, TensorDict>> clients;
};

/// The file inside a run's directory.
std::string checkpoint_path(const std::string& dir);
Status save_checkpoint(const std::string& dir, const Checkpoint& checkpoint);
/// The same under any path, whose directory must exist.
Status save_state(const std::string& path, const Checkpoint& checkpoint);
/// kNotFound without one; kInvalid when it is damaged or of another version.
Result<Checkpoint> load_checkpoint(const std::string& dir);

}  // namespace tessera
