// An experiment as text: the resolved file, and the settings that are not the usual ones.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "run/assign_option.hpp"
#include "run/experiment.hpp"
#include "run/guard_sections.hpp"

namespace tessera {
namespace {

std::string section_text(const std::string& heading, const std::vector<BoundOption>& options) {
  std::string out = heading;
  for (const auto& option : options)
    out += fmt::format("{} = {}\n", option.spec.key, option_text(option));
  return out;
}

// Texts of other sets stay as they were before there was the set synthetic.
std::vector<BoundOption> data_options_in_use(DataOptions& data) {
  auto out = bind_options(data);
  // The same for tables whose columns nobody has declared.
  std::erase_if(out, [&](const BoundOption& option) {
    return (option.spec.key == "columns" && data.columns.empty()) ||
           (option.spec.key == "categories" && data.categories.empty());
  });
  const auto& of_synthetic = synthetic_keys();
  if (data.set != "synthetic")
    std::erase_if(out, [&](const BoundOption& option) {
      return std::find(of_synthetic.begin(), of_synthetic.end(), option.spec.key) !=
             of_synthetic.end();
    });
  return out;
}

// Texts stay as they were before there was a choice.
std::vector<BoundOption> output_options_in_use(OutputOptions& output) {
  auto out = bind_options(output);
  if (output.clients == OutputOptions().clients)
    std::erase_if(out, [](const BoundOption& option) { return option.spec.key == "clients"; });
  return out;
}

}  // namespace

std::string Experiment::toml() const {
  auto copy = *this;
  // Of [serve] only what decides whose data count, and where it does.
  auto named = bind_options(copy.serve);
  std::erase_if(named,
                [](const auto& o) { return o.spec.key != "members" && o.spec.key != "newcomers"; });
  return section_text("", bind_options(copy.run)) +
         section_text("\n[data]\n", data_options_in_use(copy.data)) +
         section_text("\n[model]\n", options_in_use(copy.model)) +
         section_text("\n[train]\n", bind_options(copy.train)) +
         section_text("\n[federation]\n", bind_options(copy.federation)) + guards_text(copy.guard) +
         section_text("\n[eval]\n", bind_options(copy.eval)) +
         section_text("\n[output]\n", output_options_in_use(copy.output)) +
         (machine.kernels == "auto" ? ""
                                    : fmt::format("\n[run]\nkernels = \"{}\"\n", machine.kernels)) +
         (data.member_names.empty() ? "" : section_text("\n[serve]\n", named)) +
         section_text(fmt::format("\n[method]\nname = \"{}\"\n", method.name), draft->options());
}

std::vector<std::string> settings_of(const Experiment& experiment) {
  static const std::set<std::string> kNames{"data.set", "data.partition", "model.name"};
  static const std::set<std::string> kNot{
      "name", "seed", "data.data_dir", "model.file", "model.start", "eval.metric", "run.memory"};
  auto given = experiment;
  Experiment usual;
  const auto draft = given.method.draft();
  std::vector<std::string> out;
  const auto add = [&](const std::string& section, const std::vector<BoundOption>& options,
                       const std::vector<BoundOption>& defaults) {
    for (const auto& option : options) {
      const auto key = dotted(section, option.spec.key), text = option_text(option);
      const bool same = std::any_of(defaults.begin(), defaults.end(), [&](const auto& other) {
        return other.spec.key == option.spec.key && option_text(other) == text;
      });
      if (!kNot.contains(key) && (!same || kNames.contains(key)))
        out.push_back(fmt::format("{} = {}", key, text));
    }
  };
  add("", bind_options(given.run), bind_options(usual.run));
  add("data", bind_options(given.data), bind_options(usual.data));
  add("model", options_in_use(given.model), bind_options(usual.model));
  add("train", bind_options(given.train), bind_options(usual.train));
  add("federation", bind_options(given.federation), bind_options(usual.federation));
  // That a guard is there matters, whatever its options are.
  GuardOptions::each(given.guard, [&](const char* name, auto& one) {
    if (one) add(std::string("guard.") + name, bind_options(*one), {});
  });
  add("eval", bind_options(given.eval), bind_options(usual.eval));
  add("output", bind_options(given.output), bind_options(usual.output));
  add("run", bind_options(given.machine), bind_options(usual.machine));
  out.push_back(fmt::format("method.name = \"{}\"", given.method.name));
  add("method", given.draft->options(), draft->options());
  return out;
}

std::string model_text(const ModelOptions& options) {
  auto copy = options;
  return section_text("", options_in_use(copy));
}

}  // namespace tessera
