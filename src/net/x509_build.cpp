#include "net/x509_build.hpp"

#include <arpa/inet.h>
#include <openssl/rand.h>

#include <algorithm>

#include "io/bytes.hpp"

namespace tessera {
namespace {

using BigNumberPtr = OpenSslPtr<BIGNUM, BN_free>;
using GeneralNamePtr = OpenSslPtr<GENERAL_NAME, GENERAL_NAME_free>;
using NameListPtr = OpenSslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;
using OctetsPtr = OpenSslPtr<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free>;
using HostTextPtr = OpenSslPtr<ASN1_IA5STRING, ASN1_IA5STRING_free>;
using RevokedPtr = OpenSslPtr<X509_REVOKED, X509_REVOKED_free>;

/// 16 bytes in network order, 4 of them for IPv4; none if it is no address.
std::vector<uint8_t> address_of(const std::string& host) {
  std::vector<uint8_t> bytes(4);
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(16);
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

bool is_label(std::string_view label) {
  const auto fits = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-' ||
           c == '_';
  };
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), fits);
}

bool set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  // Positive and always of 16 bytes, so that all serial numbers have the same length.
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7F) | 0x40);
  const BigNumberPtr number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate));
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

GeneralNamePtr general_name(const std::string& host) {
  GeneralNamePtr name(GENERAL_NAME_new());
  if (!name) return nullptr;
  if (const auto address = address_of(host); !address.empty()) {
    OctetsPtr octets(ASN1_OCTET_STRING_new());
    if (!octets ||
        ASN1_OCTET_STRING_set(octets.get(), address.data(), static_cast<int>(address.size())) != 1)
      return nullptr;
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, octets.release());
    return name;
  }
  HostTextPtr text(ASN1_IA5STRING_new());
  if (!text || ASN1_STRING_set(text.get(), host.data(), static_cast<int>(host.size())) != 1)
    return nullptr;
  GENERAL_NAME_set0_value(name.get(), GEN_DNS, text.release());
  return name;
}

// As objects, not as OpenSSL's configuration text, where a host could smuggle in more.
bool add_hosts(X509* certificate, const std::vector<std::string>& hosts) {
  const NameListPtr names(sk_GENERAL_NAME_new_null());
  if (!names) return false;
  for (const auto& host : hosts) {
    auto name = general_name(host);
    if (!name || sk_GENERAL_NAME_push(names.get(), name.get()) <= 0) return false;
    name.release();
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) ==
         1;
}

Result<CertificatePtr> begin_certificate(const CertificatePlan& plan, EVP_PKEY* public_key) {
  TESSERA_ASSIGN(const auto from, asn1_time(plan.from));
  TESSERA_ASSIGN(const auto until, asn1_time(plan.until));
  CertificatePtr certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !set_random_serial(certificate.get()) ||
      !set_common_name(X509_get_subject_name(certificate.get()), plan.name) ||
      X509_set1_notBefore(certificate.get(), from.get()) != 1 ||
      X509_set1_notAfter(certificate.get(), until.get()) != 1 ||
      X509_set_pubkey(certificate.get(), public_key) != 1)
    return openssl_refused("make a certificate");
  return certificate;
}

Status add_revoked(X509_CRL* crl, const std::string& serial, int64_t when) {
  TESSERA_ASSIGN(const auto date, asn1_time(when));
  BIGNUM* parsed = nullptr;
  const int digits = BN_hex2bn(&parsed, serial.c_str());
  const BigNumberPtr number(parsed);
  const Asn1IntegerPtr integer(number ? BN_to_ASN1_INTEGER(number.get(), nullptr) : nullptr);
  RevokedPtr entry(X509_REVOKED_new());
  if (digits != static_cast<int>(serial.size()) || !integer || !entry ||
      X509_REVOKED_set_serialNumber(entry.get(), integer.get()) != 1 ||
      X509_REVOKED_set_revocationDate(entry.get(), date.get()) != 1 ||
      X509_CRL_add0_revoked(crl, entry.get()) != 1)
    return openssl_refused("add to a revocation list");
  entry.release();
  return ok();
}

bool add_crl_extensions(X509_CRL* crl, int64_t number, X509* issuer) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, nullptr, nullptr, crl, 0);
  const ExtensionPtr of_key(
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  const Asn1IntegerPtr value(ASN1_INTEGER_new());
  return of_key && value && X509_CRL_add_ext(crl, of_key.get(), -1) == 1 &&
         ASN1_INTEGER_set_int64(value.get(), number) == 1 &&
         X509_CRL_add1_ext_i2d(crl, NID_crl_number, value.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

}  // namespace

Result<CertificatePtr> build_ca(const CertificatePlan& plan, EVP_PKEY* key) {
  const OpenSslErrors errors;
  TESSERA_ASSIGN(auto ca, begin_certificate(plan, key));
  auto* const it = ca.get();
  if (X509_set_issuer_name(it, X509_get_subject_name(it)) != 1 ||
      !add_extension(it, it, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(it, it, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(it, it, NID_subject_key_identifier, "hash") ||
      X509_sign(it, key, EVP_sha256()) <= 0)
    return openssl_refused("make the CA's certificate");
  return ca;
}

Result<CertificatePtr> build_certificate(const CertificatePlan& plan, EVP_PKEY* public_key,
                                         const Issuer& issuer) {
  const OpenSslErrors errors;
  TESSERA_ASSIGN(auto certificate, begin_certificate(plan, public_key));
  auto* const it = certificate.get();
  auto* const ca = issuer.certificate;
  if (X509_set_issuer_name(it, X509_get_subject_name(ca)) != 1 ||
      !add_extension(it, ca, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(it, ca, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(it, ca, NID_ext_key_usage, plan.hosts.empty() ? "clientAuth" : "serverAuth") ||
      !add_extension(it, ca, NID_subject_key_identifier, "hash") ||
      !add_extension(it, ca, NID_authority_key_identifier, "keyid:always") ||
      (!plan.hosts.empty() && !add_hosts(it, plan.hosts)) ||
      X509_sign(it, issuer.key, EVP_sha256()) <= 0)
    return openssl_refused("sign a certificate");
  return certificate;
}

Result<CrlPtr> build_crl(const std::map<std::string, int64_t>& serials, int64_t number,
                         int64_t from, int64_t next, const Issuer& issuer) {
  const OpenSslErrors errors;
  const auto* end = X509_get0_notAfter(issuer.certificate);
  TESSERA_ASSIGN(const auto ca_until, unix_seconds(end, "the CA's certificate"));
  TESSERA_ASSIGN(const auto last, asn1_time(from));
  TESSERA_ASSIGN(const auto until, asn1_time(std::min(next, ca_until)));
  CrlPtr crl(X509_CRL_new());
  if (!crl || X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(issuer.certificate)) != 1 ||
      X509_CRL_set1_lastUpdate(crl.get(), last.get()) != 1 ||
      X509_CRL_set1_nextUpdate(crl.get(), until.get()) != 1)
    return openssl_refused("make a revocation list");
  for (const auto& [serial, when] : serials)
    TESSERA_RETURN_IF_ERROR(add_revoked(crl.get(), serial, when));
  if (X509_CRL_sort(crl.get()) != 1 || !add_crl_extensions(crl.get(), number, issuer.certificate) ||
      X509_CRL_sign(crl.get(), issuer.key, EVP_sha256()) <= 0)
    return openssl_refused("sign a revocation list");
  return crl;
}

Status check_host(const std::string& host) {
  if (!address_of(host).empty()) return ok();
  bool good = !host.empty() && host.size() <= 253;
  std::string_view rest = host;
  while (good && !rest.empty()) {
    const auto dot = rest.find('.');
    good = is_label(rest.substr(0, dot)) && dot + 1 != rest.size();
    rest = dot == rest.npos ? "" : rest.substr(dot + 1);
  }
  // Nothing but digits and dots is a mistyped address, and no host has such a name.
  if (good && host.find_first_not_of("0123456789.") != host.npos) return ok();
  return fail(Error::kInvalid,
              "--server: '{}' is neither a host name nor an IP address; give what clients will "
              "connect to, without port, separated by commas",
              printable(host));
}

}  // namespace tessera
