#include "run/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "run/policy_check.hpp"
#include "run/policy_time.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const PolicyNames kKnownNames{{"fedavg", "fedper", "fedsgd"}, {"dp", "dp-sgd", "clip"}};

Result<Policy> policy_from(const std::string& text) {
  return parse_policy(text, "dir/p.toml", kKnownNames);
}
Policy good_policy(const std::string& text) {
  const auto out = policy_from(text);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.value_or(Policy());
}
/// The one and only error, without the file in front of it.
std::string policy_error(const std::string& text) {
  const auto out = policy_from(text);
  EXPECT_FALSE(out.ok()) << text;
  if (out.ok()) return "";
  EXPECT_EQ(error_of(out.status()), Error::kInvalid);
  const auto words = message(out.status());
  EXPECT_EQ(words.find('\n'), std::string::npos) << words;
  EXPECT_THAT(words, StartsWith("dir/p.toml:"));
  return words.substr(std::string("dir/p.toml:").size());
}

std::string file_of_source(const std::string& name) {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "../.." / name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Policy, AnEmptyFileIsTheDefault) {
  auto read = good_policy("# nothing\n");
  EXPECT_EQ(read.name, "p.toml") << "without its directory";
  read.name = Policy().name;
  EXPECT_EQ(read, Policy());
  const auto none = load_policy("");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, Policy());
}

TEST(Policy, TheDefaultIsWhatTheDocumentSays) {
  const Policy policy;
  EXPECT_EQ(policy.largest_sent, 1073741824);
  EXPECT_EQ(policy.largest_received, 1073741824);
  EXPECT_EQ(policy.exhibits, Exhibits::kAll);
  EXPECT_TRUE(policy.categories.empty());
  EXPECT_FALSE(policy.columns);
  EXPECT_TRUE(policy.evaluation && policy.losses && policy.class_counts && policy.confusion);
}

TEST(Policy, ReadsEveryKey) {
  const auto policy = good_policy(R"([server]
names = ["Fed.Example.", "[fd00::7]", "10.0.0.5"]
[experiment]
names = "clinics"
digests = "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789"
[method]
allow = ["fedavg", "fedper"]
[guards]
require = "dp,clip"
max_epsilon = 8
max_sample_epsilon = 0.5
[send]
largest_message = "64 MiB"
columns = ["age", "blood, type"]
categories = ["blood, type"]
most_categories = 8
class_counts = false
losses = false
evaluation = false
confusion = false
exhibits = "none"
data_digest = false
[receive]
largest_message = "2 MB"
[when]
hours = ["12:00-13:30", "20:00-06:00"]
days = "Mon,sun"
bandwidth = "1.5 MB/s"
)");
  EXPECT_THAT(policy.servers, ElementsAre("fed.example", "fd00::7", "10.0.0.5"));
  EXPECT_THAT(policy.experiments, ElementsAre("clinics"));
  EXPECT_THAT(policy.digests,
              ElementsAre("abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789"));
  EXPECT_THAT(policy.methods, ElementsAre("fedavg", "fedper"));
  EXPECT_THAT(policy.guards, ElementsAre("dp", "clip"));
  EXPECT_EQ(policy.max_epsilon, 8.0);
  EXPECT_EQ(policy.max_sample_epsilon, 0.5);
  EXPECT_EQ(policy.largest_sent, 67108864);
  EXPECT_EQ(policy.largest_received, 2000000);
  EXPECT_THAT(*policy.columns, ElementsAre("age", "blood, type"));
  EXPECT_THAT(policy.categories, ElementsAre("blood, type"));
  EXPECT_EQ(policy.most_categories, 8);
  EXPECT_FALSE(policy.class_counts || policy.losses || policy.evaluation || policy.confusion ||
               policy.data_digest);
  EXPECT_EQ(policy.exhibits, Exhibits::kNone);
  EXPECT_THAT(policy.hours, ElementsAre(DayHours{720, 810}, DayHours{1200, 360}));
  EXPECT_THAT(policy.days, ElementsAre(true, false, false, false, false, false, true));
  EXPECT_EQ(policy.bandwidth, 1500000);
}

TEST(Policy, NoColumnsIsNotAnyColumn) {
  EXPECT_FALSE(good_policy("").columns);
  const auto none = good_policy("[send]\ncolumns = []\n");
  ASSERT_TRUE(none.columns);
  EXPECT_TRUE(none.columns->empty());
}

TEST(Policy, WrongTypesNameKeyAndPlace) {
  EXPECT_EQ(policy_error("[send]\nlosses = \"no\"\n"),
            "2:10: send.losses must be true or false, not text");
  for (const std::string key : {"class_counts", "evaluation", "confusion", "data_digest"})
    EXPECT_THAT(policy_error("[send]\n" + key + " = 0\n"),
                HasSubstr("send." + key + " must be true or false, not a whole number"));
  EXPECT_EQ(policy_error("[send]\nlargest_message = 64\n"),
            "2:19: send.largest_message must be text, not a whole number");
  EXPECT_EQ(policy_error("[receive]\nlargest_message = true\n"),
            "2:19: receive.largest_message must be text, not true or false");
  EXPECT_EQ(policy_error("[send]\nmost_categories = \"8\"\n"),
            "2:19: send.most_categories must be a whole number, not text");
  EXPECT_EQ(policy_error("[guards]\nmax_epsilon = \"8\"\n"),
            "2:15: guards.max_epsilon must be a number, not text");
  EXPECT_THAT(policy_error("[guards]\nmax_sample_epsilon = [8]\n"),
              HasSubstr("guards.max_sample_epsilon must be a number, not a list"));
  for (const std::string key :
       {"server.names", "experiment.names", "experiment.digests", "method.allow", "guards.require",
        "send.columns", "send.categories", "when.hours", "when.days"}) {
    const auto dot = key.find('.');
    EXPECT_EQ(policy_error("[" + key.substr(0, dot) + "]\n" + key.substr(dot + 1) + " = true\n"),
              fmt::format("2:{}: {} must be text or a list of texts, not true or false",
                          key.size() - dot + 3, key));
  }
  EXPECT_EQ(policy_error("[when]\nbandwidth = 2\n"),
            "2:13: when.bandwidth must be text, not a whole number");
  EXPECT_EQ(policy_error("[send]\nexhibits = false\n"),
            "2:12: send.exhibits must be text, not true or false");
}

TEST(Policy, ValuesOutOfRange) {
  EXPECT_THAT(policy_error("[guards]\nmax_epsilon = 0\n"), HasSubstr("must be a number > 0"));
  EXPECT_THAT(policy_error("[guards]\nmax_epsilon = inf\n"), HasSubstr("finite"));
  EXPECT_THAT(policy_error("[guards]\nmax_sample_epsilon = -1\n"), HasSubstr("> 0"));
  EXPECT_THAT(policy_error("[send]\nmost_categories = 0\n"), HasSubstr("send.most_categories = 0"));
  EXPECT_THAT(policy_error("[send]\nmost_categories = 10001\n"), HasSubstr("10001"));
  EXPECT_EQ(policy_error("[send]\nlargest_message = \"1 B\"\n"),
            "2:19: send.largest_message = \"1 B\" must be from 1.02 kB to 4.29 GB");
  EXPECT_THAT(policy_error("[receive]\nlargest_message = \"5 GiB\"\n"),
              HasSubstr("receive.largest_message = \"5 GiB\" must be from"));
  EXPECT_EQ(policy_error("[when]\nbandwidth = \"1 kB/s\"\n"),
            "2:13: when.bandwidth = \"1 kB/s\" must be from 16.0 kB/s to 1.00 TB/s");
  EXPECT_THAT(policy_error("[send]\nexhibits = \"some\"\n"),
              HasSubstr("one of none, numbers, all"));
}

TEST(Policy, TextsThatAreNoSizesNoTimesNoHosts) {
  EXPECT_EQ(policy_error("[send]\nlargest_message = \"64 Mb\"\n"),
            "2:19: send.largest_message = \"64 Mb\" must be a number with a unit, as in \"64 MiB\" "
            "(units: B, kB, MB, GB, KiB, MiB, GiB)");
  EXPECT_THAT(policy_error("[when]\nbandwidth = \"2 MB\"\n"), HasSubstr("as in \"2 MB/s\""));
  for (const std::string hours : {"20:00", "20-6", "20:00-20:00", "25:00-06:00", "20:60-06:00",
                                  "24:00-06:00", "-1:00-06:00", "20:00-6:0"})
    EXPECT_EQ(policy_error("[when]\nhours = \"" + hours + "\"\n"),
              "2:9: when.hours: '" + hours +
                  "' must be two times of a day that differ, as in \"20:00-06:00\"");
  EXPECT_EQ(policy_error("[server]\nnames = [\"fed.example:7443\"]\n"),
            "2:9: server.names: 'fed.example:7443' must be a host alone, without port or path");
  EXPECT_THAT(policy_error("[experiment]\ndigests = [\"abc\"]\n"),
              HasSubstr("experiment.digests: 'abc' must be a SHA-256, 64 hex digits"));
}

TEST(Policy, UnknownNamesHaveTheNearest) {
  EXPECT_EQ(policy_error("[send]\ncolums = []\n"),
            "2:1: unknown key 'send.colums' (did you mean 'columns'?)");
  EXPECT_EQ(policy_error("[sned]\ncolumns = []\nlosses = 3\n"),
            "1:2: unknown section [sned] (did you mean [send]?)");
  EXPECT_EQ(policy_error("[send]\nhours = \"1:00-2:00\"\n"),
            "2:1: unknown key 'send.hours' ('hours' belongs in [when])");
  EXPECT_EQ(policy_error("losses = false\n"),
            "1:1: unknown key 'losses' ('losses' belongs in [send])");
  EXPECT_THAT(policy_error("zzz = 1\n"), HasSubstr("1:1: unknown key 'zzz' (keys belong in the"));
  EXPECT_EQ(policy_error("[method]\nallow = [\"fedavgg\"]\n"),
            "2:9: method.allow: unknown method 'fedavgg' (did you mean 'fedavg'?)");
  EXPECT_EQ(policy_error("[guards]\nrequire = [\"cliq\"]\n"),
            "2:11: guards.require: unknown guard 'cliq' (did you mean 'clip'?)");
  EXPECT_EQ(policy_error("[when]\ndays = [\"mo\"]\n"),
            "2:8: when.days: unknown day 'mo' (did you mean 'mon'?)");
  EXPECT_EQ(policy_error("send = 3\n"),
            "1:1: 'send' is a section: write [send] and its keys below");
  EXPECT_EQ(policy_error("[[send]]\nlosses = false\n"),
            "1:1: unknown section [send.] (a policy has one section [send], and nothing below it)");
}

TEST(Policy, SectionsThatNobodyKnows) {
  EXPECT_EQ(
      policy_error("[zzz]\n"),
      "1:2: unknown section [zzz] (known: [server], [experiment], [method], [guards], [send], "
      "[receive], [when])");
  EXPECT_EQ(policy_error("[send.more]\nlosses = true\n"),
            "1:7: unknown section [send.more] (a policy has one section [send], and nothing below "
            "it)");
}

TEST(Policy, ListsThatMeanNothing) {
  for (const std::string key :
       {"server]\nnames", "experiment]\nnames", "experiment]\ndigests", "method]\nallow",
        "guards]\nrequire", "when]\nhours", "when]\ndays"})
    EXPECT_THAT(policy_error("[" + key + " = []\n"), HasSubstr("names nobody; leave it out"));
  EXPECT_THAT(policy_error("[send]\ncolumns = [\"\"]\n"), HasSubstr("send.columns has an empty"));
  EXPECT_THAT(policy_error("[send]\ncolumns = [\"age\"]\ncategories = [\"sex\"]\n"),
              HasSubstr("3:14: send.categories: 'sex' is not in send.columns"));
}

TEST(Policy, AllErrorsAreSaidByPlace) {
  const auto out = policy_from("[when]\nhours = 3\n[send]\nlosses = 1\ncolums = 2\n");
  ASSERT_FALSE(out.ok());
  std::istringstream in(message(out.status()));
  std::vector<std::string> places;
  for (std::string line; std::getline(in, line);) places.push_back(line.substr(0, 15));
  EXPECT_THAT(places, ElementsAre("dir/p.toml:2:9:", "dir/p.toml:4:10", "dir/p.toml:5:1:"));
  EXPECT_THAT(policy_error("[send\n"), HasSubstr("not valid TOML"));
  EXPECT_EQ(error_of(read_policy("/nowhere/p.toml", kKnownNames).status()), Error::kNotFound);
}

// Assertions and undefined places of toml++ 3.3.0, which the fuzzer has found.
TEST(Policy, WhatTheParserOfTomlStumblesOver) {
  EXPECT_THAT(policy_error("[=\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(policy_error("[send]\nlosses = true \u00a7\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(good_policy("[experiment]\nnames = \"\"\"\\\n\u00a7x\"\"\"\n").experiments,
              ElementsAre("\u00a7x"));
  const auto control = policy_error("[send]\nlosses = \x1b[2J\n");
  EXPECT_EQ(control.find('\x1b'), std::string::npos) << "no message moves a terminal's cursor";
}

TEST(Policy, Sizes) {
  EXPECT_EQ(size_of_text("64 MiB"), 67108864);
  EXPECT_EQ(size_of_text("64MiB"), 67108864);
  EXPECT_EQ(size_of_text("2 MB"), 2000000);
  EXPECT_EQ(size_of_text("1.5 GB"), 1500000000);
  EXPECT_EQ(size_of_text("10 kB"), 10000);
  EXPECT_EQ(size_of_text("1 KiB"), 1024);
  EXPECT_EQ(size_of_text("1 GiB"), 1073741824);
  EXPECT_EQ(size_of_text("512 B"), 512);
  for (const char* text : {"",
                           "B",
                           "64",
                           "64 M",
                           "64 Mb",
                           "64 mb",
                           "-1 B",
                           "+1 B",
                           "1e3 B",
                           "inf B",
                           "nan B",
                           "0 B",
                           "0.5 B",
                           "1.2.3 MB",
                           "1  MB",
                           " 1 MB",
                           "1 MB ",
                           ". MB",
                           "99999999999999999999 GB",
                           "0x10 B"})
    EXPECT_EQ(size_of_text(text), std::nullopt) << text;
}

TEST(Policy, TheExampleIsReadAndStricter) {
  const auto read = read_policy(
      (std::filesystem::path(__FILE__).parent_path() / "../../examples/policy/policy.toml")
          .lexically_normal()
          .string(),
      policy_names());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "policy.toml");
  EXPECT_THAT(*read->columns, ElementsAre("age", "sex", "pulse"));
  EXPECT_THAT(read->guards, ElementsAre("secure-aggregation"));
  EXPECT_FALSE(read->losses || read->class_counts || read->confusion || read->data_digest);
  EXPECT_TRUE(read->evaluation);
  EXPECT_EQ(read->bandwidth, 2000000);
}

TEST(Policy, TheDocumentHasEveryKeyAndTheExample) {
  const auto docs = file_of_source("docs/policy.md");
  for (const auto& [key, help] : policy_keys()) {
    const auto dot = key.find('.');
    EXPECT_THAT(docs, HasSubstr("| `" + key.substr(dot + 1) + "` |")) << key;
    EXPECT_THAT(docs, HasSubstr("`[" + key.substr(0, dot) + "]`")) << key;
    EXPECT_FALSE(help.empty()) << key;
  }
  EXPECT_THAT(docs, HasSubstr("examples/policy/policy.toml"));
}

// Cuts, doubles, swaps and changes bytes of the example. The fuzzer (tests/fuzz) searches further.
TEST(Policy, MutatedFilesAreReadOrRefusedInLines) {
  const auto example = file_of_source("examples/policy/policy.toml");
  const auto known = policy_names();
  std::mt19937 random(27);
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  int64_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto text = example;
    for (size_t change = 0, changes = 1 + below(4); change < changes; ++change) {
      const auto at = below(text.size()), size = below(std::min<size_t>(40, text.size() - at + 1));
      switch (below(4)) {
        case 0:
          text.erase(at, size);
          break;
        case 1:
          text.insert(below(text.size() + 1), text.substr(at, size));
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        default:
          text.insert(at, 1, "\"'[]{}=#,.\n-:0\\u"[below(16)]);
      }
    }
    const auto read = parse_policy(text, "p.toml", known);
    if (read.ok()) continue;
    ++refused;
    std::istringstream in(message(read.status()));
    for (std::string line; std::getline(in, line);)
      ASSERT_THAT(line, StartsWith("p.toml:")) << text;
  }
  EXPECT_GT(refused, 5'000);
}

// tm_wday counts from Sunday.
std::tm at_time(int weekday, int hour, int minute, int second = 0) {
  std::tm out{};
  out.tm_wday = weekday, out.tm_hour = hour, out.tm_min = minute, out.tm_sec = second;
  return out;
}

TEST(PolicyTime, WithoutHoursItAlwaysWorks) {
  EXPECT_TRUE(may_work(Policy(), at_time(0, 3, 0)));
  EXPECT_EQ(until_work(Policy(), at_time(0, 3, 0)).count(), 0);
}

TEST(PolicyTime, HoursOfADay) {
  const auto policy = good_policy("[when]\nhours = \"09:00-17:30\"\n");
  EXPECT_FALSE(may_work(policy, at_time(1, 8, 59)));
  EXPECT_TRUE(may_work(policy, at_time(1, 9, 0)));
  EXPECT_TRUE(may_work(policy, at_time(1, 17, 29)));
  EXPECT_FALSE(may_work(policy, at_time(1, 17, 30)));
  EXPECT_EQ(until_work(policy, at_time(1, 8, 59, 20)).count(), 40);
  EXPECT_EQ(until_work(policy, at_time(1, 17, 30)).count(), 15 * 3600 + 30 * 60);
}

TEST(PolicyTime, HoursOverMidnight) {
  const auto policy = good_policy("[when]\nhours = \"20:00-06:00\"\n");
  EXPECT_FALSE(may_work(policy, at_time(1, 19, 59)));
  EXPECT_TRUE(may_work(policy, at_time(1, 20, 0)));
  EXPECT_TRUE(may_work(policy, at_time(1, 23, 59)));
  EXPECT_TRUE(may_work(policy, at_time(2, 0, 0)));
  EXPECT_TRUE(may_work(policy, at_time(2, 5, 59)));
  EXPECT_FALSE(may_work(policy, at_time(2, 6, 0)));
  EXPECT_EQ(until_work(policy, at_time(2, 6, 0)).count(), 14 * 3600);
  EXPECT_TRUE(may_work(good_policy("[when]\nhours = \"20:00-24:00\"\n"), at_time(1, 23, 59)));
  EXPECT_FALSE(may_work(good_policy("[when]\nhours = \"20:00-24:00\"\n"), at_time(2, 0, 0)));
}

// The night from Friday to Saturday belongs to Friday, that from Sunday to Monday to Sunday.
TEST(PolicyTime, ANightBelongsToTheDayOnWhichItBegins) {
  const auto friday = good_policy("[when]\nhours = \"20:00-06:00\"\ndays = \"fri\"\n");
  EXPECT_FALSE(may_work(friday, at_time(5, 3, 0)));
  EXPECT_TRUE(may_work(friday, at_time(5, 21, 0)));
  EXPECT_TRUE(may_work(friday, at_time(6, 3, 0)));
  EXPECT_FALSE(may_work(friday, at_time(6, 21, 0)));
  EXPECT_EQ(until_work(friday, at_time(6, 6, 0)).count(), (7 * 24 - 10) * 3600);
  const auto sunday = good_policy("[when]\nhours = \"20:00-06:00\"\ndays = \"sun\"\n");
  EXPECT_TRUE(may_work(sunday, at_time(1, 5, 59)));
  EXPECT_FALSE(may_work(sunday, at_time(0, 5, 59)));
}

TEST(PolicyTime, DaysAlone) {
  const auto policy = good_policy("[when]\ndays = [\"sat\", \"sun\"]\n");
  EXPECT_TRUE(may_work(policy, at_time(6, 0, 0)));
  EXPECT_TRUE(may_work(policy, at_time(0, 23, 59)));
  EXPECT_FALSE(may_work(policy, at_time(1, 0, 0)));
  EXPECT_EQ(until_work(policy, at_time(5, 23, 0)).count(), 3600);
}

TEST(PolicyTime, SaysWhenWorkBegins) {
  const auto policy = good_policy("[when]\nhours = \"20:00-06:00\"\n");
  EXPECT_EQ(waiting_words(policy, at_time(1, 16, 55)),
            "p.toml: when.hours has no work now; it begins on mon at 20:00, in 3 h 05 min");
}

TEST(PolicyTime, PaceKeepsTheAverage) {
  const Pace::Time start{};
  const auto at = [&](int64_t ms) { return start + std::chrono::milliseconds(ms); };
  Pace pace(1000);
  // A second's worth is free, then each byte takes a millisecond.
  EXPECT_EQ(pace.pause_after(1000, at(0)).count(), 0);
  EXPECT_EQ(pace.pause_after(500, at(0)).count(), 500);
  EXPECT_EQ(pace.pause_after(250, at(500)).count(), 250);
  // A long rest earns one second, not more.
  EXPECT_EQ(pace.pause_after(3000, at(100'000)).count(), 2000);
  EXPECT_EQ(Pace(std::nullopt).pause_after(int64_t{1} << 40, at(0)).count(), 0);
}

TEST(PolicyTime, PaceOverManyPieces) {
  auto now = Pace::Time{};
  const auto start = now;
  Pace pace(2'000'000);
  for (int i = 0; i < 1000; ++i) now += pace.pause_after(262'144, now);
  // 262,144,000 bytes at 2 MB/s are 131.072 s, of which the first second is free.
  const double seconds = std::chrono::duration<double>(now - start).count();
  EXPECT_NEAR(seconds, 130.072, 1.1) << "a pause is rounded up to a millisecond";
  EXPECT_GE(seconds, 130.07);
}

}  // namespace
}  // namespace tessera
