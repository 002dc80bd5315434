#include "net/x509.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <time.h>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

using BioPtr = OpenSslPtr<BIO, BIO_free_all>;
using GeneralNamesPtr = OpenSslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;

std::string last_reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason ? reason : "no reason given";
}

BioPtr reader_of(std::string_view pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

/// In place of OpenSSL's own, which would ask at the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

template <class Ptr, class Read>
Result<Ptr> parse_pem(std::string_view pem, const std::string& place, const char* what, Read read) {
  const OpenSslErrors errors;
  if (pem.size() > kMaxCrlBytes)
    return fail(Error::kInvalid, "{}: {} is too much for {}; is it the right file?", place,
                human_bytes(static_cast<double>(pem.size())), what);
  const auto bio = reader_of(pem);
  if (!bio) return openssl_refused("read from memory");
  Ptr object(read(bio.get(), nullptr, no_passphrase, nullptr));
  if (!object)
    return fail(Error::kInvalid, "{}: no {} in PEM form, or a damaged one; copy the file again",
                place, what);
  return object;
}

template <class Write>
Result<std::string> written_pem(Write write) {
  const OpenSslErrors errors;
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || write(bio.get()) != 1) return openssl_refused("write PEM");
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string text_of_address(const ASN1_OCTET_STRING* address) {
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  char text[INET6_ADDRSTRLEN] = {};
  if (family == AF_INET6 && ASN1_STRING_length(address) != 16) return "";
  inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof text);
  return text;
}

}  // namespace

OpenSslErrors::OpenSslErrors() { ERR_set_mark(); }
OpenSslErrors::~OpenSslErrors() { ERR_pop_to_mark(); }

Status openssl_refused(const char* action) {
  return fail(Error::kInternal, "OpenSSL cannot {}: {}", action, last_reason());
}

Result<std::string> read_pem(const std::string& path, size_t max_bytes) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, max_bytes));
  return std::string(text_of(bytes));
}

Result<CertificatePtr> parse_certificate(std::string_view pem, const std::string& place) {
  return parse_pem<CertificatePtr>(pem, place, "certificate", PEM_read_bio_X509);
}

Result<RequestPtr> parse_request(std::string_view pem, const std::string& place) {
  return parse_pem<RequestPtr>(pem, place, "certificate request", PEM_read_bio_X509_REQ);
}

Result<CrlPtr> parse_crl(std::string_view pem, const std::string& place) {
  return parse_pem<CrlPtr>(pem, place, "revocation list", PEM_read_bio_X509_CRL);
}

Result<KeyPtr> parse_key(std::string_view pem, const std::string& place) {
  if (pem.find("ENCRYPTED") != pem.npos)
    return fail(Error::kInvalid,
                "{0}: the key has a passphrase, which nobody could type at a restart; remove it "
                "(`openssl pkey -in {0}`) and protect the file by its permissions",
                place);
  return parse_pem<KeyPtr>(pem, place, "private key", PEM_read_bio_PrivateKey);
}

Result<std::string> pem_of(X509* certificate) {
  return written_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

Result<std::string> pem_of(X509_REQ* request) {
  return written_pem([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request); });
}

Result<std::string> pem_of(X509_CRL* crl) {
  return written_pem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, crl); });
}

Result<std::string> pem_of(EVP_PKEY* key) {
  return written_pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Result<KeyPtr> make_key() {
  const OpenSslErrors errors;
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_refused("make a key");
  return key;
}

Result<std::string> key_fingerprint(EVP_PKEY* key) {
  const OpenSslErrors errors;
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return openssl_refused("write a public key");
  const auto hex = sha256_hex({der, static_cast<size_t>(size)});
  OPENSSL_free(der);
  return hex;
}

Result<std::string> common_name(const X509_NAME* name, const std::string& place) {
  const OpenSslErrors errors;
  const int first = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (first < 0) return fail(Error::kInvalid, "{}: has no common name (CN)", place);
  if (X509_NAME_get_index_by_NID(name, NID_commonName, first) >= 0)
    return fail(Error::kInvalid, "{}: has several common names (CN), and must have one", place);
  unsigned char* text = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, first)));
  if (size < 0) return fail(Error::kInvalid, "{}: its common name (CN) is no text", place);
  std::string out(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return out;
}

bool set_common_name(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

std::string serial_hex(const ASN1_INTEGER* serial) {
  std::string out;
  for (int i = 0; i < ASN1_STRING_length(serial); ++i)
    out += fmt::format("{:02x}", ASN1_STRING_get0_data(serial)[i]);
  return out;
}

Result<int64_t> unix_seconds(const ASN1_TIME* time, const std::string& place) {
  const OpenSslErrors errors;
  tm parts{};
  if (!time || ASN1_TIME_to_tm(time, &parts) != 1)
    return fail(Error::kInvalid, "{}: a time in it is malformed", place);
  return static_cast<int64_t>(timegm(&parts));
}

Result<Asn1TimePtr> asn1_time(int64_t seconds) {
  const OpenSslErrors errors;
  Asn1TimePtr time(ASN1_TIME_set(nullptr, static_cast<time_t>(seconds)));
  if (!time) return openssl_refused("write a time");
  return time;
}

std::vector<std::string> hosts_of(const X509* certificate) {
  const OpenSslErrors errors;
  std::vector<std::string> out;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      out.push_back(
          printable({text, static_cast<size_t>(ASN1_STRING_length(name->d.dNSName))}, 253));
    } else if (name->type == GEN_IPADD) {
      out.push_back(text_of_address(name->d.iPAddress));
    }
  }
  return out;
}

}  // namespace tessera
