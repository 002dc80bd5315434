// What a run had written was taken on trust: one changed number in its history gave another final
// digest and exit code 0, and an edited summary.json was printed as the result.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "io/sqlite.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ChangedHistory : public Playground {
 protected:
  void change(const std::string& out, const std::string& sql) const {
    auto history = Database::open(path(out + "/history.sqlite"), Database::Mode::kReadWrite);
    ASSERT_TRUE(history.ok()) << history.status();
    ASSERT_TRUE(history->execute(sql).ok()) << sql;
    ASSERT_GT(history->changes(), 0) << sql;
  }
  void expect_refused(const Finished& done, const std::string& text) const {
    EXPECT_EQ(done.code, 2) << done.out << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_THAT(done.err, HasSubstr("--force"));
  }
};

TEST_F(ChangedHistory, AnUnfinishedRunSeesEveryChange) {
  auto process = long_run("a", 7);
  process->signal(SIGKILL), process->wait();
  ASSERT_FALSE(exists("a/summary.json"));
  fs::copy(path("a"), path("kept"), fs::copy_options::recursive);
  for (const char* sql :
       {"UPDATE client_evals SET correct = correct - 1 WHERE round = 3 AND client = 1 AND "
        "view = 'pre' AND part = 'test'",
        "UPDATE rounds SET loss = loss * 1.0000000000000002 WHERE round = 2",
        "UPDATE rounds SET sim_seconds = 0 WHERE round = 1",
        "UPDATE meta SET value = 'post' WHERE key = 'headline'",
        "DELETE FROM client_evals WHERE round = 3 AND client = 0"}) {
    fs::remove_all(path("a"));
    fs::copy(path("kept"), path("a"), fs::copy_options::recursive);
    change("a", sql);
    expect_refused(run("a", {"--resume"}), "a/history.sqlite: was changed");
  }
  fs::remove_all(path("a"));
  fs::rename(path("kept"), path("a"));
  const auto resumed = run("a", {"--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(ChangedHistory, AFinishedRunIsItsHistoryAndItsModels) {
  ASSERT_EQ(run("a").code, 0);
  fs::copy(path("a"), path("kept"), fs::copy_options::recursive);
  const auto again = [&](const std::function<void()>& change_it, const std::string& text) {
    fs::remove_all(path("a"));
    fs::copy(path("kept"), path("a"), fs::copy_options::recursive);
    change_it();
    expect_refused(run("a", {"--resume"}), text);
  };
  again([&] { change("a", "UPDATE client_evals SET correct = 0 WHERE client = 2"); },
        "history or models were changed");
  again([&] { fs::remove(path("a/models/client-a.safetensors")); },
        "history or models were changed");
  again(
      [&] {
        std::fstream model(path("a/models/client-b.safetensors"),
                           std::ios::in | std::ios::out | std::ios::binary);
        model.seekp(-2, std::ios::end).put('!');
      },
      "client-b.safetensors: damaged");
}

TEST_F(ChangedHistory, SummariesThatNoRunWrote) {
  const std::vector<std::string> compare{"compare", path("e.toml"), "--methods", "local,fedavg",
                                         "--quiet", "--out",        path("c")};
  ASSERT_EQ(tessera(compare).code, 0);
  const auto file = path("c/local-s1/summary.json"), whole = slurp(file);
  const auto refused = [&](const std::string& text) {
    write("c/local-s1/summary.json", text);
    expect_refused(tessera(compare), "c/local-s1/summary.json");
    expect_refused(tessera({"run", path("e.toml"), "--set", "method.name=local", "--resume",
                            "--quiet", "--out", path("c/local-s1")}),
                   "summary.json");
  };
  for (const char* text : {"[]", "{}", "null", "7", "", "{\"accuracy\": 1}"}) refused(text);
  auto edited = json("c/fedavg-s1/summary.json");
  refused(edited.dump());  // a true one, of another run
  edited = nlohmann::json::parse(whole);
  edited["accuracy"]["mean"] = 0.999;
  refused(edited.dump());
  edited = nlohmann::json::parse(whole);
  edited["seed"] = "one";
  refused(edited.dump());
  write("c/local-s1/summary.json", whole);
  EXPECT_EQ(tessera(compare).code, 0);
  write("c/local-s1/summary.json", "[]");
  auto forced = compare;
  forced.push_back("--force");
  EXPECT_EQ(tessera(forced).code, 0);
}

}  // namespace
}  // namespace tessera::testing
