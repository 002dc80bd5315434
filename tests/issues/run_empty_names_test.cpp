// `[method] name = ""` ended `check`, `join` and `preflight` with an abort. Every name that can be
// empty is answered by one sentence with its place.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class EmptyNames : public Playground {
 protected:
  /// e.toml with a line in place of another; `tessera check` of it.
  Finished check_with(const std::string& line, const std::string& instead) {
    auto text = slurp(experiment());
    const auto at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line << " is not in\n" << text;
    if (at != std::string::npos) text.replace(at, line.size(), instead);
    write("e.toml", text);
    const auto until = text.find(instead);
    place_ =
        "e.toml:" +
        std::to_string(1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(until), '\n')) +
        ":";
    return tessera({"check", path("e.toml")});
  }
  void refused(const Finished& done, const std::string& text) const {
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(place_));
    EXPECT_THAT(done.err, HasSubstr(text));
  }
  std::string place_;
};

TEST_F(EmptyNames, OfAMethod) {
  refused(check_with("name = \"fedavg\"", "name = \"\""), "no method is chosen");
  const auto run_words = tessera({"run", path("e.toml"), "--out", path("a")});
  EXPECT_EQ(run_words.code, 2) << run_words.err;
  EXPECT_THAT(run_words.err, HasSubstr("no method is chosen"));
}

TEST_F(EmptyNames, OfAMethodOnTheCommandLine) {
  experiment();
  for (const auto& words : {std::vector<std::string>{"--method", ""}, {"--set", "method.name="}}) {
    std::vector<std::string> all{"check", path("e.toml")};
    all.insert(all.end(), words.begin(), words.end());
    const auto done = tessera(all);
    EXPECT_EQ(done.code, 2) << words[0] << done.err;
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(words[0])) << done.err;
  }
}

TEST_F(EmptyNames, OfANetwork) { refused(check_with("name = \"mlp100\"", "name = \"\""), "model"); }

TEST_F(EmptyNames, OfADataSet) { refused(check_with("set = \"npz\"", "set = \"\""), "data.set"); }

TEST_F(EmptyNames, OfAPartition) {
  refused(check_with("partition = \"natural\"", "partition = \"\""), "partition");
}

TEST_F(EmptyNames, OfARun) {
  refused(check_with("name = \"toy\"", "name = \"\""), "must name a directory");
}

TEST_F(EmptyNames, OfAGuard) {
  refused(check_with("[method]", "[[guard]]\nname = \"\"\n[method]"), "guard");
}

TEST_F(EmptyNames, OfASection) {
  refused(check_with("[method]", "[method.\"\"]\nmu = 1\n[method]"), "method");
}

}  // namespace
}  // namespace tessera::testing
