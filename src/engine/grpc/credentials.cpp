#include "engine/grpc/credentials.hpp"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

#include "engine/grpc/rpc_status.hpp"
#include "net/revocations.hpp"

namespace tessera {
namespace {

// TLS 1.3 has cipher suites of its own; this list is what older versions may choose from. gRPC 1.51
// has no setting for the lowest version, and OpenSSL takes no empty list. The only entry needs a
// key that both ends have shared before, which nobody here has: so a handshake of TLS 1.2 ends with
// "no shared cipher".
constexpr const char* kNothingBelowTls13 = "PSK-AES256-GCM-SHA384";

std::string text_from(grpc::string_ref text) { return {text.data(), text.size()}; }

/// Runs after OpenSSL has found the caller's certificate to be of our CA and valid.
class CallerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit CallerVerifier(ServerTls tls) : tls_(std::move(tls)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    const auto who = read_certificate(text_from(request->peer_cert()));
    const auto why = who.ok() ? refusal(*who) : message(who.status());
    if (!why.empty()) {
      const auto facts = who.ok() ? *who : CertificateFacts();
      if (tls_.on_refused && seldom(facts.serial + why)) tls_.on_refused(facts, why);
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why);
    }
    return true;  // answered at once
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  /// Who tries again and again fills no log.
  bool seldom(const std::string& what) {
    constexpr std::chrono::seconds kBetween{10};
    constexpr size_t kMostKept = 1000;
    const std::scoped_lock guard(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto [at, first] = told_.try_emplace(what, now);
    if (!first && now - at->second < kBetween) return false;
    at->second = now;
    if (told_.size() > kMostKept) told_.clear();
    return true;
  }
  std::string refusal(const CertificateFacts& who) const {
    if (!who.is_client)
      return fmt::format("the certificate of '{}' is not meant for a client", who.name);
    const auto revoked = tls_.revoked(who.serial);
    if (!revoked.ok())
      return fmt::format("'{}' cannot be checked: {}", who.name, message(revoked.status()));
    return *revoked ? fmt::format("the certificate of '{}' was revoked", who.name) : "";
  }

  const ServerTls tls_;
  std::mutex mutex_;
  std::map<std::string, std::chrono::steady_clock::time_point> told_;
};

/// Runs after OpenSSL has found the server's certificate to be of our CA and valid.
class ServedVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ServedVerifier(const Identity& identity)
      : revocations_(identity.crl_path, identity.ca_path) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    // gRPC's own check of the name that was called; it answers at once.
    host_name_.Verify(request, {}, sync_status);
    if (!sync_status->ok()) return true;
    const auto server = read_certificate(text_from(request->peer_cert()));
    const auto why = server.ok() ? refusal(*server) : message(server.status());
    if (!why.empty()) *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why);
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  std::string refusal(const CertificateFacts& server) {
    if (!server.is_server) return kNotForAServer;
    const auto revoked = revocations_.revoked(server.serial);
    if (!revoked.ok()) return kServerUnchecked;
    return *revoked ? kServerRevoked : "";
  }

  grpc::experimental::HostNameCertificateVerifier host_name_;
  Revocations revocations_;
};

auto watching(const Identity& identity, unsigned reload_seconds) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      identity.key_path, identity.certificate_path, identity.ca_path, std::max(1U, reload_seconds));
}

}  // namespace

void prepare_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("GRPC_SSL_CIPHER_SUITES", kNothingBelowTls13, 1);
    ::setenv("GRPC_VERBOSITY", "NONE", 0);
  });
}

Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const ServerTls& tls) {
  prepare_grpc();
  TESSERA_ASSIGN(const auto identity, load_identity(tls.identity_dir, unix_now()));
  if (!identity.is_server)
    return fail(Error::kInvalid,
                "{}: the certificate is for a client; issue one for the server with 'tessera pki "
                "issue NAME --host HOST'",
                identity.certificate_path);
  grpc::experimental::TlsServerCredentialsOptions options(watching(identity, tls.reload_seconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<CallerVerifier>(tls));
  options.set_check_call_host(false);  // callers have no host name
  return grpc::experimental::TlsServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(
    const std::string& identity_dir, unsigned reload_seconds) {
  prepare_grpc();
  TESSERA_ASSIGN(const auto identity, load_identity(identity_dir, unix_now()));
  if (!identity.is_client)
    return fail(Error::kInvalid,
                "{}: the certificate is for a server; issue one for this client with 'tessera pki "
                "issue NAME'",
                identity.certificate_path);
  // A list that cannot be used is told here, in its own words; in a handshake there is no place.
  TESSERA_RETURN_IF_ERROR(Revocations(identity.crl_path, identity.ca_path).status());
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(watching(identity, reload_seconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ServedVerifier>(identity));
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace tessera
