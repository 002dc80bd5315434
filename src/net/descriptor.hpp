// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace tessera {

/// Closes what it holds; -1: nothing.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int fd = -1) : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.release()) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    if (this != &other) close(), fd_ = other.release();
    return *this;
  }
  ~OwnedDescriptor() { close(); }

  int get() const { return fd_; }
  /// It is the caller's from here on.
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_;
};

}  // namespace tessera
