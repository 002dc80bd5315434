#include "net/log.hpp"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace tessera {
namespace {

const char* level_name(Log::Level level) {
  switch (level) {
    case Log::Level::kInfo:
      return "info";
    case Log::Level::kWarning:
      return "warning";
    case Log::Level::kError:
      return "error";
  }
  return "error";
}

bool is_harmless(uint32_t character) {
  const bool control = character < 0x20 || (character >= 0x7F && character < 0xA0);
  const bool turns_direction = character == 0x061C || character == 0x200E || character == 0x200F ||
                               (character >= 0x2028 && character <= 0x202E) ||
                               (character >= 0x2066 && character <= 0x2069);
  return !control && !turns_direction;
}

std::string quoted_if_needed(std::string_view text) {
  const auto shown = terminal_text(shortened(text, kMaxLogText));
  if (!shown.empty() && shown.find_first_of(" \"=\\") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string people_value(const LogValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string_view>)
          return quoted_if_needed(held);
        else if constexpr (std::is_same_v<Held, bool>)
          return held ? "yes" : "no";
        else if constexpr (std::is_same_v<Held, double>)
          return fmt::format("{:.6g}", held);
        else
          return fmt::format("{}", held);
      },
      value.get());
}

nlohmann::ordered_json json_value(const LogValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string_view>)
          return shortened(held, kMaxLogText);
        else
          return held;
      },
      value.get());
}

std::tm local_parts(std::chrono::system_clock::time_point when) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(when.time_since_epoch()).count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return parts;
}

std::string people_line(const std::tm& at, Log::Level level, std::string_view event,
                        Log::Fields fields) {
  auto line = fmt::format("{:02}:{:02}:{:02} ", at.tm_hour, at.tm_min, at.tm_sec);
  if (level != Log::Level::kInfo) line += fmt::format("{}: ", level_name(level));
  line += terminal_text(shortened(event, kMaxLogText));
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, people_value(value));
  return line + "\n";
}

std::string json_line(std::chrono::system_clock::time_point when, Log::Level level,
                      std::string_view event, Log::Fields fields) {
  nlohmann::ordered_json line;
  line["time"] = utc_text(when);
  line["level"] = level_name(level);
  line["event"] = shortened(event, kMaxLogText);
  for (const auto& [key, value] : fields) line[std::string(key)] = json_value(value);
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string utc_text(std::chrono::system_clock::time_point when) {
  const auto since = when.time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(since - whole);
  const std::time_t seconds = whole.count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     rest.count());
}

std::string shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  // Back to the beginning of the character that would be cut in two; of bytes that are no UTF-8
  // at most three are given up.
  size_t end = longest;
  for (int step = 0; step < 3 && end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80;
       ++step)
    --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string terminal_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto character = next_character(text, at);
    if (!character) ++at;
    if (character == '\n' || character == '\t')
      out += ' ';
    else if (character && is_harmless(*character))
      out += text.substr(begin, at - begin);
    else
      out += '?';
  }
  return out;
}

Log::Log(std::ostream& out, Form form, WallClock clock)
    : out_(out), form_(form), clock_(std::move(clock)) {}

void Log::write(Level level, std::string_view event, Fields fields) {
  const std::lock_guard lock(mutex_);
  const auto now = clock_();
  std::string line;
  if (form_ == Form::kJson) {
    line = json_line(now, level, event, fields);
  } else {
    const auto at = local_parts(now);
    const auto date =
        fmt::format("{:04}-{:02}-{:02}", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday);
    if (!date_.empty() && date_ != date) line = date + "\n";
    date_ = date;
    line += people_line(at, level, event, fields);
  }
  out_.clear();
  out_.write(line.data(), static_cast<std::streamsize>(line.size()));
  out_.flush();
}

}  // namespace tessera
