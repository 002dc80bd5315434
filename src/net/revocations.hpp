// The CA's list of revoked certificates (crl.pem), as a server uses it while it runs.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace tessera {

/// A list that was read and whose signature is the CA's.
struct RevocationList {
  int64_t number = 0;       // grows with every list of a CA
  int64_t next_update = 0;  // when a newer list should be there (seconds since 1970); 0: not said
  /// Serial number (lower-case hex) → when it was revoked (seconds since 1970).
  std::map<std::string, int64_t> serials;
};

/// kInvalid: damaged, or not signed by this CA; the place of either file is in the message.
Result<RevocationList> read_revocations(std::string_view crl_pem, const std::string& crl_place,
                                        std::string_view ca_pem, const std::string& ca_place);

/// Watches a list. Whoever asks gets the answer of the newest good list: a changed file (time,
/// size, inode) is read at the next question, at the cost of one stat() for all other questions.
///
/// A new file that is damaged, not signed by the CA, or older than the list in use (its number is
/// smaller) is not used: the last good list stays, and status() says so. The same if the file
/// vanishes after it was there. If it never was there, nothing is revoked. A list that should have
/// been followed by a newer one counts as before: no news must not stop a federation. While
/// something is wrong, every question reads the file again. Thread-safe.
class Revocations {
 public:
  /// Reads nothing yet. `ca_path` is read again with every new list.
  Revocations(std::string crl_path, std::string ca_path);

  /// Whether the certificate with this serial number (lower-case hex) is revoked. An error if the
  /// file is there but no good list ever was: then nobody can say, and nobody should be let in.
  Result<bool> revoked(const std::string& serial);

  /// Looks at the file as well: fine if the newest file is in use, or if none was ever there;
  /// otherwise the reason why it is not.
  Status status();
  /// Number of the list in use; 0: none.
  int64_t number();
  /// What somebody should know and mend: there is no list, the newest is not used, or it should
  /// have been followed by a newer one. Said when it is first asked for and then once a day;
  /// otherwise empty. `now`: seconds since 1970.
  std::string news(int64_t now);

 private:
  void refresh();
  Status take_new();
  std::string trouble(int64_t now) const;

  const std::string crl_path_, ca_path_;
  std::mutex mutex_;
  struct stat seen_ {};  // of the file that was last read
  bool seen_any_ = false, have_list_ = false;
  RevocationList list_;
  Status trouble_;
  std::string said_;  // by news()
  int64_t said_at_ = 0;
};

}  // namespace tessera
