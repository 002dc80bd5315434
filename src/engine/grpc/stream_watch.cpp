#include "engine/grpc/stream_watch.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace tessera {

StreamWatch::StreamWatch(StreamLimits limits, std::function<Time()> now)
    : limits_(limits), now_(now ? std::move(now) : std::chrono::steady_clock::now) {}

StreamWatch::Stream::Stream(StreamWatch& watch, Key key, std::function<void()> cancel)
    : watch_(watch), key_(key), cancel_(std::move(cancel)), begun_(watch.now_()), last_(begun_) {}

StreamWatch::Stream::~Stream() {
  const std::scoped_lock guard(watch_.mutex_);
  const auto at = watch_.streams_.find(key_);
  if (at != watch_.streams_.end() && at->second == this) watch_.streams_.erase(at);
}

void StreamWatch::Stream::moved(int64_t bytes) {
  const std::scoped_lock guard(watch_.mutex_);
  bytes_ += bytes;
  last_ = watch_.now_();
}

std::string StreamWatch::Stream::cut() const {
  const std::scoped_lock guard(watch_.mutex_);
  return cut_;
}

void StreamWatch::Stream::end(std::string why) {
  cut_ = std::move(why);
  cancel_();
}

std::unique_ptr<StreamWatch::Stream> StreamWatch::begin(int64_t member, Direction direction,
                                                        std::function<void()> cancel) {
  const Stream::Key key{member, direction};
  std::unique_ptr<Stream> stream(new Stream(*this, key, std::move(cancel)));
  const std::scoped_lock guard(mutex_);
  auto& place = streams_[key];
  if (place) place->end("the same member began another transfer");
  place = stream.get();
  return stream;
}

void StreamWatch::check() {
  const std::scoped_lock guard(mutex_);
  const auto at = now_();
  for (auto next = streams_.begin(); next != streams_.end();) {
    auto why = fault_of(*next->second, at);
    if (why.empty()) {
      ++next;
      continue;
    }
    next->second->end(std::move(why));
    next = streams_.erase(next);
  }
}

int64_t StreamWatch::under_way() const {
  const std::scoped_lock guard(mutex_);
  return std::ssize(streams_);
}

std::string StreamWatch::fault_of(const Stream& stream, Time at) const {
  const auto seconds = [](auto span) { return std::chrono::duration<double>(span).count(); };
  if (at - stream.last_ >= limits_.idle)
    return fmt::format("nothing moved for {}", human_seconds(seconds(limits_.idle)));
  const double late = seconds(at - stream.begun_) - seconds(limits_.grace);
  if (late > 0 &&
      static_cast<double>(stream.bytes_) < static_cast<double>(limits_.least_rate) * late)
    return fmt::format("slower than {} bytes a second", limits_.least_rate);
  return "";
}

}  // namespace tessera
