#include "net/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using namespace std::chrono_literals;

// 2026-11-16T09:05:07Z, by `date -u -d … +%s`.
const std::chrono::system_clock::time_point kLogMorning{1794819907s};

/// Local time is UTC while it lives.
class UtcZone {
 public:
  UtcZone() {
    if (const char* zone = std::getenv("TZ")) before_ = zone, had_ = true;
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  ~UtcZone() {
    if (had_)
      ::setenv("TZ", before_.c_str(), 1);
    else
      ::unsetenv("TZ");
    ::tzset();
  }

 private:
  std::string before_;
  bool had_ = false;
};

TEST(Log, TimesAreUtcWithMillisecondsCutOff) {
  EXPECT_EQ(utc_text(kLogMorning + 42ms), "2026-11-16T09:05:07.042Z");
  EXPECT_EQ(utc_text(kLogMorning + 999999us), "2026-11-16T09:05:07.999Z");
  EXPECT_EQ(utc_text(std::chrono::system_clock::time_point{-1ms}), "1969-12-31T23:59:59.999Z");
}

TEST(Log, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc…");
  EXPECT_EQ(shortened("aéé", 4), "aé…");               // the second é would be bytes 3 and 4
  EXPECT_EQ(shortened("a\xF0\x9F\x99\x82", 4), "a…");  // four bytes, one character
  EXPECT_EQ(shortened("é", 1), "…");
}

TEST(Log, NothingGetsThroughToATerminal) {
  EXPECT_EQ(terminal_text("plain é 🙂"), "plain é 🙂");
  EXPECT_EQ(terminal_text("a\nb\tc"), "a b c");
  EXPECT_EQ(terminal_text("\x1B[2J\r\x7F"), "?[2J??");
  EXPECT_EQ(terminal_text("\xC2\x9B"
                          "31m"),
            "?31m");  // CSI as one character
  EXPECT_EQ(terminal_text("\xE2\x80\xAE"
                          "abc"),
            "?abc");                             // right to left
  EXPECT_EQ(terminal_text("a\xFF\xC3"), "a??");  // no UTF-8
  EXPECT_EQ(terminal_text(std::string_view("a\0b", 3)), "a?b");
}

TEST(Log, LinesForPeople) {
  const UtcZone utc;
  std::ostringstream out;
  Log log(out, Log::Form::kPeople, [] { return kLogMorning + 999ms; });
  const std::string name = "hospital-a";
  log.info("uploaded", {{"client", name}, {"round", 3}, {"bytes", size_t{1200}}});
  log.warning("refused", {{"reason", "late by \"3\" s"}, {"empty", ""}, {"share", 0.25}});
  log.error("stopped", {{"clean", false}, {"path", "a\\b"}, {"pair", "x=1"}});
  log.info("ready");
  EXPECT_EQ(out.str(),
            "09:05:07 uploaded client=hospital-a round=3 bytes=1200\n"
            "09:05:07 warning: refused reason=\"late by \\\"3\\\" s\" empty=\"\" share=0.25\n"
            "09:05:07 error: stopped clean=no path=\"a\\\\b\" pair=\"x=1\"\n"
            "09:05:07 ready\n");
}

TEST(Log, AValueCannotForgeALine) {
  const UtcZone utc;
  std::ostringstream out;
  Log log(out, Log::Form::kPeople, [] { return kLogMorning; });
  log.info("hello", {{"from", "x\n09:05:08 error: forged"}});
  EXPECT_EQ(out.str(), "09:05:07 hello from=\"x 09:05:08 error: forged\"\n");
}

TEST(Log, ANewDayIsSaidOnce) {
  const UtcZone utc;
  std::ostringstream out;
  auto now = kLogMorning + 14h + 54min + 52s;  // 23:59:59
  Log log(out, Log::Form::kPeople, [&] { return now; });
  log.info("one");
  now += 1s;
  log.info("two");
  log.info("three");
  EXPECT_EQ(out.str(), "23:59:59 one\n2026-11-17\n00:00:00 two\n00:00:00 three\n");
}

TEST(Log, JsonLines) {
  std::ostringstream out;
  Log log(out, Log::Form::kJson, [] { return kLogMorning + 42ms; });
  log.info("uploaded", {{"client", "a \"b\"\n"}, {"round", 3}, {"share", 0.5}, {"last", true}});
  log.error("stopped", {{"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(out.str(),
            R"({"time":"2026-11-16T09:05:07.042Z","level":"info","event":"uploaded",)"
            R"("client":"a \"b\"\n","round":3,"share":0.5,"last":true})"
            "\n"
            R"({"time":"2026-11-16T09:05:07.042Z","level":"error","event":"stopped","loss":null})"
            "\n");
}

TEST(Log, JsonIsValidWhateverTheBytes) {
  std::ostringstream out;
  Log log(out, Log::Form::kJson, [] { return kLogMorning; });
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  log.info("odd", {{"bytes", every}});
  log.info("long", {{"text", std::string(5000, 'x')}});
  std::istringstream lines(out.str());
  std::string first, second, rest;
  ASSERT_TRUE(std::getline(lines, first));
  ASSERT_TRUE(std::getline(lines, second));
  EXPECT_FALSE(std::getline(lines, rest));
  const auto odd = nlohmann::json::parse(first, nullptr, false);
  ASSERT_TRUE(odd.is_object());
  // 128 characters of ASCII; every byte above is alone and no UTF-8, C2 … F4 swallow nothing here.
  EXPECT_EQ(odd["bytes"].get<std::string>().substr(0, 128), every.substr(0, 128));
  EXPECT_EQ(nlohmann::json::parse(second)["text"], std::string(2000, 'x') + "…");
}

TEST(Log, ThreadsDoNotMixTheirLines) {
  std::ostringstream out;
  Log log(out, Log::Form::kJson, [] { return kLogMorning; });
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer)
    threads.emplace_back([&log, writer] {
      for (int i = 0; i < 100; ++i) log.info("tick", {{"writer", writer}, {"i", i}});
    });
  for (auto& thread : threads) thread.join();
  std::vector<int> next(4);
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(entry.is_object()) << line;
    EXPECT_EQ(entry["i"], next[entry["writer"].get<size_t>()]++);  // each writer's own in order
  }
  EXPECT_EQ(count, 400);
}

TEST(Log, GoesOnAfterTheStreamFailed) {
  const UtcZone utc;
  std::ostringstream out;
  Log log(out, Log::Form::kPeople, [] { return kLogMorning; });
  out.setstate(std::ios::badbit);
  log.info("again");
  EXPECT_EQ(out.str(), "09:05:07 again\n");
}

}  // namespace
}  // namespace tessera
