// A federation in one process: where model, method, data and engine are put together.
#pragma once

#include <atomic>
#include <functional>

#include "data/federation.hpp"
#include "engine/client_host.hpp"
#include "engine/local/local_engine.hpp"
#include "run/driver.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// What a session has to know of the data, wherever they are.
struct SessionFacts {
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  bool multi_label_loss = false;
  int64_t clients = 0, newcomers = 0;
  const ClientData* commons = nullptr;  // the server's public samples; may be null
};

/// The experiment's training options as methods get them: a loss that the data choose is chosen, so
/// `loss` is never "auto".
TrainOptions resolved_train(const Experiment& experiment, const Federation& federation);

/// What a method keeps at its server for each client or pair of clients.
struct ServerMemory {
  double bytes = 0;      // once everybody has taken part; 0: a few models, however many clients
  int64_t clients = 0;   // of the run
  int64_t most = 0;      // so many clients fit
  double available = 0;  // bytes
};
/// `available` are the bytes that the server may take; `most` is at most 10^9.
ServerMemory server_memory(const AnyMethod& method, const Setup& setup, double available);
/// kInvalid in one sentence if it cannot fit.
Status check_server_memory(const std::string& method, const ServerMemory& memory);

/// Model and method of an experiment for such data. The method has been asked whether it can work
/// with the run, not yet with each client's data (Driver::meet_clients); nothing is allocated but
/// the model. kInvalid: model and samples do not fit, the method refuses, or min_replies exceeds
/// the clients of a round. The result borrows nothing. `notes`, if given, gets what a user should
/// know of the model: which weights it starts from.
Result<Session> make_session(const Experiment& experiment, const Federation& federation,
                             std::vector<std::string>* notes = nullptr);

/// The same of data that are elsewhere. Both ends of a real federation make theirs from the same
/// facts.
Result<Session> make_session(const Experiment& experiment, const SessionFacts& facts,
                             std::vector<std::string>* notes = nullptr);

struct SimulationOptions {
  LocalEngineOptions engine;
  PersonalSink sink;  // clients' models at the last evaluation; may be null
  /// What a client trains on instead of its own data, so that its batches are seen; may be null.
  /// Called while the simulation is constructed, once per client by id, never for newcomers. What
  /// it returns must outlive the simulation.
  std::function<const ClientData&(const ClientData&)> observe;
  /// Of clients' states in memory, and again as much of steps that an evaluation keeps.
  ShelfLimit states = {};
  /// Which clients are hosted by this process; empty: all.
  std::function<bool(ClientId)> hosts;
  /// The engine of the driver where that is not the local one, which it may use; may be empty.
  std::function<std::unique_ptr<Engine>(LocalEngine& local)> reach;
};

/// Stays where it is: its parts refer to each other. Borrows the federation, which must outlive it.
/// Not thread-safe; the engine inside uses as many threads as it is told.
class Simulation {
 public:
  /// Client ids are places in federation.clients, then in federation.newcomers. Of a pooled method
  /// client 0 trains on everybody's data. Client states are kept in memory.
  Simulation(Session session, const Federation& federation, const FederationOptions& options,
             SimulationOptions simulation = {});
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// The parts live as long as the simulation. Nothing has been played: that is the driver's.
  const Session& session() const { return session_; }
  ClientStore& store() { return store_; }
  ClientHost& host() { return host_; }
  LocalEngine& engine() { return engine_; }
  Driver& driver() { return driver_; }

 private:
  std::vector<HostedClient> hosted(const Federation& federation,
                                   const SimulationOptions& simulation);

  Session session_;
  ClientData pooled_;  // everybody's data, for a pooled reference
  ClientStore store_;
  ClientHost host_;
  LocalEngine engine_;
  std::unique_ptr<Engine> reach_;  // null: all clients are here
  Driver driver_;
};

}  // namespace tessera
