#include "engine/client_store.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr const char* kSettled = ".safetensors";
constexpr const char* kWaiting = ".next.safetensors";

StateShelf::Key settled_of(ClientId client) { return {StateShelf::Kind::kSettled, client}; }
StateShelf::Key waiting_of(ClientId client) { return {StateShelf::Kind::kWaiting, client}; }

/// The client of "client-<id><suffix>".
std::optional<ClientId> client_of(std::string_view name, std::string_view suffix) {
  constexpr std::string_view kPrefix = "client-";
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix) ||
      name.size() < kPrefix.size() + suffix.size())
    return std::nullopt;
  return whole_number(name.substr(kPrefix.size(), name.size() - kPrefix.size() - suffix.size()));
}

Result<Decoded> load_state(const std::string& path) {
  TESSERA_ASSIGN(auto loaded, load_tensors(path));
  if (loaded.verified) return loaded;
  return fail(Error::kInvalid, "{}: not a client's state (it has no digest)", path);
}

}  // namespace

Result<std::unique_ptr<ClientStore>> ClientStore::open(const std::string& dir) {
  TESSERA_RETURN_IF_ERROR(make_dirs(dir));
  auto out = std::make_unique<ClientStore>();
  out->dir_ = dir;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const auto name = entry.path().filename().string();
    if (const auto id = client_of(name, kWaiting)) {
      TESSERA_ASSIGN(auto loaded, load_state(entry.path()));
      const auto round = whole_number(loaded.metadata["round"]);
      const auto attempt = whole_number(loaded.metadata["attempt"]);
      if (!round || !attempt)
        return fail(Error::kInvalid, "{}: does not say of which round it is",
                    entry.path().string());
      out->waiting_[*id] = {*round, *attempt};
      TESSERA_RETURN_IF_ERROR(out->shelf_.put(waiting_of(*id), std::move(loaded.tensors)));
    } else if (const auto settled = client_of(name, kSettled)) {
      TESSERA_ASSIGN(auto loaded, load_state(entry.path()));
      TESSERA_RETURN_IF_ERROR(out->shelf_.put(settled_of(*settled), std::move(loaded.tensors)));
    }
  }
  if (error) return fail(Error::kIo, "{}: cannot read: {}", dir, error.message());
  return out;
}

std::string ClientStore::path(ClientId client, const char* suffix) const {
  return fmt::format("{}/client-{}{}", dir_, client, suffix);
}

Status ClientStore::write(ClientId client) {
  if (dir_.empty()) return ok();
  TESSERA_ASSIGN(const auto state, shelf_.get(settled_of(client)));
  return save_tensors(path(client, kSettled), state.value());
}

Status ClientStore::remove(ClientId client, const char* suffix) const {
  if (dir_.empty()) return ok();
  std::error_code error;
  fs::remove(path(client, suffix), error);
  if (error)
    return fail(Error::kIo, "{}: cannot remove: {}", path(client, suffix), error.message());
  return ok();
}

void ClientStore::limit(ShelfLimit limit) {
  const std::scoped_lock guard(mutex_);
  shelf_.limit(std::move(limit));
}

int64_t ClientStore::on_disk() const {
  const std::scoped_lock guard(mutex_);
  return shelf_.on_disk();
}

std::optional<TensorDict> ClientStore::get(ClientId client) const {
  const std::scoped_lock guard(mutex_);
  auto state = shelf_.get(settled_of(client));
  if (!state.ok()) throw std::runtime_error(message(state.status()));
  return *std::move(state);
}

Status ClientStore::stage(ClientId client, int64_t round, int64_t attempt, TensorDict next) {
  const std::scoped_lock guard(mutex_);
  if (!dir_.empty())
    TESSERA_RETURN_IF_ERROR(
        save_tensors(path(client, kWaiting), next,
                     {{"round", std::to_string(round)}, {"attempt", std::to_string(attempt)}}));
  waiting_[client] = {round, attempt};
  return shelf_.put(waiting_of(client), std::move(next));
}

Result<bool> ClientStore::settle(ClientId client, int64_t round, int64_t attempt, bool accepted) {
  const std::scoped_lock guard(mutex_);
  const auto at = waiting_.find(client);
  if (at == waiting_.end() || at->second.round != round || at->second.attempt != attempt)
    return false;
  if (accepted) {
    shelf_.move(waiting_of(client), settled_of(client));
    changed_.insert(client);
    // The settled state first: if we die in between, what waits is settled once more.
    TESSERA_RETURN_IF_ERROR(write(client));
  } else {
    shelf_.erase(waiting_of(client));
  }
  waiting_.erase(at);
  TESSERA_RETURN_IF_ERROR(remove(client, kWaiting));
  return accepted;
}

Status ClientStore::forget(ClientId client) {
  const std::scoped_lock guard(mutex_);
  shelf_.erase(waiting_of(client));
  if (waiting_.erase(client) > 0) TESSERA_RETURN_IF_ERROR(remove(client, kWaiting));
  if (!shelf_.erase(settled_of(client))) return ok();
  changed_.insert(client);
  return remove(client, kSettled);
}

Status ClientStore::restore(ClientId client, TensorDict state) {
  const std::scoped_lock guard(mutex_);
  TESSERA_RETURN_IF_ERROR(shelf_.put(settled_of(client), std::move(state)));
  return write(client);
}

std::vector<ClientId> ClientStore::ids() const {
  const std::scoped_lock guard(mutex_);
  return shelf_.ids(StateShelf::Kind::kSettled);
}

std::set<ClientId> ClientStore::changed() const {
  const std::scoped_lock guard(mutex_);
  return changed_;
}

void ClientStore::saved() {
  const std::scoped_lock guard(mutex_);
  changed_.clear();
}

}  // namespace tessera
