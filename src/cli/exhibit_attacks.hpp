// The attacks that an exhibit has its cells stand, beside their runs.
#pragma once

#include <functional>

#include "cli/cell_record.hpp"
#include "cli/exhibit_plan.hpp"

namespace tessera {

struct AttackEffort {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  bool pictures = false;                                  // keep some
  std::function<void(const std::string&)> on_stage = {};  // for people
};

/// Plays the experiment again as far as the attacks need it, since a client's work is a function of
/// its state and data (audit/scene.hpp). What does not apply has its reason in `skipped`.
/// kInterrupted when it was stopped.
Result<std::map<std::string, RecordAttack>> attack_cell(const Experiment& experiment,
                                                        const ExhibitPlan& plan,
                                                        const AttackEffort& effort);

}  // namespace tessera
