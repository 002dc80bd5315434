#include "cli/spread.hpp"

#include <thread>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cli/output.hpp"
#include "engine/local/task_pool.hpp"

namespace tessera {
namespace {

Status guarded_play(const PlayCell& play, const std::string& cell, const std::string& label,
                    const std::atomic<bool>& stop) {
  try {
    return play(cell, label, stop);
  } catch (const std::bad_alloc&) {
    return fail(Error::kIo, "out of memory");
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "{}", first_line(error.what()));
  }
}

/// Who plays what, by rank.
class Dealer {
 public:
  Dealer(RankDesk& desk, const SpreadCells& cells, const std::atomic<bool>* stop, bool quiet)
      : desk_(desk),
        cells_(cells),
        stop_(stop),
        quiet_(quiet),
        at_work_(static_cast<size_t>(desk.ranks())) {}
  /// Whoever waits for the pool's thread waits until the next safe point of its cell.
  ~Dealer() { halt_ = true; }

  Status run() {
    Patience patience;
    for (;;) {
      if (stop_ && stop_->load()) halt_ = true;
      // The last first: rank 0 has letters to read as well.
      for (int rank = desk_.ranks() - 1; rank >= 0; --rank) TESSERA_RETURN_IF_ERROR(give(rank));
      if (halt_ && !at_work_[0])
        return fail(Error::kInterrupted, "stopped; the same command continues from there");
      if (under_way_ == 0) return ok();
      tell_of_others();
      if (const auto ended = wait(patience)) TESSERA_RETURN_IF_ERROR(take(*ended));
    }
  }

 private:
  struct Ended {
    int rank;
    Status how;
  };

  Status give(int rank) {
    auto& cell = at_work_[static_cast<size_t>(rank)];
    if (cell || halt_) return ok();
    TESSERA_ASSIGN(cell, cells_.next());
    if (!cell) return ok();
    ++under_way_, told_ = false;
    if (rank > 0) {
      desk_.send(rank, {{"kind", "cell"}, {"cell", *cell}});
      return ok();
    }
    pool_.submit([this, name = *cell, label = cells_.label(*cell)]() -> TaskPool::Then {
      auto how = guarded_play(cells_.play, name, label, halt_);
      return [this, how = std::move(how)] { here_ = how; };
    });
    return ok();
  }

  /// What has ended, if something does within a moment. Throws RankLost.
  std::optional<Ended> wait(Patience& patience) {
    if (const auto then = pool_.take(patience.next())) {
      (*then)();
      patience.came();
      return Ended{0, std::move(here_)};
    }
    const auto letter = desk_.next();
    if (!letter || letter->kind() != "ended") return std::nullopt;
    patience.came();
    return Ended{letter->from, status_of(letter->head.at("status"))};
  }

  Status take(const Ended& ended) {
    --under_way_;
    const auto cell = std::exchange(at_work_[static_cast<size_t>(ended.rank)], std::nullopt);
    const auto status = cells_.ended(*cell, ended.how);
    return ended.rank == 0 ? status : at_place(status, desk_.name_of(ended.rank));
  }

  /// Who waits for others wants to know for whom.
  void tell_of_others() {
    if (quiet_ || told_ || at_work_[0]) return;
    told_ = true;
    std::vector<std::string> who;
    for (int rank = 1; rank < desk_.ranks(); ++rank)
      if (at_work_[static_cast<size_t>(rank)]) who.push_back(desk_.name_of(rank));
    print_note("waiting for the cells of " + join(who, ", "));
  }

  RankDesk& desk_;
  const SpreadCells& cells_;
  const std::atomic<bool>* stop_;
  bool quiet_, told_ = false;
  std::atomic<bool> halt_{false};                    // for rank 0's own cell
  std::vector<std::optional<std::string>> at_work_;  // cells, by rank
  int under_way_ = 0;
  Status here_;       // how rank 0's own ended
  TaskPool pool_{1};  // last: its job uses the rest
};

}  // namespace

Status spread_cells(RankDesk& desk, const SpreadCells& cells, const std::atomic<bool>* stop,
                    bool quiet) {
  return Dealer(desk, cells, stop, quiet).run();
}

int play_spread_cells(RankSeat& seat, const PlayCell& play, const std::atomic<bool>* stop) {
  const std::atomic<bool> never{false};
  Patience patience;
  while (!seat.ended()) {
    const auto letter = seat.next();
    if (!letter) {
      std::this_thread::sleep_for(patience.next());
      continue;
    }
    patience.came();
    if (letter->kind() != "cell") continue;
    const auto cell = letter->head.value("cell", "");
    Status how;
    seat.busy([&] { how = guarded_play(play, cell, cell, stop ? *stop : never); });
    seat.send({{"kind", "ended"}, {"cell", cell}, {"status", status_json(how)}});
  }
  return *seat.ended();
}

Status unknown_cell() {
  return fail(Error::kInvalid,
              "has another experiment than rank 0; all must read the same files with the same "
              "arguments");
}

}  // namespace tessera
