#include "cli/metric_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace tessera {
namespace {

using Kind = MetricSpec::Kind;

const std::vector<std::string> kCurveNames{
    "accuracy",          "micro", "std", "worst10", "precision_macro", "f1_macro", "f1_remap",
    "balanced_accuracy", "auroc"};
const std::vector<std::string> kTargetNames{"rounds_to", "time_to", "traffic_to"};
const std::vector<std::string> kShownNames{"shown", "shown_first"};
const std::vector<std::string> kWithinNames{"within", "within_first"};
const std::vector<std::string> kAttackNames{"got", "guess"};
const std::vector<std::string> kDataNames{"clients",     "samples",     "samples_mean",
                                          "samples_std", "samples_min", "samples_max"};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool take_number(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// What is wrong with the part behind the '@' or '/'; empty: nothing.
std::string take_rest(const std::string& rest, char mark, const PaperExhibit& exhibit,
                      MetricSpec& out) {
  if (mark == '/') {
    if (rest == "last5" || rest == "best" || rest == "peak") {
      out.how = rest;
      return "";
    }
    out.how = "wobble";
    const bool fine = rest.starts_with("wobble") && take_number(rest.substr(6), out.span);
    return fine ? "" : fmt::format("'/{}' is none of /last5, /best, /peak, /wobble20", rest);
  }
  out.row = rest;
  if (out.kind == Kind::kShown) return "";
  if (out.kind == Kind::kAttack) {
    const auto colon = rest.find(": ");
    if (colon == std::string::npos)
      return fmt::format("'@{}' is not of the form @NAME: FIGURE", rest);
    out.row = rest.substr(0, colon), out.figure = rest.substr(colon + 2);
    std::vector<std::string> names;
    for (const auto& attack : exhibit.attacks) names.push_back(attack.name);
    return is_among(names, out.row)
               ? ""
               : fmt::format("there is no [[attack]] of that name{}", suggestion(out.row, names));
  }
  if (out.kind == Kind::kWithin) {
    for (const auto& word : comma_list(rest)) {
      double count = 0;
      if (!take_number(word, count) || count < 1 || count > 1e6 || count != std::floor(count))
        return fmt::format("'@{}' is not of the form @4,3: clients in each group", rest);
      out.groups.push_back(static_cast<int64_t>(count));
    }
    return "";
  }
  if (out.kind == Kind::kTarget) {
    if (take_number(rest, out.target)) {
      out.row.clear();
      return "";
    }
    const auto star = rest.find('*');
    if (star == std::string::npos || !take_number(rest.substr(0, star), out.target))
      return fmt::format("'@{}' is neither @80 (per cent) nor @0.98*ROW", rest);
    out.row = rest.substr(star + 1);
  }
  if (exhibit.row(out.row)) return "";
  std::vector<std::string> rows;
  for (const auto& row : exhibit.rows) rows.push_back(row.name);
  return fmt::format("there is no row '{}'{}", out.row, suggestion(out.row, rows));
}

}  // namespace

bool MetricSpec::smaller_is_better() const {
  return kind == Kind::kTarget || kind == Kind::kOverhead || kind == Kind::kAttack ||
         kind == Kind::kEpsilon || name == "std" || how == "wobble";
}

std::string MetricSpec::title() const {
  static const std::map<std::string, std::string> kTitles{
      {"std", "deviation over clients"},
      {"precision_macro", "precision"},
      {"f1_remap", "F1"},
      {"f1_macro", "F1 (no remapping)"},
      {"worst10", "worst 10 %"},
      {"micro", "micro accuracy"},
      {"rounds_to", "rounds"},
      {"time_to", "simulated seconds"},
      {"traffic_to", "models there and back"},
      {"overhead", "models there and back per client"},
      {"samples_mean", "mean per client"},
      {"samples_std", "deviation over clients"},
      {"samples_min", "fewest"},
      {"samples_max", "most"}};
  const auto found = kTitles.find(name);
  auto out = found == kTitles.end() ? name : found->second;
  if (kind == Kind::kTarget)
    return out + (row.empty() ? fmt::format(" to {:g} %", target)
                              : fmt::format(" to {:g} × the accuracy of {}", target, row));
  if (kind == Kind::kAttack)
    return fmt::format("{}: {}{}", row, figure, name == "guess" ? ", seeing nothing" : "");
  if (kind == Kind::kShown) return row + (first() ? ", first" : "");
  if (kind == Kind::kWithin)
    return std::string("attention inside groups over between them") + (first() ? ", first" : "");
  if (kind == Kind::kRatio) return fmt::format("accuracy relative to {}", row);
  if (how == "last5") return out + ", mean of the last five evaluations";
  if (how == "best") return out + ", best round on validation data";
  if (how == "peak") return out + ", greatest";
  if (how == "wobble") return out + fmt::format(", deviation over the last {:g} rounds", span);
  return out;
}

Result<MetricSpec> metric_spec(const std::string& text, const PaperExhibit& exhibit,
                               const std::string& place) {
  const auto at = text.find_first_of("@/");
  MetricSpec out;
  out.name = text.substr(0, at);
  const char mark = at == std::string::npos ? ' ' : text[at];
  if (is_among(kTargetNames, out.name)) out.kind = Kind::kTarget;
  if (is_among(kDataNames, out.name)) out.kind = Kind::kData;
  if (out.name == "ratio") out.kind = Kind::kRatio;
  if (out.name == "overhead") out.kind = Kind::kOverhead;
  if (is_among(kShownNames, out.name)) out.kind = Kind::kShown;
  if (is_among(kWithinNames, out.name)) out.kind = Kind::kWithin;
  if (is_among(kAttackNames, out.name)) out.kind = Kind::kAttack;
  if (out.name == "epsilon") out.kind = Kind::kEpsilon;
  const bool aims = out.kind != Kind::kCurve && out.kind != Kind::kOverhead &&
                    out.kind != Kind::kData && out.kind != Kind::kEpsilon;
  std::vector<std::string> known = kCurveNames;
  for (const auto* more : {&kTargetNames, &kDataNames, &kShownNames, &kWithinNames, &kAttackNames})
    known.insert(known.end(), more->begin(), more->end());
  known.insert(known.end(), {"ratio", "overhead", "epsilon"});
  if (!is_among(known, out.name))
    return fail(Error::kInvalid, "{}: unknown metric '{}'{}", place, out.name,
                suggestion(out.name, known));
  const bool fits = mark == ' ' ? !aims : mark == '@' ? aims : out.kind == Kind::kCurve;
  if (!fits)
    return fail(Error::kInvalid, "{}: metric '{}' {}", place, text,
                aims ? "needs a target, as in rounds_to@80" : "has no such part");
  if (mark == ' ') return out;
  const auto wrong = take_rest(text.substr(at + 1), mark, exhibit, out);
  if (!wrong.empty()) return fail(Error::kInvalid, "{}: metric '{}': {}", place, text, wrong);
  return out;
}

}  // namespace tessera
