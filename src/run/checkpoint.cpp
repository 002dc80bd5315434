#include "run/checkpoint.hpp"

#include <charconv>

#include "io/file.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

constexpr const char* kFormat = "1";

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Status damaged(const std::string& path, const std::string& what) {
  return fail(Error::kInvalid, "{}: not a usable checkpoint ({}); start anew with --force", path,
              what);
}

}  // namespace

std::string checkpoint_path(const std::string& dir) {
  return dir + "/checkpoint/state.safetensors";
}

Status save_checkpoint(const std::string& dir, const Checkpoint& checkpoint) {
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/checkpoint"));
  return save_state(checkpoint_path(dir), checkpoint);
}

Status save_state(const std::string& path, const Checkpoint& checkpoint) {
  TensorDict all;
  for (const auto& [name, tensor] : checkpoint.server) all.emplace("server/" + name, tensor);
  std::string ids;  // also of clients whose state is empty
  for (const auto& [id, state] : checkpoint.clients) {
    ids += fmt::format("{} ", id);
    for (const auto& [name, tensor] : state)
      all.emplace(fmt::format("client/{}/{}", id, name), tensor);
  }
  return save_tensors(path, all,
                      {{"tessera_checkpoint", kFormat},
                       {"round", std::to_string(checkpoint.round)},
                       {"clients", ids},
                       {"config", checkpoint.config}});
}

Result<Checkpoint> load_checkpoint(const std::string& dir) {
  const auto path = checkpoint_path(dir);
  auto loaded = load_tensors(path);
  if (!loaded.ok()) {
    if (error_of(loaded.status()) == Error::kNotFound) return loaded.status();
    return damaged(path, message(loaded.status()));
  }
  auto& meta = loaded->metadata;
  if (meta["tessera_checkpoint"] != kFormat)
    return damaged(path, fmt::format("format '{}', this program writes {}",
                                     meta["tessera_checkpoint"], kFormat));
  if (!loaded->verified) return damaged(path, "it has no digest");
  const auto round = whole_number(meta["round"]);
  if (!round) return damaged(path, "no round number");
  Checkpoint out{*round, meta["config"]};
  std::map<ClientId, TensorDict> states;
  std::string_view ids = meta["clients"];
  while (!ids.empty()) {
    const auto space = ids.find(' ');
    const auto id = whole_number(ids.substr(0, space));
    if (!id || space == std::string_view::npos) return damaged(path, "bad client list");
    states.emplace(*id, TensorDict{});
    ids.remove_prefix(space + 1);
  }
  for (auto& [name, tensor] : loaded->tensors) {
    if (name.rfind("server/", 0) == 0) {
      out.server.emplace(name.substr(7), std::move(tensor));
      continue;
    }
    const auto slash = name.find('/', 7);
    const auto id = name.rfind("client/", 0) == 0 && slash != std::string::npos
                        ? whole_number(std::string_view(name).substr(7, slash - 7))
                        : std::nullopt;
    if (!id || !states.contains(*id)) return damaged(path, "unexpected tensor '" + name + "'");
    states[*id].emplace(name.substr(slash + 1), std::move(tensor));
  }
  for (auto& [id, state] : states) out.clients.emplace_back(id, std::move(state));
  return out;
}

}  // namespace tessera
