#include "cli/compare_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr int64_t kMostSeeds = 1000;

/// A method with its own settings: "fedacs:p=0.9:train.lr=0.1".
struct Variant {
  std::string method;
  std::string label;              // "fedacs p=0.9 train.lr=0.1"
  std::vector<std::string> sets;  // "method.fedacs.p=0.9", "train.lr=0.1"
};

std::vector<std::string> split(const std::string& list, char at) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == at)
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

/// Every way to choose one of the values of a setting: "ditto:train.lr=0.1|0.2" is two variants.
Result<std::vector<Variant>> variants_of(const std::string& text) {
  const auto words = split(text, ':');
  std::vector<Variant> out{{words[0], words[0], {}}};
  const auto info = find_method(words[0]);
  if (!info.ok()) return at_place(info.status(), "--methods");
  for (size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(Error::kInvalid, "--methods: '{}' in '{}' is not of the form key=value", words[i],
                  text);
    const auto key = words[i].substr(0, equals);
    // A key without a section is one of the method's own.
    const bool own = key.find('.') == std::string::npos;
    std::vector<Variant> grown;
    for (const auto& variant : out) {
      for (const auto& value : split(words[i].substr(equals + 1), '|')) {
        grown.push_back(variant);
        grown.back().label += fmt::format(" {}={}", key, value);
        grown.back().sets.push_back(
            fmt::format("{}{}={}", own ? "method." + words[0] + "." : "", key, value));
      }
    }
    out = std::move(grown);
  }
  return out;
}

/// A label as the name of a directory.
std::string file_name(std::string label) {
  for (char& c : label)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("=._-", c)) c = '-';
  return label;
}

Result<std::vector<int64_t>> seed_list(const std::string& list) {
  std::vector<int64_t> out;
  for (const auto& text : split(list, ',')) {
    int64_t seed = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error != std::errc() || end != text.data() + text.size() || seed < 0)
      return fail(Error::kInvalid,
                  "--seeds: '{}' is not a seed; write --seeds 3 for 1, 2, 3 or --seeds 4,7", text);
    if (std::find(out.begin(), out.end(), seed) != out.end())
      return fail(Error::kInvalid, "--seeds: {} is listed twice", seed);
    out.push_back(seed);
  }
  if (out.size() > 1) return out;
  if (out[0] < 1 || out[0] > kMostSeeds)
    return fail(Error::kInvalid, "--seeds: a single number says how many seeds: 1 to {}",
                kMostSeeds);
  const int64_t count = out[0];
  out.clear();
  for (int64_t seed = 1; seed <= count; ++seed) out.push_back(seed);
  return out;
}

/// One cell per seed of a variant; problems are collected, each once.
Status add_candidate(const CompareArgs& args, const Variant& variant,
                     const std::vector<std::optional<int64_t>>& seeds, PlannedRow& row,
                     std::vector<std::string>& problems) {
  Candidate candidate{variant.label, {}};
  for (const auto& seed : seeds) {
    auto overrides = args.run.experiment.overrides();
    overrides.method = variant.method, overrides.seed = seed;
    overrides.sets.insert(overrides.sets.end(), variant.sets.begin(), variant.sets.end());
    auto experiment = load_experiment(args.run.experiment.file, overrides);
    if (!experiment.ok() && error_of(experiment.status()) != Error::kInvalid)
      return experiment.status();
    if (!experiment.ok()) {
      const auto text = message(experiment.status());
      if (std::find(problems.begin(), problems.end(), text) == problems.end())
        problems.push_back(text);
      continue;
    }
    if (!experiment->debug.dump.empty())
      return fail(Error::kInvalid,
                  "debug.dump is for a single run; use `tessera run`, or remove it");
    auto name = fmt::format("{}-s{}", file_name(variant.label), experiment->run.seed);
    candidate.cells.push_back({*std::move(experiment), std::move(name)});
  }
  row.candidates.push_back(std::move(candidate));
  return ok();
}

}  // namespace

Result<std::vector<PlannedRow>> plan_comparison(const CompareArgs& args) {
  std::vector<std::optional<int64_t>> seeds{std::nullopt};
  if (!args.seeds.empty()) {
    TESSERA_ASSIGN(const auto listed, seed_list(args.seeds));
    seeds.assign(listed.begin(), listed.end());
  }
  std::vector<PlannedRow> rows;
  std::vector<std::string> problems, labels;
  for (const auto& text : split(args.methods, ',')) {
    TESSERA_ASSIGN(const auto variants, variants_of(text));
    PlannedRow row;
    for (const auto& variant : variants) {
      if (std::find(labels.begin(), labels.end(), variant.label) != labels.end())
        return fail(Error::kInvalid, "--methods: '{}' is listed twice", variant.label);
      labels.push_back(variant.label);
      TESSERA_RETURN_IF_ERROR(add_candidate(args, variant, seeds, row, problems));
    }
    rows.push_back(std::move(row));
  }
  if (!problems.empty()) return fail(Error::kInvalid, "{}", join(problems, "\n"));
  return rows;
}

}  // namespace tessera
