// The engine of a real federation: tasks go onto a board, from which clients elsewhere fetch them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "engine/engine.hpp"
#include "net/task_board.hpp"

namespace tessera {

struct GrpcEngineOptions {
  /// Who has enrolled and is still welcome; others are answered kNotFound at once, also those who
  /// go while they are waited for. Asked often; must be quick.
  std::function<bool(ClientId)> present;
  /// The name in a member's certificate.
  std::function<std::string(ClientId)> name;
  /// A task is about to be put onto the board, from where it may be fetched at once: for the audit
  /// log. May be empty.
  std::function<void(const Task& task, const std::string& ticket)> before_post = {};
  /// A task (without its tensors) was put onto the board: time for FederationServer::wake(). May
  /// be empty.
  std::function<void(const Task& task, const std::string& ticket)> on_post = {};
  /// A reply has arrived that is well formed and answers its task; for progress. May be empty.
  std::function<void()> on_client = {};
  /// Where run() is given no deadline it waits so long.
  std::chrono::milliseconds patience{std::chrono::hours(24)};
  /// Posting waits while downloads of this size (bytes, encoded) are on the board.
  int64_t memory = int64_t{2} << 30;
  /// Set from outside: see run(). Borrowed; null: cannot be stopped.
  const std::atomic<bool>* stop = nullptr;
};

/// Used by one thread. Knows clients by what they send only: a reply that cannot be decoded, or
/// that is about another client, kind, round or attempt than the task, is one with status kInvalid;
/// what a client says went wrong is never taken for our own interruption.
class GrpcEngine final : public Engine {
 public:
  /// Borrows the board, which outlives the engine.
  GrpcEngine(TaskBoard& board, GrpcEngineOptions options);

  /// Hello is answered here, by the name alone. Settling is answered once it is on the board's disk
  /// (many at once: each costs the disk's time), which keeps it until the client has it, over
  /// restarts too. All else is answered by what the client delivers,
  /// or, in the order in which it is found:
  ///   kNotFound     the client is not there
  ///   kInvalid      it has sent more than can be right (Limits::most_upload); nothing was kept
  ///   kBusy         "no answer in time", or "not needed" once limits.enough is reached; the task
  ///                 is taken back, and what still comes of it is refused as late
  ///   kInterrupted  stopped; the task stays on the board and in the spool, so that a server which
  ///                 is started again and posts the same finds what has arrived
  /// Byte counts are those of the local engine.
  void run(const std::function<void(const Post&)>& ask, Limits limits,
           const OnReply& on_reply) override;

 private:
  class Round;

  TaskBoard& board_;
  const GrpcEngineOptions options_;
};

}  // namespace tessera
