#include "engine/task.hpp"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "base/text.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

constexpr std::array kKinds{TaskKind::kHello, TaskKind::kTrain, TaskKind::kJoin,
                            TaskKind::kEvaluate, TaskKind::kSettle};
constexpr std::array kErrors{Error::kInvalid, Error::kNotFound,    Error::kExists,  Error::kBusy,
                             Error::kIo,      Error::kInterrupted, Error::kInternal};
constexpr std::array kErrorNames{"invalid", "not found",   "exists",  "busy",
                                 "io",      "interrupted", "internal"};
// Kinds of metrics in an evaluation, in the order of their rows.
constexpr int64_t kAlways = 4, kWithGlobal = 6, kColumns = 9;

Tensor row_of(const ClientMetrics& m) {
  return at::tensor(
      {static_cast<double>(m.n), static_cast<double>(m.correct), m.loss, m.precision_macro,
       m.f1_macro, m.f1_remap, m.balanced_accuracy, m.auroc, m.ece},
      at::kDouble);
}

// Counts, that is: a sum over clients stays exact, and a cast cannot overflow.
bool are_counts(double samples, double correct) {
  constexpr double kMost = 1e15;
  return samples >= 0 && samples <= kMost && std::trunc(samples) == samples && correct >= 0 &&
         correct <= samples && std::trunc(correct) == correct;
}

ClientMetrics metrics_of(const double* row) {
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

/// What a decoder reads: each thing once, and at the end nothing may be left.
class Fields {
 public:
  Fields(Decoded decoded, const char* what)
      : tensors(std::move(decoded.tensors)), meta_(std::move(decoded.metadata)), what_(what) {}

  Result<std::string> text(const std::string& key) {
    const auto node = meta_.extract(key);
    if (node.empty()) return wrong("'{}' is missing", key);
    return node.mapped();
  }
  Result<int64_t> number(const std::string& key) {
    TESSERA_ASSIGN(const auto word, text(key));
    const auto value = whole_number(word);
    if (!value) return wrong("'{}' is no whole number", key);
    return *value;
  }
  Result<TaskKind> kind() {
    TESSERA_ASSIGN(const auto word, text("kind"));
    for (const auto kind : kKinds)
      if (word == name_of(kind)) return kind;
    return wrong("'kind' is '{}', which is none", word);
  }
  Result<Tensor> doubles(const std::string& name, int64_t columns) {
    const auto node = tensors.extract(name);
    if (node.empty() || node.mapped().scalar_type() != at::kDouble || node.mapped().dim() != 2 ||
        node.mapped().size(1) != columns)
      return wrong("'{}' is missing or misshapen", name);
    return node.mapped().contiguous();
  }
  Status done() const {
    if (!tensors.empty()) return wrong("'{}' is not expected", tensors.begin()->first);
    if (!meta_.empty()) return wrong("'{}' is not expected", meta_.begin()->first);
    return ok();
  }
  template <class... Args>
  Status wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(Error::kInvalid, "{}: {}", what_, fmt::format(text, std::forward<Args>(args)...));
  }

  TensorDict tensors;

 private:
  Metadata meta_;
  const char* what_;
};

Metadata envelope(ClientId client, TaskKind kind, int64_t round, int64_t attempt) {
  return {{"client", std::to_string(client)},
          {"kind", name_of(kind)},
          {"round", std::to_string(round)},
          {"attempt", std::to_string(attempt)}};
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

/// What `m` counts, class by class.
Result<Confusion> confusion_of(Fields& fields, const std::string& name, const ClientMetrics& m) {
  const auto node = fields.tensors.extract(name);
  if (node.empty() || node.mapped().scalar_type() != at::kLong || node.mapped().dim() != 2 ||
      node.mapped().size(0) != node.mapped().size(1) || node.mapped().size(0) < 1 ||
      node.mapped().size(0) > kMostConfusionClasses)
    return fields.wrong("'{}' is missing or misshapen", name);
  const auto counts = node.mapped().contiguous();
  const auto* first = counts.data_ptr<int64_t>();
  Confusion out{counts.size(0), {first, first + counts.numel()}};
  int64_t sum = 0, hits = 0;
  for (const int64_t n : out.counts) {
    if (n < 0 || n > m.n - sum) return fields.wrong("'{}' does not count {} samples", name, m.n);
    sum += n;
  }
  for (int64_t k = 0; k < out.classes; ++k) hits += out.at(k, k);
  if (sum != m.n || hits != m.correct)
    return fields.wrong("'{}' counts {} of {} samples as correct where 'metrics' has {} of {}",
                        name, hits, sum, m.correct, m.n);
  return out;
}

Result<Evaluation> evaluation_of(Fields& fields, ClientId client) {
  TESSERA_ASSIGN(const auto rows, fields.doubles("metrics", kColumns));
  if (rows.size(0) != kAlways && rows.size(0) != kWithGlobal)
    return fields.wrong("'metrics' has {} rows", rows.size(0));
  for (int64_t row = 0; row < rows.size(0); ++row)
    if (const double* at = rows.data_ptr<double>() + row * kColumns; !are_counts(at[0], at[1]))
      return fields.wrong("row {} of 'metrics' counts {} of {} samples", row, at[1], at[0]);
  const auto metrics = [&](int64_t row) {
    return metrics_of(rows.data_ptr<double>() + row * kColumns);
  };
  Evaluation out{client, metrics(0), metrics(1), metrics(2), metrics(3)};
  if (rows.size(0) == kWithGlobal) out.global_test = metrics(4), out.global_val = metrics(5);
  out.notes = taken(fields.tensors, "notes/");
  if (fields.tensors.contains("confusion/pre") || fields.tensors.contains("confusion/post")) {
    TESSERA_ASSIGN(out.pre_confusion, confusion_of(fields, "confusion/pre", out.pre_test));
    TESSERA_ASSIGN(out.post_confusion, confusion_of(fields, "confusion/post", out.post_test));
    if (out.pre_confusion->classes != out.post_confusion->classes)
      return fields.wrong("'confusion/pre' and 'confusion/post' differ in their classes");
  }
  return out;
}

bool carries_download(TaskKind kind) {
  return kind == TaskKind::kTrain || kind == TaskKind::kJoin || kind == TaskKind::kEvaluate;
}
bool carries_upload(TaskKind kind) { return kind == TaskKind::kTrain || kind == TaskKind::kJoin; }

// Bits of `flags`.
constexpr int64_t kAccepted = 1, kKeepStep = 2, kLast = 4;

int64_t flags_of_kind(TaskKind kind) {
  if (kind == TaskKind::kSettle) return kAccepted;
  return kind == TaskKind::kEvaluate ? kKeepStep | kLast : 0;
}

}  // namespace

const char* name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::kHello:
      return "hello";
    case TaskKind::kTrain:
      return "train";
    case TaskKind::kJoin:
      return "join";
    case TaskKind::kEvaluate:
      return "evaluate";
    case TaskKind::kSettle:
      return "settle";
  }
  return "";
}

Reply refused(const Task& task, Status status) {
  Reply out;
  out.client = task.client, out.kind = task.kind;
  out.round = task.round, out.attempt = task.attempt;
  out.status = std::move(status);
  return out;
}

Bytes encode_task(const Task& task) {
  auto meta = envelope(task.client, task.kind, task.round, task.attempt);
  meta["flags"] = std::to_string((task.accepted ? kAccepted : 0) |
                                 (task.keep_step ? kKeepStep : 0) | (task.last ? kLast : 0));
  TensorDict all;
  put_all(all, "down/", task.down);
  if (task.global) put_all(all, "global/", pack(*task.global));
  return encode(all, meta);
}

Result<Task> decode_task(std::shared_ptr<const Bytes> bytes) {
  TESSERA_ASSIGN(auto decoded, decode(std::move(bytes), "task"));
  Fields fields(std::move(decoded), "task");
  Task out;
  TESSERA_ASSIGN(out.client, fields.number("client"));
  TESSERA_ASSIGN(out.kind, fields.kind());
  TESSERA_ASSIGN(out.round, fields.number("round"));
  TESSERA_ASSIGN(out.attempt, fields.number("attempt"));
  TESSERA_ASSIGN(const auto flags, fields.number("flags"));
  if (flags & ~flags_of_kind(out.kind))
    return fields.wrong("'flags' is {} in a task of kind '{}'", flags, name_of(out.kind));
  out.accepted = flags & kAccepted, out.keep_step = flags & kKeepStep, out.last = flags & kLast;
  if (carries_download(out.kind)) out.down = taken(fields.tensors, "down/");
  TensorDict global;
  if (out.kind == TaskKind::kEvaluate) global = taken(fields.tensors, "global/");
  TESSERA_RETURN_IF_ERROR(fields.done());
  if (global.empty()) return out;
  try {
    out.global = unpack<Weights>(std::move(global));
  } catch (const std::exception& error) {
    return fields.wrong("'global': {}", error.what());
  }
  return out;
}

Bytes encode_reply(const Reply& reply) {
  auto meta = envelope(reply.client, reply.kind, reply.round, reply.attempt);
  TensorDict all{
      {"numbers", at::tensor({reply.loss, reply.cpu_seconds}, at::kDouble).view({1, 2})}};
  put_all(all, "up/", reply.up);
  if (!reply.status.ok()) {
    const auto at = std::find(kErrors.begin(), kErrors.end(), error_of(reply.status));
    meta["error"] = kErrorNames[static_cast<size_t>(at - kErrors.begin())];
    meta["message"] = message(reply.status);
  }
  if (reply.evaluation) all.merge(evaluation_tensors(*reply.evaluation));
  if (reply.hello) {
    const auto& h = *reply.hello;
    meta["name"] = h.name;
    meta["train"] = std::to_string(h.train), meta["val"] = std::to_string(h.val);
    meta["test"] = std::to_string(h.test), meta["support"] = std::to_string(h.support);
  }
  return encode(all, meta);
}

Result<Reply> decode_reply(std::shared_ptr<const Bytes> bytes) {
  TESSERA_ASSIGN(auto decoded, decode(std::move(bytes), "reply"));
  const bool failed = decoded.metadata.contains("error");
  Fields fields(std::move(decoded), "reply");
  Reply out;
  TESSERA_ASSIGN(out.client, fields.number("client"));
  TESSERA_ASSIGN(out.kind, fields.kind());
  TESSERA_ASSIGN(out.round, fields.number("round"));
  TESSERA_ASSIGN(out.attempt, fields.number("attempt"));
  TESSERA_ASSIGN(const auto numbers, fields.doubles("numbers", 2));
  if (numbers.size(0) != 1) return fields.wrong("'numbers' has {} rows", numbers.size(0));
  out.loss = numbers.data_ptr<double>()[0], out.cpu_seconds = numbers.data_ptr<double>()[1];
  if (failed) {
    TESSERA_ASSIGN(const auto error, fields.text("error"));
    TESSERA_ASSIGN(const auto text, fields.text("message"));
    const auto at = std::find(kErrorNames.begin(), kErrorNames.end(), error);
    if (at == kErrorNames.end()) return fields.wrong("'error' is '{}', which is none", error);
    out.status = fail(kErrors[static_cast<size_t>(at - kErrorNames.begin())], "{}", text);
  }
  if (out.kind == TaskKind::kHello && !failed) {
    Hello hello;
    TESSERA_ASSIGN(hello.name, fields.text("name"));
    TESSERA_ASSIGN(hello.train, fields.number("train"));
    TESSERA_ASSIGN(hello.val, fields.number("val"));
    TESSERA_ASSIGN(hello.test, fields.number("test"));
    TESSERA_ASSIGN(hello.support, fields.number("support"));
    out.hello = std::move(hello);
  }
  if (out.kind == TaskKind::kEvaluate && !failed) {
    TESSERA_ASSIGN(out.evaluation, evaluation_of(fields, out.client));
  }
  if (carries_upload(out.kind)) out.up = taken(fields.tensors, "up/");
  TESSERA_RETURN_IF_ERROR(fields.done());
  return out;
}

}  // namespace tessera
