#include "cli/compare_check.hpp"

#include <map>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/output.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

Status can_run(const Experiment& experiment, const Federation& federation) {
  TESSERA_ASSIGN(auto session, make_session(experiment, federation));
  Simulation simulation(std::move(session), federation, experiment.federation);
  return simulation.driver().meet_clients();
}

struct Tried {
  std::map<std::string, std::string> reasons;  // by the name of the run that cannot go
  std::map<std::string, std::string> digests;  // of the data, by data_of()
};

/// Runs of the same data are tried together, so that only one federation is in memory.
Result<Tried> try_all(const std::vector<PlannedRow>& rows) {
  std::map<std::string, std::vector<const PlannedRun*>> by_data;
  for (const auto& row : rows)
    for (const auto& candidate : row.candidates)
      for (const auto& run : candidate.cells) by_data[data_of(run.experiment)].push_back(&run);
  Tried out;
  for (const auto& [data, runs] : by_data) {
    const auto& first = runs.front()->experiment;
    const auto key = derive(static_cast<uint64_t>(first.run.seed), Purpose::kPartition);
    auto federation = load_federation(first.data, key);
    if (!federation.ok() && error_of(federation.status()) != Error::kInvalid)
      return federation.status();
    if (federation.ok()) out.digests.emplace(data, federation->data_digest);
    for (const auto* run : runs) {
      const auto status =
          federation.ok() ? can_run(run->experiment, *federation) : federation.status();
      if (!status.ok()) out.reasons[run->name] = message(status);
    }
  }
  return out;
}

/// Why a candidate cannot run; empty if all its runs can.
std::string reason_for(const Candidate& candidate,
                       const std::map<std::string, std::string>& reasons) {
  for (const auto& run : candidate.cells)
    if (const auto found = reasons.find(run.name); found != reasons.end()) return found->second;
  return "";
}

}  // namespace

std::string data_of(const Experiment& experiment) {
  auto data = experiment.data;
  auto key = fmt::format("seed {}\n", experiment.run.seed);
  for (const auto& option : bind_options(data))
    if (option.spec.key != "data_dir")
      key += fmt::format("{} = {}\n", option.spec.key, option_text(option));
  return key;
}

Result<std::map<std::string, std::string>> check_rows(std::vector<PlannedRow>& rows, bool strict) {
  TESSERA_ASSIGN(auto tried, try_all(rows));
  std::vector<std::string> said;
  size_t left = 0;
  for (auto& row : rows) {
    std::vector<Candidate> can;
    for (auto& candidate : row.candidates) {
      const auto reason = reason_for(candidate, tried.reasons);
      if (reason.empty()) {
        can.push_back(candidate);
        continue;
      }
      if (!row.beside) said.push_back(fmt::format("{}: {}", candidate.label, reason));
      if (row.cannot_run.empty()) row.cannot_run = reason;
    }
    if (can.empty()) continue;
    row.candidates = std::move(can), row.cannot_run.clear();
    ++left;
  }
  if (said.empty()) return tried.digests;
  if (strict || left == 0) return fail(Error::kInvalid, "{}", join(said, "\n"));
  for (const auto& line : said) print_note("left out: " + line);
  return tried.digests;
}

}  // namespace tessera
