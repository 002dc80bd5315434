// Who is calling: the name in the certificate that TLS has verified.
#pragma once

#include <grpcpp/server_context.h>

#include <map>
#include <mutex>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/service_host.hpp"
#include "net/identity.hpp"
#include "net/presence.hpp"

namespace tessera {

/// The header that says which process calls: "STATE/PROCESS", two names of at most 64 characters.
inline constexpr const char* kProcessHeader = "tessera-process";
/// The header that says who calls where there is no TLS; read there only.
inline constexpr const char* kInsecureNameHeader = "tessera-name";

struct Caller {
  int64_t member = -1;  // -1: a stranger, or a certificate that was revoked
  std::string name;
  std::string serial;  // of its certificate; empty without TLS
  std::string peer;    // address and port
  CallingProcess process;
};

/// Thread-safe. Borrows the host.
class CallerCheck {
 public:
  /// `insecure`: there is no TLS, and the caller says itself who it is.
  CallerCheck(ServiceHost& host, bool insecure) : host_(host), insecure_(insecure) {}

  /// Fills in what is known of the caller. Fine for a member whose certificate is not revoked now;
  /// else PERMISSION_DENIED with the reason, or UNAVAILABLE if nobody can say. So an open
  /// connection is of no use any more once its certificate is revoked.
  grpc::Status identify(const grpc::ServerContextBase& context, Caller& caller);

 private:
  Result<CertificateFacts> facts_of(const std::string& pem);

  ServiceHost& host_;
  const bool insecure_;
  std::mutex mutex_;
  std::map<std::string, CertificateFacts> known_;  // by PEM: reading one costs more than a call
};

}  // namespace tessera
