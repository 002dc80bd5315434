// What both sides of a secure sum agree on before it begins, and what follows from it: how many are
// needed, who shares secrets with whom.
//
// Up to 100 clients everybody shares with everybody, and ceil(2n/3) are needed for everything.
// Beyond, each has a few neighbours, 6 log2(n): a random ring in which one knows the next ones on
// both sides (Bell et al. 2020). Still ceil(2n/3) clients have to stay, and of the holders of one
// client's shares more than half: with two thirds of so few, a fair number of rounds would fail
// because chance took one neighbourhood's clients.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "guard/secure_aggregation/sum/shamir.hpp"

namespace tessera {

/// Fewer hide nothing: of two, each knows the other's part.
constexpr size_t kLeastSumClients = 3;
constexpr size_t kMostSumClients = 65535;
/// Up to here all clients are neighbours.
constexpr size_t kFullGraphClients = 100;

/// Drawn anew for each attempt: no message of one fits another.
using SessionId = std::array<uint8_t, 16>;

/// Sent to every client first.
struct SumPlan {
  SessionId session{};
  uint64_t round = 0;
  uint32_t words = 0;            // in each client's vector
  uint32_t degree = 0;           // neighbours of each: clients - 1, or an even number
  std::vector<int64_t> clients;  // ids, ascending
  static void fields(auto& m, auto&& f) {
    f("session", m.session);
    f("round", m.round);
    f("words", m.words);
    f("degree", m.degree);
    f("clients", m.clients);
  }
  bool operator==(const SumPlan&) const = default;
};

/// A plan for these clients, in any order, with a fresh session. kInvalid as check_sum_plan().
Result<SumPlan> make_sum_plan(uint64_t round, uint64_t words, std::vector<int64_t> clients,
                              Entropy& entropy);
/// kInvalid: too few or too many clients, ids that do not ascend or are below 0, no words or more
/// than kMostMaskedWords, fewer neighbours than sum_degree() or a number that no ring has.
Status check_sum_plan(const SumPlan& plan);

/// ceil(2n/3): how many have to stay until the end.
size_t sum_threshold(size_t clients);
/// How many neighbours each of n clients has.
uint32_t sum_degree(size_t clients);

/// Who holds whose shares. The relation is mutual. Copies what it needs of the plan, which must be
/// a good one.
class SumGraph {
 public:
  explicit SumGraph(const SumPlan& plan);

  bool has(int64_t client) const;
  /// The neighbours of a client of the plan, and itself: ascending.
  std::vector<int64_t> holders(int64_t client) const;
  /// How each client's secrets are cut: for all its holders. The point of a holder is its place
  /// among them, from 1.
  ShareScheme scheme() const;

 private:
  size_t seat(int64_t client) const;

  std::vector<int64_t> clients_;
  uint32_t degree_;
  std::vector<size_t> ring_, place_;  // seats in the ring's order; where a seat is in it
};

}  // namespace tessera
