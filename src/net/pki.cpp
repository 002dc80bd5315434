#include "net/pki.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "io/file.hpp"
#include "net/private_file.hpp"
#include "net/revocations.hpp"
#include "net/x509_build.hpp"

namespace tessera {
namespace {

constexpr int64_t kSecondsOfDay = 86'400;
constexpr int64_t kClockSkew = 300;  // seconds
constexpr size_t kSerialDigits = 32;
constexpr int kMinSecurityBits = 112;  // RSA 2048, and every curve in use

/// A CA that was read and whose parts fit together.
struct Authority {
  std::string dir, ca_path, crl_path;
  std::string ca_pem, crl_pem;
  CertificatePtr ca;
  RevocationList revoked;
  int64_t until = 0;
};

Result<Authority> read_ca(const std::string& dir) {
  Authority out{.dir = dir, .ca_path = dir + "/ca.pem", .crl_path = dir + "/crl.pem"};
  auto pem = read_pem(out.ca_path);
  if (!pem.ok() && error_of(pem.status()) == Error::kNotFound)
    return fail(Error::kNotFound, "{}: there is no CA (no ca.pem); make one: `tessera pki init {}`",
                dir, dir);
  TESSERA_ASSIGN(out.ca_pem, std::move(pem));
  TESSERA_ASSIGN(out.ca, parse_certificate(out.ca_pem, out.ca_path));
  TESSERA_ASSIGN(out.until, unix_seconds(X509_get0_notAfter(out.ca.get()), out.ca_path));
  auto crl = read_pem(out.crl_path, kMaxCrlBytes);
  // Never made anew: an empty list would let those in who were revoked.
  if (!crl.ok() && error_of(crl.status()) == Error::kNotFound)
    return fail(Error::kNotFound,
                "{}: no such file, so nobody knows what was revoked; copy it back from the server "
                "or from a backup",
                out.crl_path);
  TESSERA_ASSIGN(out.crl_pem, std::move(crl));
  TESSERA_ASSIGN(out.revoked, read_revocations(out.crl_pem, out.crl_path, out.ca_pem, out.ca_path));
  return out;
}

/// The CA's key, for those who sign.
Result<KeyPtr> read_ca_key(const Authority& authority) {
  const auto file = authority.dir + "/ca-key.pem";
  TESSERA_RETURN_IF_ERROR(check_private_file(file));
  TESSERA_ASSIGN(const auto pem, read_pem(file));
  TESSERA_ASSIGN(auto key, parse_key(pem, file));
  const OpenSslErrors errors;
  if (X509_check_private_key(authority.ca.get(), key.get()) != 1)
    return fail(Error::kInvalid, "{}: is not the key of {}; restore both from the same backup",
                file, authority.ca_path);
  return key;
}

/// The file must exist for a lock to be taken.
Result<DirLock> lock_ca(const std::string& dir) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(dir, ignored))
    return fail(Error::kNotFound, "{}: no such directory; make a CA: `tessera pki init {}`", dir,
                dir);
  return DirLock::take(dir);
}

Status check_days(int64_t days) {
  if (1 <= days && days <= kMaxDays) return ok();
  return fail(Error::kInvalid, "--days: {} is not between 1 and {}", days, kMaxDays);
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// "NAME" of "NAME-SERIAL.pem"; empty for other files, as a crash may leave them.
std::string name_of_file(const std::string& file) {
  const std::string ending = ".pem";
  const size_t tail = 1 + kSerialDigits + ending.size();
  if (file.size() <= tail || !file.ends_with(ending)) return "";
  const auto name = file.substr(0, file.size() - tail);
  if (file[name.size()] != '-' || !is_hex(file.substr(name.size() + 1, kSerialDigits))) return "";
  return name;
}

/// Reads those of one name, or all of them for an empty one.
Result<std::vector<IssuedCertificate>> read_issued(const Authority& authority,
                                                   const std::string& name) {
  const auto folder = authority.dir + "/issued";
  std::vector<IssuedCertificate> out;
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  for (; !error && files != std::filesystem::end(files); files.increment(error)) {
    const auto of_file = name_of_file(files->path().filename().string());
    if (of_file.empty() || (!name.empty() && of_file != name)) continue;
    const auto file = files->path().string();
    TESSERA_ASSIGN(const auto pem, read_pem(file));
    auto facts = read_certificate(pem);
    if (!facts.ok()) return at_place(facts.status(), file);
    IssuedCertificate one{std::move(*facts), {}};
    const auto entry = authority.revoked.serials.find(one.serial);
    if (entry != authority.revoked.serials.end()) one.revoked = entry->second;
    out.push_back(std::move(one));
  }
  if (error) return system_error(folder, "list", error.value());
  return out;
}

Status refuse_second(const Authority& authority, const std::string& name, int64_t now) {
  TESSERA_ASSIGN(const auto issued, read_issued(authority, name));
  for (const auto& one : issued) {
    if (!one.revoked && one.until > now)
      return fail(Error::kExists,
                  "'{}' has a certificate that is valid until {} (serial {}); sign with --renew to "
                  "give it another one, or choose another name",
                  name, utc_minute_text(one.until), one.serial);
  }
  return ok();
}

struct CheckedRequest {
  RequestFacts facts;
  RequestPtr request;
  EVP_PKEY* key = nullptr;  // the request's
};

Result<CheckedRequest> check_request(std::string_view csr_pem, const std::string& place) {
  CheckedRequest out;
  TESSERA_ASSIGN(out.request, parse_request(csr_pem, place));
  const OpenSslErrors errors;
  out.key = X509_REQ_get0_pubkey(out.request.get());
  if (!out.key || X509_REQ_verify(out.request.get(), out.key) != 1)
    return fail(Error::kInvalid,
                "{}: its signature is not by its own key, so it was damaged or forged; make it "
                "anew with `tessera pki request`",
                place);
  if (EVP_PKEY_get_security_bits(out.key) < kMinSecurityBits)
    return fail(Error::kInvalid,
                "{}: its key is too short to be safe; make it anew with `tessera "
                "pki request`",
                place);
  TESSERA_ASSIGN(out.facts.name, common_name(X509_REQ_get_subject_name(out.request.get()), place));
  TESSERA_RETURN_IF_ERROR(at_place(check_member_name(out.facts.name), place));
  TESSERA_ASSIGN(out.facts.key_sha256, key_fingerprint(out.key));
  return out;
}

/// Writes crl.pem of the CA, with what authority.revoked says; counts its number up.
Status write_crl(Authority& authority, EVP_PKEY* key, int64_t now) {
  ++authority.revoked.number;
  authority.revoked.next_update = std::min(now + kCrlDays * kSecondsOfDay, authority.until);
  TESSERA_ASSIGN(const auto crl,
                 build_crl(authority.revoked.serials, authority.revoked.number, now - kClockSkew,
                           authority.revoked.next_update, {authority.ca.get(), key}));
  TESSERA_ASSIGN(authority.crl_pem, pem_of(crl.get()));
  return write_file_atomic(authority.crl_path, bytes_of(authority.crl_pem));
}

Status check_options(const CertificateOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_days(options.days));
  for (const auto& host : options.hosts) TESSERA_RETURN_IF_ERROR(check_host(host));
  return ok();
}

}  // namespace

Status create_ca(const std::string& dir, const CaOptions& options, int64_t now) {
  TESSERA_RETURN_IF_ERROR(check_member_name(options.name));
  TESSERA_RETURN_IF_ERROR(check_days(options.days));
  TESSERA_RETURN_IF_ERROR(make_private_dir(dir));
  TESSERA_ASSIGN(const auto lock, DirLock::take(dir));
  for (const char* name : {"ca.pem", "ca-key.pem", "crl.pem", "issued"})
    if (std::error_code ignored; std::filesystem::exists(dir + "/" + name, ignored))
      return fail(Error::kExists,
                  "{}/{} is there already; a CA is never overwritten: choose "
                  "another directory",
                  dir, name);
  TESSERA_ASSIGN(const auto key, make_key());
  TESSERA_ASSIGN(const auto key_pem, pem_of(key.get()));
  TESSERA_ASSIGN(const auto ca, build_ca({.name = options.name,
                                          .from = now - kClockSkew,
                                          .until = now + options.days * kSecondsOfDay},
                                         key.get()));
  TESSERA_ASSIGN(const auto ca_pem, pem_of(ca.get()));
  TESSERA_ASSIGN(const auto crl, build_crl({}, 1, now - kClockSkew, now + kCrlDays * kSecondsOfDay,
                                           {ca.get(), key.get()}));
  TESSERA_ASSIGN(const auto crl_pem, pem_of(crl.get()));
  TESSERA_RETURN_IF_ERROR(write_private_file(dir + "/ca-key.pem", key_pem));
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/issued"));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(dir + "/crl.pem", bytes_of(crl_pem)));
  return write_file_atomic(dir + "/ca.pem", bytes_of(ca_pem));
}

Result<RequestFacts> read_request(std::string_view csr_pem, const std::string& place) {
  TESSERA_ASSIGN(auto checked, check_request(csr_pem, place));
  return std::move(checked.facts);
}

Result<SignedCertificate> sign_request(const std::string& ca_dir, std::string_view csr_pem,
                                       const std::string& place, const CertificateOptions& options,
                                       int64_t now) {
  TESSERA_RETURN_IF_ERROR(check_options(options));
  TESSERA_ASSIGN(const auto checked, check_request(csr_pem, place));
  TESSERA_ASSIGN(const auto lock, lock_ca(ca_dir));
  TESSERA_ASSIGN(auto authority, read_ca(ca_dir));
  TESSERA_ASSIGN(const auto ca_key, read_ca_key(authority));
  if (now >= authority.until)
    return fail(Error::kInvalid, "{}: the CA expired on {}; make a new one: `tessera pki init`",
                authority.ca_path, utc_minute_text(authority.until));
  const auto& name = checked.facts.name;
  if (!options.renew) TESSERA_RETURN_IF_ERROR(refuse_second(authority, name, now));
  // A certificate that outlives its CA would only look valid.
  const auto until = std::min(now + options.days * kSecondsOfDay, authority.until);
  TESSERA_ASSIGN(
      const auto certificate,
      build_certificate(
          {.name = name, .from = now - kClockSkew, .until = until, .hosts = options.hosts},
          checked.key, {authority.ca.get(), ca_key.get()}));
  SignedCertificate out;
  TESSERA_ASSIGN(out.files.certificate, pem_of(certificate.get()));
  TESSERA_ASSIGN(out.facts, read_certificate(out.files.certificate));
  const auto copy = fmt::format("{}/issued/{}-{}.pem", ca_dir, name, out.facts.serial);
  TESSERA_RETURN_IF_ERROR(write_file_atomic(copy, bytes_of(out.files.certificate)));
  out.files.ca = std::move(authority.ca_pem);
  if (!options.hosts.empty()) out.files.crl = std::move(authority.crl_pem);
  return out;
}

Result<SignedCertificate> issue_identity(const std::string& name, const std::string& ca_dir,
                                         const std::string& identity_dir,
                                         const CertificateOptions& options, int64_t now) {
  // Whatever can go wrong is found before there is a key or a certificate.
  TESSERA_RETURN_IF_ERROR(check_member_name(name));
  TESSERA_RETURN_IF_ERROR(check_options(options));
  TESSERA_ASSIGN(const auto authority, read_ca(ca_dir));
  if (!options.renew) TESSERA_RETURN_IF_ERROR(refuse_second(authority, name, now));
  TESSERA_RETURN_IF_ERROR(may_install(identity_dir, name, authority.ca_pem));
  TESSERA_ASSIGN(const auto request, make_request(name, identity_dir));
  TESSERA_ASSIGN(const auto csr, read_pem(request.request_path));
  TESSERA_ASSIGN(auto out, sign_request(ca_dir, csr, request.request_path, options, now));
  TESSERA_RETURN_IF_ERROR(install_certificate(identity_dir, out.files));
  return out;
}

Result<std::vector<IssuedCertificate>> issued_certificates(const std::string& ca_dir) {
  TESSERA_ASSIGN(const auto authority, read_ca(ca_dir));
  TESSERA_ASSIGN(auto out, read_issued(authority, ""));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    if (a.name != b.name) return natural_less(a.name, b.name);
    return a.from != b.from ? a.from < b.from : a.serial < b.serial;
  });
  return out;
}

Result<Revoked> revoke_member(const std::string& ca_dir, const std::string& name, int64_t now) {
  TESSERA_RETURN_IF_ERROR(check_member_name(name));
  TESSERA_ASSIGN(const auto lock, lock_ca(ca_dir));
  TESSERA_ASSIGN(auto authority, read_ca(ca_dir));
  TESSERA_ASSIGN(const auto issued, read_issued(authority, name));
  if (issued.empty()) {
    TESSERA_ASSIGN(const auto all, read_issued(authority, ""));
    std::vector<std::string> names;
    for (const auto& one : all) names.push_back(one.name);
    return fail(Error::kNotFound,
                "{}: no certificate was ever issued to '{}'{}; see `tessera pki "
                "list`",
                ca_dir, name, suggestion(name, names));
  }
  Revoked out{
      .serials = {}, .crl_path = authority.crl_path, .crl_number = authority.revoked.number};
  for (const auto& one : issued)
    if (authority.revoked.serials.emplace(one.serial, now).second)
      out.serials.push_back(one.serial);
  if (out.serials.empty()) return out;
  TESSERA_ASSIGN(const auto key, read_ca_key(authority));
  TESSERA_RETURN_IF_ERROR(write_crl(authority, key.get(), now));
  out.crl_number = authority.revoked.number;
  return out;
}

Result<RenewedCrl> renew_crl(const std::string& ca_dir, int64_t now) {
  TESSERA_ASSIGN(const auto lock, lock_ca(ca_dir));
  TESSERA_ASSIGN(auto authority, read_ca(ca_dir));
  TESSERA_ASSIGN(const auto key, read_ca_key(authority));
  TESSERA_RETURN_IF_ERROR(write_crl(authority, key.get(), now));
  return RenewedCrl{authority.crl_path, authority.revoked.number, authority.revoked.next_update};
}

}  // namespace tessera
