// Where tests of data/ find real datasets. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/find.hpp"

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

}  // namespace tessera

#define TESSERA_NEED_SET(set)                                                      \
  if (const auto tessera_found = tessera::find_set(set, tessera::test_data_dir()); \
      !tessera_found.ok())                                                         \
  GTEST_SKIP() << tessera_found.status().message()
