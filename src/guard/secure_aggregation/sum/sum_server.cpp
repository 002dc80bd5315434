#include "guard/secure_aggregation/sum/sum_server.hpp"

#include <algorithm>
#include <optional>

#include "guard/secure_aggregation/sum/masks.hpp"

namespace tessera {
namespace {

template <class Value>
std::vector<int64_t> ids_of(const std::map<int64_t, Value>& map) {
  std::vector<int64_t> out;
  for (const auto& [id, value] : map) out.push_back(id);
  return out;
}

template <class Message>
Status check_sender(const SumBook& book, const Message& message, bool expected, bool again) {
  if (message.session != book.plan.session)
    return fail(Error::kInvalid, "client {}'s message is of another secure sum", message.client);
  if (!book.graph->has(message.client))
    return fail(Error::kInvalid, "client {} is not part of this secure sum", message.client);
  if (!expected)
    return fail(Error::kInvalid, "client {} was lost in an earlier step of this secure sum",
                message.client);
  if (again)
    return fail(Error::kExists, "client {} has sent this already; the first one counts",
                message.client);
  return ok();
}

std::optional<SumAbort> too_few(const SumBook& book, size_t there, const char* what) {
  const auto needed = sum_threshold(book.plan.clients.size());
  if (there >= needed) return std::nullopt;
  return SumAbort{fmt::format("{} of {} clients {}; a secure sum needs {}", there,
                              book.plan.clients.size(), what, needed),
                  {}};
}

const SharePacket* packet_for(const SumShares& shares, int64_t holder) {
  const auto& packets = shares.packets;
  const auto at = std::lower_bound(packets.begin(), packets.end(), holder,
                                   [](const auto& packet, int64_t id) { return packet.peer < id; });
  return at != packets.end() && at->peer == holder ? &*at : nullptr;
}

const RevealedShare* share_of(const std::vector<RevealedShare>& shares, int64_t owner) {
  const auto at = std::lower_bound(shares.begin(), shares.end(), owner,
                                   [](const auto& share, int64_t id) { return share.peer < id; });
  return at != shares.end() && at->peer == owner ? &*at : nullptr;
}

// A point of small order gives nothing with any secret.
bool is_usable(const PublicKey& key) {
  Secret any;
  any.bytes()[0] = 9;
  return agree(any, key).ok();
}

}  // namespace

Result<SumKeyDesk> SumKeyDesk::create(SumPlan plan) {
  TESSERA_RETURN_IF_ERROR(check_sum_plan(plan));
  SumBook book;
  book.graph = std::make_shared<const SumGraph>(plan);
  book.plan = std::move(plan);
  return SumKeyDesk(std::move(book));
}

Status SumKeyDesk::add(const SumKeys& message) {
  TESSERA_RETURN_IF_ERROR(check_sender(book_, message, true, book_.keys.contains(message.client)));
  // Here, or it would be the neighbours that cannot go on.
  if (!is_usable(message.sealing) || !is_usable(message.masking))
    return fail(Error::kInvalid, "client {} sent a public key of small order", message.client);
  book_.keys[message.client] = {message.client, message.sealing, message.masking};
  return ok();
}

SumNext<SumShareDesk> SumKeyDesk::close() && {
  if (auto abort = too_few(book_, book_.keys.size(), "sent keys")) return *std::move(abort);
  return SumShareDesk(std::move(book_));
}

std::vector<int64_t> SumShareDesk::asked() const { return ids_of(book_.keys); }

SumKeyList SumShareDesk::message_for(int64_t client) const {
  SumKeyList out{book_.plan.session, {}};
  for (const auto holder : book_.graph->holders(client))
    if (const auto keys = book_.keys.find(holder); keys != book_.keys.end())
      out.keys.push_back(keys->second);
  return out;
}

Status SumShareDesk::add(const SumShares& message) {
  TESSERA_RETURN_IF_ERROR(check_sender(book_, message, book_.keys.contains(message.client),
                                       book_.shares.contains(message.client)));
  const auto expected = message_for(message.client).keys;
  if (!std::equal(expected.begin(), expected.end(), message.packets.begin(), message.packets.end(),
                  [](const auto& keys, const auto& packet) { return keys.peer == packet.peer; }))
    return fail(Error::kInvalid, "client {} did not send one packet for each of its {} holders",
                message.client, expected.size());
  book_.shares.emplace(message.client, message);
  return ok();
}

SumNext<SumMaskDesk> SumShareDesk::close() && {
  if (auto abort = too_few(book_, book_.shares.size(), "sent shares")) return *std::move(abort);
  return SumMaskDesk(std::move(book_));
}

SumMaskDesk::SumMaskDesk(SumBook book) : book_(std::move(book)) {
  book_.sum.assign(book_.plan.words, 0);
}

std::vector<int64_t> SumMaskDesk::asked() const { return ids_of(book_.shares); }

SumDelivery SumMaskDesk::message_for(int64_t client) const {
  SumDelivery out{book_.plan.session, {}};
  for (const auto owner : book_.graph->holders(client)) {
    const auto shares = book_.shares.find(owner);
    if (shares == book_.shares.end()) continue;
    if (const auto* packet = packet_for(shares->second, client)) {
      out.packets.push_back(*packet);
      out.packets.back().peer = owner;
    }
  }
  return out;
}

Status SumMaskDesk::add(const SumMasked& message) {
  const auto& there = book_.survivors;
  const auto place = std::lower_bound(there.begin(), there.end(), message.client);
  TESSERA_RETURN_IF_ERROR(check_sender(book_, message, book_.shares.contains(message.client),
                                       place != there.end() && *place == message.client));
  if (message.words.size() != book_.plan.words)
    return fail(Error::kInvalid, "client {} sent {} words instead of {}", message.client,
                message.words.size(), book_.plan.words);
  for (size_t i = 0; i < book_.sum.size(); ++i) book_.sum[i] += message.words[i];
  book_.survivors.insert(place, message.client);
  return ok();
}

SumNext<SumRevealDesk> SumMaskDesk::close() && {
  if (auto abort = too_few(book_, book_.survivors.size(), "sent their vector"))
    return *std::move(abort);
  return SumRevealDesk(std::move(book_));
}

bool SumRevealDesk::survived(int64_t client) const {
  return std::binary_search(book_.survivors.begin(), book_.survivors.end(), client);
}

SumRequest SumRevealDesk::message_for(int64_t client) const {
  SumRequest out{book_.plan.session, {}, {}};
  for (const auto owner : book_.graph->holders(client))
    if (book_.shares.contains(owner))
      (survived(owner) ? out.survivors : out.dropped).push_back(owner);
  return out;
}

// Each share has to be one that was asked for and the one that its owner bound itself to.
Status SumRevealDesk::check_shares(const SumReveal& message, SumSecret kind) const {
  const bool seeds = kind == SumSecret::kSeed;
  for (const auto& share : seeds ? message.seeds : message.keys) {
    const auto owner = book_.shares.find(share.peer);
    const auto* packet =
        owner == book_.shares.end() ? nullptr : packet_for(owner->second, message.client);
    if (!packet || survived(share.peer) != seeds)
      return fail(Error::kInvalid, "client {} revealed a share of client {} that nobody asked for",
                  message.client, share.peer);
    if (share_commitment(book_.plan.session, kind, share.peer, message.client, share.value) !=
        (seeds ? packet->seed : packet->key))
      return fail(Error::kInvalid, "client {} revealed a false share of client {}", message.client,
                  share.peer);
  }
  return ok();
}

Status SumRevealDesk::add(const SumReveal& message) {
  TESSERA_RETURN_IF_ERROR(
      check_sender(book_, message, survived(message.client), reveals_.contains(message.client)));
  TESSERA_RETURN_IF_ERROR(check_shares(message, SumSecret::kSeed));
  TESSERA_RETURN_IF_ERROR(check_shares(message, SumSecret::kKey));
  reveals_.emplace(message.client, message);
  return ok();
}

SumNext<Secret> SumRevealDesk::reconstruct(int64_t owner, SumSecret kind) const {
  const auto scheme = book_.graph->scheme();
  const auto holders = book_.graph->holders(owner);
  std::vector<SecretShare> shares;
  uint32_t there = 0;
  for (uint32_t i = 0; i < holders.size() && shares.size() < scheme.threshold; ++i) {
    const auto reveal = reveals_.find(holders[i]);
    if (reveal == reveals_.end()) continue;
    ++there;
    const auto& revealed = reveal->second;
    const auto* share = share_of(kind == SumSecret::kSeed ? revealed.seeds : revealed.keys, owner);
    if (share)
      shares.push_back({0, scheme, i + 1, Bytes(share->value.begin(), share->value.end())});
  }
  if (shares.size() < scheme.threshold) {
    SumAbort abort{fmt::format("{} shares of client {}'s secret came back; {} are needed",
                               shares.size(), owner, scheme.threshold),
                   {}};
    // Enough holders answered, but had got nothing from it that they could open.
    if (there >= scheme.threshold) abort.blamed = {owner};
    return abort;
  }
  auto bytes = join_shares(shares);
  if (!bytes.ok()) return SumAbort{message(bytes.status()), {owner}};
  const Secret out(*bytes);
  wipe(*bytes);
  return out;
}

// Shares that fit their commitments may still be of no one secret: then their owner cheated.
SumNext<Secret> SumRevealDesk::checked_secret(int64_t owner, SumSecret kind) const {
  auto secret = reconstruct(owner, kind);
  const auto* found = std::get_if<Secret>(&secret);
  if (!found) return secret;
  const bool fits = kind == SumSecret::kSeed ? seed_commitment(book_.plan.session, owner, *found) ==
                                                   book_.shares.at(owner).seed
                                             : public_half(*found) == book_.keys.at(owner).masking;
  if (fits) return secret;
  return SumAbort{fmt::format("client {} dealt shares that do not fit together", owner), {owner}};
}

// What the survivors added for a client whose own half of it never came.
Status SumRevealDesk::remove_pair_masks(int64_t dropped, const Secret& masking) {
  for (const auto peer : book_.graph->holders(dropped)) {
    if (!survived(peer)) continue;
    TESSERA_ASSIGN(const auto seed,
                   pair_seed(masking, book_.keys.at(peer).masking, book_.plan.session));
    apply_mask(book_.sum, seed, book_.plan.round, pair_sign(dropped, peer));
  }
  return ok();
}

SumNext<SumOutcome> SumRevealDesk::close() && {
  if (auto abort = too_few(book_, reveals_.size(), "revealed shares")) return *std::move(abort);
  for (const auto& [owner, shares] : book_.shares) {
    const bool in_sum = survived(owner);
    auto secret = checked_secret(owner, in_sum ? SumSecret::kSeed : SumSecret::kKey);
    if (auto* abort = std::get_if<SumAbort>(&secret)) return std::move(*abort);
    const auto& found = std::get<Secret>(secret);
    if (in_sum)
      apply_mask(book_.sum, found, book_.plan.round, MaskSign::kSubtract);
    else if (const auto status = remove_pair_masks(owner, found); !status.ok())
      return SumAbort{message(status), {owner}};
  }
  return SumOutcome{std::move(book_.sum), std::move(book_.survivors)};
}

}  // namespace tessera
