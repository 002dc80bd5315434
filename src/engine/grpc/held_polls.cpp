#include "engine/grpc/held_polls.hpp"

namespace tessera {

HeldPolls::HeldPolls(TaskBoard& board, int64_t most, std::function<Time()> now)
    : board_(board), most_(most), now_(now ? std::move(now) : std::chrono::steady_clock::now) {}

bool HeldPolls::settle(int64_t member, Held& held, bool late) {
  const auto answer = board_.poll(member, Time{});  // long past: what it can tell at once
  if (answer.kind == PollAnswer::Kind::kNothing && !late) return false;
  held.answer(ok(), answer);
  return true;
}

uint64_t HeldPolls::hold(int64_t member, Time until, Answer answer) {
  const std::scoped_lock guard(mutex_);
  Held next{++last_number_, until, std::move(answer)};
  if (stopped_) {
    next.answer(fail(Error::kIo, "the server is being stopped"), {});
    return next.number;
  }
  if (const auto older = held_.extract(member))
    older.mapped().answer(
        fail(Error::kBusy,
             "another program polls with the same certificate; if this goes on, one identity is in "
             "use twice"),
        {});
  if (settle(member, next, now_() >= until || std::ssize(held_) >= most_)) return next.number;
  return held_.emplace(member, std::move(next)).first->second.number;
}

bool HeldPolls::drop(int64_t member, uint64_t number) {
  const std::scoped_lock guard(mutex_);
  const auto at = held_.find(member);
  if (at == held_.end() || at->second.number != number) return false;
  held_.erase(at);
  return true;
}

void HeldPolls::wake(int64_t member) {
  const std::scoped_lock guard(mutex_);
  const auto at = held_.find(member);
  if (at != held_.end() && settle(member, at->second, now_() >= at->second.until)) held_.erase(at);
}

void HeldPolls::check() {
  const std::scoped_lock guard(mutex_);
  const auto now = now_();
  for (auto at = held_.begin(); at != held_.end();)
    at = settle(at->first, at->second, now >= at->second.until) ? held_.erase(at) : std::next(at);
}

void HeldPolls::stop() {
  const std::scoped_lock guard(mutex_);
  stopped_ = true;
  for (auto& [member, held] : held_)
    held.answer(fail(Error::kIo, "the server is being stopped"), {});
  held_.clear();
}

bool HeldPolls::holds(int64_t member) const {
  const std::scoped_lock guard(mutex_);
  return held_.contains(member);
}

int64_t HeldPolls::held() const {
  const std::scoped_lock guard(mutex_);
  return std::ssize(held_);
}

}  // namespace tessera
