#include "engine/envelope.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr std::array kKinds{TaskKind::kHello,    TaskKind::kTrain,  TaskKind::kJoin,
                            TaskKind::kEvaluate, TaskKind::kSettle, TaskKind::kGuard};
constexpr std::array kErrors{Error::kInvalid, Error::kNotFound,    Error::kExists,  Error::kBusy,
                             Error::kIo,      Error::kInterrupted, Error::kInternal};
constexpr std::array kErrorNames{"invalid", "not found",   "exists",  "busy",
                                 "io",      "interrupted", "internal"};
// Rows of metrics in an evaluation.
constexpr size_t kAlways = 4, kWithGlobal = 6;
// Bits of `flags`.
constexpr int64_t kAccepted = 1, kKeepStep = 2, kLast = 4;

int64_t flags_of_kind(TaskKind kind) {
  if (kind == TaskKind::kSettle) return kAccepted;
  return kind == TaskKind::kEvaluate ? kKeepStep | kLast : 0;
}

/// The range of a figure. What is measured has no value where there is nothing to measure: NaN is
/// in none of these ranges, and fine.
struct Figure {
  const char* name;
  double least, most;
};
// Sums over clients of what is in these ranges are finite. A share may pass 1 by rounding.
constexpr double kMostCount = 1e15, kMostLoss = 1e15, kMostSeconds = 1e9, kRounding = 1e-6;
constexpr std::array<Figure, EvaluationRows::kColumns> kFigures{
    {{"samples", 0, kMostCount},
     {"correct", 0, kMostCount},
     {"loss", -kRounding, kMostLoss},
     {"precision", -kRounding, 1 + kRounding},
     {"F1", -kRounding, 1 + kRounding},
     {"F1 of the classes that are there", -kRounding, 1 + kRounding},
     {"balanced accuracy", -kRounding, 1 + kRounding},
     {"AUROC", -kRounding, 1 + kRounding},
     {"calibration error", -kRounding, 1 + kRounding}}};
constexpr size_t kLossColumn = 2;

bool in_range(const Figure& figure, double value) {
  return value >= figure.least && value <= figure.most;
}

bool has_upload(TaskKind kind) {
  return kind == TaskKind::kTrain || kind == TaskKind::kJoin || kind == TaskKind::kGuard;
}

// Counts, that is: a sum over clients stays exact, and a cast cannot overflow.
bool are_counts(double samples, double correct) {
  return samples >= 0 && samples <= kMostCount && std::trunc(samples) == samples && correct >= 0 &&
         correct <= samples && std::trunc(correct) == correct;
}

/// What a reader takes: each thing once, and at the end nothing may be left.
class EnvelopeFields {
 public:
  EnvelopeFields(const SafeTensors& parsed, ByteSpan file, const char* what)
      : file_(file), meta_(parsed.metadata), what_(what) {
    for (const auto& entry : parsed.entries) entries_.emplace(entry.name, &entry);
  }

  bool has(const std::string& key) const { return meta_.contains(key); }
  bool has_tensor(const std::string& name) const { return entries_.contains(name); }
  Result<std::string> text(const std::string& key, size_t longest = kMostClientName) {
    const auto node = meta_.extract(key);
    if (node.empty()) return wrong("'{}' is missing", key);
    if (node.mapped().size() > longest)
      return wrong("'{}' has {} bytes; at most {} are allowed", key, node.mapped().size(), longest);
    return node.mapped();
  }
  /// A number of samples.
  Result<int64_t> count(const std::string& key) {
    TESSERA_ASSIGN(const auto value, number(key));
    if (static_cast<double>(value) > kMostCount)
      return wrong("'{}' is {}; nobody has more than {:.0e}", key, value, kMostCount);
    return value;
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
    return wrong("'kind' is '{}', which is none", printable(word));
  }
  /// The numbers of a tensor that has this type, two axes, and a shape that `fits` accepts.
  template <class T>
  Result<std::vector<T>> table(const std::string& name, DType dtype, auto&& fits) {
    const auto node = entries_.extract(name);
    if (node.empty() || node.mapped()->dtype != dtype || node.mapped()->shape.size() != 2 ||
        !fits(node.mapped()->shape[0], node.mapped()->shape[1]))
      return wrong("'{}' is missing or misshapen", name);
    const auto data =
        file_.subspan(node.mapped()->begin, node.mapped()->end - node.mapped()->begin);
    std::vector<T> out(data.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), data.data(), data.size());
    return out;
  }
  /// Those of a model, whose names begin so.
  void leave(const std::string& prefix) {
    for (auto at = entries_.lower_bound(prefix);
         at != entries_.end() && at->first.starts_with(prefix);)
      at = entries_.erase(at);
  }
  Status done() const {
    if (!entries_.empty()) return wrong("'{}' is not expected", printable(entries_.begin()->first));
    if (!meta_.empty()) return wrong("'{}' is not expected", printable(meta_.begin()->first));
    return ok();
  }
  template <class... Args>
  Status wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(Error::kInvalid, "{}: {}", what_, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  ByteSpan file_;
  std::map<std::string, std::string> meta_;
  std::map<std::string, const SafeTensors::Entry*> entries_;
  const char* what_;
};

/// Who and when, the same in tasks and replies.
template <class Envelope>
Status read_address(EnvelopeFields& fields, Envelope& out) {
  TESSERA_ASSIGN(out.client, fields.number("client"));
  TESSERA_ASSIGN(out.kind, fields.kind());
  TESSERA_ASSIGN(out.round, fields.number("round"));
  TESSERA_ASSIGN(out.attempt, fields.number("attempt"));
  return ok();
}

template <class Envelope>
std::map<std::string, std::string> address_of(const Envelope& envelope) {
  return {{"client", std::to_string(envelope.client)},
          {"kind", name_of(envelope.kind)},
          {"round", std::to_string(envelope.round)},
          {"attempt", std::to_string(envelope.attempt)}};
}

Result<Hello> read_hello(EnvelopeFields& fields) {
  Hello out;
  TESSERA_ASSIGN(out.name, fields.text("name"));
  TESSERA_ASSIGN(out.train, fields.count("train"));
  TESSERA_ASSIGN(out.val, fields.count("val"));
  TESSERA_ASSIGN(out.test, fields.count("test"));
  TESSERA_ASSIGN(out.support, fields.count("support"));
  return out;
}

/// What `samples` and `correct` count, class by class.
Result<CountTable> read_confusion(EnvelopeFields& fields, const std::string& name, double samples,
                                  double correct) {
  CountTable out;
  TESSERA_ASSIGN(out.counts,
                 fields.table<int64_t>(name, DType::kI64, [&](int64_t rows, int64_t columns) {
                   out.classes = rows;
                   return rows == columns && rows >= 1 && rows <= EvaluationRows::kMostClasses;
                 }));
  const auto n = static_cast<int64_t>(samples), right = static_cast<int64_t>(correct);
  int64_t sum = 0, hits = 0;
  for (const int64_t count : out.counts) {
    if (count < 0 || count > n - sum)
      return fields.wrong("'{}' does not count {} samples", name, n);
    sum += count;
  }
  for (int64_t k = 0; k < out.classes; ++k)
    hits += out.counts[static_cast<size_t>(k * out.classes + k)];
  if (sum != n || hits != right)
    return fields.wrong("'{}' counts {} of {} samples as correct where 'metrics' has {} of {}",
                        name, hits, sum, right, n);
  return out;
}

/// Every figure of a row against its range.
Status check_row(const EnvelopeFields& fields, size_t number,
                 const std::array<double, EvaluationRows::kColumns>& row) {
  if (!are_counts(row[0], row[1]))
    return fields.wrong("row {} of 'metrics' counts {} of {} samples", number, row[1], row[0]);
  for (size_t i = kLossColumn; i < row.size(); ++i) {
    // A model that diverged has no finite loss: whoever knows the views says so (run/driver.cpp).
    if (std::isnan(row[i]) || (i == kLossColumn && std::isinf(row[i]))) continue;
    if (!in_range(kFigures[i], row[i]))
      return fields.wrong("row {} of 'metrics': its {} is {:.3g}, not 0 … {:g}", number,
                          kFigures[i].name, row[i], std::round(kFigures[i].most));
  }
  return ok();
}

/// The two numbers of every reply.
Status read_numbers(EnvelopeFields& fields, ReplyEnvelope& out) {
  TESSERA_ASSIGN(const auto numbers,
                 fields.table<double>("numbers", DType::kF64, [](int64_t rows, int64_t columns) {
                   return rows == 1 && columns == 2;
                 }));
  out.loss = numbers[0], out.cpu_seconds = numbers[1];
  // Losses of a method's own may be below 0; what is not finite is judged with the upload.
  if (std::isfinite(out.loss) && std::abs(out.loss) > kMostLoss)
    return fields.wrong("its loss is {:.3g}; numbers beyond {:.0e} are refused", out.loss,
                        kMostLoss);
  if (!in_range({"seconds", 0, kMostSeconds}, out.cpu_seconds))
    return fields.wrong("its work took {:.3g} seconds, not 0 … {:g}", out.cpu_seconds,
                        kMostSeconds);
  return ok();
}

Result<EvaluationRows> read_evaluation(EnvelopeFields& fields) {
  constexpr size_t kColumns = EvaluationRows::kColumns;
  TESSERA_ASSIGN(const auto flat,
                 fields.table<double>("metrics", DType::kF64, [](int64_t, int64_t columns) {
                   return columns == static_cast<int64_t>(kColumns);
                 }));
  EvaluationRows out;
  out.metrics.resize(flat.size() / kColumns);
  if (out.metrics.size() != kAlways && out.metrics.size() != kWithGlobal)
    return fields.wrong("'metrics' has {} rows", out.metrics.size());
  for (size_t row = 0; row < out.metrics.size(); ++row) {
    auto& to = out.metrics[row];
    std::copy_n(flat.begin() + static_cast<std::ptrdiff_t>(row * kColumns), kColumns, to.begin());
    TESSERA_RETURN_IF_ERROR(check_row(fields, row, to));
  }
  fields.leave("notes/");
  if (!fields.has_tensor("confusion/pre") && !fields.has_tensor("confusion/post")) return out;
  const auto &pre = out.metrics[0], &post = out.metrics[1];
  TESSERA_ASSIGN(out.pre, read_confusion(fields, "confusion/pre", pre[0], pre[1]));
  TESSERA_ASSIGN(out.post, read_confusion(fields, "confusion/post", post[0], post[1]));
  if (out.pre->classes != out.post->classes)
    return fields.wrong("'confusion/pre' and 'confusion/post' differ in their classes");
  return out;
}

/// What a client says of its failure; fine where it does not.
Status read_failure(EnvelopeFields& fields, Status& status) {
  if (!fields.has("error")) return ok();
  TESSERA_ASSIGN(const auto error, fields.text("error"));
  TESSERA_ASSIGN(const auto text, fields.text("message", kMostReason));
  const auto at = std::find(kErrorNames.begin(), kErrorNames.end(), error);
  if (at == kErrorNames.end())
    return fields.wrong("'error' is '{}', which is none", printable(error));
  status = fail(kErrors[static_cast<size_t>(at - kErrorNames.begin())], "{}", text);
  return ok();
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
    case TaskKind::kGuard:
      return "guard";
  }
  return "";
}

int64_t most_reply(TaskKind kind, int64_t upload) {
  // Both confusions of as many classes as there may be.
  constexpr int64_t kTables = 2 * static_cast<int64_t>(sizeof(int64_t)) *
                              EvaluationRows::kMostClasses * EvaluationRows::kMostClasses;
  if (kind == TaskKind::kEvaluate) return kMostEnvelope + kTables + kMostNotes;
  if (!has_upload(kind)) return kMostEnvelope;
  return upload > 0 ? kMostEnvelope + upload : 0;
}

std::map<std::string, std::string> metadata_of(const TaskEnvelope& envelope) {
  auto out = address_of(envelope);
  out["flags"] = std::to_string((envelope.accepted ? kAccepted : 0) |
                                (envelope.keep_step ? kKeepStep : 0) | (envelope.last ? kLast : 0));
  return out;
}

std::map<std::string, std::string> metadata_of(const ReplyEnvelope& envelope) {
  auto out = address_of(envelope);
  if (!envelope.status.ok()) {
    const auto at = std::find(kErrors.begin(), kErrors.end(), error_of(envelope.status));
    out["error"] = kErrorNames[static_cast<size_t>(at - kErrors.begin())];
    const auto text = message(envelope.status);
    constexpr size_t kCut = kMostReason - std::string_view("…").size();
    out["message"] = text.size() > kMostReason ? printable(text, kCut) : text;
  }
  if (envelope.hello) {
    const auto& h = *envelope.hello;
    out["name"] = h.name;
    out["train"] = std::to_string(h.train), out["val"] = std::to_string(h.val);
    out["test"] = std::to_string(h.test), out["support"] = std::to_string(h.support);
  }
  return out;
}

Result<TaskEnvelope> read_task_envelope(const SafeTensors& parsed) {
  EnvelopeFields fields(parsed, {}, "task");
  TaskEnvelope out;
  TESSERA_RETURN_IF_ERROR(read_address(fields, out));
  TESSERA_ASSIGN(const auto flags, fields.number("flags"));
  if (flags & ~flags_of_kind(out.kind))
    return fields.wrong("'flags' is {} in a task of kind '{}'", flags, name_of(out.kind));
  out.accepted = flags & kAccepted, out.keep_step = flags & kKeepStep, out.last = flags & kLast;
  const bool evaluate = out.kind == TaskKind::kEvaluate;
  if (evaluate || has_upload(out.kind)) fields.leave("down/");
  if (evaluate) fields.leave("global/");
  TESSERA_RETURN_IF_ERROR(fields.done());
  return out;
}

Result<ReplyEnvelope> read_reply_envelope(const SafeTensors& parsed, ByteSpan file) {
  EnvelopeFields fields(parsed, file, "reply");
  ReplyEnvelope out;
  TESSERA_RETURN_IF_ERROR(read_address(fields, out));
  TESSERA_RETURN_IF_ERROR(read_numbers(fields, out));
  TESSERA_RETURN_IF_ERROR(read_failure(fields, out.status));
  if (out.status.ok()) {
    if (out.kind == TaskKind::kHello) {
      TESSERA_ASSIGN(out.hello, read_hello(fields));
    }
    if (out.kind == TaskKind::kEvaluate) {
      TESSERA_ASSIGN(out.evaluation, read_evaluation(fields));
    }
    if (has_upload(out.kind)) fields.leave("up/");
  }
  TESSERA_RETURN_IF_ERROR(fields.done());
  return out;
}

}  // namespace tessera
