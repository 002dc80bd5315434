// Bytes out of the way for a while: on the disk, without a name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// A file without a name: it is gone when the process ends, however that comes about. Room that was
/// given back serves pieces of the same size, of which there are usually many. Nothing is synced:
/// what must outlive the process belongs elsewhere. Movable; not thread-safe.
class ScratchFile {
 public:
  /// Where a piece is.
  struct Piece {
    uint64_t at = 0, size = 0;
  };

  /// In `dir`, which must exist (kNotFound). kIo if the system refuses.
  static Result<ScratchFile> create(const std::string& dir);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  /// kIo: a full disk.
  Result<Piece> put(ByteSpan bytes);
  Result<Bytes> get(Piece piece) const;
  /// Its room may be used again.
  void drop(Piece piece);
  /// Bytes that the file has ever needed at once, room that is free now included.
  uint64_t size() const { return end_; }

 private:
  ScratchFile(int file, std::string dir) : file_(file), dir_(std::move(dir)) {}

  int file_ = -1;
  std::string dir_;  // for messages
  uint64_t end_ = 0;
  std::map<uint64_t, std::vector<uint64_t>> free_;  // places by size
};

}  // namespace tessera
