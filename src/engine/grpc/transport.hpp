// A client's side of the conversation, as bytes: every call of federation.proto, tried again until
// it succeeds or makes no sense any more.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/service_host.hpp"
#include "io/bytes.hpp"
#include "net/task_board.hpp"

namespace tessera {

/// Time and chance, for tests; what is empty is the system's.
struct TransportClock {
  std::function<std::chrono::steady_clock::time_point()> now = {};
  std::function<void(std::chrono::milliseconds)> sleep = {};
  std::function<double()> random = {};  // uniform in [0, 1)
};

struct TransportOptions {
  /// "HOST:PORT".
  std::string server;
  /// Key, certificate, ca.pem and perhaps crl.pem (net/identity.hpp); files that are renewed are
  /// used at the next connection. Not used where insecure.
  std::string identity_dir;
  unsigned reload_seconds = 10;
  /// No TLS, on this machine only; `name` (printable ASCII) is who calls. With TLS that is in the
  /// certificate.
  bool insecure = false;
  std::string name;
  /// False: every failure is final. For who wants to know whether it works, not to make it work.
  bool patient = true;
  /// Until the server has told its own.
  RetryWindow retry;
  /// For one attempt; a poll has the server's `hold` on top, and a transfer ends when no chunk went
  /// through for `stall`.
  std::chrono::milliseconds call_deadline{30'000}, stall{60'000};
  /// Larger tasks are refused.
  int64_t max_task_bytes = int64_t{4} << 30;
  /// Ends every call and wait within 200 ms with kInterrupted. Borrowed; may be null.
  const std::atomic<bool>* stop = nullptr;
  /// Told of each failure that is tried again: the sentence, and how long it waits. May be empty.
  std::function<void(const std::string& sentence, std::chrono::milliseconds wait)> on_trouble = {};
  TransportClock clock = {};
};

/// What a poll brought.
struct Polled {
  enum class Kind {
    kTask,      // fetch the offer
    kNothing,   // poll again
    kFinished,  // the federation has ended
    kGone,      // sent away, or left; `reason` says why
    kEnroll     // the server wants to know this client's facts first
  };
  Kind kind = Kind::kNothing;
  TaskOffer offer = {};
  std::string reason = {};
};

/// Used by one thread. A call that failed drops its connection: a new one is the cure for all that
/// are half dead without a sign. While a client computes there is no call and nothing to keep
/// alive.
///
/// Errors of all calls. kInterrupted: stopped. kIo: the server could not be reached for as long as
/// its window allows; or, before the first success, something has to be mended (a name that nobody
/// has, a certificate of another CA, …): the sentence says what. Else what the server answered, in
/// its words; kInvalid: not a member, revoked, another version.
class Transport {
 public:
  /// Connects to nobody yet. Errors as parse_address(), load_identity() and may_go_without_tls().
  static Result<std::unique_ptr<Transport>> create(TransportOptions options);
  ~Transport();

  /// From now on every call says which process makes it (net/presence.hpp): the name of the
  /// directory with what the client remembers, which no other has.
  void introduce(const std::string& state);
  /// What it then says; empty before that.
  const std::string& process() const;
  /// To be called first: from then on the server's window holds. kInvalid also if the server takes
  /// this client for another.
  Result<FederationFacts> describe();
  /// Fine: welcome. kInvalid: refused; says exactly what differs.
  Status enroll(const EnrollFacts& facts);
  /// Returns when the server has something to tell, or its time is over.
  Result<Polled> poll();
  /// The whole task, checked chunk by chunk and against its ticket; goes on where a connection
  /// broke. kNotFound: it is not this client's task (any more): poll again. kInvalid: larger than
  /// max_task_bytes, or it never arrives undamaged.
  Result<Bytes> fetch(const TaskOffer& offer);
  /// The reply to a task; goes on where a connection broke, also one of an earlier process. Fine
  /// once the server has it on its disk. kNotFound: it is late or nobody waits for it: poll again.
  /// kInvalid: refused, for instance for its size.
  Status deliver(const std::string& ticket, ByteSpan reply);
  /// For good.
  Status leave();
  /// JSON.
  Result<std::string> status();

 private:
  struct Parts;
  explicit Transport(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera
