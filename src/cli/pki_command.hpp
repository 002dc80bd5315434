// `tessera pki …`: a federation's CA and the identities of its members.
//
// Results go to standard output, everything else to standard error. With `json` standard output
// carries JSON only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "net/pki.hpp"

namespace CLI {
class App;
}

namespace tessera {

/// What the sub-commands take; each uses some of it.
struct PkiArgs {
  std::string ca;                     // the CA's directory
  std::string name;                   // a member
  std::string identity;               // the member's directory
  std::string csr;                    // a request to sign
  std::string out;                    // of sign: a directory, or a file *.pem; empty: beside csr
  std::optional<std::string> server;  // "HOST,IP": for a server; none: for a client
  CaOptions authority;
  CertificateOptions certificate;  // its hosts come from `server`
  bool json = false;
};

/// Makes a CA in `ca`, with `authority`.
Status pki_init(const PkiArgs& args);
/// On the member's machine: key and request in `identity`.
Status pki_request(const PkiArgs& args);
/// Signs `csr` and writes to `out`. kExists, before anything is signed, if another member's
/// certificate is there.
Status pki_sign(const PkiArgs& args);
/// Both at once, where the CA is; notes on standard error that a request keeps the key at home.
Status pki_issue(const PkiArgs& args);
/// Revokes all of `name` and says where to copy the new list.
Status pki_revoke(const PkiArgs& args);
/// Signs the list of what is revoked again, for another month.
Status pki_crl(const PkiArgs& args);
/// Everything that was issued: valid, expires in N days (30 or less), expired, revoked.
Status pki_list(const PkiArgs& args);

/// Adds a sub-command to `parent`: its name, its line of help, an example.
using DeclareCommand = std::function<CLI::App*(CLI::App& parent, const char* name, const char* line,
                                               const char* example)>;
/// Declares `pki` and its sub-commands; the one that is chosen sets `action`. Both `args` and
/// `action` must outlive the parsing and the action.
void add_pki(CLI::App& root, const DeclareCommand& declare, PkiArgs& args,
             std::function<Status()>& action);

}  // namespace tessera
