#include <CLI/CLI.hpp>

#include "cli/pki_command.hpp"
#include "net/private_file.hpp"

namespace tessera {
namespace {

using PkiAction = Status (*)(const PkiArgs&);

void add_ca(CLI::App& sub, PkiArgs& args) {
  sub.add_option("--ca", args.ca, "the CA's directory (see `tessera pki init`)")
      ->type_name("DIR")
      ->required();
}

void add_member(CLI::App& sub, PkiArgs& args) {
  sub.add_option("NAME", args.name,
                 "the member's name, by which the federation knows it: 1 to 64 bytes of UTF-8, "
                 "no '/'")
      ->type_name("")
      ->required();
}

void add_identity(CLI::App& sub, PkiArgs& args) {
  sub.add_option("--identity", args.identity, "the member's directory for its key and certificate")
      ->type_name("DIR")
      ->required();
}

void add_certificate(CLI::App& sub, PkiArgs& args) {
  sub.add_option("--server", args.server,
                 "for a server: every host name and address by which clients reach it, separated "
                 "by commas (without it: for a client)")
      ->type_name("HOST,IP");
  sub.add_option("--days", args.certificate.days, "how long it is valid, at most as long as the CA")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMaxDays).description(""))
      ->capture_default_str();
  sub.add_flag("--renew", args.certificate.renew,
               "also if the name has a valid certificate, which stays valid until it expires");
}

void add_ending(CLI::App& sub, PkiArgs& args, PkiAction run, std::function<Status()>& action) {
  sub.add_flag("--json", args.json, "print JSON only");
  sub.callback([&args, run, &action] {
    action = [&args, run] {
      keep_memory_private();
      return run(args);
    };
  });
}

void add_pki_init(CLI::App& pki, const DeclareCommand& declare, PkiArgs& args,
                  std::function<Status()>& action) {
  auto* init = declare(pki, "init", "make a CA: who it signs for is in the federation",
                       "tessera pki init ca --name \"Five clinics\"");
  init->add_option("DIR", args.ca, "a directory for it; a CA that is there is never overwritten")
      ->type_name("")
      ->required();
  init->add_option("--name", args.authority.name, "the federation's name, for people")
      ->type_name("TEXT")
      ->capture_default_str();
  init->add_option("--days", args.authority.days, "how long the CA is valid")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, kMaxDays).description(""))
      ->capture_default_str();
  add_ending(*init, args, pki_init, action);
}

void add_pki_request(CLI::App& pki, const DeclareCommand& declare, PkiArgs& args,
                     std::function<Status()>& action) {
  auto* request = declare(pki, "request",
                          "on a member's machine: make its key, which stays there, and a request "
                          "to have signed; a key that is there is used again",
                          "tessera pki request clinic-1 --identity me");
  add_member(*request, args);
  add_identity(*request, args);
  add_ending(*request, args, pki_request, action);
}

void add_pki_sign(CLI::App& pki, const DeclareCommand& declare, PkiArgs& args,
                  std::function<Status()>& action) {
  auto* sign = declare(pki, "sign", "on the CA's machine: sign a member's request",
                       "tessera pki sign request.csr --ca ca --out for-clinic-1");
  sign->add_option("CSR", args.csr, "a request from `tessera pki request`")
      ->type_name("")
      ->required();
  add_ca(*sign, args);
  add_certificate(*sign, args);
  sign->add_option("-o,--out", args.out,
                   "where to write cert.pem and ca.pem, for a server crl.pem too (default: beside "
                   "the request); or a file *.pem for the certificate alone")
      ->type_name("DIR|FILE");
  add_ending(*sign, args, pki_sign, action);
}

void add_pki_issue(CLI::App& pki, const DeclareCommand& declare, PkiArgs& args,
                   std::function<Status()>& action) {
  auto* issue = declare(pki, "issue", "key and certificate at once, where the CA is",
                        "tessera pki issue server --ca ca --identity server --server "
                        "fed.example.org,10.0.0.5");
  add_member(*issue, args);
  add_ca(*issue, args);
  add_identity(*issue, args);
  add_certificate(*issue, args);
  add_ending(*issue, args, pki_issue, action);
}

}  // namespace

void add_pki(CLI::App& root, const DeclareCommand& declare, PkiArgs& args,
             std::function<Status()>& action) {
  auto* pki = declare(root, "pki", "make the certificates of a federation, and revoke them",
                      "tessera pki init ca");
  pki->require_subcommand(1);
  add_pki_init(*pki, declare, args, action);
  add_pki_request(*pki, declare, args, action);
  add_pki_sign(*pki, declare, args, action);
  add_pki_issue(*pki, declare, args, action);

  auto* revoke = declare(*pki, "revoke", "revoke every certificate of a name",
                         "tessera pki revoke clinic-1 --ca ca");
  add_member(*revoke, args);
  add_ca(*revoke, args);
  add_ending(*revoke, args, pki_revoke, action);

  auto* crl = declare(*pki, "crl",
                      "sign the list of revoked certificates again: one that is a month old is "
                      "warned of",
                      "tessera pki crl --ca ca");
  add_ca(*crl, args);
  add_ending(*crl, args, pki_crl, action);

  auto* list = declare(*pki, "list", "list what was issued, and what has become of it",
                       "tessera pki list --ca ca --json");
  add_ca(*list, args);
  add_ending(*list, args, pki_list, action);
}

}  // namespace tessera
