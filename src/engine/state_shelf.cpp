#include "engine/state_shelf.hpp"

#include <ATen/ATen.h>

#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

// A head that is a view into a whole model would keep the model.
void let_go_of_the_rest(TensorDict& state) {
  for (auto& [name, tensor] : state)
    if (tensor.defined() && tensor.has_storage() &&
        tensor.storage().nbytes() > tensor.nbytes() + tensor.nbytes() / 4)
      tensor = tensor.clone();
}

}  // namespace

void StateShelf::place(Key key, Slot& slot, TensorDict state) {
  slot.state = std::move(state);
  slot.bytes = payload_bytes(slot.state);
  slot.used = used_.insert(used_.end(), key);
  bytes_ += slot.bytes;
}

void StateShelf::clear(Slot& slot) {
  if (slot.piece) {
    file_->drop(*slot.piece);
    slot.piece.reset();
    --on_disk_;
  } else {
    bytes_ -= slot.bytes;
    used_.erase(slot.used);
  }
}

Status StateShelf::make_room() {
  while (bytes_ > limit_.bytes && !used_.empty()) {
    if (!file_) {
      TESSERA_ASSIGN(auto made, ScratchFile::create(limit_.dir));
      file_.emplace(std::move(made));
    }
    auto& slot = slots_.at(used_.front());
    TESSERA_ASSIGN(const auto piece, file_->put(encode(slot.state)));
    slot.state.clear();
    bytes_ -= slot.bytes;
    used_.pop_front();
    slot.piece = piece;
    ++on_disk_;
  }
  return ok();
}

Status StateShelf::put(Key key, TensorDict state) {
  erase(key);
  let_go_of_the_rest(state);
  place(key, slots_[key], std::move(state));
  return make_room();
}

Result<std::optional<TensorDict>> StateShelf::get(Key key) {
  const auto at = slots_.find(key);
  if (at == slots_.end()) return std::optional<TensorDict>();
  auto& slot = at->second;
  if (!slot.piece) {
    used_.splice(used_.end(), used_, slot.used);
    return std::optional(slot.state);
  }
  TESSERA_ASSIGN(auto bytes, file_->get(*slot.piece));
  TESSERA_ASSIGN(auto decoded,
                 decode(std::make_shared<const Bytes>(std::move(bytes)), "a client's state"));
  clear(slot);
  place(key, slot, decoded.tensors);
  TESSERA_RETURN_IF_ERROR(make_room());
  return std::optional(std::move(decoded.tensors));
}

void StateShelf::move(Key from, Key to) {
  if (from == to || !contains(from)) return;
  erase(to);
  auto node = slots_.extract(from);
  node.key() = to;
  if (!node.mapped().piece) *node.mapped().used = to;
  slots_.insert(std::move(node));
}

bool StateShelf::erase(Key key) {
  const auto at = slots_.find(key);
  if (at == slots_.end()) return false;
  clear(at->second);
  slots_.erase(at);
  return true;
}

std::vector<ClientId> StateShelf::ids(Kind kind) const {
  std::vector<ClientId> out;
  for (auto at = slots_.lower_bound({kind, INT64_MIN});
       at != slots_.end() && at->first.first == kind; ++at)
    out.push_back(at->first.second);
  return out;
}

}  // namespace tessera
