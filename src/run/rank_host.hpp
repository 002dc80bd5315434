// A run as a rank other than 0 sees it: load the data of its clients, host them, keep their states.
#pragma once

#include <atomic>
#include <string>

#include "engine/mpi/rank_desk.hpp"
#include "run/experiment.hpp"

namespace tessera {

struct RankRequest {
  std::string out;  // the run's directory; states go to its checkpoint/, wherever that is mounted
  int threads = 1;
  bool through_wire = false;
};

/// Until rank 0 says the end; its exit code. Errors are told to rank 0, nothing is printed.
int host_rank(const Experiment& experiment, const RankRequest& request, RankSeat& seat, int ranks);

}  // namespace tessera
