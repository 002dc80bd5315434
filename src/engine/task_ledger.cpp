#include "engine/task_ledger.hpp"

#include <filesystem>

#include "io/file.hpp"
#include "io/json.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kLedgerFormat = 1;
constexpr size_t kMostLedger = 4096;

// Rounds rise, and within one the attempts do.
bool comes_later(int64_t round, int64_t attempt, int64_t before_round, int64_t before_attempt) {
  return round > before_round || (round == before_round && attempt > before_attempt);
}

Status refused_task(const Task& task, const std::string& why) {
  return fail(Error::kInvalid, "a task of kind {} of round {} is refused by the client: {}",
              name_of(task.kind), task.round, why);
}

}  // namespace

Result<TaskLedger> TaskLedger::open(std::string path, const Session& session) {
  TaskLedger out(std::move(path), session);
  if (!std::filesystem::exists(out.path_)) return out;
  TESSERA_ASSIGN(const auto bytes, read_file(out.path_, kMostLedger));
  TESSERA_ASSIGN(const auto text, parse_json(text_of(bytes), out.path_));
  const auto damaged = [&] {
    return fail(Error::kInvalid,
                "{}: damaged, or of another version of tessera; what this client has sent so far "
                "cannot be told, so use another --state",
                out.path_);
  };
  try {
    if (text.at("format") != kLedgerFormat) return damaged();
    const auto entry = [&](const char* name, Entry& to) {
      const auto& from = text.at(name);
      from.at("round").get_to(to.round), from.at("attempt").get_to(to.attempt);
      from.at("ticket").get_to(to.ticket);
    };
    entry("trained", out.trained_), entry("met", out.met_), entry("evaluated", out.evaluated_);
    text.at("settled").get_to(out.settled_), text.at("masked").get_to(out.masked_);
  } catch (const json::exception&) {
    return damaged();
  }
  return out;
}

Status TaskLedger::write() const {
  const auto entry = [](const Entry& one) {
    return json{{"round", one.round}, {"attempt", one.attempt}, {"ticket", one.ticket}};
  };
  const json text{{"format", kLedgerFormat}, {"trained", entry(trained_)},
                  {"met", entry(met_)},      {"evaluated", entry(evaluated_)},
                  {"settled", settled_},     {"masked", masked_}};
  return write_file_atomic(path_, bytes_of(text.dump(1) + "\n"));
}

Status TaskLedger::may_train(const Task& task, const std::string& ticket) const {
  if (task.attempt != 1)
    return refused_task(task,
                        fmt::format("it is attempt {}, and a served round has one", task.attempt));
  if (task.round < trained_.round)
    return refused_task(task, fmt::format("it has trained in round {} since", trained_.round));
  if (task.round > trained_.round) return ok();
  if (ticket != trained_.ticket)
    return refused_task(task, "it has trained in this round on another download");
  if (settled_ >= task.round) return refused_task(task, "the round is settled");
  if (masked_ >= task.round)
    return refused_task(task, "its upload was masked, and there is no second sum of it");
  if (session_.guard().draws_fresh_noise())
    return refused_task(task, "it has answered before, and one upload is not told with two noises");
  return ok();
}

Status TaskLedger::begin(const Task& task, const std::string& ticket) {
  const auto take = [&](Entry& entry) -> Status {
    if (!comes_later(task.round, task.attempt, entry.round, entry.attempt)) {
      const bool same =
          task.round == entry.round && task.attempt == entry.attempt && ticket == entry.ticket;
      return same ? ok()
                  : refused_task(task, fmt::format("it has answered one of round {} with another "
                                                   "content",
                                                   entry.round));
    }
    entry = {task.round, task.attempt, ticket};
    return write();
  };
  switch (task.kind) {
    case TaskKind::kTrain:
      TESSERA_RETURN_IF_ERROR(may_train(task, ticket));
      trained_ = {task.round, task.attempt, ticket};
      return write();
    case TaskKind::kJoin:
      return take(met_);
    case TaskKind::kEvaluate:
      return take(evaluated_);
    case TaskKind::kGuard:
      if (task.round != trained_.round || task.attempt != trained_.attempt)
        return refused_task(task, "it has not trained in that round");
      if (settled_ >= task.round) return refused_task(task, "the round is settled");
      // Before the masked upload leaves: what comes after a kill must know that it has.
      if (!task.down.contains("shares") || masked_ == task.round) return ok();
      masked_ = task.round;
      return write();
    case TaskKind::kHello:
    case TaskKind::kSettle:
      return ok();
  }
  return refused_task(task, "it is of no known kind");
}

Status TaskLedger::settled(const Task& task) {
  if (task.round != trained_.round || settled_ >= task.round) return ok();
  settled_ = task.round;
  return write();
}

}  // namespace tessera
