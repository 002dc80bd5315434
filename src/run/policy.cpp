#include "run/policy.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "base/options.hpp"
#include "base/text.hpp"
#include "io/bytes.hpp"
#include "io/file.hpp"
#include "run/assign_option.hpp"
#include "run/toml_entries.hpp"

namespace tessera {

const std::string kSizeUnits = "B, kB, MB, GB, KiB, MiB, GiB";

namespace {

constexpr size_t kMaxPolicyBytes = 1 << 20;
constexpr int64_t kLeastMessage = 1 << 10, kMostMessage = int64_t{4} << 30;
constexpr int64_t kLeastBandwidth = 16'000, kMostBandwidth = 1'000'000'000'000;
const std::vector<std::string> kWeekdays{"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
const std::vector<std::string> kPolicySections{"server", "experiment", "method", "guards",
                                               "send",   "receive",    "when"};

// The file's values as they are written; sizes and times become numbers afterwards. A 0 of an
// epsilon stands for none: no file can give it.
struct PolicyServer {
  std::string names;
  static void options(auto& o, auto&& f) {
    f(names_of("names", "hosts that may be called, as given to --server, without the port"),
      o.names);
  }
};
struct PolicyExperiment {
  std::string names, digests;
  static void options(auto& o, auto&& f) {
    f(names_of("names", "names of experiments that may be joined"), o.names);
    f(names_of("digests", "SHA-256 of experiments that may be joined, as preflight prints it"),
      o.digests);
  }
};
struct PolicyMethod {
  std::string allow;
  static void options(auto& o, auto&& f) {
    f(names_of("allow", "methods that may be played"), o.allow);
  }
};
struct PolicyGuards {
  std::string require;
  double max_epsilon = 0, max_sample_epsilon = 0;
  static void options(auto& o, auto&& f) {
    f(names_of("require", "guards that the experiment must have"), o.require);
    f(above("max_epsilon", 0,
            "largest epsilon that may hold for this client towards the server (guard dp)"),
      o.max_epsilon);
    f(above("max_sample_epsilon", 0,
            "largest epsilon that may hold for a single sample (guard dp-sgd)"),
      o.max_sample_epsilon);
  }
};
struct PolicySend {
  std::string largest_message, columns, categories, exhibits = "all";
  int64_t most_categories = 100;
  bool class_counts = true, evaluation = true, confusion = true, losses = true, data_digest = true;
  static void options(auto& o, auto&& f) {
    f(any("largest_message", "largest answer that may be sent"), o.largest_message);
    f(names_of("columns", "inputs of a table whose names may be told"), o.columns);
    f(names_of("categories",
               "columns of text whose values may be told, though the experiment does not declare "
               "them"),
      o.categories);
    f(between("most_categories", 1, 1e4, "values of such a column that may be told"),
      o.most_categories);
    f(any("class_counts", "class counts and other sums over samples, as some methods send them"),
      o.class_counts);
    f(any("losses", "the mean training loss of a round"), o.losses);
    f(any("evaluation", "figures on the client's validation and test samples"), o.evaluation);
    f(any("confusion", "which class was taken for which, at the last evaluation"), o.confusion);
    f(one_of("exhibits", {"none", "numbers", "all"},
             "what a method notes at an evaluation, for the report"),
      o.exhibits);
    f(any("data_digest", "SHA-256 of the client's data, at enrolment"), o.data_digest);
  }
};
struct PolicyReceive {
  std::string largest_message;
  static void options(auto& o, auto&& f) {
    f(any("largest_message", "largest task that is taken"), o.largest_message);
  }
};
struct PolicyWhen {
  std::string hours, days, bandwidth;
  static void options(auto& o, auto&& f) {
    f(names_of("hours", "local time in which tasks are asked for"), o.hours);
    f(names_of("days", "days of the week on which those hours begin"), o.days);
    f(any("bandwidth", "bytes a second, up and down together, on average"), o.bandwidth);
  }
};

struct PolicyFile {
  PolicyServer server;
  PolicyExperiment experiment;
  PolicyMethod method;
  PolicyGuards guards;
  PolicySend send;
  PolicyReceive receive;
  PolicyWhen when;

  std::vector<BoundOption> options(const std::string& section) {
    if (section == "server") return bind_options(server);
    if (section == "experiment") return bind_options(experiment);
    if (section == "method") return bind_options(method);
    if (section == "guards") return bind_options(guards);
    if (section == "send") return bind_options(send);
    if (section == "receive") return bind_options(receive);
    if (section == "when") return bind_options(when);
    return {};
  }
};

// "6:30" or "24:00" in minutes.
std::optional<int> minute_of(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon > 2 || text.size() != colon + 3) return std::nullopt;
  const auto hour = whole_number(text.substr(0, colon)),
             minute = whole_number(text.substr(colon + 1));
  if (!hour || !minute || *hour > 24 || *minute > 59 || (*hour == 24 && *minute > 0))
    return std::nullopt;
  return static_cast<int>(*hour * 60 + *minute);
}

std::optional<DayHours> hours_of(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  auto from = text.substr(0, dash), to = text.substr(dash + 1);
  while (from.ends_with(' ')) from.remove_suffix(1);
  while (to.starts_with(' ')) to.remove_prefix(1);
  const auto begin = minute_of(from), end = minute_of(to);
  if (!begin || !end || *begin == *end || *begin == 1440) return std::nullopt;
  return DayHours{*begin, *end};
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

class PolicyReader {
 public:
  PolicyReader(const std::string& file, const PolicyNames& known) : known_(known) {
    policy_.name = printable(std::filesystem::path(file).filename().string(), 100);
  }

  Result<Policy> read(const std::vector<TomlEntry>& entries) {
    entries_ = &entries;
    for (const auto& entry : entries) apply(entry);
    take_names();
    take_guards();
    take_send();
    take_when();
    if (problems_.empty()) return std::move(policy_);
    std::stable_sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
    });
    std::vector<std::string> lines;
    for (const auto& [place, text] : problems_) lines.push_back(place.text + ": " + text);
    return fail(Error::kInvalid, "{}", join(lines, "\n"));
  }

 private:
  void report(const Place& place, const std::string& text) {
    problems_.emplace_back(place, printable(text, 2000));
  }
  bool is_section(const std::string& name) const {
    return std::find(kPolicySections.begin(), kPolicySections.end(), name) != kPolicySections.end();
  }

  void apply(const TomlEntry& entry) {
    if (entry.section.empty())
      return report(entry.place, is_section(entry.key)
                                     ? fmt::format("'{0}' is a section: write [{0}] and its keys "
                                                   "below",
                                                   entry.key)
                                     : unknown(entry));
    if (!is_section(entry.section)) {
      if (entry.heading) report(entry.place, unknown_section(entry.section));
      return;  // of its keys nothing is said
    }
    if (entry.heading) return;
    for (const auto& option : file_.options(entry.section)) {
      if (option.spec.key != entry.key) continue;
      const auto wrong = assign(option, entry, dotted(entry.section, entry.key));
      if (!wrong.empty()) report(entry.where, wrong), bad_.insert(dotted(entry.section, entry.key));
      return;
    }
    report(entry.place, unknown(entry));
  }

  std::string unknown_section(const std::string& section) const {
    // A list of tables [[send]] is section "send.".
    const auto single = section.substr(0, section.find('.'));
    if (section != single && is_section(single))
      return fmt::format(
          "unknown section [{}] (a policy has one section [{}], and nothing below it)",
          printable(section), single);
    const auto close = nearest(section, kPolicySections);
    return fmt::format("unknown section [{}] ({})", printable(section),
                       close.empty() ? "known: [" + join(kPolicySections, "], [") + "]"
                                     : "did you mean [" + close + "]?");
  }

  std::string unknown(const TomlEntry& entry) {
    std::vector<std::string> elsewhere, here;
    for (const auto& section : kPolicySections)
      for (const auto& option : file_.options(section)) {
        if (section == entry.section) here.push_back(option.spec.key);
        if (option.spec.key == entry.key) elsewhere.push_back("in [" + section + "]");
      }
    const auto name = printable(dotted(entry.section, entry.key));
    if (!elsewhere.empty())
      return fmt::format("unknown key '{}' ('{}' belongs {})", name, printable(entry.key),
                         join(elsewhere, " or "));
    return fmt::format("unknown key '{}'{}", name,
                       entry.section.empty() ? " (keys belong in the sections [" +
                                                   join(kPolicySections, "], [") + "])"
                                             : suggestion(entry.key, here));
  }

  /// The entry of a key that is there and of the right type, or null.
  const TomlEntry* given(const std::string& section, const std::string& key) const {
    if (bad_.contains(dotted(section, key))) return nullptr;
    for (const auto& entry : *entries_)
      if (!entry.heading && entry.section == section && entry.key == key) return &entry;
    return nullptr;
  }

  /// The names of a list that is there. An empty one would forbid everything or nothing, nobody
  /// knows which: `none` is what to write instead, or empty where it means something.
  std::vector<std::string> names(const char* section, const char* key, const std::string& text,
                                 const std::string& none) {
    const auto* entry = given(section, key);
    if (!entry) return {};
    const auto name = dotted(section, key);
    auto out = comma_list(text);
    if (out.empty() && !none.empty())
      report(entry->where, fmt::format("{} names nobody; {}", name, none));
    if (std::find(out.begin(), out.end(), "") != out.end())
      report(entry->where, name + " has an empty name; remove it");
    return out;
  }
  /// The same, each one of the known.
  std::vector<std::string> known_names(const char* section, const char* key,
                                       const std::string& text, const std::string& none,
                                       const std::pair<const char*, std::vector<std::string>>& of) {
    auto out = names(section, key, text, none);
    for (const auto& name : out)
      if (!name.empty() && std::find(of.second.begin(), of.second.end(), name) == of.second.end())
        report(given(section, key)->where,
               fmt::format("{}: unknown {} '{}'{}", dotted(section, key), of.first, printable(name),
                           suggestion(name, of.second)));
    return out;
  }

  void take_names() {
    policy_.servers = names("server", "names", file_.server.names,
                            "leave it out to allow every server, or name one, as in "
                            "[\"fed.example\"]");
    for (auto& host : policy_.servers) {
      // An address of IPv6 has two colons or more.
      if (std::count(host.begin(), host.end(), ':') == 1 || host.find('/') != std::string::npos)
        report(given("server", "names")->where,
               fmt::format("server.names: '{}' must be a host alone, without port or path",
                           printable(host)));
      host = plain_host(host);
    }
    policy_.experiments =
        names("experiment", "names", file_.experiment.names, "leave it out to allow every name");
    policy_.digests = names("experiment", "digests", file_.experiment.digests,
                            "leave it out to allow every experiment");
    for (auto& digest : policy_.digests) {
      digest = lower(digest);
      if (!digest.empty() && !is_sha256(digest))
        report(given("experiment", "digests")->where,
               fmt::format("experiment.digests: '{}' must be a SHA-256, 64 hex digits, as "
                           "`tessera preflight` prints it",
                           printable(digest, 80)));
    }
    policy_.methods = known_names("method", "allow", file_.method.allow,
                                  "leave it out to allow every method", {"method", known_.methods});
  }

  void take_guards() {
    policy_.guards = known_names("guards", "require", file_.guards.require,
                                 "leave it out to ask for none", {"guard", known_.guards});
    if (given("guards", "max_epsilon")) policy_.max_epsilon = file_.guards.max_epsilon;
    if (given("guards", "max_sample_epsilon"))
      policy_.max_sample_epsilon = file_.guards.max_sample_epsilon;
  }

  /// A size that is there; `unit` is empty or "/s".
  std::optional<int64_t> size(const char* section, const char* key, std::string_view text,
                              std::pair<int64_t, int64_t> bounds, std::string_view unit = "") {
    const auto* entry = given(section, key);
    if (!entry) return std::nullopt;
    const auto name = fmt::format("{}.{} = \"{}\"", section, key, printable(text));
    auto bytes = std::optional<int64_t>();
    if (text.ends_with(unit)) bytes = size_of_text(text.substr(0, text.size() - unit.size()));
    if (!bytes)
      report(entry->where,
             fmt::format("{} must be a number with a unit, as in \"{}{}\" (units: {})", name,
                         unit.empty() ? "64 MiB" : "2 MB", unit, kSizeUnits));
    else if (*bytes < bounds.first || *bytes > bounds.second)
      report(entry->where, fmt::format("{} must be from {}{} to {}{}", name,
                                       human_bytes(static_cast<double>(bounds.first)), unit,
                                       human_bytes(static_cast<double>(bounds.second)), unit));
    return bytes;
  }

  void take_send() {
    const auto& send = file_.send;
    const std::pair message{kLeastMessage, kMostMessage};
    policy_.largest_sent = size("send", "largest_message", send.largest_message, message)
                               .value_or(policy_.largest_sent);
    policy_.largest_received =
        size("receive", "largest_message", file_.receive.largest_message, message)
            .value_or(policy_.largest_received);
    if (given("send", "columns")) policy_.columns = names("send", "columns", send.columns, "");
    policy_.categories = names("send", "categories", send.categories, "");
    if (policy_.columns)
      for (const auto& name : policy_.categories)
        if (std::find(policy_.columns->begin(), policy_.columns->end(), name) ==
            policy_.columns->end())
          report(given("send", "categories")->where,
                 fmt::format("send.categories: '{}' is not in send.columns, so its values could "
                             "not leave; add it there, or remove it here",
                             printable(name)));
    policy_.most_categories = send.most_categories;
    policy_.class_counts = send.class_counts, policy_.losses = send.losses;
    policy_.evaluation = send.evaluation, policy_.confusion = send.confusion;
    policy_.data_digest = send.data_digest;
    policy_.exhibits = send.exhibits == "none"  ? Exhibits::kNone
                       : send.exhibits == "all" ? Exhibits::kAll
                                                : Exhibits::kNumbers;
  }

  void take_when() {
    const auto& when = file_.when;
    for (const auto& text : names("when", "hours", when.hours, "leave it out to work at any time"))
      if (const auto hours = hours_of(text))
        policy_.hours.push_back(*hours);
      else if (!text.empty())
        report(given("when", "hours")->where,
               fmt::format("when.hours: '{}' must be two times of a day that differ, as in "
                           "\"20:00-06:00\"",
                           printable(text)));
    const auto days = names("when", "days", when.days, "leave it out to work on every day");
    if (!days.empty()) policy_.days.fill(false);
    for (const auto& text : days) {
      const auto day = std::find(kWeekdays.begin(), kWeekdays.end(), lower(text));
      if (day != kWeekdays.end())
        policy_.days[static_cast<size_t>(day - kWeekdays.begin())] = true;
      else if (!text.empty())
        report(given("when", "days")->where,
               fmt::format("when.days: unknown day '{}'{}", printable(text),
                           suggestion(text, kWeekdays)));
    }
    policy_.bandwidth =
        size("when", "bandwidth", when.bandwidth, {kLeastBandwidth, kMostBandwidth}, "/s");
  }

  const PolicyNames& known_;
  const std::vector<TomlEntry>* entries_ = nullptr;
  PolicyFile file_;
  Policy policy_;
  std::set<std::string> bad_;  // keys whose values were reported
  std::vector<std::pair<Place, std::string>> problems_;
};

}  // namespace

std::optional<int64_t> size_of_text(std::string_view text) {
  static const std::vector<std::pair<std::string_view, double>> kFactors{
      {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9}, {"KiB", 0x1p10},
      {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"B", 1}};
  for (const auto& [unit, factor] : kFactors) {
    if (!text.ends_with(unit)) continue;
    auto digits = text.substr(0, text.size() - unit.size());
    if (digits.ends_with(' ')) digits.remove_suffix(1);
    // No signs, no exponents, no "inf".
    if (digits.empty() || digits.find_first_not_of("0123456789.") != std::string_view::npos)
      return std::nullopt;
    double number = 0;
    const auto end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, number, std::chars_format::fixed);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    const double bytes = std::floor(number * factor);
    if (!(bytes >= 1 && bytes <= 0x1p53)) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

std::string plain_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

Result<Policy> parse_policy(const std::string& text, const std::string& file,
                            const PolicyNames& known) {
  TESSERA_ASSIGN(const auto entries, toml_entries(text, file));
  return PolicyReader(file, known).read(entries);
}

Result<Policy> read_policy(const std::string& path, const PolicyNames& known) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMaxPolicyBytes));
  return parse_policy(std::string(text_of(bytes)), path, known);
}

std::vector<std::pair<std::string, std::string>> policy_keys() {
  std::vector<std::pair<std::string, std::string>> out;
  PolicyFile file;
  for (const auto& section : kPolicySections)
    for (const auto& option : file.options(section))
      out.emplace_back(dotted(section, option.spec.key), option.spec.help);
  return out;
}

}  // namespace tessera
