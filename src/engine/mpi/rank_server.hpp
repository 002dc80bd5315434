// What another rank than 0 does: hosts its clients and answers tasks, until rank 0 says the end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/local/local_engine.hpp"
#include "engine/local/task_pool.hpp"
#include "engine/mpi/placement.hpp"
#include "engine/mpi/rank_desk.hpp"

namespace tessera {

/// Borrows seat, session and host side.
class RankServer {
 public:
  /// `clients` are those that this rank hosts and that may be summed.
  RankServer(RankSeat& seat, const Session& session, LocalEngine& local, IdRange clients,
             int threads);
  ~RankServer();

  /// For rank 0 to keep; sent before the reply of the client's task. From the thread that handles
  /// the task.
  void add_file(ClientId client, std::string name, Bytes bytes);
  /// Rank 0 has stopped: what has not begun is answered so.
  std::function<void()> on_stop;
  /// Everything that is no task, as checkpoints: gives the head of the answer. Called while no task
  /// is under way, on a thread of its own.
  std::function<nlohmann::json(const RankLetter&)> on_order;

  /// Until the end; the exit code.
  int serve();

 private:
  struct Summing;
  using Files = std::vector<std::pair<std::string, Bytes>>;

  void take(const RankLetter& letter);
  void work(const RankLetter& letter);
  /// On a thread of the pool.
  TaskPool::Then done(const Task& task, const std::shared_ptr<Summing>& summing);
  void send_parts(Summing& summing);

  RankSeat& seat_;
  const Session& session_;
  LocalEngine& local_;
  IdRange clients_;
  TaskReader reader_;
  std::shared_ptr<Summing> summing_;  // of the round; null: uploads travel
  std::mutex mutex_;                  // guards files_
  std::map<ClientId, Files> files_;
  TaskPool pool_;  // last: its jobs use the rest
};

}  // namespace tessera
