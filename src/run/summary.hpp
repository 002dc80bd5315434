// What a run amounts to: facts for the history, summary.json, and the saved models.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "run/experiment.hpp"
#include "run/history.hpp"
#include "run/reports.hpp"

namespace tessera {

/// Test metrics of the headline view over clients; all NaN over nobody.
Summary headline_of(std::span<const Evaluation> clients, View headline);

/// The `meta` rows of a history at its start: keys and values as text, in a fixed order, with state
/// "running". `config` is the resolved experiment's text (config.toml).
std::vector<std::pair<std::string, std::string>> run_facts(const Experiment& experiment,
                                                           const Roster& roster, const Model& model,
                                                           const std::string& config);

/// Whose evaluations a run cannot do without.
enum class Awaited {
  kEverybody,  // a simulation: all clients are here
  kAnybody     // a real federation: who does not answer, or lies, fails itself and not the run
};

/// summary.json without what only the caller knows (history_digest, memory). `failed` is a sentence
/// when the numbers do not tell what was asked for: no round counted, or an evaluation failed (of a
/// real federation: the last one, of all of its clients); else null. Numbers of nobody are null.
/// Accuracies are fractions, times seconds, traffic bytes; what is not "best" or "last5" is of the
/// last evaluation. kInternal for a history without evaluations; errors of the history as they are.
Result<nlohmann::json> summarize_run(const Experiment& experiment, const Roster& roster,
                                     const Model& model, History& history,
                                     Awaited awaited = Awaited::kEverybody);

}  // namespace tessera
