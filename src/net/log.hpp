// What `serve` and `join` say while they work: one event, one line, for people or as JSON.
//
//   log.info("uploaded", {{"client", name}, {"round", 3}, {"bytes", size}});
//   people:  09:05:07 uploaded client=hospital-a round=3 bytes=1200
//   JSON:    {"time":"2026-11-16T09:05:07.042Z","level":"info","event":"uploaded","client":…}
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>

namespace tessera {

/// Time of day, injected so that tests can set it. Called from any thread.
using WallClock = std::function<std::chrono::system_clock::time_point()>;

/// RFC 3339 in UTC with milliseconds, cut off, not rounded: "2026-11-16T09:05:07.042Z".
std::string utc_text(std::chrono::system_clock::time_point when);

/// At most `longest` bytes of the text, cut between characters; "…" stands for what is left out,
/// and is not counted.
std::string shortened(std::string_view text, size_t longest);

/// Text from elsewhere that cannot harm a terminal: line breaks and tabs become blanks; other
/// control characters, marks that turn the direction of writing, and bytes that are no UTF-8
/// become '?'.
std::string terminal_text(std::string_view text);

/// Longer texts in a line are cut to this many bytes.
inline constexpr size_t kMaxLogText = 2000;

/// Text, a whole number below 2^63, a real number, or yes/no. Borrows text: lives no longer than
/// it.
class LogValue {
 public:
  LogValue(std::string_view text) : value_(text) {}
  LogValue(const std::string& text) : value_(std::string_view(text)) {}
  LogValue(const char* text) : value_(std::string_view(text)) {}
  LogValue(double number) : value_(number) {}
  LogValue(bool yes) : value_(yes) {}
  template <std::integral Int>
  LogValue(Int number) : value_(static_cast<int64_t>(number)) {}

  const auto& get() const { return value_; }

 private:
  std::variant<std::string_view, int64_t, double, bool> value_;
};

/// `key` is a word of ours, other than time, level and event; the value may hold any bytes.
struct LogField {
  std::string_view key;
  LogValue value;
};

/// Thread-safe: lines never mix. Errors of the stream are ignored, and the next line is tried
/// again: nobody's round fails because a log cannot be written.
class Log {
 public:
  enum class Level { kInfo, kWarning, kError };
  enum class Form {
    kPeople,  // "HH:MM:SS event key=value …" in local time; warnings and errors say so before the
              // event. Texts that are empty or hold blanks, quotes, '=' or '\' are quoted. When
              // the date has changed since the last line, it stands in a line of its own.
    kJson     // an object a line: time, level, event, then the fields in order. Valid whatever the
              // bytes: what is no UTF-8 becomes U+FFFD; numbers that are not finite become null.
  };
  using Fields = std::initializer_list<LogField>;

  /// The stream outlives the log; each line is flushed.
  Log(std::ostream& out, Form form, WallClock clock = std::chrono::system_clock::now);

  /// `event` is a few words, the same for every event of its kind; what varies goes into fields.
  void info(std::string_view event, Fields fields = {}) { write(Level::kInfo, event, fields); }
  void warning(std::string_view event, Fields fields = {}) {
    write(Level::kWarning, event, fields);
  }
  void error(std::string_view event, Fields fields = {}) { write(Level::kError, event, fields); }

 private:
  void write(Level level, std::string_view event, Fields fields);

  std::ostream& out_;
  const Form form_;
  const WallClock clock_;
  std::mutex mutex_;  // guards the stream and date_
  std::string date_;  // of the last line
};

}  // namespace tessera
