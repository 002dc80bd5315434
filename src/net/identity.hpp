// Who somebody is in a federation: a directory with a key and a certificate.
//
//     key.pem      private key, for its owner's eyes only (0600); never leaves the machine
//     request.csr  what the federation's CA is asked to sign; no secret
//     cert.pem     the certificate; its common name (CN) is the member's name everywhere
//     ca.pem       the CA's certificate: whom to trust
//     crl.pem      what the CA has revoked (net/revocations.hpp): a server needs it, a client that
//                  has it does not talk to a server whose certificate is on it
//
// Times are seconds since 1970 (UTC). Functions keep nothing and may be called by any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// What a certificate says of its owner.
struct CertificateFacts {
  std::string name;    // passes check_member_name()
  std::string serial;  // lower-case hex
  int64_t from = 0, until = 0;
  /// What it says it may be used for (extended key usage); neither if it does not say. Ours have
  /// one of the two; those of other programs may have both.
  bool is_client = false, is_server = false;
  /// Host names and addresses that a server answers to.
  std::vector<std::string> hosts;
};

/// A directory that was looked through: everything in it fits.
struct Identity : CertificateFacts {
  std::string dir;
  std::string key_path, certificate_path, ca_path;
  std::string crl_path;  // need not exist
};

/// Fine for names that people can tell apart and files can carry: UTF-8, 1 to 64 bytes, no '/', no
/// control or invisible character, no blank at an end, no '.' or '-' in front. kInvalid otherwise.
Status check_member_name(std::string_view name);

/// Checks that the key fits the certificate, that ca.pem signed it, that both are valid at `now`,
/// that only the owner can read the key, and that the name is in order. kNotFound or kInvalid: one
/// sentence with the file and what to do.
Result<Identity> load_identity(const std::string& dir, int64_t now);

/// The facts of a certificate that somebody else has verified already, as TLS does of a peer's.
/// kInvalid: no certificate, or a name that no member may have.
Result<CertificateFacts> read_certificate(std::string_view pem);

struct RequestFiles {
  std::string request_path, key_path;
  std::string key_sha256;  // of the public half: lets two people compare what they hold
  bool new_key = false;    // false: the key that was there is used again
};
/// Makes dir/key.pem (in a directory of mode 0700, if that is new) and dir/request.csr. A key that
/// is there stays, so asking again renews a certificate without changing the key.
Result<RequestFiles> make_request(const std::string& name, const std::string& dir);

/// What a CA gives back, each a file's contents.
struct CertificateFiles {
  std::string certificate, ca;
  std::string crl;  // empty: none is written
};
/// kExists if the file is the certificate of another name; fine if there is no such file.
Status may_replace_certificate(const std::string& path, const std::string& name);
/// kExists if `dir` belongs to somebody else: another name in cert.pem, another CA in ca.pem.
Status may_install(const std::string& dir, const std::string& name, const std::string& ca_pem);
/// Writes cert.pem, ca.pem and crl.pem, the certificate last; makes the directory if need be.
Status install_certificate(const std::string& dir, const CertificateFiles& files);

/// Now, by this machine's clock.
int64_t unix_now();
/// "2026-11-16 18:50 UTC"
std::string utc_minute_text(int64_t seconds);

}  // namespace tessera
