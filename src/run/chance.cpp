#include "run/chance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/key.hpp"

namespace tessera {

std::vector<ClientId> cohort_of(uint64_t seed, int64_t round, int64_t clients,
                                double participation) {
  // Rounded up, but 0.1 * 30 is 3 although the product of doubles is a little more.
  const double exact = participation * static_cast<double>(clients);
  const auto size = static_cast<int64_t>(std::ceil(exact - 1e-9));
  return Rng(derive(seed, Purpose::kCohort, round))
      .sample(clients, std::clamp<int64_t>(size, 1, clients));
}

std::vector<ClientId> cohort_one_by_one(uint64_t seed, int64_t round, int64_t clients,
                                        double participation) {
  Rng rng(derive(seed, Purpose::kCohort, round));
  std::vector<ClientId> out;
  for (ClientId id = 0; id < clients; ++id)
    if (rng.uniform() < participation) out.push_back(id);
  return out;
}

std::vector<ClientId> evaluated_clients(uint64_t seed, int64_t clients, int64_t count) {
  if (count > 0 && count < clients)
    return Rng(derive(seed, Purpose::kEvaluated)).sample(clients, count);
  std::vector<ClientId> everybody(static_cast<size_t>(clients));
  std::iota(everybody.begin(), everybody.end(), 0);
  return everybody;
}

bool is_dropped(uint64_t seed, int64_t round, ClientId client, double drop_rate) {
  return Rng(derive(seed, Purpose::kDrop, round, client)).uniform() < drop_rate;
}

int64_t dropped_at(uint64_t seed, int64_t round, ClientId client) {
  constexpr uint64_t kMoments = 5;
  return static_cast<int64_t>(
      Rng(derive(seed, Purpose::kDrop, round, client, kMoments)).below(kMoments));
}

double slowdown_of(uint64_t seed, ClientId client, const FederationOptions& options) {
  const bool slow = Rng(derive(seed, Purpose::kStraggler, client)).uniform() < options.stragglers;
  return slow ? options.slowdown : 1.0;
}

}  // namespace tessera
