#include "base/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A made-up system below a temporary folder.
class Memory : public ::testing::Test {
 protected:
  Memory() : root_(fs::temp_directory_path() / ("tessera-memory-" + std::to_string(getpid()))) {}
  ~Memory() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    const auto file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t available() const { return available_memory(root_.string()); }

  fs::path root_;
};

constexpr const char* kMeminfo = "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 8000 kB\n";

TEST_F(Memory, UnknownIsNoLimit) { EXPECT_EQ(available(), std::numeric_limits<int64_t>::max()); }

TEST_F(Memory, WhatTheSystemSays) {
  put("proc/meminfo", kMeminfo);
  EXPECT_EQ(available(), 8000 * 1024);
}

TEST_F(Memory, GroupOfVersionTwo) {
  put("proc/meminfo", kMeminfo);
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "5000\n");
  put("sys/fs/cgroup/job/step/memory.current", "3000\n");
  EXPECT_EQ(available(), 2000);
  put("sys/fs/cgroup/job/step/memory.stat", "anon 1\ninactive_file 500\nslab 7\n");
  EXPECT_EQ(available(), 2500) << "cached files give way";
}

TEST_F(Memory, GroupsAboveBindToo) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("sys/fs/cgroup/job/step/memory.max", "max\n");
  put("sys/fs/cgroup/job/step/memory.current", "100\n");
  put("sys/fs/cgroup/job/memory.max", "1000\n");
  put("sys/fs/cgroup/job/memory.current", "100\n");
  EXPECT_EQ(available(), 900);
}

TEST_F(Memory, GroupOfVersionOne) {
  put("proc/self/cgroup", "4:memory:/job\n3:cpuset:/\n0::/\n");
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(available(), 0) << "never negative";
}

TEST_F(Memory, NonsenseIsNoLimit) {
  put("proc/meminfo", "MemAvailable:\nMemAvailable: much\n");
  put("proc/self/cgroup", "0::\n0::job\nnonsense\n");
  EXPECT_EQ(available(), std::numeric_limits<int64_t>::max());
}

TEST_F(Memory, TheSystemMayBeTighterThanTheGroup) {
  put("proc/meminfo", "MemAvailable: 1 kB\n");
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/memory.max", "5000\n");
  put("sys/fs/cgroup/memory.current", "0\n");
  EXPECT_EQ(available(), 1024);
}

TEST(MemoryHere, ThisMachineHasSome) {
  EXPECT_GT(available_memory(), 1 << 20);
  EXPECT_LT(available_memory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace tessera
