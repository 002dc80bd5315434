// Why callers failed to come in, which gRPC tells to nobody but its log.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera {

/// While it lives, `tell` gets a few words for every handshake with a server of this process that
/// fails; from any thread, and it must not wait. Silent if GRPC_VERBOSITY asks for gRPC's own log.
/// To be made after prepare_grpc().
class HandshakeWatch {
 public:
  explicit HandshakeWatch(std::function<void(const std::string& reason)> tell);
  ~HandshakeWatch();
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;
};

/// The words of a line of gRPC's log; empty if the line is of something else.
std::string handshake_reason(std::string_view line);

}  // namespace tessera
