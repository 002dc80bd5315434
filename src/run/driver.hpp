// The round of architecture.md §6, written once; engines only move its messages.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "method/any_method.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// What happened in a round. Times are for people; everything else is reproducible.
struct RoundReport {
  int64_t round = 0;
  int64_t cohort = 0, dropped = 0, rejected = 0;
  double loss = 0;                       // mean over accepted uploads; NaN without any
  int64_t bytes_down = 0, bytes_up = 0;  // tensor payloads
  int64_t wire_down = 0, wire_up = 0;    // whole messages
  double sim_seconds = 0;                // simulated clock of experiments.md §6
  double wall_seconds = 0, train_seconds = 0;
  std::vector<std::string> problems;  // why uploads were rejected, one line each
};

/// The metrics of every client after a round. Traffic is counted in tensor payloads and apart from
/// training: that of evaluating the clients, and that of getting newcomers their models.
struct EvalReport {
  int64_t round = 0;
  std::vector<Evaluation> clients, newcomers;
  int64_t eval_down = 0, eval_up = 0;
  int64_t exchanges = 0;  // training exchanges with each newcomer
  int64_t onboard_down = 0, onboard_up = 0;
  std::vector<std::string> problems;  // newcomers' uploads that were not used, one line each
  std::vector<Exhibit> exhibits;
};

/// What stays the same for a run. Borrowed; must outlive the driver.
struct DriverSetup {
  const AnyMethod& method;
  const MethodInfo& info;
  Setup setup;
  uint64_t seed;
  FederationOptions options;
  int64_t newcomers;
  int threads;                          // for the server's own checks
  const ClientData* commons = nullptr;  // public data of the server, if there are any
};

/// The clients that take part in a round, ascending; a pure function of its arguments.
std::vector<ClientId> cohort_of(uint64_t seed, int64_t round, int64_t clients,
                                double participation);
/// Whether a chosen client is lost in a round.
bool is_dropped(uint64_t seed, int64_t round, ClientId client, double drop_rate);
/// How many times slower than the others a client computes.
double slowdown_of(uint64_t seed, ClientId client, const FederationOptions& options);

/// Whether a method can work with this model, these settings and every client's data; before
/// anything of it is allocated.
Status suits(const AnyMethod& method, const Setup& setup, const Federation& federation);

class Driver {
 public:
  Driver(const DriverSetup& setup, Engine& engine);

  /// One round. After an interruption every state is that of before; after any other error the
  /// driver must not be used again.
  Result<RoundReport> play(int64_t round);
  /// Both views of every client and newcomer after `round`; changes no state.
  Result<EvalReport> evaluate(int64_t round, const PersonalSink& sink);

  const TensorDict& server() const { return server_; }
  void restore(TensorDict server) { server_ = std::move(server); }

 private:
  /// The server's turn with public data, after `round`.
  void attend(int64_t round);
  struct Sorted {
    std::vector<Received<TensorDict>> uploads;
    std::vector<ClientId> accepted;
    Status interrupted;
  };
  std::vector<Outgoing> messages(int64_t round, RoundReport& report) const;
  /// What newcomers are evaluated with, after the exchanges that the method asks for. Their new
  /// states wait in the engine; the server's stays as it is.
  Result<std::vector<Outgoing>> onboard(const TensorDict& server, int64_t round,
                                        EvalReport& report);
  /// `down`: payload of each reply's download.
  Sorted sort_out(std::vector<Reply> replies, std::span<const int64_t> down,
                  RoundReport& report) const;

  DriverSetup setup_;
  Engine& engine_;
  TensorDict server_;
};

}  // namespace tessera
