// What a federation's server must not lose between two checkpoints, as files.
//
//   DIR/format              "1"
//   DIR/most                bytes of the largest reply that any task has allowed
//   DIR/out/MEMBER          a settlement that the member has not acknowledged
//   DIR/in/MEMBER-TICKET.part   a reply that still grows
//   DIR/in/MEMBER-TICKET        a complete one: synced before it got this name
//
// Files of other names are left alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// Whose reply, and to which task. Names a file, so both are checked: kInvalid otherwise.
struct ReplyName {
  int64_t member = 0;  // from 0
  std::string ticket;  // is_ticket()
};

/// A reply as it was found on the disk.
struct SpooledReply {
  ReplyName name;
  int64_t size = 0;  // bytes
  bool complete = false;
};

/// Knows nothing but the directory: every call looks at the files. Calls for different members may
/// run at the same time; those for one member must come one after the other. Errors name the file:
/// kIo, the disk refused (full, say; what was there before is still there); kNotFound, no such
/// file.
class Spool {
 public:
  /// Makes the directory if there is none, and removes temporaries that a killed process has left.
  /// kInvalid: of a newer format; then nothing was touched.
  static Result<Spool> open(const std::string& dir);

  /// By member, as they were kept.
  Result<std::map<int64_t, Bytes>> settles() const;
  /// Durable before it returns. Takes the place of the one that is there.
  Status keep_settle(int64_t member, ByteSpan task) const;
  /// Fine without one. After a power cut it may be there again.
  Status drop_settle(int64_t member) const;

  /// What keep_most() noted last; none before. kInvalid: no number.
  Result<std::optional<int64_t>> most() const;
  /// Durable before it returns.
  Status keep_most(int64_t bytes) const;

  /// All that are there, by name; of a name that is there twice the complete one.
  Result<std::vector<SpooledReply>> replies() const;
  /// Bytes of the part; 0 without one.
  int64_t part_size(const ReplyName& name) const;
  /// Writes at the end of the part, which must be at `offset` (kInvalid); makes it if there is
  /// none, also for no bytes. All or nothing: when the disk fills up the part is as it was.
  Status append(const ReplyName& name, int64_t offset, ByteSpan bytes) const;
  /// kInvalid: larger than `max_bytes`.
  Result<Bytes> read_part(const ReplyName& name, int64_t max_bytes) const;
  Result<Bytes> read(const ReplyName& name, int64_t max_bytes) const;
  /// The part becomes the complete reply, durably. If that fails the reply is gone: what a disk
  /// still holds after a failed sync is unknown.
  Status finish(const ReplyName& name) const;
  /// Part and complete reply; fine without them.
  Status drop(const ReplyName& name) const;

 private:
  explicit Spool(std::string dir) : dir_(std::move(dir)) {}
  std::string settle_path(int64_t member) const;
  std::string complete_path(const ReplyName& name) const;
  std::string part_path(const ReplyName& name) const;

  std::string dir_;
};

}  // namespace tessera
