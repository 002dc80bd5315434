// Many members in one process: each with its identity and its connection, none with data.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "engine/grpc/transport.hpp"
#include "engine/task.hpp"

namespace tessera::bench {

using LoadTime = std::chrono::steady_clock::time_point;

/// What the members saw, and when. Thread-safe.
class Chronicle {
 public:
  struct Round {
    std::optional<LoadTime> begun;  // its first task came to a client
    std::vector<LoadTime> uploads;  // acknowledged
  };

  /// A poll brought a task that turned out to be this one; it was fetched.
  void fetched(const Task& task, LoadTime offered, int64_t bytes);
  void acknowledged(const Task& task, LoadTime when, int64_t bytes);
  void retried() { ++retries_; }

  /// Rounds that have begun; an evaluation after round t counts as round t + 1.
  int64_t begun() const { return begun_; }
  int64_t retries() const { return retries_; }
  int64_t messages() const { return messages_; }
  int64_t bytes() const { return bytes_; }
  int64_t largest_task() const { return largest_task_; }
  int64_t largest_reply() const { return largest_reply_; }
  /// By number, from 1; once nobody writes any more.
  const std::map<int64_t, Round>& rounds() const { return rounds_; }

 private:
  std::mutex mutex_;  // guards rounds_
  std::map<int64_t, Round> rounds_;
  std::atomic<int64_t> begun_ = 0, retries_ = 0, messages_ = 0, bytes_ = 0;
  std::atomic<int64_t> largest_task_ = 0, largest_reply_ = 0;
};

struct CrowdOptions {
  std::string server;  // "HOST:PORT"
  std::string dir;     // with id-NAME/ for every member
  int64_t clients = 0;
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
};

/// A thread for each member, from joining to the end. Its answers have the right form, so that the
/// server does all of its work: the upload is the download with every number moved a little.
class Crowd {
 public:
  /// Asks the server what it plays, as the first member, and starts them all.
  static Result<std::unique_ptr<Crowd>> start(CrowdOptions options, Chronicle& chronicle);
  ~Crowd();  // stops
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  bool all_done() const { return done_ == options_.clients; }
  bool failed() const { return failed_; }
  /// Ends everybody, and says what went wrong first.
  Status stop();
  /// Of the model that is trained.
  int64_t parameter_bytes() const { return parameter_bytes_; }

 private:
  Crowd(CrowdOptions options, Chronicle& chronicle)
      : options_(std::move(options)), chronicle_(chronicle) {}
  Status meet();
  Status take_part(int64_t number);
  Status handle(Transport& transport, const TaskOffer& offer, LoadTime offered);
  Result<std::unique_ptr<Transport>> connect(int64_t number);
  EnrollFacts facts_of(int64_t number, const FederationFacts& told) const;

  const CrowdOptions options_;
  Chronicle& chronicle_;
  std::string layout_digest_;
  int64_t parameter_bytes_ = 0;
  std::atomic<bool> stop_ = false, failed_ = false;
  std::atomic<int64_t> done_ = 0;
  std::mutex mutex_;  // guards the status
  Status status_;
  std::vector<std::jthread> members_;  // last: end first
};

}  // namespace tessera::bench
