#include "cli/compare_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr int64_t kMostSeeds = 1000;

const std::string kBothViews = "fedavg";  // its post view is a baseline of its own

/// One cell per seed of a variant; problems are collected, each once.
Status add_candidate(const CompareArgs& args, Variant variant,
                     const std::vector<std::optional<int64_t>>& seeds, PlannedRow& row,
                     std::vector<std::string>& problems) {
  std::optional<int64_t> seed;
  const auto load = [&](const std::vector<std::string>& sets) {
    auto overrides = args.run.experiment.overrides();
    overrides.method = variant.method, overrides.seed = seed;
    overrides.sets.insert(overrides.sets.end(), sets.begin(), sets.end());
    return load_experiment(args.run.experiment.file, overrides);
  };
  const auto take_problem = [&](const Status& status) {
    const auto text = message(status);
    if (std::find(problems.begin(), problems.end(), text) == problems.end())
      problems.push_back(text);
  };
  auto plain = without_factors(variant, load);
  if (!plain.ok() && error_of(plain.status()) != Error::kInvalid) return plain.status();
  if (!plain.ok()) {
    take_problem(plain.status());
    return ok();
  }
  variant = *std::move(plain);
  Candidate candidate{variant.label(), variant, {}};
  for (const auto& one : seeds) {
    seed = one;
    auto experiment = load(variant.sets());
    if (!experiment.ok() && error_of(experiment.status()) != Error::kInvalid)
      return experiment.status();
    if (!experiment.ok()) {
      take_problem(experiment.status());
      continue;
    }
    if (!experiment->debug.dump.empty())
      return fail(Error::kInvalid,
                  "debug.dump is for a single run; use `tessera run`, or remove it");
    auto name = fmt::format("{}-s{}", file_name(candidate.label), experiment->run.seed);
    candidate.cells.push_back({*std::move(experiment), std::move(name)});
  }
  row.candidates.push_back(std::move(candidate));
  return ok();
}

/// FedAvg's other view, chosen for itself where there is a choice.
void add_beside(std::vector<PlannedRow>& rows, const std::set<std::string>& labels) {
  std::vector<PlannedRow> out;
  for (auto& row : rows) {
    out.push_back(row);
    const auto& first = row.candidates.front();
    if (!row.view.empty() || first.cells.empty()) continue;
    const auto& experiment = first.cells.front().experiment;
    if (experiment.method.name != kBothViews || experiment.headline() == View::kPost) continue;
    if (labels.contains(in_view(first.label, "post"))) continue;  // asked for
    out.push_back(row);
    out.back().view = "post", out.back().beside = true;
  }
  rows = std::move(out);
}

}  // namespace

std::string file_name(std::string label) {
  for (char& c : label)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("=._-", c)) c = '-';
  return label;
}

Result<std::vector<int64_t>> seed_list(const std::string& list) {
  std::vector<int64_t> out;
  for (const auto& text : pieces(list, ',')) {
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

Result<std::vector<PlannedRow>> plan_comparison(const CompareArgs& args) {
  std::vector<std::optional<int64_t>> seeds{std::nullopt};
  if (!args.seeds.empty()) {
    TESSERA_ASSIGN(const auto listed, seed_list(args.seeds));
    seeds.assign(listed.begin(), listed.end());
  }
  std::vector<PlannedRow> rows;
  std::vector<std::string> problems;
  std::set<std::string> labels;
  for (const auto& text : pieces(args.methods, ',')) {
    TESSERA_ASSIGN(const auto whole, with_grid(text, args.grids, "--grid"));
    TESSERA_ASSIGN(const auto variants, variants_of(whole, "--methods"));
    PlannedRow row;
    row.view = variants.front().view;
    for (const auto& variant : variants)
      TESSERA_RETURN_IF_ERROR(add_candidate(args, variant, seeds, row, problems));
    for (const auto& candidate : row.candidates)
      if (const auto label = in_view(candidate.label, row.view); !labels.insert(label).second)
        return fail(Error::kInvalid, "--methods: '{}' is listed twice", label);
    rows.push_back(std::move(row));
  }
  if (!problems.empty()) return fail(Error::kInvalid, "{}", join(problems, "\n"));
  add_beside(rows, labels);
  return rows;
}

}  // namespace tessera
