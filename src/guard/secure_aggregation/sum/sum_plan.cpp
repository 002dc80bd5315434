#include "guard/secure_aggregation/sum/sum_plan.hpp"

#include <algorithm>
#include <bit>

#include "base/key.hpp"
#include "guard/secure_aggregation/sum/masks.hpp"

namespace tessera {

Result<SumPlan> make_sum_plan(uint64_t round, uint64_t words, std::vector<int64_t> clients,
                              Entropy& entropy) {
  if (words > kMostMaskedWords)
    return fail(Error::kInvalid, "a vector of {} words is too long for a secure sum (at most {})",
                words, kMostMaskedWords);
  std::sort(clients.begin(), clients.end());
  SumPlan plan{.round = round, .words = static_cast<uint32_t>(words)};
  entropy.fill(plan.session);
  plan.degree = sum_degree(clients.size());
  plan.clients = std::move(clients);
  TESSERA_RETURN_IF_ERROR(check_sum_plan(plan));
  return plan;
}

Status check_sum_plan(const SumPlan& plan) {
  const size_t count = plan.clients.size();
  if (count < kLeastSumClients || count > kMostSumClients)
    return fail(Error::kInvalid, "a secure sum needs {} to {} clients, not {}", kLeastSumClients,
                kMostSumClients, count);
  if (plan.clients[0] < 0)
    return fail(Error::kInvalid, "a secure sum has a client {}", plan.clients[0]);
  const auto twice = std::adjacent_find(plan.clients.begin(), plan.clients.end(),
                                        [](int64_t a, int64_t b) { return a >= b; });
  if (twice != plan.clients.end())
    return fail(Error::kInvalid, "the clients of a secure sum do not ascend at {}", *twice);
  if (plan.words < 1 || plan.words > kMostMaskedWords)
    return fail(Error::kInvalid, "a secure sum is over 1 to {} words, not {}", kMostMaskedWords,
                plan.words);
  // Fewer would make secrets easier to get: a client must not be talked into it.
  const bool ring = plan.degree % 2 == 0 && plan.degree >= sum_degree(count);
  if (plan.degree != count - 1 && (!ring || plan.degree >= count))
    return fail(Error::kInvalid,
                "a secure sum of {} clients gives each {} neighbours, which is no even number from "
                "{} on",
                count, plan.degree, sum_degree(count));
  return ok();
}

size_t sum_threshold(size_t clients) { return (2 * clients + 2) / 3; }

uint32_t sum_degree(size_t clients) {
  if (clients <= kFullGraphClients) return clients < 1 ? 0 : static_cast<uint32_t>(clients - 1);
  return 6 * static_cast<uint32_t>(std::bit_width(clients - 1));
}

SumGraph::SumGraph(const SumPlan& plan) : clients_(plan.clients), degree_(plan.degree) {
  if (degree_ + 1 == clients_.size()) return;
  // Both sides compute the same ring, from the session alone.
  const ByteSpan session(plan.session);
  Rng rng(derive(little_endian<uint64_t>(session), little_endian<uint64_t>(session.subspan(8))));
  place_.resize(clients_.size());
  for (const auto next : rng.permutation(static_cast<int64_t>(clients_.size()))) {
    place_[static_cast<size_t>(next)] = ring_.size();
    ring_.push_back(static_cast<size_t>(next));
  }
}

size_t SumGraph::seat(int64_t client) const {
  return static_cast<size_t>(std::lower_bound(clients_.begin(), clients_.end(), client) -
                             clients_.begin());
}

bool SumGraph::has(int64_t client) const {
  return std::binary_search(clients_.begin(), clients_.end(), client);
}

std::vector<int64_t> SumGraph::holders(int64_t client) const {
  if (ring_.empty()) return clients_;
  std::vector<int64_t> out;
  const size_t first = place_[seat(client)] + ring_.size() - degree_ / 2;
  for (size_t i = 0; i <= degree_; ++i) out.push_back(clients_[ring_[(first + i) % ring_.size()]]);
  std::sort(out.begin(), out.end());
  return out;
}

ShareScheme SumGraph::scheme() const {
  const auto count = degree_ + 1;
  if (ring_.empty()) return {static_cast<uint32_t>(sum_threshold(count)), count};
  return {count / 2 + 1, count};
}

}  // namespace tessera
