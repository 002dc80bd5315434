// Engines move tasks to clients and replies back; they know no method and no round.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "engine/task.hpp"
#include "tensor/trie_sum.hpp"

namespace tessera {

/// Until when replies count; none: until they are all there.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;

/// Uploads of a round that will only be summed. An engine whose clients are elsewhere may open,
/// check and sum them there (engine/upload_check.hpp): then the reply says so (Reply::summed), has
/// no upload, and its share of the sum comes by `on_part`. Others take no notice.
struct SumOrder {
  std::vector<ClientId> asked;            // those that tasks of kTrain are posted for
  TensorDict expected;                    // form of an upload; its numbers mean nothing
  std::function<void(TriePart)> on_part;  // on the thread of run(), before it returns
};

/// What ends the wait for replies before all of them are there.
struct Limits {
  Deadline deadline = std::nullopt;
  /// This many replies of kTrain with an ok status suffice; the other clients are told that they
  /// are not needed. 0: all are. Engines whose clients share one machine disregard it: there the
  /// choice would depend on the number of threads.
  int64_t enough = 0;
  /// Bytes of an upload, encoded, that can be right (engine/upload_check.hpp); a client elsewhere
  /// that sends more is refused before it is held. 0: nothing is known.
  int64_t most_upload = 0;
  /// No limit, but of the whole run() as these are. Null: every upload is wanted. Borrowed.
  const SumOrder* sum = nullptr;
};

/// Hands a task to the engine. Waits while too many are under way, so that memory holds a few
/// downloads however many clients are asked.
using Post = std::function<void(Task task)>;
using OnReply = std::function<void(Reply reply)>;

/// Called by one thread; the work inside may use many.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Calls `ask`, which posts tasks (at most one per client), and on_reply once per task, in any
  /// order, perhaps while `ask` still posts. Both run on the calling thread. What was not begun by
  /// the deadline or when the run was stopped is answered by a reply with such a status. What `ask`
  /// or `on_reply` throw is thrown on once no task is under way.
  virtual void run(const std::function<void(const Post&)>& ask, Limits limits,
                   const OnReply& on_reply) = 0;
};

}  // namespace tessera
