// A run as both ends know it: model, method and constants; no data, no state.
#pragma once

#include <memory>

#include "base/key.hpp"
#include "guard/guard.hpp"
#include "method/any_method.hpp"

namespace tessera {

class TransformLog;

/// What a session is made of. `Setup`'s round, server_key and commons are filled in per call.
struct SessionParts {
  /// Neither is null. Shared, so that a copied session stays valid.
  std::shared_ptr<const Model> model;
  std::shared_ptr<const AnyMethod> method;
  /// The method's line in the table: name, headline view, whether it is a pooled reference.
  MethodInfo info;
  /// Everything random in the run follows from it; both ends have the same.
  uint64_t seed = 0;
  /// What clients are measured by; resolved, never "auto".
  Loss loss = Loss::kCrossEntropy;
  /// Ids 0 … clients−1 train; the newcomers' ids follow. Rounds are numbered 1 … rounds.
  int64_t clients = 0, newcomers = 0, rounds = 0;
  /// Share of the clients that is asked in a round, in (0, 1].
  double participation = 1;
  /// What uploads of a round pass on their way; by default they are left alone.
  Guard guard = {};
  /// Models of disjoint parts of a client's data that answer by vote (guard 'vote'); 0: none.
  int64_t voters = 0;
  /// What guard 'transform' achieved at the clients of this process; null without it.
  std::shared_ptr<const TransformLog> transforms = nullptr;
};

/// Immutable and thread-safe; copies share model and method. The only place where a Setup is made.
class Session {
 public:
  explicit Session(SessionParts parts) : parts_(std::move(parts)) {}

  /// The same run behind other guards.
  Session with_guard(Guard guard) const {
    auto parts = parts_;
    parts.guard = std::move(guard);
    return Session(std::move(parts));
  }

  /// References live as long as the session.
  const Model& model() const { return *parts_.model; }
  const AnyMethod& method() const { return *parts_.method; }
  const MethodInfo& info() const { return parts_.info; }
  uint64_t seed() const { return parts_.seed; }
  Loss loss() const { return parts_.loss; }
  const Guard& guard() const { return parts_.guard; }
  int64_t voters() const { return parts_.voters; }
  const TransformLog* transforms() const { return parts_.transforms.get(); }
  int64_t clients() const { return parts_.clients; }
  int64_t rounds() const { return parts_.rounds; }
  int64_t newcomers() const { return parts_.newcomers; }
  /// Clients and newcomers; ids are below it.
  int64_t everybody() const { return parts_.clients + parts_.newcomers; }
  /// By number alone: an id that nobody has counts as a newcomer's.
  bool is_newcomer(ClientId id) const { return id >= parts_.clients; }

  /// As a client sees round `round`; 0: before the first. Without public data and the server's key.
  /// The result refers to this session's model.
  Setup client_setup(int64_t round) const {
    return {.model = model(),
            .clients = parts_.clients,
            .rounds = parts_.rounds,
            .participation = parts_.participation,
            .key = derive(parts_.seed, Purpose::kInit),
            .newcomers = parts_.newcomers,
            .round = round};
  }
  /// As the server sees it. `commons` is borrowed and must outlive the result; null, or data
  /// without training rows, means that there are no public data.
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
