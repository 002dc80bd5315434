// The audit log: a line for every message that left or arrived, in a file that shows later changes.
//
// Lines are JSON objects; each holds the SHA-256 of the line before:
//   {"n":7,"time":"2026-11-16T09:05:07.042Z","direction":"sent","peer":"hospital-a","round":3,
//    "kind":"train","bytes":1200,"sha256":"…","outcome":"accepted","previous":"…"}   (in one line)
// `previous` is over the bytes of that line without its line break; 64 zeros in the first record.
//
// This is evidence of tampering, not proof against it: who may write the file can write all of it
// anew, and nothing shows that the last lines are missing or that the last one was changed. Note
// end() somewhere else (the log, another machine) and those show, too.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "net/log.hpp"

namespace tessera {

/// One message. Texts may hold any bytes; longer ones than the number behind them are cut.
struct AuditRecord {
  enum class Direction { kSent, kReceived };
  Direction direction = Direction::kSent;
  std::string peer;     // 256: the other's name, from its certificate
  int64_t round = 0;    // 0 before the first
  std::string kind;     // 64: train, evaluate, settle, …
  int64_t bytes = 0;    // of the message, encoded
  std::string sha256;   // 64: of those bytes, lower-case hex
  std::string outcome;  // 500: accepted, or why not
};

/// Longest line, break included. Follows from the lengths above with every byte escaped.
inline constexpr size_t kMaxAuditLine = 8192;

/// The last record of a log.
struct AuditEnd {
  int64_t record = 0;                         // its number `n`, from 1; 0: there is none yet
  std::string digest = std::string(64, '0');  // SHA-256 of its line
};

/// An open audit log. Thread-safe. Its file has mode 0600 when it is new, and is locked: one
/// process at a time writes it.
class AuditLog {
 public:
  /// Opens or makes the file; its directory must exist. The chain goes on where the file ends.
  ///
  /// A last line without a break is what a kill in the middle of append() leaves. The message it
  /// was about may or may not have gone out, so the line is neither kept (it is no record) nor
  /// dropped silently: a record of kind "torn", direction "none", takes its place, with the length
  /// and the SHA-256 of the bytes found and, as outcome, their beginning.
  ///
  /// kBusy: another process has it. kInvalid: some other file, or its last line is damaged; nothing
  /// was changed. kNotFound, kIo as io/file.hpp.
  static Result<std::unique_ptr<AuditLog>> open(const std::string& path,
                                                WallClock clock = std::chrono::system_clock::now);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Hands the line to the system: it survives a kill of this process, not yet a power cut.
  /// If the file was moved away (rotation is the operator's), a new one is made under the old name;
  /// its first record goes on with the number and checksum of the last. A file that was emptied or
  /// shortened is written on in the same way, so that verify_audit() sees the gap.
  /// After an error there is no part of the line in the file; calling again is fine.
  Status append(const AuditRecord& record);
  /// What was appended survives a power cut, too. Waits for the disk.
  Status sync();
  /// What was appended last, or was found when the log was opened.
  AuditEnd end() const;

 private:
  AuditLog(std::string path, WallClock clock) : path_(std::move(path)), clock_(std::move(clock)) {}
  Status attach();
  Status take_file();
  void detach();
  Status follow_moves();
  Status mend(int64_t size);
  Status write_at(int64_t offset, const std::string& line);

  const std::string path_;
  const WallClock clock_;
  mutable std::mutex mutex_;  // guards the rest
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;  // of the file behind fd_
  int64_t size_ = 0;                 // as we left it
  bool name_synced_ = false;         // the directory knows the file for good
  bool knows_end_ = false;           // end_ is set: from here on it is what counts, not the file
  AuditEnd end_;
};

/// What a log that verifies consists of.
struct AuditReport {
  int64_t first = 0;       // number of its first record; 0: there is none
  AuditEnd end;            // its last record
  std::string earlier;     // `first` > 1: the digest of the record before, in an earlier file
  int64_t torn_bytes = 0;  // of a last line without a break, which is no record
};

/// Reads the whole file (in bounded memory) and checks every line against the one before.
/// kInvalid at the first that does not fit: which line was changed, which records are missing.
Result<AuditReport> verify_audit(const std::string& path);

}  // namespace tessera
