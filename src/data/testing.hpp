// Where tests of data/ find real datasets. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/find.hpp"
#include "data/options.hpp"

#ifndef TESSERA_TEST_DATA
// Beside the source tree: <root>/../shared/data.
#define TESSERA_TEST_DATA \
  (std::filesystem::path(__FILE__).parent_path() / "../../../shared/data").lexically_normal()
#endif

namespace tessera {

inline std::string test_data_dir() {
  if (const char* dir = std::getenv("TESSERA_DATA")) return dir;
  return std::filesystem::path(TESSERA_TEST_DATA).string();
}

/// An empty directory of the test's own.
inline std::string fresh_dir(const std::string& name) {
  const auto dir = std::filesystem::path(testing::TempDir()) / ("tessera-data-" + name);
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir.string();
}

inline DataOptions natural(const std::string& set, const std::string& dir) {
  DataOptions options;
  options.set = set, options.partition = "natural", options.data_dir = dir;
  return options;
}

}  // namespace tessera

#define TESSERA_NEED_SET(set)                                                      \
  if (const auto tessera_found = tessera::find_set(set, tessera::test_data_dir()); \
      !tessera_found.ok())                                                         \
  GTEST_SKIP() << tessera_found.status().message()
