#include "net/status_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "io/json.hpp"
#include "net/log.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kStatusColumns = 100;
constexpr size_t kNameColumns = 22;  // what the widest numbers leave of a line
constexpr int64_t kMaxStatusNumber = 1'000'000'000;

template <class Enum>
using StatusNames = std::vector<std::pair<Enum, const char*>>;

const StatusNames<FederationStage> kStageNames{{FederationStage::kWaiting, "waiting"},
                                               {FederationStage::kTraining, "training"},
                                               {FederationStage::kJoining, "joining"},
                                               {FederationStage::kEvaluating, "evaluating"},
                                               {FederationStage::kFinished, "finished"}};
const StatusNames<MemberRole> kRoleNames{{MemberRole::kClient, "client"},
                                         {MemberRole::kNewcomer, "newcomer"}};
const StatusNames<MemberActivity> kActivityNames{
    {MemberActivity::kNotThere, "absent"},     {MemberActivity::kIdle, "idle"},
    {MemberActivity::kFetching, "fetching"},   {MemberActivity::kWorking, "working"},
    {MemberActivity::kUploading, "uploading"}, {MemberActivity::kLeft, "left"},
    {MemberActivity::kRevoked, "revoked"}};

template <class Enum>
const char* status_name(const StatusNames<Enum>& names, Enum value) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  return "";
}

ordered_json seconds_json(const std::optional<double>& seconds) {
  return seconds ? ordered_json(*seconds) : ordered_json(nullptr);
}

/// Reads one object key by key; remembers the first thing that is wrong.
class StatusReader {
 public:
  StatusReader(const json& object, std::string place) : object_(object), place_(std::move(place)) {}

  void text(const char* key, std::string& to) {
    if (const auto* value = get(key, "text", [](const json& v) { return v.is_string(); }))
      to = value->get<std::string>();
  }
  void number(const char* key, int64_t& to) {
    const auto fits = [](const json& v) {
      return v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t{kMaxStatusNumber};
    };
    if (const auto* value = get(key, "whole number", fits)) to = value->get<int64_t>();
  }
  void seconds(const char* key, std::optional<double>& to) {
    const auto fits = [](const json& v) {
      return v.is_null() || (v.is_number() && v.get<double>() >= 0 &&
                             v.get<double>() <= static_cast<double>(kMaxStatusNumber));
    };
    const auto* value = get(key, "number of seconds", fits);
    if (value && !value->is_null()) to = value->get<double>();
  }
  template <class Enum>
  void choice(const char* key, const StatusNames<Enum>& names, Enum& to) {
    const auto find = [&](const json& v) {
      return std::find_if(names.begin(), names.end(), [&](const auto& n) { return v == n.second; });
    };
    const auto known = [&](const json& v) { return find(v) != names.end(); };
    if (const auto* value = get(key, "word of this format", known)) to = find(*value)->first;
  }
  /// Never null; empty if something is wrong.
  const json& list(const char* key, size_t most) {
    static const json kEmpty = json::array();
    const auto fits = [&](const json& v) { return v.is_array() && v.size() <= most; };
    const auto* value = get(key, "list of bearable length", fits);
    return value ? *value : kEmpty;
  }
  const Status& status() const { return status_; }

 private:
  template <class Fits>
  const json* get(const char* key, const char* what, Fits fits) {
    if (!status_.ok()) return nullptr;
    if (object_.is_object())
      if (const auto at = object_.find(key); at != object_.end() && fits(*at)) return &*at;
    status_ = fail(Error::kInvalid, "{}: '{}' is missing or no {}", place_, key, what);
    return nullptr;
  }

  const json& object_;
  const std::string place_;
  Status status_;
};

Result<MemberStatus> parse_member(const json& object, const std::string& place) {
  MemberStatus out;
  StatusReader read(object, place);
  read.text("name", out.name);
  read.number("number", out.number);
  read.choice("role", kRoleNames, out.role);
  read.choice("state", kActivityNames, out.state);
  read.seconds("seen_seconds", out.seen_seconds);
  read.number("accepted", out.accepted);
  read.number("rejected", out.rejected);
  read.text("reason", out.reason);
  TESSERA_RETURN_IF_ERROR(read.status());
  return out;
}

Result<StatusEvent> parse_event(const json& object, const std::string& place) {
  StatusEvent out;
  StatusReader read(object, place);
  read.text("time", out.time);
  read.text("text", out.text);
  TESSERA_RETURN_IF_ERROR(read.status());
  return out;
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

/// At most so many columns; the last is "…" where something is left out.
std::string within_columns(std::string_view text, size_t most) {
  const auto shown = terminal_text(text);
  if (columns_of(shown) <= most) return shown;
  size_t at = 0;
  for (size_t column = 0; column + 1 < most; ++column) next_character(shown, at);
  return shown.substr(0, at) + "…";
}

/// Words in lines of kStatusColumns: the first begins with two blanks, the others with four. A word
/// longer than a line is cut into several.
std::string wrapped(std::string_view text) {
  const auto clean = terminal_text(shortened(text, kMaxLogText));
  std::string out, line = "  ";
  bool begun = false;
  const auto end_line = [&] {
    out += line + "\n";
    line = "    ";
    begun = false;
  };
  for (size_t at = 0; at < clean.size();) {
    const auto blank = std::min(clean.find(' ', at), clean.size());
    std::string_view word = std::string_view(clean).substr(at, blank - at);
    at = blank + 1;
    if (word.empty()) continue;
    if (begun && columns_of(line) + 1 + columns_of(word) > kStatusColumns) end_line();
    while (!begun && columns_of(line) + columns_of(word) > kStatusColumns) {
      size_t fits = 0;
      for (auto left = kStatusColumns - columns_of(line); left > 0; --left)
        next_character(word, fits);
      line += word.substr(0, fits);
      word.remove_prefix(fits);
      end_line();
    }
    if (begun) line += ' ';
    line += word;
    begun = true;
  }
  end_line();
  return out;
}

/// "2026-11-16T09:05:07.042Z" as "2026-11-16 09:05:07 UTC"; other text as it is.
std::string readable_time(std::string_view time) {
  if (time.size() != 24 || time[10] != 'T' || time.back() != 'Z') return within_columns(time, 40);
  return within_columns(fmt::format("{} {} UTC", time.substr(0, 10), time.substr(11, 8)), 40);
}

std::string round_text(const FederationStatus& status) {
  auto out = fmt::format("{} of {}, {}", status.round, status.rounds,
                         status_name(kStageNames, status.stage));
  if (status.seconds_left) out += fmt::format(", {} left", human_seconds(*status.seconds_left));
  return out;
}

std::string members_text(const std::vector<MemberStatus>& members) {
  Table table({"no", "member", "role", "state", "last call", "accepted", "rejected"});
  for (const auto& member : members)
    table.row({fmt::format("{}", member.number), within_columns(member.name, kNameColumns),
               status_name(kRoleNames, member.role), status_name(kActivityNames, member.state),
               member.seen_seconds ? human_seconds(*member.seen_seconds) + " ago" : "never",
               fmt::format("{}", member.accepted), fmt::format("{}", member.rejected)});
  return table.text();
}

}  // namespace

std::string status_json(const FederationStatus& status) {
  ordered_json out;
  out["format"] = kStatusFormat;
  out["federation"] = status.federation;
  out["method"] = status.method;
  out["round"] = status.round;
  out["rounds"] = status.rounds;
  out["stage"] = status_name(kStageNames, status.stage);
  out["started"] = status.started;
  out["seconds_left"] = seconds_json(status.seconds_left);
  auto& members = out["members"] = ordered_json::array();
  for (const auto& member : status.members)
    members.push_back({{"name", member.name},
                       {"number", member.number},
                       {"role", status_name(kRoleNames, member.role)},
                       {"state", status_name(kActivityNames, member.state)},
                       {"seen_seconds", seconds_json(member.seen_seconds)},
                       {"accepted", member.accepted},
                       {"rejected", member.rejected},
                       {"reason", member.reason}});
  auto& events = out["events"] = ordered_json::array();
  for (const auto& event : status.events)
    events.push_back({{"time", event.time}, {"text", event.text}});
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<FederationStatus> parse_status(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  if (!parsed.ok())
    return fail(Error::kInvalid, "{}: the status is not valid JSON; is it a tessera server?",
                source);
  FederationStatus out;
  StatusReader read(*parsed, source);
  int64_t format = 0;
  read.number("format", format);
  if (read.status().ok() && format != kStatusFormat)
    return fail(Error::kInvalid,
                "{}: the status has format {}, this program reads {}; use the server's version",
                source, format, kStatusFormat);
  read.text("federation", out.federation);
  read.text("method", out.method);
  read.number("round", out.round);
  read.number("rounds", out.rounds);
  read.choice("stage", kStageNames, out.stage);
  read.text("started", out.started);
  read.seconds("seconds_left", out.seconds_left);
  for (const auto& one : read.list("members", kMaxStatusMembers)) {
    const auto place = fmt::format("{}: member {}", source, out.members.size());
    TESSERA_ASSIGN(auto member, parse_member(one, place));
    out.members.push_back(std::move(member));
  }
  for (const auto& one : read.list("events", kMaxStatusEvents)) {
    const auto place = fmt::format("{}: event {}", source, out.events.size());
    TESSERA_ASSIGN(auto event, parse_event(one, place));
    out.events.push_back(std::move(event));
  }
  TESSERA_RETURN_IF_ERROR(read.status());
  return out;
}

std::string status_text(const FederationStatus& status) {
  const auto present =
      std::count_if(status.members.begin(), status.members.end(), [](const MemberStatus& member) {
        return member.state != MemberActivity::kNotThere && member.state != MemberActivity::kLeft &&
               member.state != MemberActivity::kRevoked;
      });
  auto out = fmt::format(
      "federation  {}\nmethod      {}\nround       {}\nstarted     {}\nmembers     {} of {} "
      "present\n",
      within_columns(status.federation, kStatusColumns - 12),
      within_columns(status.method, kStatusColumns - 12), round_text(status),
      readable_time(status.started), present, status.members.size());
  if (!status.members.empty()) out += "\n" + members_text(status.members);
  std::string reasons, events;
  for (const auto& member : status.members)
    if (!member.reason.empty())
      reasons += wrapped(within_columns(member.name, kNameColumns) + ": " + member.reason);
  for (const auto& event : status.events)
    events += wrapped(readable_time(event.time) + " " + event.text);
  if (!reasons.empty()) out += "\nlast reasons\n" + reasons;
  if (!events.empty()) out += "\nevents\n" + events;
  return out;
}

}  // namespace tessera
