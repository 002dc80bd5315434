#include "run/exposed.hpp"

namespace tessera {

std::vector<std::string> active_guards(const GuardOptions& guards) {
  std::vector<std::string> out;
  GuardOptions::each(guards, [&](const char* name, const auto& guard) {
    if (guard) out.emplace_back(name);
  });
  return out;
}

bool needs_sums_only(const Experiment& experiment) {
  return experiment.draft->build(experiment.train)->sum_will_do();
}

std::vector<Sight> exposed(const Experiment& experiment) {
  return sights(experiment.method.exposure, needs_sums_only(experiment),
                active_guards(experiment.guard));
}

}  // namespace tessera
