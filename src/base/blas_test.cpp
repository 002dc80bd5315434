#include "base/blas.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

Processor old_one() { return {}; }
Processor haswell() { return {.avx2 = true}; }
Processor zen() { return {.amd = true, .avx2 = true}; }
Processor xeon() { return {.avx2 = true, .avx512 = true}; }

using Variables = std::map<std::string, const char*>;
std::string chosen(const Processor& processor, const std::string& core, const Variables& set = {}) {
  return better_core(processor, core, [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second;
  });
}

TEST(Blas, AFallbackIsPutRight) {
  EXPECT_EQ(chosen(xeon(), "Prescott"), "SkylakeX");
  EXPECT_EQ(chosen(xeon(), "Haswell"), "SkylakeX");
  EXPECT_EQ(chosen(haswell(), "Prescott"), "Haswell");
  EXPECT_EQ(chosen(haswell(), "Sandybridge"), "Haswell");
  EXPECT_EQ(chosen(zen(), "Barcelona"), "Zen");
  EXPECT_EQ(chosen({.amd = true, .avx2 = true, .avx512 = true}, "Zen"), "SkylakeX");
}

TEST(Blas, WhatIsRightStays) {
  EXPECT_EQ(chosen(old_one(), "Prescott"), "");
  EXPECT_EQ(chosen(haswell(), "Haswell"), "");
  EXPECT_EQ(chosen(zen(), "Haswell"), "");  // as wide as Zen's own
  EXPECT_EQ(chosen(zen(), "Zen"), "");
  EXPECT_EQ(chosen(xeon(), "SkylakeX"), "");
  EXPECT_EQ(chosen(xeon(), "SapphireRapids"), "");
}

TEST(Blas, AnotherLibraryOrALaterCoreIsLeftAlone) {
  EXPECT_EQ(chosen(xeon(), ""), "");
  EXPECT_EQ(chosen(xeon(), "DiamondRapids"), "");
}

TEST(Blas, TheUsersChoiceStandsWhateverItIs) {
  for (const char* core : {"Prescott", "Haswell", "nonsense", ""}) {
    EXPECT_EQ(chosen(xeon(), "Prescott", {{"OPENBLAS_CORETYPE", core}}), "") << core;
  }
}

TEST(Blas, TheProgramStartsAgainOnlyOnce) {
  EXPECT_EQ(chosen(xeon(), "Prescott", {{"TESSERA_BLAS_AGAIN", "1"}}), "");
  EXPECT_EQ(chosen(xeon(), "Prescott", {{"OPENBLAS_NUM_THREADS", "1"}}), "SkylakeX");
}

TEST(Processor, NamesItselfAndWiderMeansAll) {
  const auto& here = this_processor();
  EXPECT_FALSE(here.name.empty());
  EXPECT_NE(here.name.front(), ' ');
  EXPECT_NE(here.name.back(), ' ');
  if (here.avx512) {
    EXPECT_TRUE(here.avx2);
  }
}

}  // namespace
}  // namespace tessera
