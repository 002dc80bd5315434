// A real federation from the command line: serve, join, preflight, status, leave, and
// the check of an audit log.
//
// Results go to standard output, what happens meanwhile to standard error. With `json` standard
// output carries JSON only.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/status.hpp"
#include "cli/commands.hpp"
#include "cli/pki_command.hpp"

namespace tessera {

struct ServeArgs {
  ExperimentArgs experiment;
  std::string listen, state, identity;
  std::string metrics;  // HOST:PORT of loopback; empty: no page
  double linger = 60;   // seconds
  bool insecure = false, log_json = false, json = false;
  const std::atomic<bool>* stop = nullptr;
};
/// Plays the federation and writes its report.
Status serve_command(const ServeArgs& args);

/// What everything that calls a server takes; each uses some of it.
struct CallArgs {
  std::string server, identity, data, state, model_file, policy;
  std::string insecure_name;  // without TLS: who calls; empty: with TLS
  bool ask = false, log_json = false, json = false;
  const std::atomic<bool>* stop = nullptr;
};
Status join_command(const CallArgs& args);
Status preflight_command(const CallArgs& args);
Status status_command(const CallArgs& args);
Status leave_command(const CallArgs& args);

struct LogArgs {
  std::string file;
  bool json = false;
};
/// Checks every line of an audit log against the one before.
Status check_log_command(const LogArgs& args);

/// Declares the commands; the one that is chosen sets `action`. What is passed outlives the
/// parsing and the action. Whoever adds an experiment's options to a command is told
/// by `experiment`.
void add_federation(CLI::App& root, const DeclareCommand& declare,
                    const std::function<void(CLI::App&, ExperimentArgs&)>& experiment,
                    ServeArgs& serve, CallArgs& call, std::function<Status()>& action);

}  // namespace tessera
