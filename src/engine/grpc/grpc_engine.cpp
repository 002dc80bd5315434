#include "engine/grpc/grpc_engine.hpp"

#include <map>
#include <optional>

#include "base/parallel.hpp"
#include "base/reason.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

Status late() { return because(Reason::kLate, fail(Error::kBusy, "no answer in time")); }
Status not_needed() { return because(Reason::kLate, fail(Error::kBusy, "not needed")); }

using SteadyTime = std::chrono::steady_clock::time_point;

// So often it is looked whether the run was stopped and who has gone.
constexpr std::chrono::milliseconds kBoardLook{100};
// Settlements that wait for the disk together: a file system writes many files about as fast as
// one (measured on ext4: 7.5 ms a file one after the other, 0.5 ms by 16 threads).
constexpr size_t kSettlesAtOnce = 64;
constexpr int kSettleThreads = 16;

/// What a client delivered, read with mistrust: its bytes may be anything.
Reply reply_to(const Task& task, const std::shared_ptr<const Bytes>& bytes) {
  try {
    auto reply = decode_reply(bytes);
    if (!reply.ok())
      return refused(task, fail(error_of(reply.status()), "{}",
                                printable(message(reply.status()), kMostReason)));
    if (reply->client != task.client || reply->kind != task.kind || reply->round != task.round ||
        reply->attempt != task.attempt)
      return refused(task, fail(Error::kInvalid,
                                "the reply is of client {}, {}, round {}, attempt {}, not of what "
                                "was asked",
                                reply->client, name_of(reply->kind), reply->round, reply->attempt));
    if (!reply->status.ok()) {
      const bool stopped = error_of(reply->status) == Error::kInterrupted;
      const auto said = printable(message(reply->status), kMostReason);
      return refused(task,
                     because(Reason::kFailed,
                             fail(stopped ? Error::kBusy : error_of(reply->status), "{}", said)));
    }
    return *std::move(reply);
  } catch (const std::exception& error) {
    return refused(task, because(Reason::kDamaged, fail(Error::kInvalid, "reply: {}",
                                                        printable(error.what(), kMostReason))));
  }
}

}  // namespace

/// One run: what is open, and how it is answered.
class GrpcEngine::Round {
 public:
  Round(GrpcEngine& engine, const Limits& limits, const OnReply& on_reply)
      : board_(engine.board_),
        options_(engine.options_),
        until_(limits.deadline ? *limits.deadline
                               : std::chrono::steady_clock::now() + options_.patience),
        enough_(limits.enough),
        most_upload_(limits.most_upload),
        on_reply_(on_reply) {}

  void post(Task task) {
    const auto status = begin(task);
    if (status.ok()) return;
    on_reply_(refused(task, status));
  }
  /// Until nothing is open.
  void finish() {
    settle_all();
    while (!open_.empty()) step();
  }
  /// As if nothing had been posted.
  void abandon() {
    for (const auto& [client, open] : open_) board_.withdraw(client, open.ticket);
    open_.clear();
  }

 private:
  struct Open {
    Task task;  // without its tensors
    std::string ticket;
    int64_t bytes = 0;      // on the board
    int64_t wire_down = 0;  // as the local engine counts
  };

  bool stopped() const { return options_.stop && options_.stop->load(); }

  /// Fine once the task is open or answered.
  Status begin(Task& task);
  /// Puts settles_ onto the board and answers them.
  void settle_all();
  /// Takes what has come, or waits a moment for it; answers what needs no more waiting.
  void step();
  void take(const DeliveredReply& delivered);
  /// Answers an open task without a reply of its client.
  void give_up(ClientId client, const Status& why, bool withdraw);
  void give_up_all(const Status& why, bool withdraw) {
    while (!open_.empty()) give_up(open_.begin()->first, why, withdraw);
  }
  void drop_those_gone();
  /// Closes before it answers: on_reply may throw.
  void answer(std::map<ClientId, Open>::iterator at, Reply reply);

  TaskBoard& board_;
  const GrpcEngineOptions& options_;
  const SteadyTime until_;
  const int64_t enough_;
  const int64_t most_upload_;
  const OnReply& on_reply_;
  std::vector<Task> settles_;  // not on the board yet
  std::map<ClientId, Open> open_;
  int64_t bytes_ = 0;    // of open_
  int64_t trained_ = 0;  // good replies of kTrain
};

Status GrpcEngine::Round::begin(Task& task) {
  if (task.kind == TaskKind::kHello) {
    auto reply = refused(task, ok());
    reply.hello = Hello{.name = options_.name(task.client)};
    on_reply_(std::move(reply));
    return ok();
  }
  if (task.kind == TaskKind::kSettle) {
    settles_.push_back(std::move(task));
    if (settles_.size() >= kSettlesAtOnce) settle_all();
    return ok();
  }
  // What has come meanwhile need not pile up.
  while (const auto delivered = board_.next({})) take(*delivered);
  const auto bytes = std::make_shared<const Bytes>(encode_task(task));
  while (!open_.empty() && bytes_ + std::ssize(*bytes) > options_.memory) step();
  if (stopped()) return fail(Error::kInterrupted, "stopped");
  if (open_.contains(task.client)) return fail(Error::kInternal, "asked twice in one run");
  if (!options_.present(task.client))
    return fail(Error::kNotFound, "not there: has never enrolled, has left or was sent away");
  if (std::chrono::steady_clock::now() >= until_) return late();
  if (task.kind == TaskKind::kTrain && enough_ > 0 && trained_ >= enough_) return not_needed();
  Open open{.ticket = ticket_of(*bytes),
            .bytes = std::ssize(*bytes),
            .wire_down = encoded_size(task.down)};
  task.down.clear();
  task.global.reset();
  if (options_.before_post) options_.before_post(task, open.ticket);
  TESSERA_RETURN_IF_ERROR(
      board_.post(task.client, bytes, open.ticket, most_reply(task.kind, most_upload_)));
  bytes_ += open.bytes;
  const ClientId client = task.client;
  open.task = std::move(task);
  const auto& posted = open_.emplace(client, std::move(open)).first->second;
  if (options_.on_post) options_.on_post(posted.task, posted.ticket);
  return ok();
}

void GrpcEngine::Round::settle_all() {
  const auto tasks = std::exchange(settles_, {});
  std::vector<std::shared_ptr<const Bytes>> bytes;
  std::vector<std::string> tickets;
  for (const auto& task : tasks) {
    bytes.push_back(std::make_shared<const Bytes>(encode_task(task)));
    tickets.push_back(ticket_of(*bytes.back()));
    if (options_.before_post) options_.before_post(task, tickets.back());
  }
  std::vector<Status> posted(tasks.size());
  parallel_for(std::ssize(tasks), kSettleThreads, [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    posted[i] = board_.post_settle(tasks[i].client, bytes[i], tickets[i]);
  });
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (posted[i].ok() && options_.on_post) options_.on_post(tasks[i], tickets[i]);
    on_reply_(refused(tasks[i], posted[i]));
  }
}

void GrpcEngine::Round::step() {
  if (stopped()) return give_up_all(fail(Error::kInterrupted, "stopped"), false);
  const auto now = std::chrono::steady_clock::now();
  const auto delivered = board_.next(std::min(until_, now + kBoardLook));
  if (delivered) return take(*delivered);
  if (std::chrono::steady_clock::now() >= until_) return give_up_all(late(), true);
  drop_those_gone();
}

void GrpcEngine::Round::take(const DeliveredReply& delivered) {
  const auto at = open_.find(delivered.member);
  if (at == open_.end() || at->second.ticket != delivered.ticket) return;  // of an earlier run
  auto reply = delivered.refused.empty()
                   ? reply_to(at->second.task, delivered.bytes)
                   : refused(at->second.task,
                             because(Reason::kDamaged,
                                     fail(Error::kInvalid, "reply: {}", delivered.refused)));
  reply.wire_up = encoded_size(reply.up);
  const bool good = reply.status.ok();
  if (good && reply.kind == TaskKind::kTrain) ++trained_;
  if (good && reply.kind != TaskKind::kGuard && options_.on_client) options_.on_client();
  answer(at, std::move(reply));
  if (enough_ == 0 || trained_ < enough_) return;
  std::vector<ClientId> others;
  for (const auto& [client, open] : open_)
    if (open.task.kind == TaskKind::kTrain) others.push_back(client);
  for (const ClientId client : others) give_up(client, not_needed(), true);
}

void GrpcEngine::Round::give_up(ClientId client, const Status& why, bool withdraw) {
  const auto at = open_.find(client);
  // A download that nobody has fetched was not sent.
  const auto seen = board_.member(client);
  if (!seen.offered || seen.settle_waits || !seen.fetched) at->second.wire_down = 0;
  if (withdraw) board_.withdraw(client, at->second.ticket);
  answer(at, refused(at->second.task, why));
}

void GrpcEngine::Round::drop_those_gone() {
  std::vector<ClientId> gone;
  for (const auto& [client, open] : open_)
    if (!options_.present(client)) gone.push_back(client);
  for (const ClientId client : gone)
    give_up(client, fail(Error::kNotFound, "has left or was sent away"), true);
}

void GrpcEngine::Round::answer(std::map<ClientId, Open>::iterator at, Reply reply) {
  reply.wire_down = at->second.wire_down;
  bytes_ -= at->second.bytes;
  open_.erase(at);
  on_reply_(std::move(reply));
}

GrpcEngine::GrpcEngine(TaskBoard& board, GrpcEngineOptions options)
    : board_(board), options_(std::move(options)) {}

void GrpcEngine::run(const std::function<void(const Post&)>& ask, Limits limits,
                     const OnReply& on_reply) {
  Round round(*this, limits, on_reply);
  try {
    ask([&](Task task) { round.post(std::move(task)); });
    round.finish();
  } catch (...) {
    round.abandon();
    throw;
  }
}

}  // namespace tessera
