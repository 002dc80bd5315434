// A call of gRPC's whose waits end in time.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tessera {

/// One call with a completion queue of its own: the calling thread begins an operation with tag(),
/// then waits for it. gRPC's synchronous interface has no way to look at a stop flag while it
/// waits, and needs a second thread to end a transfer that does not move. Used by one thread.
class RpcCall {
 public:
  using Time = std::chrono::milliseconds;
  /// At most this long after it was set a stop flag is seen.
  static constexpr Time kLook{100};

  /// `stop` may be null. `deadline` is for the call as a whole.
  RpcCall(const std::atomic<bool>* stop, Time deadline) : stop_(stop) {
    context.set_deadline(std::chrono::system_clock::now() + deadline);
  }
  RpcCall(const RpcCall&) = delete;
  RpcCall& operator=(const RpcCall&) = delete;
  /// Every operation has been waited for.
  ~RpcCall() {
    queue.Shutdown();
    void* ignored = nullptr;
    bool okay = false;
    while (queue.Next(&ignored, &okay)) {
    }
  }

  /// For the one operation that is under way.
  void* tag() { return this; }
  /// Waits for it; true if it succeeded. After `most`, or when stopped, the call is cancelled, upon
  /// which gRPC ends the operation at once.
  bool wait(Time most) {
    const auto until = std::chrono::steady_clock::now() + most;
    for (;;) {
      const auto left = std::chrono::duration_cast<Time>(until - std::chrono::steady_clock::now());
      const auto look = std::clamp(left, Time(1), stop_ ? kLook : Time(60'000));
      void* ignored = nullptr;
      bool okay = false;
      const auto event = queue.AsyncNext(&ignored, &okay, std::chrono::system_clock::now() + look);
      if (event != grpc::CompletionQueue::TIMEOUT) return okay;
      if ((stop_ && stop_->load()) || std::chrono::steady_clock::now() >= until)
        context.TryCancel();
    }
  }

  grpc::CompletionQueue queue;  // first: outlives the context's call
  grpc::ClientContext context;

 private:
  const std::atomic<bool>* stop_;
};

}  // namespace tessera
