// The plumbing of every table and figure: what they say at this size means nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "process.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class AtTiny : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/tessera-tiny-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    // Sets that are not in Debian.
    if (fs::exists(TESSERA_SHARED_DATA)) setenv("TESSERA_DATA", TESSERA_SHARED_DATA, 0);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Finished reproduce(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"reproduce",      "--exhibits",       TESSERA_EXHIBITS,
                                   "--records",      root_ + "/records", "--out",
                                   root_ + "/pages", "--json",           "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    Process process(words, {});
    return process.wait(std::chrono::seconds(1200));
  }

  std::string root_;
};

// In one process: a set is read once for all of them.
TEST_F(AtTiny, AllCellsRunOnceAndAreShown) {
  const auto first = reproduce({"all", "--size", "tiny"});
  ASSERT_EQ(first.code, 0) << first.err;
  size_t left_out = 0, cells = 0;
  for (const auto& exhibit : nlohmann::json::parse(first.out)) {
    const auto id = exhibit["id"].get<std::string>();
    SCOPED_TRACE(id);
    bool missing = false;
    for (const auto& remark : exhibit["remarks"]) {
      const auto text = remark.get<std::string>();
      EXPECT_THAT(text, ::testing::Not(HasSubstr(" failed: ")));
      if (!text.starts_with("left out: ")) continue;
      EXPECT_THAT(text, HasSubstr("TESSERA_DATA")) << "only missing data may be left out";
      missing = true;
    }
    if (missing)
      ++left_out;
    else
      EXPECT_EQ(exhibit["cells_done"], exhibit["cells"]);
    cells += exhibit["cells_done"].get<size_t>();
    const auto page = slurp(root_ + "/pages/tiny/" + id + ".html");
    EXPECT_THAT(page, HasSubstr("<h1>" + id));
    EXPECT_THAT(page, ::testing::Not(HasSubstr("<script src")));
    EXPECT_FALSE(slurp(root_ + "/pages/tiny/" + id + ".md").empty());
  }
  const auto again = reproduce({"all", "--size", "tiny"});
  ASSERT_EQ(again.code, 0) << again.err;
  for (const auto& exhibit : nlohmann::json::parse(again.out)) EXPECT_EQ(exhibit["cells_ran"], 0);
  if (cells == 0) GTEST_SKIP() << left_out << " exhibits need data that are not there";
}

// The other sizes are too long to run; their experiments are checked, all of them.
TEST_F(AtTiny, EverySizeIsAnExperiment) {
  const std::vector<std::string> ids{
      "ACS-F1a", "ACS-F1b", "ACS-T1",  "ACS-T2",   "CBAM-T1", "CBAM-T2", "CBAM-T3",
      "HAM-F4",  "HAM-F5",  "HAM-F6",  "HAM-T1",   "HAM-T2",  "HAM-T3",  "HAM-T4",
      "MPER-F1", "MPER-F2", "MPER-T2", "MPER-T3",  "MPER-T4", "PFHT-F4", "PFHT-F5",
      "PFHT-F7", "PFHT-F8", "PFHT-F9", "PFHT-F10", "PFHT-T1", "PFHT-T2", "PFHT-T3",
      "PFHT-T4", "ACS-Q1",  "CBAM-Q1", "HAM-Q1",   "HAM-Q2",  "MPER-Q1", "PFHT-Q1",
      "PFHT-F6", "HAM-P1",  "PRIV-T1", "OURS-T1",  "OURS-T2", "OURS-T3"};
  for (const char* size : {"tiny", "small", "paper"}) {
    const auto list = reproduce({"--list", "--size", size});
    ASSERT_EQ(list.code, 0) << list.err;
    std::vector<std::string> found;
    for (const auto& exhibit : nlohmann::json::parse(list.out)) {
      found.push_back(exhibit["id"]);
      EXPECT_GT(exhibit["cells"].get<size_t>(), 0u);
    }
    EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(ids));
  }
}

}  // namespace
}  // namespace tessera::testing
