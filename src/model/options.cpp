#include "model/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "model/layer_list.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

using Keys = std::vector<std::string>;

bool has(const Keys& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// The keys that a network looks at; nothing for a name that is not known.
std::optional<Keys> keys_of(const std::string& name) {
  Keys out{"name", "start", "start_sha256"};
  if (name == kTorchScript) {
    out.insert(out.end(), {"file", "file_sha256", "head"});
    return out;
  }
  for (const auto& info : models()) {
    if (info.name != name) continue;
    out.push_back("init");
    out.insert(out.end(), info.keys.begin(), info.keys.end());
    return out;
  }
  return std::nullopt;
}

/// What to do with a key that does nothing.
std::string advice(const std::string& key) {
  if (has({"file", "file_sha256", "head"}, key))
    return fmt::format("remove it, or set name = \"{}\" for a network from a file", kTorchScript);
  Keys owners;
  for (const auto& info : models())
    if (has(info.keys, key)) owners.push_back(info.name);
  if (owners.empty()) return "remove it";  // init, which networks from files bring themselves
  return fmt::format("it is an option of {}: set name = \"{}\", or remove it", join(owners, ", "),
                     owners.front());
}

void check_unused(const ModelOptions& options, const Keys& used, const Keys& given,
                  std::vector<std::string>& problems) {
  ModelOptions changed = options, standard;
  const auto ours = bind_options(changed), theirs = bind_options(standard);
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto& key = ours[i].spec.key;
    const bool same = option_text(ours[i]) == option_text(theirs[i]);
    if (has(used, key) || (same && !has(given, key))) continue;
    problems.push_back(fmt::format("{} = {} does nothing with model '{}'; {}", key,
                                   option_text(ours[i]), options.name, advice(key)));
  }
}

void check_layers(const ModelOptions& options, std::vector<std::string>& problems) {
  const auto list = parse_layers(options.layers);
  if (!list.ok()) {
    problems.push_back("layers: " + message(list.status()));
    return;
  }
  const auto any_of = [&](const auto& holds) {
    return std::any_of(list->convs.begin(), list->convs.end(), holds) ||
           std::any_of(list->linears.begin(), list->linears.end(), holds);
  };
  if (options.norm != "none" && any_of([](const auto& stage) { return stage.batch_norm; }))
    problems.push_back(fmt::format("norm = \"{}\" and \"norm\" among layers say it twice; keep one",
                                   options.norm));
  if (options.dropout > 0 && any_of([](const auto& stage) { return stage.dropout > 0; }))
    problems.push_back(fmt::format(
        "dropout = {} and \"dropout\" among layers say it twice; keep one", options.dropout));
  if (options.dropout > 0 && list->linears.empty())
    problems.push_back(fmt::format(
        "dropout = {} does nothing: it is for linear layers, and layers has none; write \"dropout "
        "{}\" after a conv",
        options.dropout, options.dropout));
}

void check_digest(const char* key, const std::string& digest, const std::string& file,
                  std::vector<std::string>& problems) {
  const bool hex =
      digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digest.empty() && !hex)
    problems.push_back(
        fmt::format("{}_sha256 = \"{}\" must be 64 digits of 0-9 and a-f", key, digest));
  if (!digest.empty() && file.empty())
    problems.push_back(fmt::format("{0}_sha256 does nothing without {0}; remove it", key));
}

void check_values(const ModelOptions& options, std::vector<std::string>& problems) {
  if (options.name == "mlp" && options.hidden.empty())
    for (const auto& [key, given] : {std::pair{"activation", options.activation != "relu"},
                                     {"norm", options.norm != "none"},
                                     {"dropout", options.dropout > 0}})
      if (given)
        problems.push_back(fmt::format("{} does nothing without hidden layers; remove it", key));
  if (options.name == "cnn") check_layers(options, problems);
  if (options.name == "vit" && options.head_width == 0 && options.width % options.heads != 0)
    problems.push_back(
        fmt::format("heads = {} must divide width = {}, unless head_width says how wide a head is",
                    options.heads, options.width));
  if (options.name == kTorchScript && options.file.empty())
    problems.push_back(fmt::format(
        "name = \"{}\" needs file, the network saved by torch.jit.script(net).save(...)",
        kTorchScript));
  check_digest("file", options.file_sha256, options.file, problems);
  check_digest("start", options.start_sha256, options.start, problems);
}

}  // namespace

std::vector<BoundOption> options_in_use(ModelOptions& options) {
  auto all = bind_options(options);
  const auto used = keys_of(options.name);
  if (!used) return all;
  std::erase_if(all, [&](const BoundOption& option) {
    const auto& key = option.spec.key;
    const bool unnamed = (key.starts_with("file") && options.file.empty()) ||
                         (key.starts_with("start") && options.start.empty());
    return unnamed || !has(*used, key);
  });
  return all;
}

std::vector<std::string> check_model(const ModelOptions& options, const Keys& given) {
  std::vector<std::string> problems;
  ModelOptions copy = options;
  for (const auto& option : bind_options(copy))
    if (auto wrong = option_error(option); !wrong.empty()) problems.push_back(std::move(wrong));
  const auto used = keys_of(options.name);
  if (!used || !problems.empty()) return problems;  // make_model says what is known
  check_values(options, problems);
  check_unused(options, *used, given, problems);
  return problems;
}

}  // namespace tessera
