// Ends transfers that do not move, so that nobody can keep a thread of the server busy for nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace tessera {

struct StreamLimits {
  /// A transfer in which no chunk was completed for so long is ended.
  std::chrono::milliseconds idle{60'000};
  /// So is one that is slower than this on average, once `grace` has passed. Bytes per second.
  int64_t least_rate = 512;
  std::chrono::milliseconds grace{30'000};
};

/// Knows every transfer under way. Thread-safe.
class StreamWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Direction { kFetch, kDeliver };

  /// `now` is the clock; empty: steady_clock's.
  explicit StreamWatch(StreamLimits limits, std::function<Time()> now = {});

  /// A transfer as long as it lasts; it ends with the object, which must not outlive the watch.
  class Stream {
   public:
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    /// A chunk went through.
    void moved(int64_t bytes);
    /// Why the transfer was ended from here; empty: it was not.
    std::string cut() const;

   private:
    friend class StreamWatch;
    using Key = std::pair<int64_t, Direction>;
    Stream(StreamWatch& watch, Key key, std::function<void()> cancel);
    void end(std::string why);  // the watch's mutex is held

    StreamWatch& watch_;
    const Key key_;
    const std::function<void()> cancel_;
    const Time begun_;
    Time last_;
    int64_t bytes_ = 0;
    std::string cut_;
  };

  /// `cancel` makes the transfer end soon; it is called at most once, by any thread, and not after
  /// the stream has gone. A member has one transfer in each direction: a second ends the first,
  /// which is what a caller wants whose old connection has broken without a sign.
  std::unique_ptr<Stream> begin(int64_t member, Direction direction, std::function<void()> cancel);
  /// Ends what is idle or too slow by now; to be called every now and then.
  void check();
  int64_t under_way() const;

 private:
  std::string fault_of(const Stream& stream, Time at) const;

  const StreamLimits limits_;
  const std::function<Time()> now_;
  mutable std::mutex mutex_;
  // Those that were replaced are not here: they were told to end and are on their way out.
  std::map<Stream::Key, Stream*> streams_;
};

}  // namespace tessera
