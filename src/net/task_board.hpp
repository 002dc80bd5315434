// Where the server's tasks wait for clients to fetch them, and replies for the server to take them.
// Knows bytes only: no network, no tensors. Whoever calls for a client has proved to be it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "net/spool.hpp"

namespace tessera {

/// A task on offer, as a client sees it before it fetches it.
struct TaskOffer {
  /// Lower-case hex SHA-256 of the bytes (ticket_of()); names the task everywhere.
  std::string ticket;
  int64_t size = 0;
};

/// What a client is told when it asks for work.
struct PollAnswer {
  enum class Kind {
    kTask,      // `offer` is to be done
    kNothing,   // ask again
    kFinished,  // the federation has ended; there will be no more
    kGone       // this member was sent away or has left; there will be no more for it
  };
  Kind kind = Kind::kNothing;
  TaskOffer offer = {};
  std::string reason = {};  // kGone: why
};

/// A complete reply, checked against its checksum and durable; else not looked at yet.
struct DeliveredReply {
  int64_t member = 0;
  std::string ticket;
  std::shared_ptr<const Bytes> bytes;
  /// Not empty: there are no bytes, and this is why: the member has sent more than can be right.
  std::string refused = {};
};

struct BoardOptions {
  /// Numbers 0 … members−1.
  int64_t members = 0;
  /// No reply may be larger, whatever post() says.
  int64_t max_reply_bytes = int64_t{4} << 30;
};

/// The largest answer to a settle: it says no more than that it was done.
inline constexpr int64_t kMostSettleReply = int64_t{64} << 10;

/// Thread-safe; has no thread of its own. The engine's side is called by one thread, the service's
/// side by many. While a member's file is written only calls for that member wait. Nobody may be
/// inside when the board is destroyed: call finish() and wake() first.
///
/// A ticket is open from post() until its reply is complete or it is withdrawn. An earlier process
/// may have left tickets that were fetched and not answered: uploads for them go on, also before
/// the engine posts them again.
///
/// Errors of both sides: kInvalid, no such member; kIo, the disk refused (only the call fails, and
/// may be repeated); others as stated.
class TaskBoard {
 public:
  /// Opens the spool whose directory is `dir` and offers again the settles in it that nobody has
  /// acknowledged. Errors as Spool::open().
  static Result<std::unique_ptr<TaskBoard>> open(const std::string& dir, BoardOptions options);
  ~TaskBoard();

  // The engine's side.

  /// Puts a task into the member's queue. If its complete reply is in the spool already (a round
  /// repeated after a restart), the reply is delivered at once and the client is not asked. Fine
  /// for one that is open. kNotFound: the member was sent away. kInvalid: no bytes, or after
  /// finish(). `ticket` is ticket_of(*task) where the caller knows it: a large task takes a while.
  ///
  /// `most_reply` is the largest reply that can be right; 0: unknown, max_reply_bytes. The chunk
  /// that makes a reply larger is refused, what there is of it is dropped, the task is taken back,
  /// and next() tells why: the member has lost its upload, and nobody waits for it any longer.
  Status post(int64_t member, std::shared_ptr<const Bytes> task, std::string ticket = {},
              int64_t most_reply = 0);
  /// The same for a message whose reply nobody waits for: on disk before the call returns, offered
  /// before all tasks, kept over restarts until the client has answered it; also for members who
  /// were sent away, and after finish().
  ///
  /// If one is still waiting, the client has seen no task since: this one is about a task that it
  /// never got, and is dropped. But where a reply was delivered since (from the spool, after a
  /// restart), it replaces the one that waits.
  ///
  /// Waits for the disk, alone about as long as beside others: may be called by many threads at
  /// once, for different members.
  Status post_settle(int64_t member, std::shared_ptr<const Bytes> task, std::string ticket = {});
  /// The next delivered reply, in order of completion; nothing at `until`, or once woken.
  std::optional<DeliveredReply> next(std::chrono::steady_clock::time_point until);
  /// Makes the call of next() that waits, or else the one that comes, return nothing at once.
  void wake();
  /// Takes a task back: what is there of its reply is dropped, and what still comes is refused as
  /// late. A complete reply that next() has not given is dropped, too: next() never gives a reply
  /// that was withdrawn. Fine for one that it has given, and for unknown ones.
  void withdraw(int64_t member, const std::string& ticket);
  /// The replies that next() has given are part of a checkpoint: removes them from the spool, and
  /// what an earlier process has left and nobody has posted since. Not after a round that was
  /// interrupted: its replies would be lost. The first error; the others are removed all the same.
  Status forget_delivered();
  /// Withdraws all tasks. From now on everybody is told that the federation has ended, once it has
  /// answered the settle that waits for it.
  void finish();

  // The service's side. kNotFound "late: …": the ticket was withdrawn, or the member sent away;
  // kNotFound "not this member's task …": never seen, or long ago. Either way the client drops its
  // reply and polls.

  /// Waits until there is something to tell, at most until `until`. A task is told again and again
  /// until it is answered.
  PollAnswer poll(int64_t member, std::chrono::steady_clock::time_point until);
  /// Up to `length` bytes of an open task from `offset`; empty at its end. kNotFound also for one
  /// that is answered. kInvalid: beyond the end, or a length below 1.
  Result<Bytes> read(int64_t member, const std::string& ticket, int64_t offset, int64_t length);
  /// How many bytes of the reply are there already; of an answered one all.
  Result<int64_t> stored(int64_t member, const std::string& ticket);
  /// Appends at `offset`, which must be what stored() says. kInvalid: another offset, or too large
  /// (see post(); of a ticket of an earlier process what its posts allowed at most, and it begins
  /// anew). For an answered one it does nothing.
  Status write(int64_t member, const std::string& ticket, int64_t offset, ByteSpan bytes);
  /// The reply is whole: compares size and checksum, makes it durable, hands it to next(). May be
  /// repeated, as an acknowledgement may have been lost: fine for the last tickets that the member
  /// has answered and, after a restart, as long as the spool holds the reply. kInvalid: bytes are
  /// missing (send them), or there are too many or others; then the reply begins anew.
  Status complete(int64_t member, const std::string& ticket, int64_t size,
                  const std::string& sha256);
  /// The member is told kGone from now on, and its tasks are withdrawn. What it has delivered and
  /// the settle that waits for it stay.
  void send_away(int64_t member, std::string reason);
  /// It is back: asked like anybody.
  void readmit(int64_t member);

  /// For status and metrics.
  struct MemberState {
    bool offered = false;  // there is a task on offer
    bool fetched = false;  // and it was fetched to its end
    int64_t uploaded = 0;  // bytes of its reply so far
    bool settle_waits = false;
    double seconds_since_poll = -1;  // 0: polls now; -1: never polled
  };
  /// All as if nothing had happened for a number that is no member's.
  MemberState member(int64_t member) const;

 private:
  struct Member;

  TaskBoard(Spool spool, BoardOptions options);
  Status restore();
  Result<Member*> find(int64_t member) const;
  /// What poll() says. The caller holds mutex_.
  PollAnswer tell(const Member& who) const;

  // Callers hold the member's files and not mutex_.
  bool answer_from_spool(Member& who, const ReplyName& name);
  Result<Bytes> checked(Member& who, const ReplyName& name, int64_t size,
                        const std::string& sha256);
  Status settled(Member& who, const ReplyName& name, int64_t size);
  Status accept(Member& who, const ReplyName& name, Bytes bytes);
  void begin_anew(Member& who, const ReplyName& name);
  Status refuse_large(Member& who, const ReplyName& name, int64_t most);
  /// Of what an earlier process has left: a reply that is larger than its task allows.
  void drop_larger(Member& who, const ReplyName& name, int64_t most);

  void note_fetched(Member& who, const ReplyName& name);
  /// Withdraws the member's tasks; `reason` is what it is told about them.
  void drop_tasks(int64_t member, const std::string& reason);

  const Spool spool_;
  const BoardOptions options_;
  int64_t most_left_ = 0;  // of replies to tickets of an earlier process that nobody has posted yet
  int64_t most_kept_ = 0;  // what the spool has noted; used by the engine's side only
  std::vector<std::unique_ptr<Member>> members_;  // by number
  // Guards everything below and in members_; never held while a file is read or written. Taken
  // after a member's `files`, never before.
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  std::deque<DeliveredReply> ready_;
  bool woken_ = false, finished_ = false;
};

}  // namespace tessera
