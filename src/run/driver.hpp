// The round of docs/concepts.md, written once; engines only move its messages.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/session.hpp"
#include "guard/secure_aggregation/hidden_sum.hpp"
#include "run/chance.hpp"
#include "run/experiment.hpp"
#include "run/reports.hpp"

namespace tessera {

/// What a real federation does otherwise than a simulation.
struct ServedRounds {
  /// A round or evaluation waits for answers so long; 0: until they are all there. Seconds.
  double deadline = 0;
  /// So many more clients are asked than a round needs, as a share of these; the round ends with
  /// the answers it needs.
  double over_select = 0;
  /// Decides who is asked, instead of the seed that every member is told: the promise of
  /// differential privacy counts on nobody knowing it. None: the seed.
  std::optional<uint64_t> draw_key = std::nullopt;
  /// How many samples a member has enrolled with, test samples apart. An upload counts for no more.
  std::function<int64_t(ClientId)> samples = nullptr;
};

/// The server's side of a run. Borrows session, engine and public data.
class Driver {
 public:
  Driver(const Session& session, const FederationOptions& options, Engine& engine,
         const ClientData* commons = nullptr);
  /// For a server of clients that come and go. A round in which nothing could be accepted is one
  /// that does not count, not an error; one that is interrupted is taken up later as it stands,
  /// perhaps by another process, so nobody is told that it failed.
  void serve(ServedRounds rules) { served_ = rules; }

  /// Asks every client, newcomers included, for its name and whether its data suffice for the
  /// method; the first problem by id.
  Status meet_clients();
  /// What people call a client: its name, or its number if it was not met.
  std::string name_of(ClientId client) const;
  /// The state before round 1. Either this or restore() comes before everything else.
  Status begin();
  /// A state from tensors(); kInvalid says what is wrong with it.
  Status restore(const TensorDict& server);

  /// Whether uploads of round 1 can be guarded as the run says; kInvalid says why not.
  Status check_guard() const;
  /// What a client would be sent in round 1 if it were asked alone, for this; to tell its size.
  Result<TensorDict> first_download(ClientId client, Why why = Why::kTrain) const;

  /// Who is asked in a round, ascending.
  std::vector<ClientId> cohort(int64_t round) const;
  /// One round. After an interruption, or where the server's half throws (RoundReport::failure),
  /// every state is that of before; after any other error the driver must not be used again.
  Result<RoundReport> play(int64_t round);
  /// Both views of the evaluated clients and of every newcomer after `round`; changes no state.
  /// What fails for one client is a problem in the report, not an error.
  Result<EvalReport> evaluate(int64_t round);

  /// The model of the whole federation after `round`; none where the method has no such model.
  std::optional<Weights> global(int64_t round) const;
  TensorDict server(Entries entries = Entries::kAll) const { return state_->tensors(entries); }
  /// The server's state has been written down as it is.
  void saved() { state_->saved(); }

 private:
  class Intake;
  using Asks = std::vector<Ask<TensorDict>>;

  Setup setup(int64_t round) const { return session_.server_setup(round, commons_); }
  /// Whether chance takes a client before it uploads, or in a later step.
  bool is_lost(int64_t round, ClientId client, int64_t moment = 0) const;
  Limits limits(int64_t enough = 0) const;
  /// Carries a step of a secure sum.
  void ask_of_sum(std::vector<SumAsk> asks, int64_t most,
                  const std::function<void(SumAnswer)>& take) const;
  /// What the method's own judge says of an upload; one that throws has said no.
  Status judged(const TensorDict& up, const Setup& setup) const;
  /// Tells clients what became of their uploads.
  Status settle(const std::vector<ClientId>& asked, const std::vector<ClientId>& accepted,
                int64_t round, int64_t attempt);
  Result<RoundReport> play_round(int64_t round);
  Result<EvalReport> evaluate_after(int64_t round);
  /// The exchanges that the method asks newcomers for; what the server has learned of each.
  Result<std::vector<std::optional<TensorDict>>> meet_newcomers(const Setup& setup,
                                                                EvalReport& report);
  Status exchange(const Setup& setup, int64_t number,
                  std::vector<std::optional<TensorDict>>& guests, EvalReport& report);
  Asks newcomers(const std::vector<std::optional<TensorDict>>& guests) const;

  const Session& session_;
  FederationOptions options_;
  Engine& engine_;
  const ClientData* commons_;
  ServerStatePtr state_;
  /// By how much an upload may ask to count: the samples that the client said it has, and what
  /// guard 'counts' may round them up to. Infinite where it was not met.
  double most_weight(ClientId client) const;

  std::vector<std::string> names_;  // by id; empty: not met
  std::vector<int64_t> samples_;    // by id: all that are no test samples; empty: not met
  int64_t attempts_ = 0;  // rounds begun by this process: tells a repeated round from the first try
  std::optional<ServedRounds> served_;  // none: a simulation
};

}  // namespace tessera
