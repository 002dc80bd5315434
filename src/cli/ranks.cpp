#include "cli/ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/text.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

/// Ends the process here. MPI has unloaded its parts by now, and mpirun sends signals to the others
/// as soon as one rank has ended with an error: whoever still runs the destructors of some three
/// hundred libraries then may die of it, and its exit code hides ours. Nothing is left for them to
/// do: what this program opened is closed, what it wrote is written.
[[noreturn]] void leave(World& world, int code) {
  world.leave();
  std::fflush(nullptr);
  _exit(code);
}

[[noreturn]] void play_rank_0(const RankedCommand& command, World& world,
                              const std::atomic<bool>& stop) {
  RankDesk desk(world, &stop);
  // Threads at work would be waited for: what is on the disk is whole at any moment.
  desk.on_death = [&](const Status& status) { world.abort(print_error(status)); };
  const auto status = [&]() -> Status {
    try {
      desk.meet();
      return command.lead(desk);
    } catch (const RankLost& lost) {
      return lost.status;
    } catch (const std::bad_alloc&) {
      return fail(Error::kIo, "out of memory");
    } catch (const std::exception& error) {
      return fail(Error::kInternal, "{}", first_line(error.what()));
    }
  }();
  const int code = status.ok() ? kExitDone : print_error(status);
  if (!desk.end(code)) world.abort(code);
  leave(world, code);
}

[[noreturn]] void play_other_rank(const RankedCommand& command, World& world,
                                  const std::atomic<bool>& stop) {
  RankSeat seat(world, &stop, command.threads);
  const auto code = [&]() -> Result<int> {
    try {
      return command.host(seat, world.size());
    } catch (const std::exception& error) {
      return fail(Error::kInternal, "{}", first_line(error.what()));
    }
  }();
  leave(world, code.ok() ? *code : seat.give_up(code.status()));
}

}  // namespace

int play_on_ranks(const RankedCommand& command, const std::atomic<bool>& stop) {
  auto world = enter_world();
  if (!world.ok())
    return started_by_mpirun().rank == 0 ? print_error(world.status()) : exit_code(world.status());
  if ((*world)->rank() == 0) play_rank_0(command, **world, stop);
  play_other_rank(command, **world, stop);
}

int usual_threads() {
  const auto allowed = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (allowed < ::sysconf(_SC_NPROCESSORS_ONLN)) return allowed;
  return std::max(1, allowed / started_by_mpirun().local_size);
}

}  // namespace tessera
