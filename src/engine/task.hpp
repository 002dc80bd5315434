// What travels between the server's loop and a client, and its form as bytes.
//
// A client side answers every task with one reply and does nothing by itself. What a task asks for
// depends on its kind; docs/protocol.md lists the fields that each kind uses.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "engine/envelope.hpp"
#include "eval/metrics.hpp"
#include "io/bytes.hpp"
#include "method/method.hpp"

namespace tessera {

struct Task {
  ClientId client = 0;
  TaskKind kind = TaskKind::kHello;
  int64_t round = 0;  // an evaluation after round t asks as t + 1
  int64_t attempt =
      0;  // kTrain: how often this round was begun; kSettle, kGuard: the one it is about
  TensorDict down = {};                          // kTrain, kJoin, kEvaluate, kGuard
  std::optional<Weights> global = std::nullopt;  // kEvaluate: to be measured as well
  bool accepted = false;                         // kSettle
  bool keep_step = false;  // kEvaluate: the client trains in `round`; what it computes for the post
                           // view may answer that task, too
  bool last = false;       // kEvaluate: of the run; the client keeps its model for use
};

/// Both views of a client's model on its own data; `global` where the method has such a model.
struct Evaluation {
  ClientId client = 0;
  ClientMetrics pre_test, post_test, pre_val, post_val;
  std::optional<ClientMetrics> global_test, global_val;
  /// Of the test part; at the last evaluation, and where there are not too many classes. Both or
  /// none.
  std::optional<Confusion> pre_confusion = std::nullopt, post_confusion = std::nullopt;
  TensorDict notes;  // what the client tells of its model of the post view
};

/// What comes back. Late or lost is a reply too: one with a status.
struct Reply {
  ClientId client = 0;
  TaskKind kind = TaskKind::kHello;
  int64_t round = 0, attempt = 0;      // of the task
  Status status;                       // else the rest means nothing
  TensorDict up;                       // kTrain, kJoin, kGuard
  double loss = 0;                     // mean training loss
  double cpu_seconds = 0;              // of the client's work; for the simulated clock only
  int64_t wire_down = 0, wire_up = 0;  // bytes of down and up as encoded; set by the engine
  /// kTrain, set by the engine: the upload was opened, checked and summed where the client is
  /// (SumOrder); payload bytes as it was sealed.
  std::optional<int64_t> summed;
  std::optional<Evaluation> evaluation;
  std::optional<Hello> hello;
};

/// A reply that could not be given.
Reply refused(const Task& task, Status status);

/// Whole messages as bytes, and back. What is decoded is well formed; whether it fits the method is
/// not known yet. kInvalid says what is wrong. Tensors refer to the bytes.
Bytes encode_task(const Task& task);
Result<Task> decode_task(std::shared_ptr<const Bytes> bytes);
Bytes encode_reply(const Reply& reply);
Result<Reply> decode_reply(std::shared_ptr<const Bytes> bytes);

}  // namespace tessera
