#include "net/revocations.hpp"

#include <cerrno>
#include <utility>

#include "io/file.hpp"
#include "net/identity.hpp"
#include "net/x509.hpp"

namespace tessera {
namespace {

bool is_same_file(const struct stat& a, const struct stat& b) {
  // The time of change too: `cp -p` and `touch` set the other one as they like.
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

int64_t number_of(const X509_CRL* crl) {
  const Asn1IntegerPtr number(
      static_cast<ASN1_INTEGER*>(X509_CRL_get_ext_d2i(crl, NID_crl_number, nullptr, nullptr)));
  int64_t value = 0;
  // Lists of other programs may have none; 0 then, which is older than any of ours.
  return number && ASN1_INTEGER_get_int64(&value, number.get()) == 1 ? value : 0;
}

}  // namespace

Result<RevocationList> read_revocations(std::string_view crl_pem, const std::string& crl_place,
                                        std::string_view ca_pem, const std::string& ca_place) {
  TESSERA_ASSIGN(const auto crl, parse_crl(crl_pem, crl_place));
  TESSERA_ASSIGN(const auto ca, parse_certificate(ca_pem, ca_place));
  const OpenSslErrors errors;
  auto* key = X509_get0_pubkey(ca.get());
  if (!key || X509_NAME_cmp(X509_CRL_get_issuer(crl.get()), X509_get_subject_name(ca.get())) != 0 ||
      X509_CRL_verify(crl.get(), key) != 1)
    return fail(Error::kInvalid,
                "{}: this revocation list was not signed by the CA of {}; copy crl.pem of the "
                "federation's CA again",
                crl_place, ca_place);
  RevocationList list{.number = number_of(crl.get())};
  if (const auto* next = X509_CRL_get0_nextUpdate(crl.get())) {
    TESSERA_ASSIGN(list.next_update, unix_seconds(next, crl_place));
  }
  auto* entries = X509_CRL_get_REVOKED(crl.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    const auto* entry = sk_X509_REVOKED_value(entries, i);
    TESSERA_ASSIGN(const auto when,
                   unix_seconds(X509_REVOKED_get0_revocationDate(entry), crl_place));
    list.serials.emplace(serial_hex(X509_REVOKED_get0_serialNumber(entry)), when);
  }
  return list;
}

Revocations::Revocations(std::string crl_path, std::string ca_path)
    : crl_path_(std::move(crl_path)), ca_path_(std::move(ca_path)) {}

Status Revocations::take_new() {
  TESSERA_ASSIGN(const auto crl_pem, read_pem(crl_path_, kMaxCrlBytes));
  TESSERA_ASSIGN(const auto ca_pem, read_pem(ca_path_));
  TESSERA_ASSIGN(auto list, read_revocations(crl_pem, crl_path_, ca_pem, ca_path_));
  if (have_list_ && list.number < list_.number)
    return fail(Error::kInvalid,
                "{}: is list {}, older than list {} that is in use; copy the "
                "newest crl.pem of the CA there",
                crl_path_, list.number, list_.number);
  list_ = std::move(list);
  have_list_ = true;
  return ok();
}

void Revocations::refresh() {
  struct stat info {};
  if (::stat(crl_path_.c_str(), &info) != 0) {
    if (errno != ENOENT)
      trouble_ = system_error(crl_path_, "read", errno);
    else if (seen_any_)
      trouble_ = fail(Error::kNotFound,
                      "{}: the revocation list is gone and list {} stays in use; copy crl.pem of "
                      "the CA there again",
                      crl_path_, list_.number);
    return;
  }
  if (seen_any_ && trouble_.ok() && is_same_file(info, seen_)) return;
  // Taken before the read: a change in between is a change to the next question.
  seen_ = info;
  seen_any_ = true;
  trouble_ = take_new();
}

Result<bool> Revocations::revoked(const std::string& serial) {
  const std::lock_guard lock(mutex_);
  refresh();
  if (!have_list_ && !trouble_.ok()) return trouble_;
  return list_.serials.count(serial) != 0;
}

Status Revocations::status() {
  const std::lock_guard lock(mutex_);
  refresh();
  return trouble_;
}

std::string Revocations::trouble(int64_t now) const {
  if (!trouble_.ok()) return message(trouble_);
  if (!have_list_)
    return fmt::format(
        "{}: there is no revocation list, so no certificate counts as revoked; copy crl.pem of the "
        "CA there",
        crl_path_);
  if (list_.next_update > 0 && now >= list_.next_update)
    return fmt::format(
        "{}: a newer list should be there since {}, so who was revoked since then may come in; run "
        "`tessera pki crl --ca DIR` where the CA is, and copy its crl.pem there",
        crl_path_, utc_minute_text(list_.next_update));
  return "";
}

std::string Revocations::news(int64_t now) {
  constexpr int64_t kOneDay = 86'400;
  const std::lock_guard lock(mutex_);
  refresh();
  auto text = trouble(now);
  if (text == said_ && now < said_at_ + kOneDay) return "";
  said_ = text, said_at_ = now;
  return text;
}

int64_t Revocations::number() {
  const std::lock_guard lock(mutex_);
  refresh();
  return list_.number;
}

}  // namespace tessera
