// TLS for both ends: TLS 1.3, both sides show a certificate, and certificates that are renewed on
// the disk are taken up while everything runs.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "net/identity.hpp"

namespace tessera {

/// Settings of gRPC that only the environment takes and that it reads once: TLS below 1.3 finds no
/// cipher to agree on, and gRPC's own log is silent unless GRPC_VERBOSITY says otherwise.
/// Everything here that uses gRPC calls it; a program with other threads calls it before they
/// begin, as the environment is not thread-safe. Repeating it does nothing.
void prepare_grpc();

struct ServerTls {
  /// As net/identity.hpp has it.
  std::string identity_dir;
  /// How often files are looked at; at least 1.
  unsigned reload_seconds = 10;
  /// Asked during every handshake with the serial number of the caller's certificate. An error
  /// refuses the caller: who cannot be checked does not come in. Called by any thread.
  std::function<Result<bool>(const std::string& serial)> revoked;
  /// Told who with a certificate of our CA was turned away, and why, of one certificate at most
  /// every 10 seconds; may be empty. Any thread.
  std::function<void(const CertificateFacts& who, const std::string& sentence)> on_refused = {};
};

/// Lets in who shows a certificate of the CA in ca.pem that is valid now, meant for clients and not
/// revoked; all others before any byte of a call. Errors as load_identity()'s; kInvalid for a
/// certificate that is not meant for a server.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const ServerTls& tls);

/// Believes a server whose certificate is of the CA in ca.pem, valid now, meant for a server, for
/// the name that was called, and not revoked by crl.pem, if that lies in the identity's directory.
/// Errors as load_identity()'s; kInvalid for a certificate that is not meant for a client.
Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(
    const std::string& identity_dir, unsigned reload_seconds = 10);

}  // namespace tessera
