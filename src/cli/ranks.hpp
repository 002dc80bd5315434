// Commands that mpirun has started on several ranks: rank 0 speaks, the others host clients.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/status.hpp"
#include "engine/mpi/rank_desk.hpp"

namespace tessera {

/// What a command does there.
struct RankedCommand {
  std::function<Status(RankDesk& desk)> lead;                  // on rank 0
  std::function<Result<int>(RankSeat& seat, int ranks)> host;  // elsewhere: the exit code
  int threads = 1;
};

/// From the beginning of MPI to its end, and with it this process's: the exit code is the same on
/// all ranks. Only rank 0 prints. Returns, with an exit code, only where MPI cannot begin.
int play_on_ranks(const RankedCommand& command, const std::atomic<bool>& stop);

/// Clients at work at the same time if nobody says how many: the processors that this process may
/// use, or its share of the machine's where mpirun has not bound it to some.
int usual_threads();

}  // namespace tessera
