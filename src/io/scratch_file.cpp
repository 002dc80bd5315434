#include "io/scratch_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "io/file.hpp"

namespace tessera {

Result<ScratchFile> ScratchFile::create(const std::string& dir) {
  std::string name = dir + "/scratch.XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return system_error(dir, "make a file in", errno);
  if (::unlink(name.c_str()) != 0) {
    const int error = errno;
    ::close(file);
    return system_error(name, "remove", error);
  }
  return ScratchFile(file, dir);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      dir_(std::move(other.dir_)),
      end_(other.end_),
      free_(std::move(other.free_)) {}

ScratchFile::~ScratchFile() {
  if (file_ >= 0) ::close(file_);
}

Result<ScratchFile::Piece> ScratchFile::put(ByteSpan bytes) {
  auto& places = free_[bytes.size()];
  const bool reused = !places.empty();
  const Piece piece{reused ? places.back() : end_, bytes.size()};
  for (size_t done = 0; done < bytes.size();) {
    const auto written = ::pwrite(file_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(piece.at + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return system_error(dir_, "write to a file in", written < 0 ? errno : ENOSPC);
    done += static_cast<size_t>(written);
  }
  if (reused)
    places.pop_back();
  else
    end_ += bytes.size();
  return piece;
}

Result<Bytes> ScratchFile::get(Piece piece) const {
  Bytes out(piece.size);
  for (size_t done = 0; done < out.size();) {
    const auto read =
        ::pread(file_, out.data() + done, out.size() - done, static_cast<off_t>(piece.at + done));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return system_error(dir_, "read back a file in", read < 0 ? errno : EIO);
    done += static_cast<size_t>(read);
  }
  return out;
}

void ScratchFile::drop(Piece piece) { free_[piece.size].push_back(piece.at); }

}  // namespace tessera
