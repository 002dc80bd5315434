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

  /// e.toml as a federation's: members a … d; further lines for [serve].
  void federation(const std::string& method, int rounds, const std::string& serve = "");
  /// A CA, and identities for `server` and the clients.
  void make_identities();

  std::vector<std::string> serve_words(const std::vector<std::string>& more = {}) const;
  std::vector<std::string> join_words(const std::string& name,
                                      const std::vector<std::string>& more = {}) const;
  /// Starts the server and waits until it listens; from then on the clients call this port, also
  /// after it was started again.
  void start_server();
  void start_client(const std::string& name);
  void start_everybody();
  /// Ends with the server's exit code; clients that are still there get a moment to end.
  Finished wait_for_end(std::chrono::seconds limit = std::chrono::seconds(120));
  /// `rounds_digest` of a summary; the same on all engines.
  std::string rounds_digest(const std::string& out) const;
  /// Of the same experiment, simulated.
  std::string simulated_digest();

  std::string address_;
  std::string identities_;  // directory with id-NAME for each
  std::unique_ptr<Process> server_;
  std::map<std::string, std::unique_ptr<Process>> clients_;
  const std::vector<std::string> names_{"a", "b", "c", "d"};
};

}  // namespace tessera::testing
