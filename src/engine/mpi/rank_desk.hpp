// Rank 0's correspondence with the other ranks, and its eye on whether they live.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/mpi/rank_letter.hpp"
#include "engine/mpi/world.hpp"

namespace tessera {

/// Thrown where rank 0 waits for somebody who is gone or has given up. Not a std::exception, so
/// that nobody between engine and run takes it for a method's.
struct RankLost {
  Status status;      // names the rank
  bool dead = false;  // it cannot be told to leave
};

/// How a wait for letters becomes longer while none come: answers stay quick, and a rank that waits
/// leaves the processor to others.
class Patience {
 public:
  void came() { wait_ = kLeast; }
  std::chrono::microseconds next() { return std::exchange(wait_, std::min(2 * wait_, kMost)); }

 private:
  static constexpr std::chrono::microseconds kLeast{20}, kMost{500};
  std::chrono::microseconds wait_ = kLeast;
};

/// Used by one thread.
class RankDesk {
 public:
  /// How long a rank may be silent; each says every few seconds that it lives.
  static constexpr double kMostSilence = 60;

  /// Borrows both. `stop` may be null.
  RankDesk(World& world, const std::atomic<bool>* stop);

  /// Called with what lost() says before it is thrown, where a rank has died: mpirun leaves a
  /// second for it. May be empty, and need not return.
  std::function<void(const Status&)> on_death;
  /// The end of that sentence: what to do then.
  std::string go_on = "continue with the same command and --resume";

  int ranks() const { return world_.size(); }
  World& world() { return world_; }
  /// The first letter of everybody: where they are. Throws RankLost.
  void meet();
  /// "rank 2 (node7)".
  std::string name_of(int rank) const;
  const std::string& host_of(int rank) const { return peers_[static_cast<size_t>(rank)].host; }

  void send(int rank, const nlohmann::json& head, std::shared_ptr<const Bytes> body = nullptr) {
    world_.send(rank, head.dump(), std::move(body));
  }
  void send_all(const nlohmann::json& head);
  /// The next letter that is not about living and dying, if there is one. Throws RankLost: a rank
  /// is gone, silent for too long, or says that it failed.
  std::optional<RankLetter> next();
  /// Sends it to all and waits for a letter of this kind of each: by rank, [0] is empty. An answer
  /// with a "status" that is not ok throws RankLost, which names the rank and then says it.
  std::vector<RankLetter> ask_all(const nlohmann::json& head, const std::string& answer);
  /// The same for what nobody has to be asked for.
  std::vector<RankLetter> await_all(const std::string& answer);
  /// Everybody leaves with this exit code. False: somebody does not, within kMostFarewell; then
  /// World::leave would wait for ever.
  bool end(int code);

 private:
  struct Peer {
    std::string host;
    int64_t pid = 0;
    bool met = false;
    bool near = false;      // on this machine, where its process can be looked for
    bool goodbye = false;   // was told to stop from outside; so it did not die by itself
    bool answered = false;  // since the roll was called
    double heard = 0;
  };
  /// Takes what is about living and dying; false: it is for somebody else.
  bool take(const RankLetter& letter);
  /// Throws RankLost if somebody is gone.
  void look_around();
  /// After a stop, which may be mpirun's way to say that somebody died: who does not answer is it.
  void roll_call();
  [[noreturn]] void lost(const std::string& who, const std::string& how) const;

  World& world_;
  const std::atomic<bool>* stop_;
  std::vector<Peer> peers_;      // by rank
  std::deque<RankLetter> kept_;  // came while the roll was called
  double looked_ = 0;
  bool called_ = false;
};

/// Another rank's side: letters to rank 0, signs of life, and the end.
class RankSeat {
 public:
  /// `stop` is set by a signal; may be null. Introduces itself to rank 0.
  RankSeat(World& world, const std::atomic<bool>* stop, int threads);

  int rank() const { return world_.rank(); }
  void send(const nlohmann::json& head, std::shared_ptr<const Bytes> body = nullptr);
  /// The next letter for this rank, if there is one; also says that it lives. An "end" is kept for
  /// ended().
  std::optional<RankLetter> next();
  std::optional<int> ended() const { return ended_; }
  /// Does the work on a thread of its own, so that this one can say that it lives. If the end comes
  /// meanwhile the process ends at once.
  void busy(const std::function<void()>& work);
  /// Tells rank 0 why this rank cannot go on, and waits for the end, which has a code.
  int give_up(const Status& status);

 private:
  World& world_;
  const std::atomic<bool>* stop_;
  std::optional<int> ended_;
  bool goodbye_ = false, busy_ = false;
  double spoke_ = 0;
  std::deque<RankLetter> kept_;  // came while it was busy
};

/// This machine's name.
std::string host_name();

}  // namespace tessera
