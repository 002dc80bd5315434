#include "io/script_file.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "io/script_code.hpp"
#include "io/script_pickle.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

constexpr const char* kSaveIt = "save it with torch.jit.script(net).save(\"net.pt\")";
constexpr const char* kHiddenVersion = ".data/version";  // of files with newer operators
constexpr std::string_view kCodeFolder = "code/", kCodeEnding = ".py";

// The members by their names without the folder that all of them are in.
using ScriptMembers = std::map<std::string, Bytes>;

Result<ScriptMembers> members_of(ByteSpan file, const std::string& name,
                                 const ScriptLimits& limits) {
  if (file.size() > limits.max_bytes)
    return fail(Error::kInvalid, "{}: has {}, more than the {} that a network's file may have",
                name, human_bytes(static_cast<double>(file.size())),
                human_bytes(static_cast<double>(limits.max_bytes)));
  const auto room = std::min(limits.max_bytes, file.size() + limits.max_growth);
  auto members = read_zip(file, room, name, limits.max_members);
  if (!members.ok()) {
    // Without the file's name, which begins that sentence, too.
    const auto why = message(members.status()).substr(name.size());
    return fail(Error::kInvalid, "{}: is not a network in TorchScript ({}); {}", name,
                why.substr(std::min(why.size(), why.find_first_not_of(",: "))), kSaveIt);
  }
  ScriptMembers out;
  std::string folder;
  for (auto& [path, data] : *members) {
    if (folder.empty()) folder = path.substr(0, path.find('/') + 1);
    if (folder.empty() || !path.starts_with(folder))
      return fail(Error::kInvalid,
                  "{}: is not a network in TorchScript (its members are not in one folder); {}",
                  name, kSaveIt);
    out.emplace(path.substr(folder.size()), std::move(data));
  }
  return out;
}

// Whether torch needs a member to read a network. Others, such as notes and the places of code in
// Python's files, are left out.
bool is_needed(std::string_view member) {
  return member == "version" || member == kHiddenVersion || member == "byteorder" ||
         member == "data.pkl" || member == "constants.pkl" || member.starts_with("data/") ||
         member.starts_with("constants/") ||
         (member.starts_with(kCodeFolder) && member.ends_with(kCodeEnding));
}

Status check_facts(const ScriptMembers& members, const std::string& name) {
  const auto* place = members.contains(kHiddenVersion) ? kHiddenVersion : "version";
  for (const char* needed : {place, "data.pkl", "constants.pkl"})
    if (!members.contains(needed))
      return fail(Error::kInvalid, "{}: is not a network in TorchScript ('{}' is missing); {}",
                  name, needed, kSaveIt);
  auto version = text_of(members.at(place));
  if (version.ends_with('\n')) version.remove_suffix(1);
  if (version.size() > 3 || !whole_number(version))
    return fail(Error::kInvalid, "{}: is not a network in TorchScript (its version is '{}'); {}",
                name, printable(version), kSaveIt);
  const auto order = members.find("byteorder");
  if (order != members.end() && text_of(order->second) != "little")
    return fail(Error::kInvalid,
                "{}: was saved on a machine that writes numbers the other way round; save it on "
                "another one",
                name);
  return ok();
}

// code/__torch__/torch/nn/modules/linear.py is __torch__.torch.nn.modules.linear.
Result<ScriptSources> sources_of(const ScriptMembers& members, const std::string& name,
                                 const ScriptLimits& limits) {
  ScriptSources out;
  for (const auto& [path, data] : members) {
    if (!path.starts_with(kCodeFolder) || !is_needed(path)) continue;
    auto module = path.substr(kCodeFolder.size());
    module.resize(module.size() - kCodeEnding.size());
    const bool dotted = module.find('.') != std::string::npos;
    std::replace(module.begin(), module.end(), '/', '.');
    if (dotted || (module != "__torch__" && !module.starts_with("__torch__.")))
      return fail(Error::kInvalid, "{}: holds code under the name '{}', which torch never gives",
                  name, printable(path));
    if (data.size() > limits.max_code)
      return fail(Error::kInvalid, "{}: holds {} of code in one module, more than the {} allowed",
                  name, human_bytes(static_cast<double>(data.size())),
                  human_bytes(static_cast<double>(limits.max_code)));
    out.emplace(std::move(module), text_of(data));
  }
  return out;
}

Status check_pickles(const ScriptMembers& members, const std::set<std::string>& classes,
                     const std::string& name, const ScriptLimits& limits) {
  for (const std::string pickle : {"data", "constants"}) {
    const auto& bytes = members.at(pickle + ".pkl");
    if (bytes.size() > limits.max_pickle)
      return fail(Error::kInvalid, "{}: its {}.pkl has {}, more than the {} allowed", name, pickle,
                  human_bytes(static_cast<double>(bytes.size())),
                  human_bytes(static_cast<double>(limits.max_pickle)));
    PickleNames names{.classes = classes};
    for (const auto& [path, data] : members)
      if (path.starts_with(pickle + "/"))
        names.storages.emplace(path.substr(pickle.size() + 1), data.size());
    TESSERA_RETURN_IF_ERROR(check_script_pickle(bytes, names, name));
  }
  return ok();
}

}  // namespace

Result<CheckedScript> check_script_file(ByteSpan file, const std::string& name,
                                        const ScriptLimits& limits) {
  TESSERA_ASSIGN(auto members, members_of(file, name, limits));
  TESSERA_RETURN_IF_ERROR(check_facts(members, name));
  TESSERA_ASSIGN(const auto sources, sources_of(members, name, limits));
  TESSERA_ASSIGN(auto names, check_script_code(sources, name));
  TESSERA_RETURN_IF_ERROR(check_pickles(members, names.classes, name, limits));
  std::vector<std::pair<std::string, ByteSpan>> kept;
  for (const auto& [path, data] : members)
    if (is_needed(path)) kept.emplace_back("net/" + path, data);
  CheckedScript out{.declared = std::move(names.declared)};
  TESSERA_ASSIGN(out.archive, write_zip(kept));
  return out;
}

}  // namespace tessera
