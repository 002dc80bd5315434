// The client's side of a secure sum: four steps, each a class of its own that is used up by its one
// function, which takes the server's message and gives the client's and the next step.
//
// A step that fails ends the client's part: it must not be asked again, least of all with another
// request, since two different answers could give away what one does not. The functions are
// therefore for rvalues only. Errors are kInvalid: the server's message is not one that an honest
// server sends.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "guard/secure_aggregation/sum/masks.hpp"
#include "guard/secure_aggregation/sum/sum_messages.hpp"

namespace tessera {

/// What a client needs of the plan.
struct SumSeat {
  SessionId session{};
  uint64_t round = 0;
  uint32_t words = 0;
  int64_t me = 0;
  std::vector<int64_t> holders;  // neighbours and itself, ascending
  ShareScheme scheme;
};

/// Step 3, unmask: reveals one kind of share for each owner.
class SumUnmaskStep {
 public:
  struct HeldShares {
    bool good = false;  // the packet could be opened and is what its owner bound itself to
    ShareBytes seed{}, key{};
  };
  SumUnmaskStep(SumSeat seat, std::map<int64_t, HeldShares> held)
      : seat_(std::move(seat)), held_(std::move(held)) {}

  /// kInvalid: another session; an owner in both lists, which would open its vector; an owner in
  /// neither, or one that no packet came from; this client among the lost; too few survivors.
  Result<SumReveal> run(const SumRequest& request) &&;

 private:
  Status check(const SumRequest& request) const;

  SumSeat seat_;
  std::map<int64_t, HeldShares> held_;  // by owner: all with whom masks are shared, and itself
};

/// Step 2, mask.
class SumMaskStep {
 public:
  struct Peer {
    PublicKey masking{};
    Secret shared;  // agreed on with the sealing keys; those are not needed any more
  };
  SumMaskStep(SumSeat seat, const KeyPair& masking, const Secret& seed,
              std::map<int64_t, Peer> peers)
      : seat_(std::move(seat)), masking_(masking), seed_(seed), peers_(std::move(peers)) {}

  /// `words` is the vector to be added. A packet that cannot be opened is its owner's fault: it
  /// counts as one that holds nothing. kInvalid: another session, packets of strangers, none of
  /// one's own, fewer owners than are needed, or a vector of another length.
  Result<std::pair<SumMasked, SumUnmaskStep>> run(const SumDelivery& delivery,
                                                  std::vector<uint64_t> words) &&;

 private:
  Status check(const SumDelivery& delivery, size_t words) const;
  SumUnmaskStep::HeldShares open(const SharePacket& packet) const;

  SumSeat seat_;
  KeyPair masking_;
  Secret seed_;
  std::map<int64_t, Peer> peers_;  // neighbours that advertised, and itself
};

/// Step 1, share.
class SumShareStep {
 public:
  SumShareStep(SumSeat seat, const KeyPair& sealing, const KeyPair& masking)
      : seat_(std::move(seat)), sealing_(sealing), masking_(masking) {}

  /// kInvalid: another session, keys of strangers, not one's own, or of fewer than are needed.
  Result<std::pair<SumShares, SumMaskStep>> run(const SumKeyList& list, Entropy& entropy) &&;

 private:
  Status check(const SumKeyList& list) const;
  SharePacket packet(int64_t to, const Secret& shared, const Bytes& of_seed,
                     const Bytes& of_key) const;

  SumSeat seat_;
  KeyPair sealing_, masking_;
};

/// Step 0, advertise.
class SumAdvertiseStep {
 public:
  /// kInvalid: no possible plan, or one without this client.
  static Result<SumAdvertiseStep> create(const SumPlan& plan, int64_t me);

  std::pair<SumKeys, SumShareStep> run(Entropy& entropy) &&;

 private:
  explicit SumAdvertiseStep(SumSeat seat) : seat_(std::move(seat)) {}

  SumSeat seat_;
};

}  // namespace tessera
