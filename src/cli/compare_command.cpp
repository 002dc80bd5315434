#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/comparison.hpp"
#include "cli/output.hpp"
#include "io/file.hpp"
#include "report/history_reader.hpp"

namespace tessera {
namespace {

constexpr int64_t kMostSeeds = 1000;
const std::string kBothViews = "fedavg";  // its post view is a baseline of its own

/// A method with its own settings: "fedacs:p=0.9:train.lr=0.1".
struct Variant {
  std::string method;
  std::string label;              // "fedacs p=0.9 train.lr=0.1"
  std::vector<std::string> sets;  // "method.fedacs.p=0.9", "train.lr=0.1"
};

struct PlannedCell {
  Experiment experiment;
  std::string label;  // of its row
  std::string name;   // of its directory: "fedavg-s1"
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

Result<Variant> variant_of(const std::string& text) {
  const auto words = split(text, ':');
  Variant out{words[0], words[0], {}};
  const auto info = find_method(out.method);
  if (!info.ok()) return at_place(info.status(), "--methods");
  for (size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(Error::kInvalid, "--methods: '{}' in '{}' is not of the form key=value", words[i],
                  text);
    out.label += " " + words[i];
    // A key without a section is one of the method's own.
    const bool own = words[i].substr(0, equals).find('.') == std::string::npos;
    out.sets.push_back(own ? fmt::format("method.{}.{}", out.method, words[i]) : words[i]);
  }
  return out;
}

Result<std::vector<Variant>> variant_list(const std::string& list) {
  std::vector<Variant> out;
  for (const auto& text : split(list, ',')) {
    TESSERA_ASSIGN(auto variant, variant_of(text));
    for (const auto& other : out)
      if (other.label == variant.label)
        return fail(Error::kInvalid, "--methods: '{}' is listed twice", text);
    out.push_back(std::move(variant));
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

/// Every cell, checked before the first one runs; what is wrong with several is said once.
Result<std::vector<PlannedCell>> plan(const CompareArgs& args) {
  TESSERA_ASSIGN(const auto variants, variant_list(args.methods));
  std::vector<std::optional<int64_t>> seeds{std::nullopt};
  if (!args.seeds.empty()) {
    TESSERA_ASSIGN(const auto listed, seed_list(args.seeds));
    seeds.assign(listed.begin(), listed.end());
  }
  std::vector<PlannedCell> cells;
  std::vector<std::string> problems;
  for (const auto& variant : variants) {
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
      auto cell = fmt::format("{}-s{}", file_name(variant.label), experiment->run.seed);
      cells.push_back({*std::move(experiment), variant.label, std::move(cell)});
    }
  }
  if (!problems.empty()) return fail(Error::kInvalid, "{}", join(problems, "\n"));
  return cells;
}

/// Reads a finished cell, resumes an unfinished one, runs the rest. With --force a cell that cannot
/// be continued (another configuration, damaged) is run anew.
Result<nlohmann::json> play(const PlannedCell& cell, RunArgs args, const std::string& out,
                            const std::string& label) {
  const bool force = std::exchange(args.force, false);
  args.resume = true;
  auto summary = run_cell(cell.experiment, args, out, label);
  if (summary.ok() || !force || error_of(summary.status()) != Error::kInvalid) return summary;
  args.force = true;
  return run_cell(cell.experiment, args, out, label);
}

Status write_tables(const std::string& out, const Comparison& comparison) {
  const auto table = comparison.table();
  TESSERA_RETURN_IF_ERROR(
      write_text(out + "/table.md", table.markdown() + "\n" + comparison.caption() + "\n"));
  TESSERA_RETURN_IF_ERROR(write_text(out + "/table.csv", table.csv()));
  return write_text(out + "/table.json", comparison.json().dump(2) + "\n");
}

}  // namespace

Status compare_command(const CompareArgs& args) {
  TESSERA_ASSIGN(const auto planned, plan(args));
  const auto out = args.run.out.empty()
                       ? fmt::format("runs/{}/compare", planned[0].experiment.run.name)
                       : args.run.out;
  std::vector<Cell> cells;
  for (size_t i = 0; i < planned.size(); ++i) {
    const auto& [experiment, row, name] = planned[i];
    const auto dir = out + "/" + name;
    const auto label = fmt::format("[{}/{}] {}", i + 1, planned.size(), name);
    const auto summary = play(planned[i], args.run, dir, label);
    if (!summary.ok() && error_of(summary.status()) == Error::kInterrupted)
      return fail(Error::kInterrupted,
                  "stopped in {} ({} of {}); the same command continues from there", dir, i + 1,
                  planned.size());
    TESSERA_RETURN_IF_ERROR(summary.status());
    TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
    for (const auto* view : {"", "post"}) {
      if (*view && (experiment.method.name != kBothViews || history.meta.headline == view))
        continue;
      auto cell = make_cell(*summary, history, view);
      if (!cell.ok()) return at_place(cell.status(), dir);
      cell->label = *view ? fmt::format("{} ({})", row, view) : row;
      cell->run = name, cell->reference = experiment.method.pooled;
      cells.push_back(*std::move(cell));
    }
  }
  const auto comparison = compare_cells(cells);
  TESSERA_RETURN_IF_ERROR(write_tables(out, comparison));
  TESSERA_RETURN_IF_ERROR(write_comparison_report(out, comparison.json()));
  if (args.run.json) return print(comparison.json().dump(2) + "\n");
  return print(fmt::format("{}\n{}\n{}/report.html\n", comparison.table().text(),
                           comparison.caption(), out));
}

}  // namespace tessera
