// A member's policy (docs/policy.md): what its owner lets leave the machine, from a TOML file.
//
// Needs no torch, so that a fuzzer reaches every line of it. What a policy says of an experiment, a
// task or a reply is in policy_check.hpp, what it says of time in policy_time.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// Minutes of a day, 0 … 1440. An end at or below the begin is on the next day.
struct DayHours {
  int begin = 0, end = 1440;
  bool operator==(const DayHours&) const = default;
};

/// Which notes of an evaluation may leave. kNumbers: those of fewer numbers than a sample has, so
/// that none can be one.
enum class Exhibits { kNone, kNumbers, kAll };

/// The values of a fresh one are those that hold where no file says otherwise. An empty list of
/// names means that any name will do, but for columns and categories.
struct Policy {
  /// How sentences name it: the file's name without its directory, which is nobody's business at
  /// the other end.
  std::string name = "the default policy";

  // [server] and [experiment]; hosts in lower case, digests 64 hex digits in lower case.
  std::vector<std::string> servers, experiments, digests;
  // [method] and [guards].
  std::vector<std::string> methods, guards;
  std::optional<double> max_epsilon, max_sample_epsilon;

  // [send] and [receive]; bytes.
  int64_t largest_sent = int64_t{1} << 30, largest_received = int64_t{1} << 30;
  std::optional<std::vector<std::string>> columns;  // that may be told; none: all
  std::vector<std::string> categories;  // columns whose values may be told, though the experiment
                                        // does not declare them
  int64_t most_categories = 100;        // values of such a column
  bool class_counts = true, evaluation = true, confusion = true, losses = true, data_digest = true;
  Exhibits exhibits = Exhibits::kAll;

  // [when]: local time; the day of a stretch is the one on which it begins, Monday first.
  std::vector<DayHours> hours;  // empty: always
  std::array<bool, 7> days = {true, true, true, true, true, true, true};
  std::optional<int64_t> bandwidth;  // bytes a second

  bool operator==(const Policy&) const = default;
};

/// Names that a policy may use; others are taken for typing errors.
struct PolicyNames {
  std::vector<std::string> methods, guards;
};

/// An empty text is the default. `file` stands for it in messages. kInvalid holds every error, one
/// line each, by place: "policy.toml:3:1: unknown key 'send.colums' (did you mean 'columns'?)".
Result<Policy> parse_policy(const std::string& text, const std::string& file,
                            const PolicyNames& known);
/// The same from a file of at most 1 MiB. Errors of read_file.
Result<Policy> read_policy(const std::string& path, const PolicyNames& known);

/// "send.columns", …: every key, in the order of the document, with what it is for.
std::vector<std::pair<std::string, std::string>> policy_keys();

/// Bytes of "64 MiB", "1.5 GB", "512 B": a number, a unit of kSizeUnits, and a blank between them
/// or none. None for anything else, and for what is below 1 byte or beyond 2^53.
std::optional<int64_t> size_of_text(std::string_view text);
/// "B, kB, MB, GB, KiB, MiB, GiB".
extern const std::string kSizeUnits;

/// A host as names are compared: in lower case, without brackets and without a dot at its end.
std::string plain_host(std::string_view host);

}  // namespace tessera
