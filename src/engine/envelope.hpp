// What a message says beside its tensors of models: who, what, when, and figures. Read with
// mistrust, and without torch, so that fuzzers reach every line of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "io/safetensors.hpp"

namespace tessera {

/// Bytes of a reason, and of a client's name, in a message (docs/protocol.md).
inline constexpr size_t kMostReason = 1000, kMostClientName = 256;
/// Bytes of the notes of an evaluation, encoded: nothing is declared of them.
inline constexpr int64_t kMostNotes = int64_t{16} << 20;
/// Bytes of a message beside its tensors of models and its notes.
inline constexpr int64_t kMostEnvelope = int64_t{64} << 10;

enum class TaskKind {
  kHello,     // who are you, and do your data suffice for the method?
  kTrain,     // local_update; the new state waits until it is settled
  kJoin,      // the same by a newcomer; its attempt counts the exchanges, and 1 begins anew
  kEvaluate,  // both views of the client's model on its own data; changes no state
  kSettle,    // keep the state that waits, or forget it; may be repeated
  kGuard      // a step of a guard that has some of its own in a round
              // (guard/secure_aggregation/held_uploads.hpp)
};
const char* name_of(TaskKind kind);

/// How a client introduces itself.
struct Hello {
  std::string name;
  int64_t train = 0, val = 0, test = 0, support = 0;  // samples
};

/// A task without its tensors; engine/task.hpp says what the fields mean.
struct TaskEnvelope {
  int64_t client = 0;
  TaskKind kind = TaskKind::kHello;
  int64_t round = 0, attempt = 0;
  bool accepted = false, keep_step = false, last = false;
};

/// counts[truth · classes + predicted].
struct CountTable {
  int64_t classes = 0;
  std::vector<int64_t> counts;
};

/// The figures of an evaluation; rows and columns as in docs/protocol.md.
struct EvaluationRows {
  static constexpr size_t kColumns = 9;
  static constexpr int64_t kMostClasses = 100;
  std::vector<std::array<double, kColumns>> metrics;  // 4, or 6 with a global model
  std::optional<CountTable> pre, post;                // both or none
};

/// A reply without uploads and notes.
struct ReplyEnvelope {
  int64_t client = 0;
  TaskKind kind = TaskKind::kHello;
  int64_t round = 0, attempt = 0;
  Status status = ok();  // else the rest means nothing
  double loss = 0, cpu_seconds = 0;
  std::optional<Hello> hello = std::nullopt;
  std::optional<EvaluationRows> evaluation = std::nullopt;
};

/// Bytes of the largest reply to a task that can be right, if its upload has at most `upload`;
/// 0 stays 0: nothing is known.
int64_t most_reply(TaskKind kind, int64_t upload);

/// The metadata of a message; of a reply's tensors nothing is in there. A reason is cut.
std::map<std::string, std::string> metadata_of(const TaskEnvelope& envelope);
std::map<std::string, std::string> metadata_of(const ReplyEnvelope& envelope);

/// Checks a whole message against docs/protocol.md: every key, the name of every tensor, and types,
/// shapes, sums and ranges of those that are no model's. Left to who has a method: what is in
/// down/, up/, global/ and notes/. kInvalid says what is wrong.
Result<TaskEnvelope> read_task_envelope(const SafeTensors& parsed);
/// `file` is what the message was parsed from.
Result<ReplyEnvelope> read_reply_envelope(const SafeTensors& parsed, ByteSpan file);

}  // namespace tessera
