// A run as both ends know it: model, method and constants; no data, no state.
#pragma once

#include <memory>

#include "base/key.hpp"
#include "method/any_method.hpp"

namespace tessera {

/// What a session is made of. `Setup`'s round, server_key and commons are filled in per call.
struct SessionParts {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const AnyMethod> method;
  MethodInfo info;
  uint64_t seed = 0;
  Loss loss = Loss::kCrossEntropy;
  int64_t clients = 0, newcomers = 0, rounds = 0;
  double participation = 1;
};

/// Immutable and thread-safe. The only place where a Setup is made.
class Session {
 public:
  explicit Session(SessionParts parts) : parts_(std::move(parts)) {}

  const Model& model() const { return *parts_.model; }
  const AnyMethod& method() const { return *parts_.method; }
  const MethodInfo& info() const { return parts_.info; }
  uint64_t seed() const { return parts_.seed; }
  Loss loss() const { return parts_.loss; }
  int64_t clients() const { return parts_.clients; }
  int64_t newcomers() const { return parts_.newcomers; }
  int64_t everybody() const { return parts_.clients + parts_.newcomers; }
  bool is_newcomer(ClientId id) const { return id >= parts_.clients; }

  /// As a client sees round `round`.
  Setup client_setup(int64_t round) const {
    return {.model = model(),
            .clients = parts_.clients,
            .rounds = parts_.rounds,
            .participation = parts_.participation,
            .key = derive(parts_.seed, Purpose::kInit),
            .newcomers = parts_.newcomers,
            .round = round};
  }
  /// As the server sees it; `commons` may be null and must outlive the result.
  Setup server_setup(int64_t round, const ClientData* commons) const {
    Setup out = client_setup(round);
    out.server_key = derive(parts_.seed, Purpose::kCommons, round);
    out.commons = commons && commons->train_size() > 0 ? commons : nullptr;
    return out;
  }

 private:
  SessionParts parts_;
};

}  // namespace tessera
