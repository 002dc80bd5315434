// What ranks write to each other, above bytes. Both ends are the same program of the same run, so
// what arrives is taken as it is; docs/cluster.md lists the letters.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/mpi/world.hpp"
#include "engine/task.hpp"
#include "tensor/trie_sum.hpp"

namespace tessera {

/// `head["kind"]` says what it is.
struct RankLetter {
  int from = 0;
  nlohmann::json head;
  std::shared_ptr<const Bytes> body;

  std::string kind() const { return head.value("kind", ""); }
};
RankLetter opened(Letter letter);

/// A status in a head, and back.
nlohmann::json status_json(const Status& status);
Status status_of(const nlohmann::json& from);

/// Tasks to one rank. A tensor that is the same as in the task before, as FedAvg's download of a
/// round, travels once. begin() comes before the tasks of an Engine::run: between two of them a
/// method may have changed a tensor in place.
class TaskWriter {
 public:
  void begin() { last_.clear(), fresh_ = true; }
  /// Gives head and body; `bytes` of tensors are new to the other end.
  std::pair<nlohmann::json, std::shared_ptr<const Bytes>> write(Task task, int64_t& bytes);
  /// Bytes of tensors that are not those of the task before; for tasks that do not travel.
  int64_t count(const Task& task);

 private:
  /// Whether the other end has the tensor; else it will have it.
  bool known(const std::string& name, const Tensor& tensor, int64_t& bytes);

  TensorDict last_;
  bool fresh_ = true;
};
class TaskReader {
 public:
  /// kInvalid for bytes that are no task.
  Result<Task> read(const RankLetter& letter);

 private:
  TensorDict last_;
};

/// A reply with what the engine adds to it.
std::pair<nlohmann::json, std::shared_ptr<const Bytes>> write_reply(const Reply& reply);
Result<Reply> read_reply(const RankLetter& letter);

std::pair<nlohmann::json, std::shared_ptr<const Bytes>> write_part(const TriePart& part);
Result<TriePart> read_part(const RankLetter& letter);

/// Names, types and shapes of tensors, without their numbers; and tensors of that form, unfilled.
nlohmann::json form_json(const TensorDict& tensors);
Result<TensorDict> tensors_of_form(const nlohmann::json& form);

}  // namespace tessera
