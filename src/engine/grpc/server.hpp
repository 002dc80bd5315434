// The network's side of a coordinator: listens, lets members in, and stops in time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/doorkeeper.hpp"
#include "engine/grpc/service_host.hpp"
#include "engine/grpc/stream_watch.hpp"

namespace tessera {

struct ServerOptions {
  /// "HOST:PORT"; port 0: any free one.
  std::string listen;
  /// Key, certificate, ca.pem and perhaps crl.pem (net/identity.hpp). Not used where insecure.
  std::string identity_dir;
  /// No TLS, for trying things out; on this machine only.
  bool insecure = false;
  /// What callers are told; chunk_bytes is 1 … kMostChunkBytes.
  RetryWindow retry;
  StreamLimits streams;
  /// Calls that are not polls have a thread each; further callers are told to try again.
  int threads = 256;
  DoorLimits connections;
  /// How often key and certificates on the disk are looked at.
  unsigned reload_seconds = 10;
};

/// A running server. wake() and healthy() may be called by any thread, the rest by one.
class FederationServer {
 public:
  /// Listens from here on. Borrows the host, which outlives the server. One sentence for each
  /// mistake: a bad address, a port in use, a key or certificate that does not do, no TLS where
  /// others could listen in.
  static Result<std::unique_ptr<FederationServer>> start(const ServerOptions& options,
                                                         ServiceHost& host);
  ~FederationServer();  // stops

  /// "HOST:PORT" with the port in use.
  const std::string& address() const;
  /// There may be something new on the board for this member, or for all of them: answers polls
  /// that are held. It is found without, too, a moment later.
  void wake(int64_t member);
  void wake();
  /// Connects as a member would. kIo: nobody can come in, and why: no file descriptor is left, too
  /// many are there, it has been stopped. Takes at most two seconds.
  Status healthy() const;
  /// Lets no call begin, ends polls, and gives other calls that are under way `grace` to end; then
  /// they are broken off. Returns soon after that. May be repeated.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(1000));

 private:
  struct Parts;
  explicit FederationServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera
