// The board as the service's threads see it.
#include <algorithm>
#include <utility>

#include "io/sha256.hpp"
#include "net/board_member.hpp"
#include "net/task_board.hpp"

namespace tessera {
namespace {

// What the spool's files say, as a client should hear it: the board says kNotFound of tickets only,
// and who hears it asks for its task at once again. A directory that has vanished is the disk's
// trouble.
Status disk_trouble(const Status& status) {
  return error_of(status) == Error::kNotFound ? fail(Error::kIo, "{}", message(status)) : status;
}

}  // namespace

PollAnswer TaskBoard::tell(const Member& who) const {
  using Kind = PollAnswer::Kind;
  if (who.gone) return {Kind::kGone, {}, *who.gone};
  if (const auto* head = who.head())
    return {Kind::kTask, {head->ticket, static_cast<int64_t>(head->bytes->size())}, {}};
  return {finished_ ? Kind::kFinished : Kind::kNothing, {}, {}};
}

PollAnswer TaskBoard::poll(int64_t member, std::chrono::steady_clock::time_point until) {
  const auto found = find(member);
  if (!found.ok()) return {PollAnswer::Kind::kGone, {}, message(found.status())};
  Member& who = **found;
  std::unique_lock lock(mutex_);
  ++who.polling;
  who.changed.wait_until(lock, until, [&] { return tell(who).kind != PollAnswer::Kind::kNothing; });
  --who.polling;
  who.polled = std::chrono::steady_clock::now();
  return tell(who);
}

Result<Bytes> TaskBoard::read(int64_t member, const std::string& ticket, int64_t offset,
                              int64_t length) {
  TESSERA_ASSIGN(Member* const who, find(member));
  std::shared_ptr<const Bytes> task;
  int64_t end = 0;
  bool first_time = false;
  {
    const std::scoped_lock lock(mutex_);
    TESSERA_ASSIGN(const auto there, who->standing(ticket));
    auto* const posted = who->open_task(ticket);
    if (!posted)
      return fail(Error::kNotFound, "this task is {}; ask for the one on offer",
                  there.answered ? "answered already" : "not on offer yet");
    task = posted->bytes;
    const auto size = static_cast<int64_t>(task->size());
    if (offset < 0 || offset > size || length < 1)
      return fail(Error::kInvalid, "{} bytes from {} were asked for of a task of {} bytes", length,
                  offset, size);
    end = offset + std::min(length, size - offset);
    first_time = end == size && !std::exchange(posted->fetched, posted->fetched || end == size);
  }
  if (first_time) note_fetched(*who, {member, ticket});
  return Bytes(task->begin() + offset, task->begin() + end);
}

void TaskBoard::note_fetched(Member& who, const ReplyName& name) {
  const std::scoped_lock files(who.files);
  {
    const std::scoped_lock lock(mutex_);
    if (!who.open_task(name.ticket) || who.is_settle(name.ticket) ||
        who.uploads.contains(name.ticket))
      return;
  }
  // An empty part tells a server that was restarted meanwhile whose ticket this is. Without it the
  // client would have to do the task once more, so an error is none here.
  if (!spool_.append(name, 0, {}).ok()) return;
  const std::scoped_lock lock(mutex_);
  who.uploads[name.ticket] = {};
}

Result<int64_t> TaskBoard::stored(int64_t member, const std::string& ticket) {
  TESSERA_ASSIGN(Member* const who, find(member));
  const std::scoped_lock lock(mutex_);
  TESSERA_ASSIGN(const auto there, who->standing(ticket));
  return there.size;
}

Status TaskBoard::write(int64_t member, const std::string& ticket, int64_t offset, ByteSpan bytes) {
  TESSERA_ASSIGN(Member* const who, find(member));
  const ReplyName name{member, ticket};
  const auto count = static_cast<int64_t>(bytes.size());
  const std::scoped_lock files(who->files);
  int64_t most = most_left_;
  {
    const std::scoped_lock lock(mutex_);
    TESSERA_ASSIGN(const auto there, who->standing(ticket));
    if (there.answered) return ok();
    if (offset != there.size)
      return fail(Error::kInvalid, "the reply goes on at {}, not at {}", there.size, offset);
    if (const auto* posted = who->open_task(ticket)) most = posted->most_reply;
  }
  if (count > most - offset) return refuse_large(*who, name, most);
  const auto written = spool_.append(name, offset, bytes);
  const auto size = written.ok() ? offset + count : spool_.part_size(name);
  const std::scoped_lock lock(mutex_);
  who->uploads[ticket] = {Member::Stage::kGrowing, size};
  return disk_trouble(written);
}

Status TaskBoard::refuse_large(Member& who, const ReplyName& name, int64_t most) {
  const auto why =
      fmt::format("a reply of more than {} bytes is refused: none of that size is right", most);
  begin_anew(who, name);
  const std::scoped_lock lock(mutex_);
  // A settle waits for its answer, however long that takes; nobody waits for one that was left.
  if (who.close_task(name.ticket)) {
    who.uploads.erase(name.ticket);
    who.remember({name.ticket, why, 0});
    who.answered_since_settle = true;
    ready_.push_back({name.member, name.ticket, nullptr, why});
    delivered_.notify_one();
    who.changed.notify_all();
  }
  return fail(Error::kInvalid, "{}", why);
}

void TaskBoard::begin_anew(Member& who, const ReplyName& name) {
  spool_.drop(name).IgnoreError();
  const auto size = spool_.part_size(name);
  const std::scoped_lock lock(mutex_);
  who.uploads[name.ticket] = {Member::Stage::kGrowing, size};
}

Status TaskBoard::complete(int64_t member, const std::string& ticket, int64_t size,
                           const std::string& sha256) {
  TESSERA_ASSIGN(Member* const who, find(member));
  const ReplyName name{member, ticket};
  const std::scoped_lock files(who->files);
  bool settle = false;
  {
    const std::scoped_lock lock(mutex_);
    TESSERA_ASSIGN(const auto there, who->standing(ticket));
    if (there.answered) return ok();
    if (size < 1) return fail(Error::kInvalid, "a reply has at least one byte, not {}", size);
    if (there.size < size)
      return fail(Error::kInvalid, "{} of {} bytes of the reply are here; send the rest",
                  there.size, size);
    settle = who->is_settle(ticket);
  }
  TESSERA_ASSIGN(auto bytes, checked(*who, name, size, sha256));
  return settle ? settled(*who, name, size) : accept(*who, name, std::move(bytes));
}

Result<Bytes> TaskBoard::checked(Member& who, const ReplyName& name, int64_t size,
                                 const std::string& sha256) {
  auto bytes = spool_.read_part(name, size);
  if (!bytes.ok() && error_of(bytes.status()) == Error::kIo) return bytes.status();
  if (!bytes.ok() || static_cast<int64_t>(bytes->size()) != size) {
    begin_anew(who, name);
    return fail(Error::kInvalid, "the reply that is here has not {} bytes; send it anew", size);
  }
  if (const auto digest = sha256_hex(*bytes); digest != sha256) {
    begin_anew(who, name);
    return fail(Error::kInvalid,
                "the reply that arrived has the SHA-256 {}, not '{}'; send it anew", digest,
                printable(sha256, 64));
  }
  return bytes;
}

Status TaskBoard::settled(Member& who, const ReplyName& name, int64_t size) {
  TESSERA_RETURN_IF_ERROR(spool_.drop_settle(name.member));
  const std::scoped_lock lock(mutex_);
  who.settle.reset();
  // Its part stays until forget_delivered(): should the acknowledgement be lost in a restart, the
  // client can repeat it.
  who.uploads[name.ticket] = {Member::Stage::kTaken, size};
  who.changed.notify_all();
  return ok();
}

Status TaskBoard::accept(Member& who, const ReplyName& name, Bytes bytes) {
  if (const auto finished = spool_.finish(name); !finished.ok()) {
    begin_anew(who, name);
    return disk_trouble(finished);
  }
  const auto size = static_cast<int64_t>(bytes.size());
  const std::scoped_lock lock(mutex_);
  const bool posted = who.close_task(name.ticket);
  who.uploads[name.ticket] = {posted ? Member::Stage::kReady : Member::Stage::kLeft, size};
  if (!posted) return ok();
  who.answered_since_settle = true;
  ready_.push_back({name.member, name.ticket, std::make_shared<const Bytes>(std::move(bytes))});
  delivered_.notify_one();
  who.changed.notify_all();
  return ok();
}

void TaskBoard::send_away(int64_t member, std::string reason) {
  const auto found = find(member);
  if (!found.ok()) return;
  {
    const std::scoped_lock lock(mutex_);
    (*found)->gone = reason;
  }
  drop_tasks(member, reason);
}

void TaskBoard::readmit(int64_t member) {
  const auto found = find(member);
  if (!found.ok()) return;
  const std::scoped_lock lock(mutex_);
  (*found)->gone.reset();
}

TaskBoard::MemberState TaskBoard::member(int64_t member) const {
  MemberState out;
  const auto found = find(member);
  if (!found.ok()) return out;
  const Member& who = **found;
  const std::scoped_lock lock(mutex_);
  out.settle_waits = who.settle.has_value();
  if (who.polling > 0)
    out.seconds_since_poll = 0;
  else if (who.polled)
    out.seconds_since_poll =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - *who.polled).count();
  const auto* head = who.gone ? nullptr : who.head();
  if (!head) return out;
  out.offered = true;
  out.fetched = head->fetched;
  if (const auto at = who.uploads.find(head->ticket); at != who.uploads.end())
    out.uploaded = at->second.size;
  return out;
}

}  // namespace tessera
