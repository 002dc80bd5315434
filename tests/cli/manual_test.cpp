// Help in its four forms: `help`, `--help`, man page, completions.
#include <gmock/gmock.h>

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The names below "Subcommands:" in a help text.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> out;
  std::istringstream lines(help.substr(std::min(help.find("Subcommands:"), help.size())));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) {
    // A description that wraps has no name in front.
    if (line[2] != ' ') out.push_back(words_of(line).front());
  }
  return out;
}

TEST(Help, IsWhatTheFlagSays) {
  EXPECT_EQ(tessera({"help"}).out, tessera({"--help"}).out);
  EXPECT_EQ(tessera({"help", "run"}).out, tessera({"run", "--help"}).out);
  EXPECT_EQ(tessera({"help", "data", "show"}).out, tessera({"data", "show", "--help"}).out);
  const auto commands = commands_in(tessera({"help"}).out);
  EXPECT_THAT(commands, ::testing::IsSupersetOf({"run", "compare", "check", "methods", "help"}));
}

TEST(Help, OfNothingThatExists) {
  const auto unknown = tessera({"help", "rnu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown command 'rnu' (did you mean 'run'?)"));
  const auto below = tessera({"help", "run", "list"});
  EXPECT_EQ(below.code, 2);
  EXPECT_THAT(below.err, HasSubstr("'run' has no commands of its own"));
}

TEST(Help, ShortVersion) { EXPECT_EQ(tessera({"-V"}).out, tessera({"--version"}).out); }

TEST(ManPage, HasEveryCommandAndFlag) {
  const auto page = tessera({"help", "--man"});
  EXPECT_EQ(page.code, 0);
  EXPECT_THAT(page.out, StartsWith(".TH TESSERA 1 "));
  const auto roff = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '-') out += '\\';
      out += c;
    }
    return out;
  };
  for (const auto& command : commands_in(tessera({"help"}).out)) {
    EXPECT_THAT(page.out, HasSubstr(".SS \"tessera " + command));
    for (const auto& word : words_of(tessera({"help", command}).out)) {
      const auto flag = word.substr(0, word.find(','));
      if (flag.starts_with("--") && flag != "--help" && flag.find_first_of("=`;)") == flag.npos) {
        EXPECT_THAT(page.out, HasSubstr(roff(flag))) << command;
      }
    }
  }
}

/// What bash offers for the last of these words.
std::string completed(const std::string& script, const std::string& line, int last) {
  std::ostringstream command;
  command << "bash -c 'source \"$1\"; COMP_WORDS=(" << line << "); COMP_CWORD=" << last
          << "; _tessera; echo \"${COMPREPLY[@]}\"' bash '" << script << "'";
  std::string out;
  FILE* pipe = popen(command.str().c_str(), "r");
  if (!pipe) return "bash did not start";
  for (char buffer[512]; const size_t n = std::fread(buffer, 1, sizeof buffer, pipe);)
    out.append(buffer, n);
  return pclose(pipe) == 0 ? out : "bash failed";
}

class Completion : public Playground {};

TEST_F(Completion, CommandsFlagsAndMethods) {
  write("tessera.bash", tessera({"help", "--completion"}).out);
  const auto script = path("tessera.bash");
  EXPECT_EQ(completed(script, "tessera comp", 1), "compare\n");
  EXPECT_EQ(completed(script, "tessera run x.toml --thre", 3), "--threads\n");
  EXPECT_EQ(completed(script, "tessera data sh", 2), "show\n");
  EXPECT_EQ(completed(script, "tessera data show --sv", 3), "--svg\n");
  EXPECT_EQ(completed(script, "tessera methods fedpro", 2), "fedprox\n");
  EXPECT_EQ(completed(script, "tessera run x.toml --method fedac", 4), "fedacs\n");
  EXPECT_EQ(completed(script, "tessera help mod", 2), "models\n");
  EXPECT_EQ(completed(script, "tessera run exa", 2), "\n") << "a file is for bash to find";
}

}  // namespace
}  // namespace tessera::testing
