#include "net/identity.hpp"

#include <fmt/chrono.h>
#include <openssl/x509_vfy.h>

#include <chrono>
#include <filesystem>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "io/file.hpp"
#include "net/private_file.hpp"
#include "net/x509.hpp"

namespace tessera {
namespace {

using StorePtr = OpenSslPtr<X509_STORE, X509_STORE_free>;
using StoreContextPtr = OpenSslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;

bool is_there(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

/// Characters that do not show, or change how others show: two names could look the same.
bool is_invisible(uint32_t c) {
  const auto within = [c](uint32_t first, uint32_t last) { return first <= c && c <= last; };
  return c < 0x20 || within(0x7F, 0x9F) || c == 0xAD || within(0x200B, 0x200F) ||
         within(0x2028, 0x202E) || within(0x2060, 0x206F) || c == 0xFEFF;
}

bool is_blank(uint32_t c) {
  return c == ' ' || c == 0xA0 || (0x2000 <= c && c <= 0x200A) || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Result<CertificateFacts> facts_of(X509* certificate, const std::string& place) {
  CertificateFacts facts;
  TESSERA_ASSIGN(facts.name, common_name(X509_get_subject_name(certificate), place));
  TESSERA_RETURN_IF_ERROR(at_place(check_member_name(facts.name), place));
  facts.serial = serial_hex(X509_get0_serialNumber(certificate));
  TESSERA_ASSIGN(facts.from, unix_seconds(X509_get0_notBefore(certificate), place));
  TESSERA_ASSIGN(facts.until, unix_seconds(X509_get0_notAfter(certificate), place));
  const OpenSslErrors errors;
  uint32_t uses = X509_get_extended_key_usage(certificate);
  // OpenSSL's answer for a certificate that does not say: for everything. Here it is for nothing,
  // or a client's could stand for the server.
  if (uses == UINT32_MAX) uses = 0;
  facts.is_client = (uses & XKU_SSL_CLIENT) != 0;
  facts.is_server = (uses & XKU_SSL_SERVER) != 0;
  facts.hosts = hosts_of(certificate);
  return facts;
}

Status check_files(const Identity& identity) {
  const auto& dir = identity.dir;
  if (!is_there(identity.key_path))
    return fail(Error::kNotFound,
                "{}: no such file; make an identity: `tessera pki request NAME --identity {}`",
                identity.key_path, dir);
  if (!is_there(identity.certificate_path))
    return fail(Error::kNotFound,
                "{0}: no such file; have {1}/request.csr signed (`tessera pki sign`) and put the "
                "cert.pem and ca.pem that you get into {1}",
                identity.certificate_path, dir);
  if (!is_there(identity.ca_path))
    return fail(Error::kNotFound, "{}: no such file; copy ca.pem of the federation's CA there",
                identity.ca_path);
  return ok();
}

Status check_validity(const std::string& file, int64_t from, int64_t until, int64_t now,
                      const std::string& remedy) {
  if (now < from)
    return fail(Error::kInvalid,
                "{}: is valid only from {} on, and this machine's clock says {}; set the clock",
                file, utc_minute_text(from), utc_minute_text(now));
  if (now >= until)
    return fail(Error::kInvalid, "{}: expired on {}, and this machine's clock says {}; {}", file,
                utc_minute_text(until), utc_minute_text(now), remedy);
  return ok();
}

/// OpenSSL's own verdict, as a TLS handshake will ask for it.
Status check_chain(const Identity& identity, X509* certificate, X509* ca, int64_t now) {
  const OpenSslErrors errors;
  const StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (!store || !context || X509_STORE_add_cert(store.get(), ca) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) != 1)
    return openssl_refused("verify a certificate");
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()), static_cast<time_t>(now));
  if (X509_verify_cert(context.get()) == 1) return ok();
  const int error = X509_STORE_CTX_get_error(context.get());
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return fail(Error::kInvalid,
                  "{}: was not signed by the CA of {}; both must come from the same federation",
                  identity.certificate_path, identity.ca_path);
    default:
      return fail(Error::kInvalid, "{}: does not stand with {}: {}; have it signed anew",
                  identity.certificate_path, identity.ca_path,
                  X509_verify_cert_error_string(error));
  }
}

Status check_key_fits(const Identity& identity, X509* certificate) {
  TESSERA_RETURN_IF_ERROR(check_private_file(identity.key_path));
  TESSERA_ASSIGN(const auto pem, read_pem(identity.key_path));
  TESSERA_ASSIGN(const auto key, parse_key(pem, identity.key_path));
  const OpenSslErrors errors;
  if (X509_check_private_key(certificate, key.get()) == 1) return ok();
  return fail(Error::kInvalid,
              "{}: is the certificate of another key than {}; take the one that was made for "
              "{}/request.csr, or have that signed again",
              identity.certificate_path, identity.key_path, identity.dir);
}

/// The key of the directory, made if there is none.
Result<KeyPtr> key_for(RequestFiles& files) {
  if (is_there(files.key_path)) {
    TESSERA_RETURN_IF_ERROR(check_private_file(files.key_path));
    TESSERA_ASSIGN(const auto pem, read_pem(files.key_path));
    return parse_key(pem, files.key_path);
  }
  TESSERA_ASSIGN(auto key, make_key());
  TESSERA_ASSIGN(const auto pem, pem_of(key.get()));
  TESSERA_RETURN_IF_ERROR(write_private_file(files.key_path, pem));
  files.new_key = true;
  return key;
}

Result<std::string> signed_request(const std::string& name, EVP_PKEY* key) {
  const OpenSslErrors errors;
  const RequestPtr request(X509_REQ_new());
  if (!request || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      !set_common_name(X509_REQ_get_subject_name(request.get()), name) ||
      X509_REQ_set_pubkey(request.get(), key) != 1 ||
      X509_REQ_sign(request.get(), key, EVP_sha256()) <= 0)
    return openssl_refused("make a certificate request");
  return pem_of(request.get());
}

}  // namespace

int64_t unix_now() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

std::string utc_minute_text(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Status check_member_name(std::string_view name) {
  const auto no = [&](const char* why) {
    return fail(Error::kInvalid, "'{}' cannot be a name: {}", printable(name), why);
  };
  if (name.empty()) return no("it is empty");
  if (name.size() > 64) return no("it is longer than 64 bytes");
  if (utf8_length(name) != name.size()) return no("it is not valid UTF-8");
  if (name[0] == '.' || name[0] == '-') return no("it begins with '.' or '-'");
  uint32_t last = 0;
  for (size_t at = 0; at < name.size();) {
    const bool first = at == 0;
    last = *next_character(name, at);
    if (last == '/') return no("it contains '/'");
    if (is_invisible(last)) return no("it contains a control or invisible character");
    if (first && is_blank(last)) return no("it begins with a blank");
  }
  return is_blank(last) ? no("it ends with a blank") : ok();
}

Result<CertificateFacts> read_certificate(std::string_view pem) {
  TESSERA_ASSIGN(const auto certificate, parse_certificate(pem, "the certificate"));
  return facts_of(certificate.get(), "the certificate");
}

Result<Identity> load_identity(const std::string& dir, int64_t now) {
  Identity identity;
  identity.dir = dir;
  identity.key_path = dir + "/key.pem", identity.certificate_path = dir + "/cert.pem";
  identity.ca_path = dir + "/ca.pem", identity.crl_path = dir + "/crl.pem";
  TESSERA_RETURN_IF_ERROR(check_files(identity));
  TESSERA_ASSIGN(const auto pem, read_pem(identity.certificate_path));
  TESSERA_ASSIGN(const auto certificate, parse_certificate(pem, identity.certificate_path));
  TESSERA_ASSIGN(static_cast<CertificateFacts&>(identity),
                 facts_of(certificate.get(), identity.certificate_path));
  TESSERA_RETURN_IF_ERROR(check_key_fits(identity, certificate.get()));
  TESSERA_ASSIGN(const auto ca_pem, read_pem(identity.ca_path));
  TESSERA_ASSIGN(const auto ca, parse_certificate(ca_pem, identity.ca_path));
  TESSERA_ASSIGN(const auto ca_from, unix_seconds(X509_get0_notBefore(ca.get()), identity.ca_path));
  TESSERA_ASSIGN(const auto ca_until, unix_seconds(X509_get0_notAfter(ca.get()), identity.ca_path));
  TESSERA_RETURN_IF_ERROR(check_validity(identity.ca_path, ca_from, ca_until, now,
                                         "the federation needs a new CA (`tessera pki init`)"));
  TESSERA_RETURN_IF_ERROR(check_validity(
      identity.certificate_path, identity.from, identity.until, now,
      fmt::format("renew it: `tessera pki request {} --identity {}`, then `tessera pki sign`",
                  identity.name, dir)));
  TESSERA_RETURN_IF_ERROR(check_chain(identity, certificate.get(), ca.get(), now));
  if (!identity.is_client && !identity.is_server)
    return fail(Error::kInvalid,
                "{}: is neither for a client nor for a server (extended key usage); have it signed "
                "by `tessera pki sign`",
                identity.certificate_path);
  return identity;
}

Result<RequestFiles> make_request(const std::string& name, const std::string& dir) {
  TESSERA_RETURN_IF_ERROR(check_member_name(name));
  TESSERA_RETURN_IF_ERROR(make_private_dir(dir));
  TESSERA_ASSIGN(const auto lock, DirLock::take(dir));
  RequestFiles files{.request_path = dir + "/request.csr", .key_path = dir + "/key.pem"};
  TESSERA_ASSIGN(const auto key, key_for(files));
  TESSERA_ASSIGN(files.key_sha256, key_fingerprint(key.get()));
  TESSERA_ASSIGN(const auto pem, signed_request(name, key.get()));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(files.request_path, bytes_of(pem)));
  return files;
}

Status may_replace_certificate(const std::string& path, const std::string& name) {
  if (!is_there(path)) return ok();
  TESSERA_ASSIGN(const auto pem, read_pem(path));
  TESSERA_ASSIGN(const auto old, parse_certificate(pem, path));
  TESSERA_ASSIGN(const auto facts, facts_of(old.get(), path));
  if (facts.name == name) return ok();
  return fail(Error::kExists, "{} is the certificate of '{}', not '{}'; choose another directory",
              path, facts.name, name);
}

Status may_install(const std::string& dir, const std::string& name, const std::string& ca_pem) {
  const auto ca_path = dir + "/ca.pem";
  TESSERA_RETURN_IF_ERROR(may_replace_certificate(dir + "/cert.pem", name));
  if (!is_there(ca_path)) return ok();
  TESSERA_ASSIGN(const auto there_pem, read_pem(ca_path));
  TESSERA_ASSIGN(const auto there, parse_certificate(there_pem, ca_path));
  TESSERA_ASSIGN(const auto ours, parse_certificate(ca_pem, "ca.pem of the CA"));
  if (X509_cmp(there.get(), ours.get()) == 0) return ok();
  return fail(Error::kExists, "{} is of another CA; choose another directory, or remove it",
              ca_path);
}

Status install_certificate(const std::string& dir, const CertificateFiles& files) {
  TESSERA_RETURN_IF_ERROR(make_private_dir(dir));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(dir + "/ca.pem", bytes_of(files.ca)));
  if (!files.crl.empty())
    TESSERA_RETURN_IF_ERROR(write_file_atomic(dir + "/crl.pem", bytes_of(files.crl)));
  return write_file_atomic(dir + "/cert.pem", bytes_of(files.certificate));
}

}  // namespace tessera
