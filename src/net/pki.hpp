// A federation's certification authority (CA): a directory, and what is done with it.
//
//     ca.pem       its certificate; everybody in the federation has a copy
//     ca-key.pem   its private key (0600): whoever has it can let anybody in
//     crl.pem      what it has revoked, signed; the server has a copy
//     issued/      a copy of every certificate that was issued: NAME-SERIAL.pem
//
// There is no other index: the certificates and the list say everything, and each file is written
// whole or not at all. A certificate is in issued/ before anybody else gets it, so it can always be
// revoked. Calls that change something hold DIR/.lock (kBusy if another process does).
//
// Keys are on the curve P-256, signatures are with SHA-256, serial numbers are random. Certificates
// are valid from five minutes before `now`, since clocks differ. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "net/identity.hpp"

namespace tessera {

inline constexpr int64_t kMaxDays = 36'500;
/// So long a revocation list is good before a new one should be there. One that is older still
/// counts: whoever uses it is warned (net/revocations.hpp).
inline constexpr int64_t kCrlDays = 30;

struct CaOptions {
  std::string name = "Tessera federation";
  int64_t days = 3650;
};
/// Makes a CA in a directory, which is made too (0700). kExists if there is one.
Status create_ca(const std::string& dir, const CaOptions& options, int64_t now);

/// What a certificate request says; its signature was checked, so its sender holds the key.
struct RequestFacts {
  std::string name;
  std::string key_sha256;  // as RequestFiles::key_sha256
};
/// kInvalid: damaged, changed after it was signed, a name that no member may have, a weak key.
Result<RequestFacts> read_request(std::string_view csr_pem, const std::string& place);

struct CertificateOptions {
  /// Host names and addresses of a server; empty: a certificate for a client.
  std::vector<std::string> hosts;
  /// 1 … kMaxDays, and never longer than the CA itself.
  int64_t days = 365;
  /// Sign although the name has a valid certificate. That one stays valid until it expires.
  bool renew = false;
};
/// A certificate as it comes back from the CA. crl is there for servers only.
struct SignedCertificate {
  CertificateFacts facts;
  CertificateFiles files;
};
/// Signs a request; of what it asks for only name and key are taken. kExists: the name has a valid
/// certificate, and `renew` is not set. `place` names the request in messages.
Result<SignedCertificate> sign_request(const std::string& ca_dir, std::string_view csr_pem,
                                       const std::string& place, const CertificateOptions& options,
                                       int64_t now);

/// Everything at once, for where CA and identity are on the same machine: make_request(),
/// sign_request(), install_certificate().
Result<SignedCertificate> issue_identity(const std::string& name, const std::string& ca_dir,
                                         const std::string& identity_dir,
                                         const CertificateOptions& options, int64_t now);

struct IssuedCertificate : CertificateFacts {
  std::optional<int64_t> revoked;  // when
};
/// All of them in natural order of names, the older first. kInvalid names a damaged file.
Result<std::vector<IssuedCertificate>> issued_certificates(const std::string& ca_dir);

struct Revoked {
  std::vector<std::string> serials;  // that this call revoked; empty: all were revoked before
  std::string crl_path;
  int64_t crl_number = 0;
};
/// Puts every certificate of the name on the list. kNotFound if none was ever issued.
Result<Revoked> revoke_member(const std::string& ca_dir, const std::string& name, int64_t now);

struct RenewedCrl {
  std::string crl_path;
  int64_t crl_number = 0;
  int64_t next_update = 0;
};
/// Signs the same list again, with the next number and kCrlDays from `now`.
Result<RenewedCrl> renew_crl(const std::string& ca_dir, int64_t now);

}  // namespace tessera
