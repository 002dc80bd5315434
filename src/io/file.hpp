// Files read whole, and files written whole or not at all.
//
// Every error names the path. kNotFound: no such file. kInvalid: contents damaged or too large.
// kIo: the system refused (full disk, read-only, permissions). Nothing here throws.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// Larger files than this are refused unless the caller says otherwise (4 GiB).
inline constexpr size_t kMaxFileBytes = size_t{4} << 30;

/// The whole file. kInvalid if it is larger than max_bytes or not a regular file.
Result<Bytes> read_file(const std::string& path, size_t max_bytes = kMaxFileBytes);

/// The contents of a plain, .gz or .xz file; which one is told by its first bytes, not its name.
/// kInvalid if truncated, corrupt, followed by garbage, or larger than max_bytes once unpacked
/// (unpacking stops there, so a decompression bomb costs max_bytes at most).
Result<Bytes> read_unpacked(const std::string& path, size_t max_bytes = kMaxFileBytes);

/// The same for bytes already in memory; `name` is for error messages.
Result<Bytes> unpack(ByteSpan packed, size_t max_bytes, const std::string& name);

/// The path of the first that exists: dir/stem, dir/stem.gz, dir/stem.xz. kNotFound names all
/// three.
Result<std::string> find_unpacked(const std::string& dir, const std::string& stem);

/// Makes the directory and its parents; fine if it exists, or if another process removes an empty
/// parent meanwhile. kInvalid if a file is in the way.
Status make_dirs(const std::string& path);

/// A file that appears under its name only when complete: written beside it, synced, renamed.
/// Whatever fails, the temporary is removed and the old file, if any, is as it was.
/// Not thread-safe. After an error every further call repeats that error.
class AtomicFile {
 public:
  /// Creates the temporary in the directory of `path`, which must exist.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // without commit(): removes the temporary

  Status append(ByteSpan bytes);
  /// Syncs, renames onto the path and syncs the directory. At most once. If only that last sync
  /// fails, the new file is in place but might not survive a power cut, and the error says so.
  Status commit();

 private:
  AtomicFile(int fd, std::string path, std::string temporary);
  void discard() noexcept;
  Status give_up(const char* action, int error);

  int fd_ = -1;
  std::string path_, temporary_;
  Status failed_;
};

/// Renames and syncs the directory, so that the new name survives a power cut.
Status rename_synced(const std::string& from, const std::string& to);

Status write_file_atomic(const std::string& path, ByteSpan bytes);

/// A file of one's own in a directory that somebody else may have prepared, open to be read and
/// written: made with `mode`, or the one that is there. kInvalid, and nothing has changed: a
/// symbolic link, a file with a second name (a hard link), or no file at all. The caller closes it.
Result<int> open_own_file(const std::string& path, unsigned mode);
/// kInvalid if the path itself is a symbolic link; fine if there is nothing. For files and
/// directories that are opened by others' code.
Status refuse_link(const std::string& path);

/// Exclusive use of a directory by one process, through flock on DIR/.lock; the kernel lets go of
/// it when the process ends, however it ends. The lock file holds the owner's pid and stays.
class DirLock {
 public:
  /// kBusy "another tessera run (pid N) is using DIR" if it is taken. Never waits. kInvalid as
  /// open_own_file(), or what is there is no lock of ours: it stays as it is.
  static Result<DirLock> take(const std::string& dir);
  DirLock(DirLock&& other) noexcept;
  DirLock& operator=(DirLock&& other) noexcept;
  ~DirLock();

 private:
  explicit DirLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// "PATH: cannot ACTION: STRERROR (ADVICE)" with the kind that fits errno, for other code of io.
Status system_error(const std::string& path, const char* action, int error);

}  // namespace tessera
