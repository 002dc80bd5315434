#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/option_list.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

using nlohmann::json;

std::string named_text(const std::string& name, const std::string& line) {
  return fmt::format("  {:<20}{}\n", name, line);
}

template <class List>
json named_json(const List& list) {
  auto out = json::array();
  for (const auto& entry : list) out.push_back({{"name", entry.name}, {"line", entry.line}});
  return out;
}

/// The options of a network whose layers the user writes; nothing for the others.
std::vector<BoundOption> own_options(const ModelInfo& info, ModelOptions& options) {
  auto out = bind_options(options);
  std::erase_if(out, [&](const BoundOption& option) {
    return std::find(info.keys.begin(), info.keys.end(), option.spec.key) == info.keys.end();
  });
  return out;
}

}  // namespace

Status list_models(bool as_json) {
  auto out = json::array();
  std::string text = "Models ([model] name = …), and the options of those you put together:\n";
  for (const auto& info : models()) {
    auto options = info.options;
    const auto own = own_options(info, options);
    out.push_back({{"name", info.name}, {"line", info.line}, {"options", options_json(own)}});
    text += named_text(info.name, info.line) + options_text(own);
  }
  ModelOptions file, any;
  file.name = kTorchScript;
  const ModelInfo script{kTorchScript,
                         "a network of your own from PyTorch: name its file (docs/own-network.md)",
                         {"file", "file_sha256", "head"},
                         file};
  const auto of_file = own_options(script, file);
  out.push_back({{"name", script.name}, {"line", script.line}, {"options", options_json(of_file)}});
  text += named_text(script.name, script.line) + options_text(of_file);
  const ModelInfo every{"", "", {"init", "start", "start_sha256"}, any};
  text +=
      "\nFor every network, but init for torchscript:\n" + options_text(own_options(every, any));
  return print(as_json ? out.dump(2) + "\n" : text);
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
