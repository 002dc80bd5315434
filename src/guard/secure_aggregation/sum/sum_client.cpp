#include "guard/secure_aggregation/sum/sum_client.hpp"

#include <algorithm>

#include "guard/secure_aggregation/sum/sum_commitment.hpp"

namespace tessera {
namespace {

template <class Key>
Key array_of(ByteSpan bytes) {
  Key out;
  std::copy_n(bytes.begin(), out.size(), out.begin());
  return out;
}

// A key of its own for each direction of each pair, so that it seals one packet and the nonce may
// be 0.
Secret packet_key(const SessionId& session, const Secret& shared, int64_t from, int64_t to) {
  return derive_secret(shared, session,
                       sum_purpose("tessera secure sum: packet of shares", {from, to}));
}

Status check_session(const SumSeat& seat, const SessionId& session) {
  if (session == seat.session) return ok();
  return fail(Error::kInvalid, "the server's message is of another secure sum");
}

bool is_holder(const SumSeat& seat, int64_t id) {
  return std::binary_search(seat.holders.begin(), seat.holders.end(), id);
}

Status check_enough(const SumSeat& seat, size_t there, const char* what) {
  if (there >= seat.scheme.threshold) return ok();
  return fail(Error::kInvalid, "the server names {} {}; {} are needed", there, what,
              seat.scheme.threshold);
}

}  // namespace

Result<SumAdvertiseStep> SumAdvertiseStep::create(const SumPlan& plan, int64_t me) {
  TESSERA_RETURN_IF_ERROR(check_sum_plan(plan));
  const SumGraph graph(plan);
  if (!graph.has(me)) return fail(Error::kInvalid, "client {} is not part of this secure sum", me);
  return SumAdvertiseStep(
      {plan.session, plan.round, plan.words, me, graph.holders(me), graph.scheme()});
}

std::pair<SumKeys, SumShareStep> SumAdvertiseStep::run(Entropy& entropy) && {
  const auto sealing = make_key_pair(entropy), masking = make_key_pair(entropy);
  const SumKeys message{seat_.session, seat_.me, sealing.open, masking.open};
  return {message, SumShareStep(std::move(seat_), sealing, masking)};
}

Status SumShareStep::check(const SumKeyList& list) const {
  TESSERA_RETURN_IF_ERROR(check_session(seat_, list.session));
  bool mine = false;
  for (const auto& keys : list.keys) {
    if (!is_holder(seat_, keys.peer))
      return fail(Error::kInvalid, "the server sends keys of client {}, which is no neighbour",
                  keys.peer);
    mine |= keys.peer == seat_.me && keys.sealing == sealing_.open && keys.masking == masking_.open;
  }
  if (!mine)
    return fail(Error::kInvalid, "the server does not send client {} its own keys back", seat_.me);
  return check_enough(seat_, list.keys.size(), "clients with keys");
}

Result<std::pair<SumShares, SumMaskStep>> SumShareStep::run(const SumKeyList& list,
                                                            Entropy& entropy) && {
  TESSERA_RETURN_IF_ERROR(check(list));
  const auto seed = entropy.secret();
  TESSERA_ASSIGN(const auto seed_shares, split_secret(seed.bytes(), seat_.scheme, entropy));
  TESSERA_ASSIGN(const auto key_shares,
                 split_secret(masking_.secret.bytes(), seat_.scheme, entropy));
  SumShares message{seat_.session, seat_.me, seed_commitment(seat_.session, seat_.me, seed), {}};
  std::map<int64_t, SumMaskStep::Peer> peers;
  for (const auto& keys : list.keys) {
    const auto shared = agree(sealing_.secret, keys.sealing);
    if (!shared.ok()) return at_place(shared.status(), fmt::format("client {}", keys.peer));
    const auto place = static_cast<size_t>(
        std::lower_bound(seat_.holders.begin(), seat_.holders.end(), keys.peer) -
        seat_.holders.begin());
    message.packets.push_back(
        packet(keys.peer, *shared, seed_shares[place].value, key_shares[place].value));
    peers.emplace(keys.peer, SumMaskStep::Peer{keys.masking, *shared});
  }
  SumMaskStep next(std::move(seat_), masking_, seed, std::move(peers));
  return std::pair(std::move(message), std::move(next));
}

SharePacket SumShareStep::packet(int64_t to, const Secret& shared, const Bytes& of_seed,
                                 const Bytes& of_key) const {
  Bytes plain = of_seed;
  plain.insert(plain.end(), of_key.begin(), of_key.end());
  const auto key = packet_key(seat_.session, shared, seat_.me, to);
  SharePacket out{to};
  out.text = array_of<decltype(out.text)>(sealed(key, {}, {}, plain));
  out.seed = share_commitment(seat_.session, SumSecret::kSeed, seat_.me, to, of_seed);
  out.key = share_commitment(seat_.session, SumSecret::kKey, seat_.me, to, of_key);
  wipe(plain);
  return out;
}

Status SumMaskStep::check(const SumDelivery& delivery, size_t words) const {
  TESSERA_RETURN_IF_ERROR(check_session(seat_, delivery.session));
  bool mine = false;
  for (const auto& packet : delivery.packets) {
    if (!peers_.contains(packet.peer))
      return fail(Error::kInvalid, "the server delivers shares of client {}, whose keys it did not",
                  packet.peer);
    mine |= packet.peer == seat_.me;
  }
  if (!mine)
    return fail(Error::kInvalid, "the server does not deliver client {} its own share", seat_.me);
  if (words != seat_.words)
    return fail(Error::kInvalid, "a vector of {} words was to be masked; the plan says {}", words,
                seat_.words);
  return check_enough(seat_, delivery.packets.size(), "clients with shares");
}

SumUnmaskStep::HeldShares SumMaskStep::open(const SharePacket& packet) const {
  SumUnmaskStep::HeldShares out;
  const auto owner = packet.peer;
  const auto key = packet_key(seat_.session, peers_.at(owner).shared, owner, seat_.me);
  auto plain = unsealed(key, {}, {}, packet.text);
  if (!plain.ok()) return out;
  out.seed = array_of<ShareBytes>(*plain);
  out.key = array_of<ShareBytes>(ByteSpan(*plain).subspan(Secret::kSize));
  wipe(*plain);
  // A false one would make the server take this client for the liar.
  const auto fits = [&](SumSecret kind, const ShareBytes& share, const Commitment& bound) {
    return share_commitment(seat_.session, kind, owner, seat_.me, share) == bound;
  };
  out.good =
      fits(SumSecret::kSeed, out.seed, packet.seed) && fits(SumSecret::kKey, out.key, packet.key);
  return out;
}

Result<std::pair<SumMasked, SumUnmaskStep>> SumMaskStep::run(const SumDelivery& delivery,
                                                             std::vector<uint64_t> words) && {
  TESSERA_RETURN_IF_ERROR(check(delivery, words.size()));
  std::map<int64_t, SumUnmaskStep::HeldShares> held;
  apply_mask(words, seed_, seat_.round, MaskSign::kAdd);
  for (const auto& packet : delivery.packets) {
    const auto peer = packet.peer;
    held.emplace(peer, open(packet));
    if (peer == seat_.me) continue;
    TESSERA_ASSIGN(const auto seed,
                   pair_seed(masking_.secret, peers_.at(peer).masking, seat_.session));
    apply_mask(words, seed, seat_.round, pair_sign(seat_.me, peer));
  }
  SumMasked message{seat_.session, seat_.me, std::move(words)};
  return std::pair(std::move(message), SumUnmaskStep(std::move(seat_), std::move(held)));
}

Status SumUnmaskStep::check(const SumRequest& request) const {
  TESSERA_RETURN_IF_ERROR(check_session(seat_, request.session));
  std::map<int64_t, int> named;
  for (const auto* list : {&request.survivors, &request.dropped})
    for (const auto owner : *list) {
      if (!held_.contains(owner))
        return fail(Error::kInvalid, "the server asks for a share of client {}, which there is not",
                    owner);
      if (++named[owner] > 1)
        return fail(Error::kInvalid,
                    "the server asks for both shares of client {}, which would open its upload: "
                    "refused",
                    owner);
    }
  for (const auto& [owner, shares] : held_)
    if (!named.contains(owner))
      return fail(Error::kInvalid, "the server does not say what became of client {}", owner);
  const auto& survivors = request.survivors;
  if (std::find(survivors.begin(), survivors.end(), seat_.me) == survivors.end())
    return fail(Error::kInvalid, "the server has lost the vector of client {}", seat_.me);
  return check_enough(seat_, survivors.size(), "survivors");
}

Result<SumReveal> SumUnmaskStep::run(const SumRequest& request) && {
  const Status status = check(request);
  // Gone whatever comes: a second request finds nothing that it could ask for.
  const auto held = std::exchange(held_, {});
  TESSERA_RETURN_IF_ERROR(status);
  SumReveal out{seat_.session, seat_.me, {}, {}};
  for (const auto owner : request.survivors)
    if (const auto& shares = held.at(owner); shares.good) out.seeds.push_back({owner, shares.seed});
  for (const auto owner : request.dropped)
    if (const auto& shares = held.at(owner); shares.good) out.keys.push_back({owner, shares.key});
  return out;
}

}  // namespace tessera
