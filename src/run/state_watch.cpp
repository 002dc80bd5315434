#include "run/state_watch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "io/file.hpp"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kStateLook{50};

}  // namespace

Result<std::unique_ptr<StateWatch>> StateWatch::begin(const std::string& dir,
                                                      const std::atomic<bool>* outer) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(dir, "open", errno);
  return std::unique_ptr<StateWatch>(new StateWatch(fd, dir, outer));
}

StateWatch::StateWatch(int fd, std::string dir, const std::atomic<bool>* outer)
    : fd_(fd), dir_(std::move(dir)), outer_(outer), thread_([this](const std::stop_token& end) {
        while (!end.stop_requested() && !stop_) {
          if (!still_there()) gone_ = true;
          if (gone_ || (outer_ && outer_->load())) stop_ = true;
          std::this_thread::sleep_for(kStateLook);
        }
      }) {}

StateWatch::~StateWatch() {
  thread_ = {};
  ::close(fd_);
}

bool StateWatch::still_there() const {
  struct stat ours {};
  struct stat there {};
  struct stat lock {};
  return ::fstat(fd_, &ours) == 0 && ::stat(dir_.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino &&
         ::lstat((dir_ + "/.lock").c_str(), &lock) == 0;
}

Status StateWatch::trouble() const {
  // A failure that follows from it may be faster than the next look.
  if (!gone_ && still_there()) return ok();
  return fail(Error::kIo,
              "{}: the state was removed or replaced while the server was using it; what clients "
              "have sent since the last copy of it is lost: put that copy back and start again, or "
              "start anew with another --state",
              dir_);
}

}  // namespace tessera
