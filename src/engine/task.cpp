#include "engine/task.hpp"

#include <ATen/ATen.h>

#include <array>

#include "io/safetensors.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

static_assert(EvaluationRows::kMostClasses == kMostConfusionClasses);

Tensor row_of(const ClientMetrics& m) {
  return at::tensor(
      {static_cast<double>(m.n), static_cast<double>(m.correct), m.loss, m.precision_macro,
       m.f1_macro, m.f1_remap, m.balanced_accuracy, m.auroc, m.ece},
      at::kDouble);
}

ClientMetrics metrics_of(const std::array<double, EvaluationRows::kColumns>& row) {
  return {static_cast<int64_t>(row[0]),
          static_cast<int64_t>(row[1]),
          row[2],
          row[3],
          row[4],
          row[5],
          row[6],
          row[7],
          row[8]};
}

Tensor tensor_of(const Confusion& confusion) {
  return at::tensor(confusion.counts, at::kLong).view({confusion.classes, confusion.classes});
}

void put_all(TensorDict& to, const char* prefix, const TensorDict& from) {
  for (const auto& [name, tensor] : from) to.emplace(prefix + name, tensor);
}

/// The entries that begin with `prefix`, without it.
TensorDict taken(TensorDict& from, const std::string& prefix) {
  TensorDict out;
  for (auto at = from.lower_bound(prefix); at != from.end() && at->first.starts_with(prefix);
       at = from.erase(at))
    out.emplace(at->first.substr(prefix.size()), std::move(at->second));
  return out;
}

TensorDict evaluation_tensors(const Evaluation& e) {
  std::vector<Tensor> rows{row_of(e.pre_test), row_of(e.post_test), row_of(e.pre_val),
                           row_of(e.post_val)};
  if (e.global_test && e.global_val)
    rows.push_back(row_of(*e.global_test)), rows.push_back(row_of(*e.global_val));
  TensorDict out{{"metrics", at::stack(rows)}};
  put_all(out, "notes/", e.notes);
  if (e.pre_confusion && e.post_confusion) {
    out.emplace("confusion/pre", tensor_of(*e.pre_confusion));
    out.emplace("confusion/post", tensor_of(*e.post_confusion));
  }
  return out;
}

std::optional<Confusion> confusion_of(std::optional<CountTable> table) {
  if (!table) return std::nullopt;
  return Confusion{table->classes, std::move(table->counts)};
}

Evaluation evaluation_of(EvaluationRows rows, ClientId client, TensorDict notes) {
  const auto& m = rows.metrics;
  Evaluation out{client, metrics_of(m[0]), metrics_of(m[1]), metrics_of(m[2]), metrics_of(m[3])};
  if (m.size() > 4) out.global_test = metrics_of(m[4]), out.global_val = metrics_of(m[5]);
  out.pre_confusion = confusion_of(std::move(rows.pre));
  out.post_confusion = confusion_of(std::move(rows.post));
  out.notes = std::move(notes);
  return out;
}

}  // namespace

Reply refused(const Task& task, Status status) {
  Reply out;
  out.client = task.client, out.kind = task.kind;
  out.round = task.round, out.attempt = task.attempt;
  out.status = std::move(status);
  return out;
}

Bytes encode_task(const Task& task) {
  TensorDict all;
  put_all(all, "down/", task.down);
  if (task.global) put_all(all, "global/", pack(*task.global));
  return encode(all, metadata_of(TaskEnvelope{.client = task.client,
                                              .kind = task.kind,
                                              .round = task.round,
                                              .attempt = task.attempt,
                                              .accepted = task.accepted,
                                              .keep_step = task.keep_step,
                                              .last = task.last}));
}

Result<Task> decode_task(std::shared_ptr<const Bytes> bytes) {
  TESSERA_ASSIGN(const auto parsed, parse_safetensors(*bytes, "task", kMessageLimits));
  TESSERA_ASSIGN(const auto envelope, read_task_envelope(parsed));
  auto tensors = tensors_of(parsed, std::move(bytes));
  Task out{.client = envelope.client,
           .kind = envelope.kind,
           .round = envelope.round,
           .attempt = envelope.attempt,
           .down = taken(tensors, "down/"),
           .accepted = envelope.accepted,
           .keep_step = envelope.keep_step,
           .last = envelope.last};
  auto global = taken(tensors, "global/");
  if (global.empty()) return out;
  try {
    out.global = unpack<Weights>(std::move(global));
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "task: 'global': {}", error.what());
  }
  return out;
}

Bytes encode_reply(const Reply& reply) {
  TensorDict all{
      {"numbers", at::tensor({reply.loss, reply.cpu_seconds}, at::kDouble).view({1, 2})}};
  if (reply.status.ok()) {  // of a failure nothing else travels
    put_all(all, "up/", reply.up);
    if (reply.evaluation) all.merge(evaluation_tensors(*reply.evaluation));
  }
  return encode(all, metadata_of(ReplyEnvelope{.client = reply.client,
                                               .kind = reply.kind,
                                               .round = reply.round,
                                               .attempt = reply.attempt,
                                               .status = reply.status,
                                               .hello = reply.hello}));
}

Result<Reply> decode_reply(std::shared_ptr<const Bytes> bytes) {
  TESSERA_ASSIGN(const auto parsed, parse_safetensors(*bytes, "reply", kMessageLimits));
  TESSERA_ASSIGN(auto envelope, read_reply_envelope(parsed, *bytes));
  auto tensors = tensors_of(parsed, std::move(bytes));
  Reply out;
  out.client = envelope.client, out.kind = envelope.kind;
  out.round = envelope.round, out.attempt = envelope.attempt;
  out.status = std::move(envelope.status);
  out.loss = envelope.loss, out.cpu_seconds = envelope.cpu_seconds;
  out.hello = std::move(envelope.hello);
  out.up = taken(tensors, "up/");
  if (envelope.evaluation)
    out.evaluation =
        evaluation_of(*std::move(envelope.evaluation), out.client, taken(tensors, "notes/"));
  return out;
}

}  // namespace tessera
