// Short forms that people expect, one method in full, and JSON everywhere.
#include <gmock/gmock.h>

#include <sstream>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t columns(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Methods, FitAScreen) {
  const auto done = tessera({"methods"});
  const auto table = nlohmann::json::parse(tessera({"methods", "--json"}).out);
  std::istringstream lines(done.out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(columns(line), 80U) << line;
  EXPECT_EQ(count, table.size() + 1);
}

TEST(Methods, OneInFull) {
  const auto prox = tessera({"methods", "fedprox"});
  EXPECT_EQ(prox.code, 0);
  for (const char* part :
       {"fedprox: fedavg with a pull towards the global model", "Li et al., MLSys 2020, eq. 2",
        "docs/methods.md §1.5", "d down and d up", "the server needs only the sum of the uploads",
        "mu = 0.01", "number >= 0", "[train]:", "lr_decay = 1.0", "[federation]:"})
    EXPECT_THAT(prox.out, HasSubstr(part));
  const auto per = tessera({"methods", "fedper"});
  EXPECT_THAT(per.out, HasSubstr("d_B down and d_B up"));
  EXPECT_THAT(per.out, HasSubstr("d_B: parameters of the base"));
  EXPECT_THAT(per.out, HasSubstr("the server needs only the sum of the uploads"));
  EXPECT_THAT(tessera({"methods", "fedacs"}).out,
              HasSubstr("the server reads every upload by itself"));
  const auto json = nlohmann::json::parse(tessera({"methods", "fedprox", "--json"}).out);
  EXPECT_EQ(json["section"], "1.5");
  EXPECT_EQ(json["additive"], true);
  EXPECT_EQ(json["options"][0]["default"], 0.01);
  const auto unknown = tessera({"methods", "fedprx"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown method 'fedprx' (did you mean 'fedprox'?)"));
}

class Choices : public Playground {};

TEST_F(Choices, SeedAndMethodAreSettings) {
  ASSERT_EQ(run("set", {"--set", "seed=5", "--set", "method.name=fedprox"}).code, 0);
  const auto given = tessera({"run", path("e.toml"), "-o", path("given"), "--quiet", "--seed", "5",
                              "--method", "fedprox"});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(json("given/summary.json")["method"], "fedprox");
  EXPECT_EQ(json("given/summary.json")["seed"], 5);
  EXPECT_EQ(digest("given"), digest("set"));
  const auto checked = tessera(
      {"check", path("e.toml"), "--seed=7", "--method=fedper", "--set", "seed=9", "--json"});
  EXPECT_EQ(checked.code, 0) << checked.err;
  const auto plan = nlohmann::json::parse(checked.out, nullptr, false);
  EXPECT_EQ(plan["seed"], 7) << "the flag wins over --set";
  EXPECT_EQ(plan["method"], "fedper");
}

TEST_F(Choices, WrongOnesAreNamed) {
  const auto method = tessera({"run", path("e.toml"), "--method", "fedprx"});
  EXPECT_EQ(method.code, 2);
  EXPECT_THAT(method.err, HasSubstr("--method: unknown method 'fedprx' (did you mean 'fedprox'?)"));
  for (const char* seed : {"-1", "x", "1.5"}) {
    const auto done = tessera({"run", path("e.toml"), "--seed", seed});
    EXPECT_EQ(done.code, 2) << seed;
    EXPECT_EQ(error_lines(done), 1);
    EXPECT_THAT(done.err, HasSubstr("--seed"));
  }
}

class AsJson : public Playground {
 protected:
  nlohmann::json of(const std::vector<std::string>& words) {
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out, nullptr, false);
  }
};

TEST_F(AsJson, Check) {
  const auto plan = of({"check", path("e.toml"), "--json"});
  // As in Input.CheckSaysWhatWouldRun: 1003 parameters of 4 bytes, 4 clients, 6 rounds.
  EXPECT_EQ(plan["parameters"], 1003);
  EXPECT_EQ(plan["bytes_down"], 4 * 1003 * 4);
  EXPECT_EQ(plan["bytes_up"], 4 * 1003 * 4);
  EXPECT_EQ(plan["bytes_in_all"], 6 * 2 * 4 * 1003 * 4);
  EXPECT_EQ(plan["clients"], 4);
  EXPECT_EQ(plan["cohort"], 4);
  EXPECT_EQ(plan["samples"]["train"],
            nlohmann::json({{"all", 4 * 24}, {"least", 24}, {"most", 24}}));
  EXPECT_EQ(plan["samples"]["test"]["all"], 4 * 12);
}

TEST_F(AsJson, DataShow) {
  const auto shown = of({"data", "show", path("e.toml"), "--json"});
  ASSERT_EQ(shown["clients"].size(), 4U);
  // Client a holds classes 0 and 1 in turns, b 1 and 2, …
  EXPECT_EQ(shown["clients"][0]["name"], "a");
  EXPECT_EQ(shown["clients"][0]["train"], nlohmann::json({12, 12, 0}));
  EXPECT_EQ(shown["clients"][1]["test"], nlohmann::json({0, 6, 6}));
  // 24, 6 and 12 in the parts of each.
  EXPECT_EQ(shown["samples"]["all"], 4 * 42);
  EXPECT_EQ(shown["samples"]["mean"], 42);
  EXPECT_EQ(shown["samples"]["deviation"], 0);
  EXPECT_EQ(shown["partition_digest"], of({"check", path("e.toml"), "--json"})["partition_digest"]);
}

TEST_F(AsJson, Report) {
  ASSERT_EQ(run("a", {"--set", "rounds=1", "--method", "fedacs"}).code, 0);
  const auto written = of({"report", path("a"), "--json"});
  EXPECT_EQ(written["report"], path("a") + "/report.html");
  ASSERT_GT(written["tables"].size(), 0U);
  for (const auto& table : written["tables"])
    EXPECT_THAT(slurp(table.get<std::string>()), HasSubstr("round,"));
}

}  // namespace
}  // namespace tessera::testing
