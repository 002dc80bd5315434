#include "engine/local/local_engine.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/reason.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

/// What is no work for another thread: greeting and settling a million clients would be nothing but
/// handing over.
bool is_work(TaskKind kind) { return kind != TaskKind::kSettle && kind != TaskKind::kHello; }

/// Tasks on their way to the workers, and replies on their way back.
class Exchange {
 public:
  explicit Exchange(size_t most) : most_(most) {}

  /// Waits while `most` tasks are under way or a reply is there to be delivered first.
  /// False: there is a reply to take.
  bool offer(Task& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < most_ || !replies_.empty(); });
    if (!replies_.empty()) return false;
    tasks_.push_back(std::move(task));
    ++under_way_;
    changed_.notify_all();
    return true;
  }
  /// The next reply; nothing once no task is under way.
  std::optional<Reply> take_reply() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !replies_.empty() || under_way_ == 0; });
    if (replies_.empty()) return std::nullopt;
    auto reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }
  /// For workers: nothing once closed.
  std::optional<Task> take_task() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !tasks_.empty() || closed_; });
    if (tasks_.empty()) return std::nullopt;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    changed_.notify_all();
    return task;
  }
  void give_reply(Reply reply) {
    const std::scoped_lock guard(mutex_);
    replies_.push_back(std::move(reply));
    --under_way_;
    changed_.notify_all();
  }
  /// No further tasks; those not begun are forgotten if `abandon`.
  void close(bool abandon) {
    const std::scoped_lock guard(mutex_);
    if (abandon) under_way_ -= tasks_.size(), tasks_.clear();
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::deque<Reply> replies_;
  size_t under_way_ = 0;  // posted and not replied to
  bool closed_ = false;
};

}  // namespace

LocalEngine::LocalEngine(ClientHost& host, LocalEngineOptions options)
    : host_(host), options_(std::move(options)) {}

Reply LocalEngine::handle(const Task& task, const Deadline& deadline) const {
  // Settling is never skipped: a client must learn whether its upload counted.
  const bool works = is_work(task.kind);
  if (works && options_.stop && options_.stop->load())
    return refused(task, fail(Error::kInterrupted, "stopped"));
  if (works && deadline && std::chrono::steady_clock::now() >= *deadline)
    return refused(task, because(Reason::kLate, fail(Error::kBusy, "no answer in time")));
  Reply reply;
  if (options_.through_wire) {
    auto received = decode_task(std::make_shared<const Bytes>(encode_task(task)));
    reply = received.ok() ? host_.handle(*received) : refused(task, received.status());
    auto returned = decode_reply(std::make_shared<const Bytes>(encode_reply(reply)));
    reply = returned.ok() ? *std::move(returned) : refused(task, returned.status());
  } else {
    reply = host_.handle(task);
  }
  reply.wire_down = encoded_size(task.down);
  reply.wire_up = encoded_size(reply.up);
  if (works && task.kind != TaskKind::kGuard && options_.on_client) options_.on_client();
  return reply;
}

void LocalEngine::run(const std::function<void(const Post&)>& ask, Limits limits,
                      const OnReply& on_reply) {
  const auto& deadline = limits.deadline;
  if (options_.threads <= 1) return ask([&](Task task) { on_reply(handle(task, deadline)); });
  Exchange exchange(static_cast<size_t>(options_.threads));
  std::vector<std::jthread> workers;
  for (int i = 0; i < options_.threads; ++i)
    workers.emplace_back([&] {
      while (auto task = exchange.take_task()) exchange.give_reply(handle(*task, deadline));
    });
  try {
    ask([&](Task task) {
      if (!is_work(task.kind)) return on_reply(handle(task, deadline));
      while (!exchange.offer(task)) on_reply(*exchange.take_reply());
    });
    exchange.close(false);
    while (auto reply = exchange.take_reply()) on_reply(*std::move(reply));
  } catch (...) {
    exchange.close(true);
    workers.clear();  // joins
    throw;
  }
}

}  // namespace tessera
