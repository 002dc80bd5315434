// What io's tests share: a directory that cleans up after itself, and errors as expectations.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera.XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Names in it, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::string path_;
};

/// Independent of io/file.hpp, which is under test.
inline void put(const std::string& path, ByteSpan bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}
inline void put(const std::string& path, std::string_view text) { put(path, bytes_of(text)); }
inline std::string get(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline Bytes to_bytes(std::string_view text) { return {text.begin(), text.end()}; }

#ifdef TESSERA_TEST_DATA
/// A file of the real datasets, if they are there.
inline std::optional<std::string> data_file(const std::string& name) {
  const char* dir = std::getenv("TESSERA_DATA");
  const std::string path =
      (dir ? std::string(dir) : std::filesystem::path(TESSERA_TEST_DATA).string()) + "/" + name;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}
#endif

inline Status status_of(const Status& status) { return status; }
template <class T>
Status status_of(const Result<T>& result) {
  return result.status();
}

MATCHER_P2(FailsWith, kind, text, "") {
  const Status status = status_of(arg);
  *result_listener << "status: " << status.ToString();
  return !status.ok() && error_of(status) == kind &&
         message(status).find(text) != std::string::npos;
}
MATCHER(Succeeds, "") {
  *result_listener << "status: " << status_of(arg).ToString();
  return status_of(arg).ok();
}

}  // namespace tessera::testing
