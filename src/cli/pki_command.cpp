#include "cli/pki_command.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/output.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int64_t kDaySeconds = 86'400;
constexpr int64_t kSoonDays = 30;  // from then on `list` counts the days
constexpr size_t kMaxRequestBytes = size_t{64} << 10;

Status print_json(const json& value) {
  return print(value.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

std::string iso_text(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string day_text(int64_t seconds) { return utc_minute_text(seconds).substr(0, 10); }

const char* kind_text(const CertificateFacts& facts) {
  return facts.is_server ? "server" : "client";
}

json facts_json(const CertificateFacts& facts) {
  return {
      {"name", facts.name},           {"kind", kind_text(facts)},       {"serial", facts.serial},
      {"from", iso_text(facts.from)}, {"until", iso_text(facts.until)}, {"hosts", facts.hosts}};
}

/// With the hosts of --server.
Result<CertificateOptions> options_of(const PkiArgs& args) {
  auto options = args.certificate;
  if (!args.server) return options;
  options.hosts = comma_list(*args.server);
  if (options.hosts.empty())
    return fail(Error::kInvalid, "--server: names no host; give what clients will connect to");
  return options;
}

/// Where `sign` puts what it made.
struct SignTarget {
  std::string dir;   // empty: only the file
  std::string file;  // the certificate's
};

SignTarget target_of(const PkiArgs& args) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (args.out.ends_with(".pem") && !fs::is_directory(args.out, ignored)) return {"", args.out};
  auto dir = args.out.empty() ? fs::path(args.csr).parent_path().string() : args.out;
  if (dir.empty()) dir = ".";
  return {dir, dir + "/cert.pem"};
}

Status check_target(const SignTarget& target, const PkiArgs& args, const std::string& name) {
  if (target.dir.empty()) return may_replace_certificate(target.file, name);
  const auto ca_pem = read_file(args.ca + "/ca.pem", kMaxRequestBytes);
  // Without a CA there is nothing to compare, and signing will say so better.
  if (!ca_pem.ok()) return ok();
  return may_install(target.dir, name, std::string(text_of(*ca_pem)));
}

std::vector<std::string> paths_in(const std::string& dir, const CertificateFiles& files) {
  std::vector<std::string> out{dir + "/cert.pem", dir + "/ca.pem"};
  if (!files.crl.empty()) out.push_back(dir + "/crl.pem");
  return out;
}

/// "valid", "expires in 12 days", "expired", "revoked".
std::string state_text(const IssuedCertificate& one, int64_t now) {
  if (one.revoked) return "revoked";
  if (one.until <= now) return "expired";
  const auto days = (one.until - now + kDaySeconds - 1) / kDaySeconds;
  if (days > kSoonDays) return "valid";
  return fmt::format("expires in {} day{}", days, days == 1 ? "" : "s");
}

json issued_json(const IssuedCertificate& one, int64_t now) {
  auto out = facts_json(one);
  out["state"] = one.revoked ? "revoked" : one.until <= now ? "expired" : "valid";
  out["seconds_left"] = std::max<int64_t>(0, one.until - now);
  out["revoked"] = one.revoked ? json(iso_text(*one.revoked)) : json(nullptr);
  return out;
}

}  // namespace

Status pki_init(const PkiArgs& args) {
  const auto now = unix_now();
  TESSERA_RETURN_IF_ERROR(create_ca(args.ca, args.authority, now));
  const auto until = now + args.authority.days * kDaySeconds;
  if (args.json)
    return print_json({{"dir", args.ca},
                       {"name", args.authority.name},
                       {"ca", args.ca + "/ca.pem"},
                       {"key", args.ca + "/ca-key.pem"},
                       {"crl", args.ca + "/crl.pem"},
                       {"until", iso_text(until)}});
  return print(fmt::format(
      "A CA for '{1}' is in {0}, valid until {2}:\n"
      "  {0}/ca.pem      its certificate, for everybody in the federation\n"
      "  {0}/ca-key.pem  its key: whoever has it can let anybody in. Keep it, and a backup\n"
      "  {0}/crl.pem     what is revoked, for the server\n"
      "Next:\n"
      "  tessera pki issue server --ca {0} --identity server --server HOST,IP\n"
      "  tessera pki request NAME --identity me      (on every client)\n"
      "  tessera pki sign request.csr --ca {0}       (with what the client sends)\n",
      args.ca, args.authority.name, day_text(until)));
}

Status pki_request(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto files, make_request(args.name, args.identity));
  if (args.json)
    return print_json({{"name", args.name},
                       {"request", files.request_path},
                       {"key", files.key_path},
                       {"new_key", files.new_key},
                       {"key_sha256", files.key_sha256}});
  return print(fmt::format(
      "{0} is the request of '{1}', with {2} key {3} that stays here.\n"
      "Its public half has SHA-256 {4}\n"
      "Next: send {0} to whoever has the CA, who runs `tessera pki sign`, and put the cert.pem and "
      "ca.pem that come back into {5}\n",
      files.request_path, args.name, files.new_key ? "a new" : "the old", files.key_path,
      files.key_sha256, args.identity));
}

Status pki_sign(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto options, options_of(args));
  TESSERA_ASSIGN(const auto bytes, read_file(args.csr, kMaxRequestBytes));
  TESSERA_ASSIGN(const auto request, read_request(text_of(bytes), args.csr));
  const auto target = target_of(args);
  TESSERA_RETURN_IF_ERROR(check_target(target, args, request.name));
  TESSERA_ASSIGN(const auto made,
                 sign_request(args.ca, text_of(bytes), args.csr, options, unix_now()));
  std::vector<std::string> written{target.file};
  if (target.dir.empty()) {
    TESSERA_RETURN_IF_ERROR(write_text(target.file, made.files.certificate));
  } else {
    TESSERA_RETURN_IF_ERROR(install_certificate(target.dir, made.files));
    written = paths_in(target.dir, made.files);
  }
  if (args.json) {
    auto out = facts_json(made.facts);
    out["key_sha256"] = request.key_sha256;
    out["files"] = written;
    return print_json(out);
  }
  return print(
      fmt::format("Signed for '{}' ({}) until {}, serial {}.\n"
                  "Its key has SHA-256 {}: the same as `tessera pki request` printed there?\n"
                  "{}: for the identity directory of '{}'\n",
                  made.facts.name, kind_text(made.facts), day_text(made.facts.until),
                  made.facts.serial, request.key_sha256, join(written, ", "), made.facts.name));
}

Status pki_issue(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto options, options_of(args));
  TESSERA_ASSIGN(const auto made,
                 issue_identity(args.name, args.ca, args.identity, options, unix_now()));
  if (args.json) {
    auto out = facts_json(made.facts);
    out["identity"] = args.identity;
    return print_json(out);
  }
  print_note(
      "the key was made here; with `tessera pki request` and `sign` it never leaves its machine");
  return print(fmt::format("{} is the identity of '{}' ({}) until {}, serial {}\n", args.identity,
                           made.facts.name, kind_text(made.facts), day_text(made.facts.until),
                           made.facts.serial));
}

Status pki_revoke(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto done, revoke_member(args.ca, args.name, unix_now()));
  if (args.json)
    return print_json({{"name", args.name},
                       {"serials", done.serials},
                       {"crl", done.crl_path},
                       {"crl_number", done.crl_number}});
  const auto what =
      done.serials.empty()
          ? fmt::format("Every certificate of '{}' was revoked before.\n", args.name)
          : fmt::format("Revoked of '{}': serial {}.\n", args.name, join(done.serials, ", "));
  return print(fmt::format(
      "{}Copy {} (list {}) to crl.pem in the server's identity directory: it takes effect at once, "
      "without a restart\n",
      what, done.crl_path, done.crl_number));
}

Status pki_crl(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto made, renew_crl(args.ca, unix_now()));
  if (args.json)
    return print_json({{"crl", made.crl_path},
                       {"crl_number", made.crl_number},
                       {"next_update", iso_text(made.next_update)}});
  return print(fmt::format(
      "{} is list {}, good until {}. Copy it to crl.pem in the server's identity directory, and to "
      "the clients', too: no restart is needed\n",
      made.crl_path, made.crl_number, day_text(made.next_update)));
}

Status pki_list(const PkiArgs& args) {
  TESSERA_ASSIGN(const auto issued, issued_certificates(args.ca));
  const auto now = unix_now();
  auto out = json::array();
  Table table({"name", "kind", "serial", "from", "until", "state"});
  for (const auto& one : issued) {
    out.push_back(issued_json(one, now));
    table.row({one.name, kind_text(one), one.serial, day_text(one.from), day_text(one.until),
               state_text(one, now)});
  }
  if (args.json) return print_json(out);
  if (issued.empty()) return print(fmt::format("Nothing was issued by {} yet\n", args.ca));
  return print(table.text());
}

}  // namespace tessera
