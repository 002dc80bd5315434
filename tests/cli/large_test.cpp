// More clients than fit: killed runs, reports and what `check` says of them.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Large : public Playground {
 protected:
  // 400 clients whose heads (4 kB each) do not all fit into a third of 0.001 GiB.
  void many(const std::string& method = "fedper", int rounds = 10) const {
    write("large.toml",
          "name = \"large\"\nrounds = " + std::to_string(rounds) +
              "\n[data]\nset = \"synthetic\"\npartition = \"natural\"\nclients = 400\n"
              "features = 8\nleast = 6\nmost = 60\n"
              "[model]\nname = \"mlp100\"\n[train]\nlr = 0.05\n"
              "[federation]\nparticipation = 0.25\neval_every = 5\neval_clients = 30\n"
              "[run]\nmemory = 0.001\n[method]\nname = \"" +
              method + "\"\n");
  }
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"run", path("large.toml"), "--out", path(out), "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Large, TenRoundsKilledThreeTimesGiveTheSameDigest) {
  many();
  const auto whole = tessera(words("whole"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  std::vector<std::string> more;
  for (const int64_t round : {2, 5, 8}) {
    Process process(words("cut", more), {});
    process.wait_until([&] { return rounds_done("cut") >= round; });
    process.signal(SIGKILL);
    process.wait();
    more = {"--resume"};
  }
  const auto last = tessera(words("cut", more));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(digest("cut"), digest("whole"));
  for (const auto& entry : std::filesystem::directory_iterator(path("cut")))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("scratch")));
}

TEST_F(Large, ReportsShowDistributions) {
  many("fedavg", 5);
  ASSERT_EQ(tessera(words("a")).code, 0);
  const auto page = slurp(path("a/report.html"));
  EXPECT_LT(page.size(), 200'000U);
  EXPECT_NE(page.find("Of 30 evaluated clients"), std::string::npos);
}

TEST_F(Large, CheckSaysWhatAServerOfPairsNeeds) {
  many("fedamp");
  const auto fits = tessera({"check", path("large.toml")});
  EXPECT_EQ(fits.code, 0) << fits.err;
  // It keeps 400 models of 8·100 + 100 + 100·10 + 10 numbers; matrices of pairs end it earlier.
  EXPECT_THAT(fits.out, AllOf(HasSubstr("3.06 MB of it at the server once all 400 clients"),
                              HasSubstr("would be the most")));
  const auto never = tessera({"check", path("large.toml"), "--set", "data.clients=5000000"});
  EXPECT_EQ(never.code, 2);
  EXPECT_EQ(error_lines(never), 1) << never.err;
  EXPECT_THAT(never.err, AllOf(HasSubstr("the server compares every two clients"),
                               HasSubstr("use fewer clients")));
}

}  // namespace
}  // namespace tessera::testing
