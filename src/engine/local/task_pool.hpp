// Threads that work while one thread corresponds with the outside.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tessera {

/// Jobs run on the pool's threads in the order they were submitted; what a job returns is for the
/// thread that takes it. All calls but those inside jobs are of one thread.
class TaskPool {
 public:
  using Then = std::function<void()>;
  using Job = std::function<Then()>;

  explicit TaskPool(int threads) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  /// Jobs not begun are forgotten; those begun are waited for.
  ~TaskPool() {
    {
      const std::scoped_lock guard(mutex_);
      closed_ = true, jobs_.clear();
    }
    to_do_.notify_all();
  }
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  void submit(Job job) {
    {
      const std::scoped_lock guard(mutex_);
      jobs_.push_back(std::move(job));
    }
    to_do_.notify_one();
  }
  /// What the next finished job returned; none: none has finished within `wait`.
  std::optional<Then> take(std::chrono::microseconds wait) {
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, wait, [this] { return !finished_.empty(); })) return std::nullopt;
    auto then = std::move(finished_.front());
    finished_.pop_front();
    return then;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      to_do_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
      if (closed_) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      auto then = job();
      job = nullptr;  // what it holds, as a download, goes before the lock comes back
      lock.lock();
      finished_.push_back(std::move(then));
      done_.notify_one();
    }
  }

  std::mutex mutex_;  // guards the following
  std::condition_variable to_do_, done_;
  std::deque<Job> jobs_;
  std::deque<Then> finished_;
  bool closed_ = false;
  std::vector<std::jthread> workers_;  // last: joined before the rest goes
};

}  // namespace tessera
