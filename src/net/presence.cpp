#include "net/presence.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr size_t kKeptFormer = 8;

}  // namespace

Presences::Presences(std::chrono::milliseconds silence, std::function<Time()> now)
    : silence_(silence), now_(now ? std::move(now) : std::chrono::steady_clock::now) {}

Status Presences::admit(int64_t member, const CallingProcess& who, bool busy) {
  const std::scoped_lock guard(mutex_);
  const auto now = now_();
  const auto [at, first] = entries_.try_emplace(member, Entry{who, now, {}});
  auto& entry = at->second;
  if (first || entry.who.process == who.process) {
    entry.seen = now;
    return ok();
  }
  if (std::find(entry.former.begin(), entry.former.end(), who.process) != entry.former.end())
    return fail(Error::kInvalid,
                "another process with this identity and a copy of its state has taken its place; "
                "let only one of the two run");
  const bool gone = !busy && now - entry.seen > silence_;
  if (entry.who.state != who.state && !gone)
    return fail(Error::kInvalid,
                "another process with this identity is at work, with another --state; let only one "
                "of the two run. If that one is gone for good, it is forgotten {} s after its last "
                "word, or when the round it was asked in is over",
                std::chrono::duration_cast<std::chrono::seconds>(silence_).count());
  entry.former.push_back(std::exchange(entry.who, who).process);
  if (entry.former.size() > kKeptFormer) entry.former.pop_front();
  entry.seen = now;
  return ok();
}

}  // namespace tessera
