#include "io/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "io/unpack.hpp"

namespace tessera {
namespace {

// Closes on every way out; errors of close matter only after writing, where fsync came before.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string directory_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// 0 or errno. Writes all of it, however often the kernel takes only a part.
int write_all(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return 0;
}

int sync_directory(const std::string& dir) {
  const Descriptor fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return errno;
  // Some file systems cannot sync a directory and say EINVAL; there is nothing more to do then.
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

std::string_view advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free some space or choose another --out";
    case EROFS:
      return "; choose another --out";
    case EACCES:
    case EPERM:
      return "; check the permissions of the file and its directory";
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    case EMFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EIO:
      return "; the disk may be failing";
    case ELOOP:
      return "; a symbolic link is not followed here: remove it, or choose another directory";
    default:
      return "";
  }
}

Result<Bytes> read_descriptor(int fd, size_t size, const std::string& path) try {
  Bytes bytes(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "read", errno);
    if (n == 0) return fail(Error::kIo, "{}: the file shrank while it was read; try again", path);
    done += static_cast<size_t>(n);
  }
  return bytes;
} catch (const std::bad_alloc&) {
  return fail(Error::kIo, "{}: not enough memory for its {}", path,
              human_bytes(static_cast<double>(size)));
}

}  // namespace

Status system_error(const std::string& path, const char* action, int error) {
  const auto kind = error == ENOENT || error == ENOTDIR ? Error::kNotFound
                    : error == EISDIR || error == ELOOP ? Error::kInvalid
                                                        : Error::kIo;
  return fail(kind, "{}: cannot {}: {}{}", path, action, std::generic_category().message(error),
              advice(error));
}

Result<Bytes> read_file(const std::string& path, size_t max_bytes) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it means nothing for regular files.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return system_error(path, "open", errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path, "read", errno);
  if (!S_ISREG(info.st_mode))
    return fail(Error::kInvalid, "{}: is {}, not a file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket");
  const auto size = static_cast<size_t>(info.st_size);
  if (size > max_bytes)
    return fail(Error::kInvalid, "{}: is {}, more than the {} expected; is it the right file?",
                path, human_bytes(static_cast<double>(size)),
                human_bytes(static_cast<double>(max_bytes)));
  return read_descriptor(fd.get(), size, path);
}

Result<Bytes> read_unpacked(const std::string& path, size_t max_bytes) {
  TESSERA_ASSIGN(auto bytes, read_file(path));
  if (!is_packed(bytes) && bytes.size() <= max_bytes) return bytes;
  return unpack(bytes, max_bytes, path);
}

Result<std::string> find_unpacked(const std::string& dir, const std::string& stem) {
  const std::string plain = dir.empty() ? stem : dir + "/" + stem;
  for (const char* ending : {"", ".gz", ".xz"}) {
    struct stat info {};
    if (::stat((plain + ending).c_str(), &info) == 0 && S_ISREG(info.st_mode))
      return plain + ending;
  }
  return fail(Error::kNotFound, "{0}: no such file, nor {0}.gz, nor {0}.xz", plain);
}

Status make_dirs(const std::string& path) {
  if (path.empty()) return fail(Error::kInvalid, "the name of a directory to make is empty");
  std::error_code error;
  // Another process may remove a parent that it finds empty before we have put something into it:
  // then it is not there, or is taken for a file. What is really in the way is so every time.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::filesystem::create_directories(path, error);
    if (!error && std::filesystem::is_directory(path, error)) return ok();
    if (error && error.value() != ENOENT && error.value() != EEXIST && error.value() != ENOTDIR)
      break;
  }
  if (!error || error.value() == EEXIST || error.value() == ENOTDIR)
    return fail(Error::kInvalid, "{}: cannot make this directory: a file is in the way", path);
  return system_error(path, "make this directory", error.value());
}

Status rename_synced(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return system_error(to, "write", errno);
  if (const int error = sync_directory(directory_of(to)))
    return system_error(directory_of(to), "sync", error);
  return ok();
}

AtomicFile::AtomicFile(int fd, std::string path, std::string temporary)
    : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      failed_(std::move(other.failed_)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  failed_ = std::move(other.failed_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status AtomicFile::give_up(const char* action, int error) {
  discard();
  return failed_ = system_error(path_, action, error);
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<int> serial{0};
  // A crashed process may have left the same name behind if its pid comes round again.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto temporary = fmt::format("{}.tmp.{}.{}", path, ::getpid(), serial++);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return AtomicFile(fd, path, temporary);
    if (errno != EEXIST) break;
  }
  return system_error(path, "write", errno);
}

Status AtomicFile::append(ByteSpan bytes) {
  if (!failed_.ok()) return failed_;
  if (fd_ < 0) return fail(Error::kInternal, "{}: written to after commit", path_);
  if (const int error = write_all(fd_, bytes)) return give_up("write", error);
  return ok();
}

Status AtomicFile::commit() {
  if (!failed_.ok()) return failed_;
  if (fd_ < 0) return fail(Error::kInternal, "{}: committed twice", path_);
  if (::fsync(fd_) != 0) return give_up("write", errno);
  ::close(std::exchange(fd_, -1));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return give_up("write", errno);
  temporary_.clear();
  if (const int error = sync_directory(directory_of(path_))) return give_up("sync", error);
  return ok();
}

Status write_file_atomic(const std::string& path, ByteSpan bytes) {
  TESSERA_ASSIGN(auto file, AtomicFile::create(path));
  TESSERA_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

Status refuse_link(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return ok();
  return system_error(path, "open", ELOOP);
}

Result<int> open_own_file(const std::string& path, unsigned mode) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Another process may make or remove it in between.
  for (int attempt = 0; attempt < 100; ++attempt) {
    Descriptor made(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, mode));
    if (made.get() >= 0) return made.release();
    if (errno != EEXIST) return system_error(path, "open", errno);
    Descriptor there(::open(path.c_str(), kFlags));
    if (there.get() < 0 && errno == ENOENT) continue;
    if (there.get() < 0) return system_error(path, "open", errno);
    struct stat info {};
    if (::fstat(there.get(), &info) != 0) return system_error(path, "read", errno);
    if (!S_ISREG(info.st_mode)) return fail(Error::kInvalid, "{}: is no regular file", path);
    if (info.st_nlink == 0) continue;
    if (info.st_nlink > 1)
      return fail(Error::kInvalid,
                  "{}: is a file that has another name, too (a hard link); remove it, or choose "
                  "another directory",
                  path);
    return there.release();
  }
  return system_error(path, "open", ENOENT);
}

DirLock::DirLock(DirLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirLock& DirLock::operator=(DirLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirLock::~DirLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<DirLock> DirLock::take(const std::string& dir) {
  const std::string path = dir + "/.lock";
  TESSERA_ASSIGN(const int opened, open_own_file(path, 0666));
  Descriptor fd(opened);
  char text[16] = {};
  const ssize_t n = ::pread(fd.get(), text, sizeof(text), 0);
  const auto* const end = text + std::max<ssize_t>(n, 0);
  const auto* const digits = std::find_if_not(text, text + std::max<ssize_t>(n, 0),
                                              [](char c) { return '0' <= c && c <= '9'; });
  if (digits != end && std::string_view(digits, end) != "\n")
    return fail(Error::kInvalid,
                "{}: is no lock of tessera's, which would hold a number; remove it if it is of no "
                "use, or choose another directory",
                path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(path, "lock", errno);
    const std::string pid(static_cast<const char*>(text), digits);
    return fail(Error::kBusy,
                "another tessera run{} is using {}; wait for it, stop it or choose another --out",
                pid.empty() ? "" : fmt::format(" (pid {})", pid), dir);
  }
  const auto pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) != 0) return system_error(path, "write", errno);
  if (const int error = write_all(fd.get(), bytes_of(pid)))
    return system_error(path, "write", error);
  return DirLock(fd.release());
}

}  // namespace tessera
