// `--spread cells`: whole runs of a comparison or an exhibit, each on one rank of several.
//
// Rank 0 decides who plays what, one cell at a time, and plays some itself; it alone prints,
// chooses settings and writes tables and pages. What a cell leaves behind lies where one process
// would have put it, in a directory that all ranks see. Ranks write each other two kinds of
// letters: "cell" (its name) and "ended" (its name, and how).
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "engine/mpi/rank_desk.hpp"

namespace tessera {

/// Plays a cell in this process, under `label`, until `stop`, and leaves what it has to leave on
/// the disk. Called on another thread, one call at a time.
using PlayCell = std::function<Status(const std::string& cell, const std::string& label,
                                      const std::atomic<bool>& stop)>;

/// Rank 0's view of the cells; all but `play` are called on the thread of spread_cells.
struct SpreadCells {
  /// A cell that may begin and has not been given out. None: another one has to end first, or all
  /// have been given out.
  std::function<Result<std::optional<std::string>>()> next;
  /// What people see of one that rank 0 plays.
  std::function<std::string(const std::string& cell)> label;
  PlayCell play;
  /// How a cell ended, here or elsewhere. An error ends the command; the others' cells stay as they
  /// are then, to be resumed.
  std::function<Status(const std::string& cell, const Status& how)> ended;
};

/// Until all cells have ended; kInterrupted if rank 0 is stopped. Throws RankLost. Borrows all;
/// `stop` may be null.
Status spread_cells(RankDesk& desk, const SpreadCells& cells, const std::atomic<bool>* stop,
                    bool quiet);

/// The same on another rank: plays what it is given until rank 0 says the end; the exit code.
int play_spread_cells(RankSeat& seat, const PlayCell& play, const std::atomic<bool>* stop);

/// What rank 0 says when another one has died.
inline constexpr const char* kCellsGoOn =
    "finished cells are kept, and the same command continues from there";

/// For `play` on another rank, where there is no such cell.
Status unknown_cell();

}  // namespace tessera
