// Rank 0's engine: tasks go to the rank that hosts their client, its own included.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "engine/engine.hpp"
#include "engine/local/local_engine.hpp"
#include "engine/local/task_pool.hpp"
#include "engine/mpi/placement.hpp"
#include "engine/mpi/rank_desk.hpp"

namespace tessera {

/// What a client's rank sends for rank 0 to keep: its saved model, its predictions.
using OnRankFile =
    std::function<Status(ClientId client, const std::string& name, const Bytes& bytes)>;

/// Used by one thread, which also corresponds; rank 0's own clients work on `threads` others.
/// A rank that is gone ends run() by RankLost.
class MpiEngine final : public Engine {
 public:
  /// Borrows desk and host side. `on_file` may be empty; an error of it becomes the status of the
  /// client's reply.
  MpiEngine(RankDesk& desk, Placement placement, LocalEngine& here, LocalEngineOptions options,
            OnRankFile on_file);

  /// Tasks are sent as soon as they are posted, so that all ranks work while the downloads of the
  /// next are computed; post() waits only while a rank holds kMostWaiting bytes of downloads.
  void run(const std::function<void(const Post&)>& ask, Limits limits,
           const OnReply& on_reply) override;

 private:
  static constexpr int64_t kMostWaiting = int64_t{1} << 30;
  struct Round;  // one call of run()

  void post(Task task, Round& round);
  void here(Task task, Round& round);
  void finish(Reply reply, Round& round);
  /// Delivers what has come; waits a little if nothing has.
  void deliver(Round& round, bool wait);
  void take(const RankLetter& letter, Round& round);

  RankDesk& desk_;
  Placement placement_;
  LocalEngine& local_;
  LocalEngineOptions options_;
  OnRankFile on_file_;
  std::vector<TaskWriter> writers_;          // by rank
  std::map<ClientId, Status> file_trouble_;  // of clients whose reply has not come yet
  bool stopped_ = false;
  Patience patience_;
  TaskPool pool_;  // last: its jobs use the rest
};

}  // namespace tessera
