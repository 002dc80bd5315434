// What a server tells its members of the federation, as JSON, and as text for people.
//
// The JSON (StatusReply.json of the protocol), in one object:
//   format           1
//   federation       name of the experiment        method    name of the method
//   round            in progress, from 1; 0: none  rounds    how many there will be
//   stage            waiting, training, joining, evaluating or finished
//   started          when the server began this federation, as utc_text() writes it
//   seconds_left     until the deadline of what is being done; null without one
//   members          by number: name, number, role (client, newcomer), state (absent, idle,
//   fetching,
//                    working, uploading, left, revoked), seen_seconds (since its last call; null:
//                    never), accepted, rejected (its uploads), reason (of the last rejection, or
//                    why it left or was revoked; else "")
//   events           the latest, oldest first: time (as `started`), text
// Further keys may come with the same format; readers skip them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace tessera {

inline constexpr int kStatusFormat = 1;
/// More than these are refused by a reader.
inline constexpr size_t kMaxStatusMembers = 100000;
inline constexpr size_t kMaxStatusEvents = 1000;

enum class FederationStage { kWaiting, kTraining, kJoining, kEvaluating, kFinished };
enum class MemberRole { kClient, kNewcomer };
enum class MemberActivity {
  kNotThere,   // never enrolled since the server started, or not heard of for long
  kIdle,       // has nothing to do
  kFetching,   // is downloading its task
  kWorking,    // has its task and makes no call
  kUploading,  // some of its reply is there
  kLeft,       // for good, by its own wish
  kRevoked     // its certificate is not accepted any more
};

struct MemberStatus {
  std::string name;
  int64_t number = 0;
  MemberRole role = MemberRole::kClient;
  MemberActivity state = MemberActivity::kNotThere;
  std::optional<double> seen_seconds;  // ago
  int64_t accepted = 0, rejected = 0;
  std::string reason;
};

struct StatusEvent {
  std::string time;  // as utc_text()
  std::string text;
};

/// The same as the JSON. Texts may hold any bytes; numbers are at least 0.
struct FederationStatus {
  std::string federation, method;
  int64_t round = 0, rounds = 0;
  FederationStage stage = FederationStage::kWaiting;
  std::string started;
  std::optional<double> seconds_left;
  std::vector<MemberStatus> members;
  std::vector<StatusEvent> events;
};

/// One line of valid JSON; bytes that are no UTF-8 become U+FFFD.
std::string status_json(const FederationStatus& status);

/// What a server sent. kInvalid, in one sentence that begins with `source`: not JSON, a newer
/// format, a key that is missing or holds something else. All numbers of the result are within
/// reach: round and counts at most 10^9, seconds finite and at most 10^9.
Result<FederationStatus> parse_status(std::string_view json, const std::string& source);

/// For a terminal: a few facts, a table of the members, reasons and events. No line is wider than
/// 100 columns; names are cut, sentences go over several lines. Harmless whatever the texts hold.
std::string status_text(const FederationStatus& status);

}  // namespace tessera
