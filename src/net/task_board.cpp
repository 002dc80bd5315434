#include "net/task_board.hpp"

#include <algorithm>
#include <utility>

#include "net/board_member.hpp"
#include "net/ticket.hpp"

namespace tessera {

TaskBoard::TaskBoard(Spool spool, BoardOptions options)
    : spool_(std::move(spool)), options_(options) {
  for (int64_t i = 0; i < options.members; ++i) members_.push_back(std::make_unique<Member>());
}

TaskBoard::~TaskBoard() = default;

Result<std::unique_ptr<TaskBoard>> TaskBoard::open(const std::string& dir, BoardOptions options) {
  TESSERA_ASSIGN(auto spool, Spool::open(dir));
  std::unique_ptr<TaskBoard> board(new TaskBoard(std::move(spool), options));
  TESSERA_RETURN_IF_ERROR(board->restore());
  return board;
}

Status TaskBoard::restore() {
  TESSERA_ASSIGN(auto settles, spool_.settles());
  for (auto& [member, bytes] : settles) {
    if (member >= options_.members) continue;
    auto ticket = ticket_of(bytes);
    members_[static_cast<size_t>(member)]->settle = {
        std::move(ticket), std::make_shared<const Bytes>(std::move(bytes)), kMostSettleReply};
  }
  TESSERA_ASSIGN(const auto most, spool_.most());
  most_kept_ = most.value_or(0);
  most_left_ = std::min(most.value_or(options_.max_reply_bytes), options_.max_reply_bytes);
  TESSERA_ASSIGN(const auto replies, spool_.replies());
  for (const auto& [name, size, complete] : replies) {
    if (name.member >= options_.members) continue;
    members_[static_cast<size_t>(name.member)]->uploads[name.ticket] = {
        complete ? Member::Stage::kLeft : Member::Stage::kGrowing, size};
  }
  return ok();
}

Result<TaskBoard::Member*> TaskBoard::find(int64_t member) const {
  if (member < 0 || member >= options_.members)
    return fail(Error::kInvalid, "there is no member {}: the federation has {}", member,
                options_.members);
  return members_[static_cast<size_t>(member)].get();
}

Status TaskBoard::post(int64_t member, std::shared_ptr<const Bytes> task, std::string ticket,
                       int64_t most_reply) {
  TESSERA_ASSIGN(Member* const who, find(member));
  if (!task || task->empty())
    return fail(Error::kInvalid, "a task for member {} has no bytes", member);
  const ReplyName name{member, ticket.empty() ? ticket_of(*task) : std::move(ticket)};
  const int64_t bound = options_.max_reply_bytes;
  const int64_t most = most_reply > 0 ? std::min(most_reply, bound) : bound;
  if (most > most_kept_) {
    TESSERA_RETURN_IF_ERROR(spool_.keep_most(most));
    most_kept_ = most;
  }
  const std::scoped_lock files(who->files);
  {
    const std::scoped_lock lock(mutex_);
    if (finished_)
      return fail(Error::kInvalid, "a task for member {}: the federation has ended", member);
    if (who->gone)
      return fail(Error::kNotFound, "member {} is not asked any more: {}", member, *who->gone);
    if (who->open_task(name.ticket)) return ok();
  }
  drop_larger(*who, name, most);
  if (answer_from_spool(*who, name)) return ok();
  const std::scoped_lock lock(mutex_);
  who->forget(name.ticket);
  who->tasks.push_back({name.ticket, std::move(task), most});
  who->changed.notify_all();
  return ok();
}

void TaskBoard::drop_larger(Member& who, const ReplyName& name, int64_t most) {
  {
    const std::scoped_lock lock(mutex_);
    const auto at = who.uploads.find(name.ticket);
    if (at == who.uploads.end() || at->second.size <= most) return;
  }
  begin_anew(who, name);
}

bool TaskBoard::answer_from_spool(Member& who, const ReplyName& name) {
  int64_t size = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = who.uploads.find(name.ticket);
    if (at == who.uploads.end() || at->second.stage == Member::Stage::kGrowing) return false;
    if (at->second.stage == Member::Stage::kReady) return true;
    size = at->second.size;
  }
  auto bytes = spool_.read(name, size);
  if (!bytes.ok()) {
    // The client can give it again; the disk cannot.
    begin_anew(who, name);
    return false;
  }
  const std::scoped_lock lock(mutex_);
  who.uploads[name.ticket].stage = Member::Stage::kReady;
  who.answered_since_settle = true;
  ready_.push_back({name.member, name.ticket, std::make_shared<const Bytes>(*std::move(bytes))});
  delivered_.notify_one();
  return true;
}

Status TaskBoard::post_settle(int64_t member, std::shared_ptr<const Bytes> task,
                              std::string ticket) {
  TESSERA_ASSIGN(Member* const who, find(member));
  if (!task || task->empty())
    return fail(Error::kInvalid, "a settle for member {} has no bytes", member);
  if (ticket.empty()) ticket = ticket_of(*task);
  const std::scoped_lock files(who->files);
  {
    const std::scoped_lock lock(mutex_);
    if (who->settle && (who->settle->ticket == ticket || !who->answered_since_settle)) return ok();
  }
  TESSERA_RETURN_IF_ERROR(spool_.keep_settle(member, *task));
  // Whatever there is of an answer to it, or to the one it replaces, is of no use any more.
  std::vector<ReplyName> over{{member, ticket}};
  {
    const std::scoped_lock lock(mutex_);
    if (who->settle) {
      over.push_back({member, who->settle->ticket});
      who->remember({who->settle->ticket, "another settle has taken its place; ask for that", 0});
    }
    for (const auto& name : over) who->uploads.erase(name.ticket);
    who->forget(ticket);
    who->settle = {ticket, std::move(task), kMostSettleReply};
    who->answered_since_settle = false;
    who->changed.notify_all();
  }
  for (const auto& name : over) spool_.drop(name).IgnoreError();
  return ok();
}

std::optional<DeliveredReply> TaskBoard::next(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  delivered_.wait_until(lock, until, [&] { return woken_ || !ready_.empty(); });
  if (std::exchange(woken_, false) || ready_.empty()) return std::nullopt;
  auto reply = std::move(ready_.front());
  ready_.pop_front();
  if (reply.refused.empty())
    members_[static_cast<size_t>(reply.member)]->uploads[reply.ticket].stage =
        Member::Stage::kTaken;
  return reply;
}

void TaskBoard::wake() {
  const std::scoped_lock lock(mutex_);
  woken_ = true;
  delivered_.notify_all();
}

void TaskBoard::withdraw(int64_t member, const std::string& ticket) {
  const auto found = find(member);
  if (!found.ok()) return;
  Member& who = **found;
  const std::scoped_lock files(who.files);
  {
    const std::scoped_lock lock(mutex_);
    const auto upload = who.uploads.find(ticket);
    std::erase_if(ready_, [&](const auto& reply) {
      return reply.member == member && reply.ticket == ticket;
    });
    if (who.close_task(ticket)) {
      who.remember({ticket, "this task was taken back; ask for the next one", 0});
      who.changed.notify_all();
    } else if (upload != who.uploads.end() && upload->second.stage == Member::Stage::kReady) {
      who.remember({ticket, "", upload->second.size});
    } else {
      return;
    }
    if (upload == who.uploads.end()) return;
    who.uploads.erase(upload);
  }
  // What cannot be removed is found at the next start.
  spool_.drop({member, ticket}).IgnoreError();
}

Status TaskBoard::forget_delivered() {
  Status status;
  for (int64_t member = 0; member < options_.members; ++member) {
    Member& who = *members_[static_cast<size_t>(member)];
    const std::scoped_lock files(who.files);
    std::vector<ReplyName> over;
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [ticket, upload] : who.uploads) {
        const bool growing = upload.stage == Member::Stage::kGrowing;
        if (upload.stage == Member::Stage::kReady || (growing && who.open_task(ticket))) continue;
        over.push_back({member, ticket});
        who.remember(
            {ticket, growing ? "its round is over; ask for the next task" : "", upload.size});
      }
      for (const auto& name : over) who.uploads.erase(name.ticket);
    }
    for (const auto& name : over) status.Update(spool_.drop(name));
  }
  return status;
}

void TaskBoard::drop_tasks(int64_t member, const std::string& reason) {
  Member& who = *members_[static_cast<size_t>(member)];
  const std::scoped_lock files(who.files);
  std::vector<ReplyName> over;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& task : who.tasks) {
      who.remember({task.ticket, reason, 0});
      if (who.uploads.erase(task.ticket) > 0) over.push_back({member, task.ticket});
    }
    who.tasks.clear();
    who.changed.notify_all();
  }
  for (const auto& name : over) spool_.drop(name).IgnoreError();
}

void TaskBoard::finish() {
  {
    const std::scoped_lock lock(mutex_);
    finished_ = true;
  }
  for (int64_t member = 0; member < options_.members; ++member)
    drop_tasks(member, "the federation has ended");
}

}  // namespace tessera
