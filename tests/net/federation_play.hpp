// A federation of real processes on this machine: a CA, a server and clients over TLS.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../cli/playground.hpp"

namespace tessera::testing {

/// Four clients a, b, c, d, each with its own file, identity and state.
class FederationPlay : public Playground {
 protected:
  void SetUp() override;

  /// e.toml as a federation's: members a … d but for the newcomers; further lines for [serve].
  void federation(const std::string& method, int rounds, const std::string& serve = "",
                  const std::string& newcomers = "");
  /// A CA, and identities for `server` and the clients.
  void make_identities();

  std::vector<std::string> serve_words(const std::vector<std::string>& more = {}) const;
  std::vector<std::string> join_words(const std::string& name,
                                      const std::vector<std::string>& more = {}) const;
  /// Starts the server and waits until it listens; from then on the clients call this port, also
  /// after it was started again.
  void start_server(const std::vector<std::string>& more = {});
  void start_client(const std::string& name);
  void start_everybody();
  /// Starts a client and waits until the server has taken its facts.
  void start_and_enroll(const std::string& name);
  /// A line of a log (--log-json) of this event whose fields have these values.
  static bool logged(const std::string& log, const std::string& event,
                     const std::map<std::string, nlohmann::json>& fields);
  /// Waits for such a line of a program that runs.
  static bool waits_for(Process& program, const std::string& event,
                        const std::map<std::string, nlohmann::json>& fields);
  /// Lets time pass while the server runs.
  void let_pass(std::chrono::milliseconds time);
  /// Ends with the server's exit code; clients that are still there get a moment to end.
  Finished wait_for_end(std::chrono::seconds limit = std::chrono::seconds(120));
  /// `rounds_digest` of a summary; the same on all engines.
  std::string rounds_digest(const std::string& out) const;
  /// What a query of out/history.sqlite gives: words in a line for each row.
  std::string rows(const std::string& out, const std::string& sql) const;
  /// Of the same experiment, simulated.
  std::string simulated_digest();

  std::string address_;
  /// Data of pictures, 28×28 and grey, for methods that need a network of such.
  void pictures();

  std::string model_ = "mlp100";
  std::string hold_ = "0.5";         // seconds
  std::string method_options_;       // further lines for [method]
  std::vector<std::string> plugin_;  // words for all programs that load one
  std::string identities_;           // directory with id-NAME for each
  std::unique_ptr<Process> server_;
  std::map<std::string, std::unique_ptr<Process>> clients_;
  const std::vector<std::string> names_{"a", "b", "c", "d"};
};

}  // namespace tessera::testing
