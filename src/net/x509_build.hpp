// Certificates and revocation lists made and signed. For net's own sources, like net/x509.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "net/x509.hpp"

namespace tessera {

/// What goes into a certificate. Times are seconds since 1970; a serial number is drawn.
struct CertificatePlan {
  std::string name;
  int64_t from = 0, until = 0;
  std::vector<std::string> hosts = {};  // not empty: for a server; each passes check_host()
};

/// A CA that signs itself and whose certificates cannot sign others.
Result<CertificatePtr> build_ca(const CertificatePlan& plan, EVP_PKEY* key);

struct Issuer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};
/// For TLS: as a server if the plan has hosts, else as a client.
Result<CertificatePtr> build_certificate(const CertificatePlan& plan, EVP_PKEY* public_key,
                                         const Issuer& issuer);

/// Serial number (hex) → when it was revoked. The next one is promised for `next`, at most for the
/// CA's own end.
Result<CrlPtr> build_crl(const std::map<std::string, int64_t>& serials, int64_t number,
                         int64_t from, int64_t next, const Issuer& issuer);

/// kInvalid unless it is an IPv4 or IPv6 address or a host name without port and wildcard.
Status check_host(const std::string& host);

}  // namespace tessera
