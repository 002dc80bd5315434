// The messages of a secure sum, and their bytes.
//
// On the wire: "TSUM", version 1, the kind (its place in SumMessage, from 1), then the fields in
// the order of fields(); numbers little-endian, lists with their length (4 bytes) in front. There
// is one way to write a message: lists ascend by id, nothing follows the last field. Clients'
// messages carry their id and all but the plan's carry its session; who really sent them is for the
// transport to know.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "guard/secure_aggregation/sum/sum_plan.hpp"
#include "io/bytes.hpp"
#include "privacy/crypto.hpp"

namespace tessera {

/// Binds its maker to a share without showing it (HKDF of it; a share has 256 bits that nobody can
/// guess). Lets the server see which of the shares that it gets back is false.
using Commitment = std::array<uint8_t, 32>;
using ShareBytes = std::array<uint8_t, Secret::kSize>;

/// Step 0, client: its two public keys, made for this sum alone.
struct SumKeys {
  SessionId session{};
  int64_t client = 0;
  PublicKey sealing{};  // for the shares on their way
  PublicKey masking{};  // for the masks of pairs
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("client", m.client);
    f("sealing", m.sealing);
    f("masking", m.masking);
  }
};

struct PeerKeys {
  int64_t peer = 0;
  PublicKey sealing{}, masking{};
  static void fields(auto& m, auto&& f) {
    f("peer", m.peer);
    f("sealing", m.sealing);
    f("masking", m.masking);
  }
};

/// Step 1, server: the keys of a client's neighbours and its own.
struct SumKeyList {
  SessionId session{};
  std::vector<PeerKeys> keys;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("keys", m.keys);
  }
};

/// Two shares, of a client's seed and of its masking key, sealed for one holder.
struct SharePacket {
  int64_t peer = 0;  // the holder on the way to the server, the owner on the way from it
  std::array<uint8_t, 2 * Secret::kSize + kTagBytes> text{};
  Commitment seed{}, key{};  // to either share
  static void fields(auto& m, auto&& f) {
    f("peer", m.peer);
    f("text", m.text);
    f("seed", m.seed);
    f("key", m.key);
  }
};

/// Step 1, client: a packet for each holder that advertised, itself among them.
struct SumShares {
  SessionId session{};
  int64_t client = 0;
  Commitment seed{};  // to the whole seed; the masking key has its public half
  std::vector<SharePacket> packets;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("client", m.client);
    f("seed", m.seed);
    f("packets", m.packets);
  }
};

/// Step 2, server: the packets for one client.
struct SumDelivery {
  SessionId session{};
  std::vector<SharePacket> packets;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("packets", m.packets);
  }
};

/// Step 2, client: its vector under all masks.
struct SumMasked {
  SessionId session{};
  int64_t client = 0;
  std::vector<uint64_t> words;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("client", m.client);
    f("words", m.words);
  }
};

/// Step 3, server: which owners of packets sent their vector and which were lost.
struct SumRequest {
  SessionId session{};
  std::vector<int64_t> survivors, dropped;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("survivors", m.survivors);
    f("dropped", m.dropped);
  }
};

struct RevealedShare {
  int64_t peer = 0;  // the owner
  ShareBytes value{};
  static void fields(auto& m, auto&& f) {
    f("peer", m.peer);
    f("value", m.value);
  }
};

/// Step 3, client: shares of survivors' seeds and of lost clients' masking keys.
struct SumReveal {
  SessionId session{};
  int64_t client = 0;
  std::vector<RevealedShare> seeds, keys;
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("client", m.client);
    f("seeds", m.seeds);
    f("keys", m.keys);
  }
};

using SumMessage = std::variant<SumPlan, SumKeys, SumKeyList, SumShares, SumDelivery, SumMasked,
                                SumRequest, SumReveal>;

/// Lists must ascend, or it will not be read again.
Bytes encode_sum_message(const SumMessage& message);
/// kInvalid, with `place` in front: another format, version or kind; cut off or too long; a list
/// that claims more than there is; ids that do not ascend or are below 0; no possible plan. Needs
/// memory of the order of the bytes, whatever they claim.
Result<SumMessage> decode_sum_message(ByteSpan bytes, const std::string& place);
/// The same for a message that has to be of one kind; kInvalid if it is another.
template <class T>
Result<T> decode_sum_message_as(ByteSpan bytes, const std::string& place) {
  TESSERA_ASSIGN(auto any, decode_sum_message(bytes, place));
  if (auto* message = std::get_if<T>(&any)) return std::move(*message);
  return fail(Error::kInvalid, "{}: is not the kind of message that comes now", place);
}
/// "plan", "keys", …: the kind, for messages to people.
const char* sum_message_name(const SumMessage& message);

}  // namespace tessera
