// What the board knows of one member. Private to task_board*.cpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/reason.hpp"
#include "net/task_board.hpp"

namespace tessera {

/// All but `files` is guarded by the board's mutex.
struct TaskBoard::Member {
  /// So many tickets are remembered once nothing else is left of them.
  static constexpr size_t kPastTickets = 8;

  /// A task in the queue; its bytes are shared with the engine.
  struct Posted {
    std::string ticket;
    std::shared_ptr<const Bytes> bytes;
    int64_t most_reply = 0;
    bool fetched = false;  // to its end
  };
  enum class Stage {
    kGrowing,
    kLeft,   // complete, by or for an earlier process: nobody has posted its task yet
    kReady,  // complete, waits for next()
    kTaken   // complete, and nothing more will come of it
  };
  struct Upload {
    Stage stage = Stage::kGrowing;
    int64_t size = 0;  // bytes
  };
  struct PastTicket {
    std::string ticket;
    std::string late;  // why it was withdrawn; empty: it was answered
    int64_t size = 0;  // of the answer
  };
  /// Of a ticket that the member may name: whether it is answered, and the bytes that are there.
  struct Standing {
    bool answered = false;
    int64_t size = 0;
  };

  std::mutex files;  // held by whoever changes the member's files
  std::condition_variable changed;
  std::optional<Posted> settle;
  std::deque<Posted> tasks;
  std::map<std::string, Upload> uploads;  // by ticket: all that the spool has
  std::deque<PastTicket> past;            // the newest last
  bool answered_since_settle = false;     // a task, since `settle` was posted or found
  std::optional<std::string> gone;        // why
  int polling = 0;                        // calls inside poll()
  std::optional<std::chrono::steady_clock::time_point> polled;

  /// What is on offer, or null.
  const Posted* head() const {
    if (settle) return &*settle;
    return tasks.empty() ? nullptr : &tasks.front();
  }
  bool is_settle(const std::string& ticket) const { return settle && settle->ticket == ticket; }
  /// Null if it is not open.
  Posted* open_task(const std::string& ticket) {
    if (is_settle(ticket)) return &*settle;
    const auto at = std::find_if(tasks.begin(), tasks.end(),
                                 [&](const Posted& task) { return task.ticket == ticket; });
    return at == tasks.end() ? nullptr : &*at;
  }
  /// Takes it out of the queue; false if it is not there.
  bool close_task(const std::string& ticket) {
    return std::erase_if(tasks, [&](const Posted& task) { return task.ticket == ticket; }) > 0;
  }

  /// What became of a ticket of which nothing else is left.
  void remember(PastTicket ticket) {
    forget(ticket.ticket);
    past.push_back(std::move(ticket));
    if (past.size() > kPastTickets) past.pop_front();
  }
  void forget(const std::string& ticket) {
    std::erase_if(past, [&](const PastTicket& old) { return old.ticket == ticket; });
  }

  /// kNotFound as the board's header says.
  Result<Standing> standing(const std::string& ticket) {
    if (gone) return fail(Error::kNotFound, "late: {}", *gone);
    if (const auto at = uploads.find(ticket); at != uploads.end())
      return Standing{at->second.stage != Stage::kGrowing, at->second.size};
    if (open_task(ticket)) return Standing{};
    for (const auto& old : past) {
      if (old.ticket != ticket) continue;
      if (old.late.empty()) return Standing{true, old.size};
      return because(Reason::kLate, fail(Error::kNotFound, "late: {}", old.late));
    }
    return because(
        Reason::kForeign,
        fail(Error::kNotFound, "not this member's task (ticket '{}'); ask for the one on offer",
             printable(ticket, 64)));
  }
};

}  // namespace tessera
