// OpenSSL's objects with owners, and the few things that are done with them. For net's own sources:
// no header that other folders include names OpenSSL.
//
// `place` is a path or a word for messages. Nothing here throws or prompts. Errors: kInvalid for
// bytes that are not what they should be, kInternal if OpenSSL refuses something that we made.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace tessera {

template <auto release>
struct OpenSslFree {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
template <class T, auto release>
using OpenSslPtr = std::unique_ptr<T, OpenSslFree<release>>;

using CertificatePtr = OpenSslPtr<X509, X509_free>;
using RequestPtr = OpenSslPtr<X509_REQ, X509_REQ_free>;
using CrlPtr = OpenSslPtr<X509_CRL, X509_CRL_free>;
using KeyPtr = OpenSslPtr<EVP_PKEY, EVP_PKEY_free>;
using Asn1TimePtr = OpenSslPtr<ASN1_TIME, ASN1_TIME_free>;
using Asn1IntegerPtr = OpenSslPtr<ASN1_INTEGER, ASN1_INTEGER_free>;
using ExtensionPtr = OpenSslPtr<X509_EXTENSION, X509_EXTENSION_free>;

/// Takes this thread's OpenSSL errors of its lifetime with it. Left in the queue they would be
/// taken for an error of the next TLS connection of the thread. One in every function that calls.
class OpenSslErrors {
 public:
  OpenSslErrors();
  ~OpenSslErrors();
  OpenSslErrors(const OpenSslErrors&) = delete;
  OpenSslErrors& operator=(const OpenSslErrors&) = delete;
};

/// kInternal "OpenSSL cannot ACTION: its reason".
Status openssl_refused(const char* action);

/// Files of a public key infrastructure are small; larger ones are not what they should be.
inline constexpr size_t kMaxPemBytes = size_t{64} << 10;
/// A revocation list has some 40 bytes for each serial number.
inline constexpr size_t kMaxCrlBytes = size_t{16} << 20;

/// The whole file as text; errors as read_file().
Result<std::string> read_pem(const std::string& path, size_t max_bytes = kMaxPemBytes);

/// The first object of its kind in the text.
Result<CertificatePtr> parse_certificate(std::string_view pem, const std::string& place);
Result<RequestPtr> parse_request(std::string_view pem, const std::string& place);
Result<CrlPtr> parse_crl(std::string_view pem, const std::string& place);
/// A private key without passphrase: there is nobody to ask for one.
Result<KeyPtr> parse_key(std::string_view pem, const std::string& place);

Result<std::string> pem_of(X509* certificate);
Result<std::string> pem_of(X509_REQ* request);
Result<std::string> pem_of(X509_CRL* crl);
/// PKCS #8, not encrypted.
Result<std::string> pem_of(EVP_PKEY* key);

/// A fresh key on the curve P-256.
Result<KeyPtr> make_key();
/// Lower-case hex SHA-256 of the public half (SubjectPublicKeyInfo), to be compared by people.
Result<std::string> key_fingerprint(EVP_PKEY* key);

/// The one common name (CN), as UTF-8; other parts are ignored. kInvalid: none, several, or no
/// text.
Result<std::string> common_name(const X509_NAME* name, const std::string& place);
/// Makes `name` consist of this common name.
bool set_common_name(X509_NAME* name, const std::string& text);

/// Lower-case hex, two digits for each byte, without leading zero bytes.
std::string serial_hex(const ASN1_INTEGER* serial);
/// Seconds since 1970; kInvalid if the time is malformed.
Result<int64_t> unix_seconds(const ASN1_TIME* time, const std::string& place);
Result<Asn1TimePtr> asn1_time(int64_t seconds);
/// Host names and addresses a certificate is for (subjectAltName); other kinds are left out.
std::vector<std::string> hosts_of(const X509* certificate);

}  // namespace tessera
