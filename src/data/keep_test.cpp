#include "data/keep.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

// Counts how often a source is really read.
struct Reader {
  int reads = 0;
  std::string operator()() {
    const auto got = read_or_kept<std::string>(
        "test source", [&]() -> Result<std::string> { return fmt::format("reading {}", ++reads); });
    return got.ok() ? *got : message(got.status());
  }
};

TEST(KeepSources, WithoutOneEveryLoadReads) {
  Reader reader;
  EXPECT_EQ(reader(), "reading 1");
  EXPECT_EQ(reader(), "reading 2");
}

TEST(KeepSources, WhatWasReadStaysUntilTheLastOneEnds) {
  Reader reader;
  {
    const KeepSources outer;
    EXPECT_EQ(reader(), "reading 1");
    {
      const KeepSources inner;
      EXPECT_EQ(reader(), "reading 1");
    }
    EXPECT_EQ(reader(), "reading 1");
  }
  EXPECT_EQ(reader(), "reading 2");
}

TEST(KeepSources, AnErrorIsNotKept) {
  const KeepSources keep;
  const auto failing = read_or_kept<std::string>(
      "test trouble", []() -> Result<std::string> { return fail(Error::kIo, "a bad disk"); });
  EXPECT_FALSE(failing.ok());
  const auto better =
      read_or_kept<std::string>("test trouble", []() -> Result<std::string> { return "fine"; });
  ASSERT_TRUE(better.ok());
  EXPECT_EQ(*better, "fine");
}

}  // namespace
}  // namespace tessera
