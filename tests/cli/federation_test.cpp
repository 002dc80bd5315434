// What the commands of a real federation say without one; tests/net plays whole federations.
#include <gmock/gmock.h>

#include "io/sha256.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class ServedExperiment : public Playground {
 protected:
  /// Own tables with `more` in [data], for two members.
  Finished serve(const std::string& more) const {
    write("served.toml",
          "rounds = 2\n[data]\nset = \"own\"\npartition = \"natural\"\nlabel = \"y\"\n" + more +
              "[model]\nname = \"mlp100\"\n[method]\nname = \"fedavg\"\n"
              "[serve]\nmembers = \"a,b\"\nstart_deadline = 1\n");
    return tessera({"serve", path("served.toml"), "--insecure", "--listen", "127.0.0.1:0",
                    "--state", path("state")});
  }
  void expect_refused(const Finished& done, const std::string& text) const {
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_FALSE(exists("state"));
  }
};

// The coordinator must hear of it, not each of its clients.
TEST_F(ServedExperiment, DataThatNoClientCouldReadAloneAreRefusedAtOnce) {
  expect_refused(serve("standardize = \"client\"\n"), "[data] class_names is not set");
  expect_refused(serve("class_names = \"no,yes\"\n"), "[data] standardize = \"auto\"");
  expect_refused(serve("class_names = \"no,yes\"\nstandardize = \"federation\"\n"),
                 "[data] standardize = \"federation\"");
  // One that could be served ends only because nobody comes.
  const auto waited = serve("class_names = \"no,yes\"\nstandardize = \"client\"\n");
  EXPECT_THAT(waited.err, HasSubstr("0 of 2 clients have joined"));
}

class AuditCommand : public Playground {
 protected:
  /// Two records as docs/formats.md says, the second chained to the first.
  std::string first_ = R"({"n":1,"kind":"hello","previous":")" + std::string(64, '0') + "\"}";
  std::string second_ = R"({"n":2,"kind":"train","previous":")" + sha(first_) + "\"}";
  static std::string sha(const std::string& line) { return sha256_hex(bytes_of(line)); }
  Finished audit(const std::string& text, const std::vector<std::string>& more = {}) const {
    write("audit.jsonl", text);
    std::vector<std::string> words{"audit", path("audit.jsonl")};
    words.insert(words.end(), more.begin(), more.end());
    return tessera(words);
  }
};

TEST_F(AuditCommand, SaysHowFarTheLogHoldsTogether) {
  const auto whole = first_ + "\n" + second_ + "\n";
  const auto fine = audit(whole);
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_THAT(fine.out, HasSubstr("records 1 to 2"));
  EXPECT_THAT(fine.out, HasSubstr(sha(second_)));
  const auto parsed = nlohmann::json::parse(audit(whole, {"--json"}).out);
  EXPECT_EQ(parsed["last"], 2);
  EXPECT_EQ(parsed["digest"], sha(second_));

  auto changed = whole;
  changed.replace(changed.find("hello"), 5, "hallo");
  const auto refused = audit(changed);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(error_lines(refused), 1);
  EXPECT_THAT(refused.err, HasSubstr("audit.jsonl"));
  EXPECT_THAT(refused.err, HasSubstr("changed"));

  const auto missing = tessera({"audit", path("nothing.jsonl")});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("nothing.jsonl: no such file"));
}

}  // namespace
}  // namespace tessera::testing
