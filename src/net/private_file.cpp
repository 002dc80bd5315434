#include "net/private_file.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "io/file.hpp"

namespace tessera {
namespace {

/// 0 or errno; all of the text, durably.
int write_and_sync(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

}  // namespace

Status write_private_file(const std::string& path, const std::string& text) {
  // mkstemp, not AtomicFile: it makes the file with mode 0600 whatever the umask.
  std::string temporary = path + ".tmp.XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return system_error(path, "write", errno);
  const int error = write_and_sync(fd, text);
  ::close(fd);
  const auto status = error ? system_error(path, "write", error) : rename_synced(temporary, path);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status check_private_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error(path, "read", errno);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return ok();
  return fail(Error::kInvalid,
              "{0}: others can read or change this private key (mode {1:o}); run `chmod 600 {0}`",
              path, info.st_mode & 0777);
}

void keep_memory_private() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  // A dump that goes into a pipe (core_pattern) knows no limit, but asks for this.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

Status make_private_dir(const std::string& dir) {
  struct stat info {};
  const bool was_there = ::stat(dir.c_str(), &info) == 0;
  TESSERA_RETURN_IF_ERROR(make_dirs(dir));
  if (!was_there && ::chmod(dir.c_str(), 0700) != 0)
    return system_error(dir, "make this directory private", errno);
  return ok();
}

}  // namespace tessera
