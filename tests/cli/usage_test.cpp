// Words on the command line and in the file.
#include <gmock/gmock.h>

#include <algorithm>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Usage, EveryHelpHasAnExampleAndTheExitCodes) {
  const std::vector<std::vector<std::string>> commands{
      {},         {"run"},  {"compare"},      {"check"},        {"methods"},    {"models"},
      {"report"}, {"data"}, {"data", "list"}, {"data", "show"}, {"data", "get"}};
  for (auto words : commands) {
    words.push_back("--help");
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(done.err, "");
    EXPECT_THAT(done.out, HasSubstr("Example:\n  tessera "));
    EXPECT_THAT(done.out, HasSubstr("0 done, 1 failed while running, 2 wrong input, 130"));
  }
}

TEST(Usage, Version) {
  const auto done = tessera({"--version"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, StartsWith("tessera "));
}

void expect_wrong_usage(const std::vector<std::string>& words, const std::string& expected) {
  const auto done = tessera(words);
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(error_lines(done), 1);
  EXPECT_THAT(done.err, HasSubstr(expected));
}

TEST(Usage, WrongWordsNameTheNearest) {
  expect_wrong_usage({"rnu", "x.toml"}, "tessera: unknown command 'rnu' (did you mean 'run'?)");
  expect_wrong_usage({"run", "x.toml", "--treads", "2"},
                     "unknown flag '--treads' (did you mean '--threads'?)");
  expect_wrong_usage({"data", "lsit"}, "unknown command 'lsit' (did you mean 'list'?)");
  expect_wrong_usage({"run", "x.toml", "y.toml"}, "unexpected argument 'y.toml'");
  expect_wrong_usage({"run", "x.toml", "--threads", "0"}, "--threads");
  expect_wrong_usage({"run", "x.toml", "--threads", "two"}, "--threads");
  expect_wrong_usage({"run"}, "FILE is required; see `tessera run --help`");
  expect_wrong_usage({}, "see `tessera --help`");
  expect_wrong_usage({"compare", "x.toml"}, "--methods is required");
}

TEST(Lists, TextAndJson) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"methods"}, {"models"}, {"data", "list"}}) {
    const auto text = tessera(words);
    EXPECT_EQ(text.code, 0);
    EXPECT_EQ(text.err, "");
    auto as_json = words;
    as_json.push_back("--json");
    const auto parsed = nlohmann::json::parse(tessera(as_json).out, nullptr, false);
    ASSERT_FALSE(parsed.is_discarded());
    const auto& names = parsed.is_array() ? parsed : parsed["sets"];
    ASSERT_GT(names.size(), 3u);
    for (const auto& entry : names)
      EXPECT_THAT(text.out, HasSubstr("  " + entry["name"].get<std::string>() + " "));
  }
  const auto methods = nlohmann::json::parse(tessera({"methods", "--json"}).out);
  const auto prox = std::find_if(methods.begin(), methods.end(),
                                 [](const auto& method) { return method["name"] == "fedprox"; });
  ASSERT_NE(prox, methods.end());
  EXPECT_EQ((*prox)["options"][0]["key"], "mu");
}

class Input : public Playground {};

TEST_F(Input, MissingFile) {
  const auto done = tessera({"run", path("nothing.toml")});
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(error_lines(done), 1);
  EXPECT_THAT(done.err, HasSubstr("nothing.toml"));
}

TEST_F(Input, AllErrorsOfAFileAtOnce) {
  write("bad.toml", "ruonds = 3\n[train]\nlr = \"fast\"\n[method]\nname = \"fedagv\"\n");
  for (const char* command : {"run", "check"}) {
    const auto done = tessera({command, path("bad.toml"), "--set", "train.lrr=1"});
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(error_lines(done), 4);
    EXPECT_THAT(done.err, HasSubstr("bad.toml:1:1: unknown key 'ruonds' (did you mean 'rounds'?)"));
    EXPECT_THAT(done.err, HasSubstr("bad.toml:3:6: train.lr must be a number, not text"));
    EXPECT_THAT(done.err,
                HasSubstr("bad.toml:5:8: unknown method 'fedagv' (did you mean 'fedavg'?)"));
    EXPECT_THAT(done.err, HasSubstr("--set train.lrr: unknown key"));
  }
}

TEST_F(Input, CheckSaysWhatWouldRunAndWritesNothing) {
  const auto done = tessera({"check", path("e.toml")}, {.directory = root_});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("4, 4 in a round"));
  // 6·100 + 100 + 100·3 + 3 parameters, 4 bytes each, 4 clients, each way.
  EXPECT_THAT(done.out, HasSubstr("1003 parameters"));
  EXPECT_THAT(done.out, HasSubstr("16.0 kB down and 16.0 kB up in the first round"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Input, CheckFindsWhatOnlyTheDataTell) {
  const auto many = tessera({"check", path("e.toml"), "--set", "federation.min_replies=5"});
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("min_replies = 5 can never be reached"));
  const auto model = tessera({"check", path("e.toml"), "--set", "model.name=lenet"});
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.err, HasSubstr("'lenet' takes images"));
  write("data/client-b.npz", "PK\x03\x04 and no more");
  const auto data = tessera({"check", path("e.toml")});
  EXPECT_EQ(data.code, 2);
  EXPECT_EQ(error_lines(data), 1);
  EXPECT_THAT(data.err, HasSubstr("client-b.npz"));
}

TEST_F(Input, DataShowDrawsTheFederation) {
  const auto done = tessera({"data", "show", path("e.toml"), "--svg", path("deal.svg")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("client "));
  EXPECT_THAT(slurp(path("deal.svg")), HasSubstr("<svg"));
  // The same digest as a run has.
  ASSERT_EQ(run("a", {"--set", "rounds=1"}).code, 0);
  EXPECT_THAT(done.out, HasSubstr(json("a/summary.json")["partition_digest"].get<std::string>()));
}

TEST_F(Input, DataGetOfAnUnknownSet) {
  const auto done = tessera({"data", "get", "mnits", "--data-dir", path("sets")});
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(error_lines(done), 1);
  EXPECT_THAT(done.err, HasSubstr("mnist"));
  EXPECT_FALSE(exists("sets"));
}

}  // namespace
}  // namespace tessera::testing
