#include "engine/task_check.hpp"

#include <ATen/ATen.h>

#include "base/text.hpp"
#include "guard/frame.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

Status within(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return ok();
  return fail(Error::kInvalid, "{} {}: this experiment has {} to {}", what, value, least, most);
}

Status check_training(const Task& task, bool newcomer, std::optional<int64_t> last) {
  if (newcomer) return fail(Error::kInvalid, "it is a newcomer, and newcomers do not train");
  if (last) TESSERA_RETURN_IF_ERROR(within("round", task.round, 1, *last));
  return within("attempt", task.attempt, 1, INT64_MAX);
}

Status check_exchange(const Session& session, const Task& task, bool newcomer,
                      std::optional<int64_t> last) {
  if (!newcomer)
    return fail(Error::kInvalid, "it is no newcomer, and nobody else is asked to introduce itself");
  const int64_t exchanges = session.method().exchanges();
  if (exchanges == 0)
    return fail(Error::kInvalid, "method {} has no exchange with newcomers", session.info().name);
  if (last && session.guard().promises())
    return fail(Error::kInvalid,
                "the guards of this experiment cover no exchange with newcomers, so nothing is "
                "sent in one");
  if (last) TESSERA_RETURN_IF_ERROR(within("round", task.round, 1, *last + 1));
  return within("exchange", task.attempt, 1, exchanges);
}

Status check_evaluation(const Task& task, std::optional<int64_t> last) {
  if (!last) return ok();
  TESSERA_RETURN_IF_ERROR(within("round", task.round, 1, *last + 1));
  if (task.last && task.round != *last + 1)
    return fail(Error::kInvalid, "an evaluation before round {} is not the last of {} rounds",
                task.round, *last);
  return ok();
}

Status check_guarding(const Session& session, const Task& task, bool newcomer,
                      std::optional<int64_t> last) {
  if (!session.guard().hides() || newcomer)
    return fail(Error::kInvalid, "there is no secure aggregation for it to take part in");
  return last ? within("round", task.round, 1, *last) : ok();
}

// Of a list that nobody is on yet the example has no rows; it may have any number of them.
TensorDict with_rows(TensorDict example, const TensorDict& down) {
  for (auto& [name, tensor] : example) {
    const auto sent = down.find(name);
    if (sent == down.end() || sent->second.dim() != tensor.dim()) continue;
    auto shape = tensor.sizes().vec();
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] == 0) shape[axis] = sent->second.size(static_cast<int64_t>(axis));
    if (tensor.numel() == 0) tensor = tensor.new_empty({1}).expand(shape);
  }
  return example;
}

}  // namespace

Status check_task(const Session& session, const Task& task, std::optional<int64_t> last) {
  const bool newcomer = session.is_newcomer(task.client);
  const auto checked = [&] {
    switch (task.kind) {
      case TaskKind::kHello:
      case TaskKind::kSettle:
        return ok();
      case TaskKind::kTrain:
        return check_training(task, newcomer, last);
      case TaskKind::kJoin:
        return check_exchange(session, task, newcomer, last);
      case TaskKind::kEvaluate:
        return check_evaluation(task, last);
      case TaskKind::kGuard:
        return check_guarding(session, task, newcomer, last);
    }
    return fail(Error::kInvalid, "it is of no known kind");
  }();
  return at_place(checked,
                  fmt::format("a task of kind {} is refused by the client", name_of(task.kind)));
}

DownloadForms::DownloadForms(const Session& session, ClientId client)
    : session_(session),
      client_(client),
      // Without the server's public data: it may train on them, which a comparison does not need.
      fresh_(session.method().init_server(session.client_setup(0))) {}

Result<TensorDict> DownloadForms::open(const Task& task) const {
  constexpr int64_t kMargin = int64_t{1} << 20;
  const auto& method = session_.method();
  const Why why = task.kind == TaskKind::kTrain      ? Why::kTrain
                  : task.kind == TaskKind::kEvaluate ? Why::kEvaluate
                                                     : Why::kJoin;
  TensorDict example;
  const Ask<TensorDict> ask{client_, session_.is_newcomer(client_) ? Why::kJoin : why};
  method.broadcast(*fresh_, std::span(&ask, 1), session_.client_setup(task.round),
                   [&](const auto&, TensorDict down) { example = std::move(down); });
  auto down = task.down;
  if (is_frame(down)) {
    // At most one of everything from everybody: heads to choose from, models of a cluster.
    const int64_t most = encoded_size(example) * (1 + session_.everybody()) + kMargin;
    TESSERA_ASSIGN(down, from_frame(down, most));
  }
  try {
    method.require_download(with_rows(std::move(example), down), down);
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "the download is none of method {}: {}", session_.info().name,
                first_line(error.what()));
  }
  return down;
}

}  // namespace tessera
