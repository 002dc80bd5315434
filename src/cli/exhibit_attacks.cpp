#include "cli/exhibit_attacks.hpp"

#include <algorithm>

#include "audit/attacks.hpp"
#include "base/text.hpp"

namespace tessera {
namespace {

constexpr size_t kKeptPairs = 3;  // of pictures in a record

const AttackInfo& info_of(const PaperAttack& attack) {
  // Known: plan_exhibit() has checked it.
  return *std::find_if(attacks().begin(), attacks().end(),
                       [&](const AttackInfo& info) { return info.name == attack.attack; });
}

Adversary adversary_of(const PaperAttack& attack) {
  for (const auto by : info_of(attack).by)
    if (attack.by.empty() || name_of(by) == attack.by) return by;
  return info_of(attack).by.front();
}

RecordAttack record_of_attack(const AuditAttack& done, bool pictures) {
  RecordAttack out;
  out.skipped = done.skipped, out.remark = done.remark;
  for (const auto& figure : done.figures)
    out.figures[figure.name] = {figure.value, figure.reference};
  for (const auto& pair : done.pictures)
    if (pictures && out.pictures.size() < kKeptPairs)
      out.pictures.push_back(
          {png_data_uri(pair.original), png_data_uri(pair.reconstruction), pair.caption});
  return out;
}

}  // namespace

Result<std::map<std::string, RecordAttack>> attack_cell(const Experiment& experiment,
                                                        const ExhibitPlan& plan,
                                                        const AttackEffort& effort) {
  const auto rounds_before = [&](const PaperAttack& attack) {
    const auto usual = info_of(attack).of_uploads ? 0 : experiment.run.rounds;
    return std::min(attack.after.value_or(usual), experiment.run.rounds);
  };
  std::vector<const PaperAttack*> order;
  for (const auto& attack : plan.exhibit->attacks) order.push_back(&attack);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return rounds_before(*a) < rounds_before(*b);
  });
  TESSERA_ASSIGN(const auto scene,
                 Scene::of_experiment(experiment, {effort.threads, effort.stop, {}}));
  Attacker attacker(*scene);
  std::map<std::string, RecordAttack> out;
  for (const auto* attack : order) {
    while (scene->round() < rounds_before(*attack)) {
      if (effort.on_stage)
        effort.on_stage(fmt::format("{}: round {}", attack->name, scene->round() + 1));
      TESSERA_RETURN_IF_ERROR(scene->play());
    }
    if (effort.on_stage) effort.on_stage(attack->name);
    const auto& at = attack->at.at(plan.size);
    TESSERA_ASSIGN(const auto done,
                   attacker.run(attack->attack, adversary_of(*attack),
                                {.samples = attack->samples, .victims = at.victims},
                                {static_cast<double>(at.seconds), effort.stop}));
    out[attack->name] = record_of_attack(done, effort.pictures);
  }
  return out;
}

}  // namespace tessera
