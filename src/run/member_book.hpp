// Who belongs to a real federation and what each has told of its data; kept in federation.json.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "engine/grpc/service_host.hpp"
#include "engine/task.hpp"
#include "run/roster.hpp"

namespace tessera {

/// What all clients' data have in common; the first client that enrolls says it for all, and may
/// say it again until the rounds begin or somebody else has agreed to it.
struct CommonFacts {
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  std::vector<std::string> class_names, columns;
  bool multi_label = false;
  std::string layout_digest;
  std::string from;  // who said it

  friend bool operator==(const CommonFacts&, const CommonFacts&) = default;
};

/// Empty if `theirs` fits `ours`, else a sentence with what differs, both values and whose.
std::string difference(const CommonFacts& ours, const CommonFacts& theirs);

/// The same for the names of inputs alone: which ones only one side has.
std::string column_difference(const std::vector<std::string>& ours,
                              const std::vector<std::string>& theirs);

/// Who takes part, by name: numbers follow the natural order of the clients' names, then of the
/// newcomers'.
struct MemberNames {
  std::vector<std::string> clients, newcomers;
  int64_t size() const { return std::ssize(clients) + std::ssize(newcomers); }
};

/// Thread-safe. What changes is on the disk before a call returns.
class MemberBook {
 public:
  /// Reads dir/federation.json, or makes it. kInvalid: of other members, damaged, or of a newer
  /// version, and then nothing is touched.
  static Result<std::unique_ptr<MemberBook>> open(const std::string& dir, MemberNames names);

  /// No other federation has it, also not this one begun anew.
  const std::string& id() const { return id_; }
  const MemberNames& names() const { return names_; }
  std::optional<int64_t> number_of(const std::string& name) const;
  const std::string& name_of(int64_t member) const;

  /// None before the first enrolment.
  std::optional<CommonFacts> common() const;
  /// Whether enroll() would take them; changes nothing.
  Status check(int64_t member, const CommonFacts& facts) const;
  /// Takes a member's facts; those of the first become common. Whoever stands alone with them may
  /// replace them until the rounds begin: a typing error must not lock the others out. kInvalid:
  /// they differ, or it has left; says exactly what.
  Status enroll(int64_t member, const CommonFacts& facts, const Hello& hello,
                const std::string& data_digest);
  /// The rounds begin: what is common stays.
  Status fix_common();
  /// Whether it came with other data than the last time, in words; "" if not.
  std::string changed_data(int64_t member, const std::string& data_digest) const;
  /// For good.
  Status leave(int64_t member);
  bool has_left(int64_t member) const;
  /// Enrolled and not left.
  bool present(int64_t member) const;
  /// Clients, not newcomers, that are present.
  int64_t clients_present() const;
  /// What a member said it has to train on and to choose by; 0 before it enrolled.
  int64_t samples(int64_t member) const;
  /// Names of the clients that are not.
  std::vector<std::string> missing() const;

  /// The members with the sizes they told; labels stay with the clients.
  Roster roster(const std::string& set) const;

 private:
  struct Member {
    Hello told;
    std::string data_digest;
    bool enrolled = false, left = false;
  };
  MemberBook(std::string path, MemberNames names)
      : path_(std::move(path)), names_(std::move(names)) {}
  Status read();
  Status check_locked(int64_t member, const CommonFacts& facts) const;
  /// Whether the member alone stands for what is common, and nothing was learned from it yet.
  bool may_replace(int64_t member) const;
  /// The file's text. Callers hold the mutex.
  std::string text() const;
  /// Returns once the file holds what is in memory now. Waits for the disk without the mutex, and
  /// one wait serves everybody who came meanwhile: a thousand clients may enroll at once.
  Status write(std::unique_lock<std::mutex>& lock);

  const std::string path_;
  const MemberNames names_;
  std::string id_;
  std::map<std::string, int64_t> numbers_;
  mutable std::mutex mutex_;  // guards the following
  std::optional<CommonFacts> common_;
  bool fixed_ = false;                 // the rounds have begun
  std::vector<Member> members_;        // by number
  int64_t changes_ = 0, written_ = 0;  // so many were made; so many are in the file
  bool writing_ = false;               // somebody is
  std::condition_variable wrote_;
};

}  // namespace tessera
