#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

using nlohmann::json;

json options_json(const std::vector<BoundOption>& options) {
  auto out = json::array();
  for (const auto& option : options) {
    const auto value = std::visit([](const auto* v) { return json(*v); }, option.target);
    out.push_back({{"key", option.spec.key},
                   {"default", value},
                   {"domain", option_domain(option)},
                   {"help", option.spec.help}});
  }
  return out;
}

std::string options_text(const std::vector<BoundOption>& options) {
  size_t widest = 0;
  std::vector<std::string> values;
  for (const auto& option : options) {
    values.push_back(option.spec.key + " = " + option_text(option));
    widest = std::max(widest, values.back().size());
  }
  std::string out;
  for (size_t i = 0; i < options.size(); ++i)
    out += fmt::format("    {:<{}}  {}; {}\n", values[i], widest, options[i].spec.help,
                       option_domain(options[i]));
  return out;
}

std::string named_text(const std::string& name, const std::string& line) {
  return fmt::format("  {:<20}{}\n", name, line);
}

template <class List>
json named_json(const List& list) {
  auto out = json::array();
  for (const auto& entry : list) out.push_back({{"name", entry.name}, {"line", entry.line}});
  return out;
}

}  // namespace

Status list_methods(bool as_json) {
  auto out = json::array();
  std::string text = "Methods ([method] name = …), their options with defaults:\n";
  for (const auto& info : methods()) {
    const auto draft = info.draft();
    const auto options = draft->options();
    out.push_back({{"name", info.name},
                   {"line", info.line},
                   {"paper", info.paper},
                   {"headline", info.headline == View::kPre ? "pre" : "post"},
                   {"pooled", info.pooled},
                   {"options", options_json(options)}});
    const auto credit = info.paper.empty() || info.paper == "-" ? "" : " (" + info.paper + ")";
    text += named_text(info.name, info.line + credit) + options_text(options);
  }
  TrainOptions train;
  FederationOptions federation;
  DebugOptions debug;
  text += "\nFor every method, [train]:\n" + options_text(bind_options(train));
  text += "\n[federation]:\n" + options_text(bind_options(federation));
  text += "\nand [debug]:\n" + options_text(bind_options(debug));
  return print(as_json ? out.dump(2) + "\n" : text);
}

Status list_models(bool as_json) {
  std::string text = "Models ([model] name = …):\n";
  for (const auto& info : models()) text += named_text(info.name, info.line);
  ModelOptions options;
  text += "\n[model]:\n" + options_text(bind_options(options));
  return print(as_json ? named_json(models()).dump(2) + "\n" : text);
}

Status list_data(bool as_json) {
  DataOptions options;
  const json out{{"sets", named_json(dataset_names())},
                 {"partitions", named_json(partition_names())},
                 {"options", options_json(bind_options(options))}};
  std::string text = "Datasets ([data] set = …):\n";
  for (const auto& set : dataset_names()) text += named_text(set.name, set.line);
  text += "\nPartitions ([data] partition = …):\n";
  for (const auto& partition : partition_names())
    text += named_text(partition.name, partition.line);
  text += "\n[data]:\n" + options_text(bind_options(options));
  return print(as_json ? out.dump(2) + "\n" : text);
}

}  // namespace tessera
