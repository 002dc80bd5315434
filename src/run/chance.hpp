// What chance decides in a federation: pure functions of the seed, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/task.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// The clients that take part in a round, ascending; a pure function of its arguments.
std::vector<ClientId> cohort_of(uint64_t seed, int64_t round, int64_t clients,
                                double participation);
/// The same for differential privacy: each takes part or not by itself, so there may be none.
std::vector<ClientId> cohort_one_by_one(uint64_t seed, int64_t round, int64_t clients,
                                        double participation);
/// The clients that evaluations ask, ascending: all, or a sample of `count` that is the same for
/// the whole run, so that its curves compare like with like.
std::vector<ClientId> evaluated_clients(uint64_t seed, int64_t clients, int64_t count);
/// Whether a chosen client is lost in a round.
bool is_dropped(uint64_t seed, int64_t round, ClientId client, double drop_rate);
/// At which of a round's moments a lost client is lost: 0 before it uploads, and where uploads are
/// summed in steps of their own (guard/secure_aggregation/hidden_sum.hpp) 1 to 4 in one of these.
/// Those are drawn, too.
int64_t dropped_at(uint64_t seed, int64_t round, ClientId client);
/// How many times slower than the others a client computes.
double slowdown_of(uint64_t seed, ClientId client, const FederationOptions& options);

}  // namespace tessera
