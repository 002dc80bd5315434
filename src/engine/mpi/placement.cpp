#include "engine/mpi/placement.hpp"

#include <algorithm>
#include <stdexcept>

namespace tessera {
namespace {

// A range differs from its fair share by at most a granule, a sixteenth of it.
constexpr int64_t kGranules = 16;

std::vector<IdRange> dealt(int ranks, int64_t first, int64_t count) {
  int64_t granule = 1;
  while (2 * granule * kGranules * ranks <= count) granule *= 2;
  std::vector<IdRange> out;
  int64_t begin = 0;
  for (int64_t rank = 1; rank <= ranks; ++rank) {
    const int64_t fair = count * rank / ranks;
    const int64_t end = rank == ranks ? count : (fair + granule / 2) / granule * granule;
    out.push_back({first + begin, first + end});
    begin = end;
  }
  return out;
}

}  // namespace

Placement::Placement(int ranks, int64_t clients, int64_t newcomers)
    : clients_(dealt(ranks, 0, clients)), newcomers_(dealt(ranks, clients, newcomers)) {}

int Placement::rank_of(ClientId id) const {
  for (const auto* ranges : {&clients_, &newcomers_}) {
    const auto at = std::upper_bound(ranges->begin(), ranges->end(), id,
                                     [](ClientId one, const IdRange& r) { return one < r.end; });
    if (at != ranges->end() && at->holds(id)) return static_cast<int>(at - ranges->begin());
  }
  throw std::out_of_range("no rank hosts client " + std::to_string(id));
}

}  // namespace tessera
