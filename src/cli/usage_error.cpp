#include "cli/usage_error.hpp"

#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "cli/manual.hpp"
#include "run/experiment.hpp"

namespace tessera {
namespace {

/// Commands below `root` that have this flag, as words for a sentence.
std::string owners_of(const CLI::App& root, const std::string& flag) {
  std::vector<std::string> out;
  const std::function<void(const CLI::App&)> look = [&](const CLI::App& app) {
    for (const auto* sub : commands_of(app)) {
      if (sub->get_option_no_throw(flag))
        out.push_back(fmt::format("`tessera {}`", path_of(root, sub)));
      look(*sub);
    }
  };
  look(root);
  return join(out, " and ");
}

/// "train.lr" for "lr" or "drop-rate"; empty if no section of a file has such a key.
std::string key_of_file(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  Experiment experiment;
  const auto holds = [&](const std::vector<BoundOption>& options) {
    return std::any_of(options.begin(), options.end(),
                       [&](const auto& option) { return option.spec.key == name; });
  };
  if (holds(bind_options(experiment.run))) return name;
  if (holds(bind_options(experiment.train))) return "train." + name;
  if (holds(bind_options(experiment.federation))) return "federation." + name;
  if (holds(bind_options(experiment.data))) return "data." + name;
  return "";
}

/// What to say of a flag that a command does not have. Names are compared without their dashes,
/// which all flags have in common.
std::string flag_hint(const CLI::App& root, const CLI::App& app, const std::string& flag) {
  const auto name = flag.substr(flag.find_first_not_of('-'));
  std::vector<std::string> known, bare;
  for (const auto* option : app.get_options())
    for (const auto& one : option->get_lnames()) bare.push_back(one), known.push_back("--" + one);
  if (const auto close = nearest(name, bare); !close.empty())
    return fmt::format(" (did you mean '--{}'?)", close);
  if (const auto key = key_of_file(name); !key.empty() && app.get_option_no_throw("--set"))
    return fmt::format(" (a key of the file: --set {}=…)", key);
  if (const auto owners = owners_of(root, "--" + name); !owners.empty())
    return fmt::format(" (a flag of {})", owners);
  return fmt::format(" (known: {})", join(known, ", "));
}

}  // namespace

const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string usage_error(const CLI::App& root, const CLI::ParseError& error) {
  const auto* app = innermost(&root);
  const auto extras = root.remaining(true);
  const auto help = fmt::format("tessera{}{} --help", app == &root ? "" : " ", path_of(root, app));
  if (extras.empty()) return fmt::format("{}; see `{}`", error.what(), help);
  const auto& word = extras.front();
  if (word.starts_with("-") && word.find_first_not_of('-') != std::string::npos)
    return fmt::format("unknown flag '{}'{}; see `{}`", word,
                       flag_hint(root, *app, word.substr(0, word.find('='))), help);
  std::vector<std::string> known;
  for (const auto* sub : commands_of(*app)) known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("unexpected argument '{}'; see `{}`", word, help);
  return fmt::format("unknown command '{}'{}; see `{}`", word, suggestion(word, known), help);
}

}  // namespace tessera
