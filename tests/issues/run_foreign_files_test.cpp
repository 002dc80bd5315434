// A run removed what it had not written: models/, report.html and more of any directory that it was
// given, without being asked; and a run whose directory was removed went on to its end.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ForeignFiles : public Playground {
 protected:
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    write(name, text);
  }
  /// Refused whatever is asked for, and the file is as it was.
  void expect_kept(const std::string& name, const std::string& out) const {
    const auto before = slurp(path(name));
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{}, {"--resume"}, {"--force"}}) {
      const auto done = run(out, flags);
      EXPECT_EQ(done.code, 2) << done.err;
      EXPECT_EQ(error_lines(done), 1) << done.err;
      EXPECT_THAT(done.err, HasSubstr("another --out"));
      ASSERT_TRUE(exists(name));
      EXPECT_EQ(slurp(path(name)), before);
    }
  }
};

TEST_F(ForeignFiles, SurviveEveryWayToStartARun) {
  put("a/models/resnet.pt", "the owner's weights");
  expect_kept("a/models/resnet.pt", "a");
  put("b/report.html", "<p>the owner's page</p>");
  expect_kept("b/report.html", "b");
  put("c/checkpoint/epoch-3.pt", "the owner's state");
  expect_kept("c/checkpoint/epoch-3.pt", "c");
  put("d/config.toml", "[server]\nport = 80\n");
  expect_kept("d/config.toml", "d");
  put("e/history.sqlite", "sold, bought");
  expect_kept("e/history.sqlite", "e");
  put("f/summary.json", "{\"title\": \"the owner's\"}");
  expect_kept("f/summary.json", "f");
}

TEST_F(ForeignFiles, SurviveBesideARun) {
  put("a/notes.txt", "the owner's"), put("a/plots/one.svg", "<svg/>");
  ASSERT_EQ(run("a").code, 0);
  put("a/models/readme.md", "the owner's");
  expect_kept("a/models/readme.md", "a");
  EXPECT_TRUE(exists("a/summary.json")) << "nothing of the run is lost either";
  fs::remove(path("a/models/readme.md"));
  ASSERT_EQ(run("a", {"--force"}).code, 0);
  EXPECT_TRUE(exists("a/notes.txt"));
  EXPECT_TRUE(exists("a/plots/one.svg"));
}

TEST_F(ForeignFiles, APageOfAComparisonIsNotOverwritten) {
  ASSERT_EQ(tessera({"compare", path("e.toml"), "--methods", "local,fedavg", "--quiet", "--out",
                     path("c")})
                .code,
            0);
  expect_kept("c/report.html", "c");
}

TEST_F(ForeignFiles, TemporariesThatACrashLeftAreCleared) {
  ASSERT_EQ(run("a").code, 0);
  for (const char* name : {"a/summary.json.tmp.123.0", "a/models/client-1.safetensors.tmp.123.4"})
    put(name, "half");
  ASSERT_EQ(run("a", {"--force"}).code, 0);
  EXPECT_FALSE(exists("a/summary.json.tmp.123.0"));
  EXPECT_FALSE(exists("a/models/client-1.safetensors.tmp.123.4"));
}

TEST_F(ForeignFiles, ARunWhoseDirectoryIsRemovedStops) {
  auto process = long_run("a", 3);
  fs::remove_all(path("a"));
  process->signal(SIGCONT);
  const auto done = process->wait();
  EXPECT_EQ(done.code, 1) << done.out;
  EXPECT_EQ(error_lines(done), 1) << done.err;
  EXPECT_FALSE(exists("a/summary.json"));
}

TEST_F(ForeignFiles, ARunWhoseDirectoryIsReplacedStops) {
  ASSERT_EQ(run("other").code, 0);
  auto process = long_run("a", 3);
  fs::remove_all(path("a"));
  fs::rename(path("other"), path("a"));
  const auto digest_before = digest("a");
  process->signal(SIGCONT);
  const auto done = process->wait();
  EXPECT_EQ(done.code, 1) << done.out;
  EXPECT_THAT(done.err, HasSubstr("removed or replaced"));
  EXPECT_EQ(digest("a"), digest_before);
}

}  // namespace
}  // namespace tessera::testing
