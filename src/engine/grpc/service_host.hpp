// What a federation is asked by its members' calls: the seam between the network and the server.
// Free of gRPC, so that a server is tested without sockets and the network adds no behaviour.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/reason.hpp"
#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

class TaskBoard;

/// Both ends name it in Describe; another number is refused.
inline constexpr uint32_t kProtocolVersion = 1;
/// No chunk of Fetch or Deliver is larger.
inline constexpr int64_t kMostChunkBytes = int64_t{4} << 20;

/// How callers behave towards a server; it tells them in Describe.
struct RetryWindow {
  /// A poll is held at most so long.
  std::chrono::milliseconds hold{25'000};
  /// A caller waits a random time below first_wait after the first failure, below twice that after
  /// the second, and so on up to longest_wait.
  std::chrono::milliseconds first_wait{500}, longest_wait{30'000};
  /// A caller that had no success for so long gives up; 0: never.
  std::chrono::milliseconds give_up{0};
  /// Of Fetch and Deliver. A chunk counts as progress only when it is whole: smaller ones suit
  /// slower lines.
  int64_t chunk_bytes = int64_t{256} << 10;
};

/// What Describe tells a member.
struct FederationFacts {
  std::string id;     // no other federation has it, also not this one begun anew
  std::string title;  // for people
  int64_t member = 0;
  std::string name;  // the member's, as in its certificate
  int64_t clients = 0, newcomers = 0;
  std::string experiment;  // TOML
  std::string config_digest;
  RetryWindow retry;  // at the server: filled in by the service
};

/// What a member tells of itself and its data before it takes part. Nothing is believed yet.
struct EnrollFacts {
  std::string config_digest;
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  std::vector<std::string> class_names;
  std::vector<std::string> columns;  // own tables: names of the inputs, in order
  bool multi_label = false;          // the set's own loss is the multi-label one
  std::string layout_digest;         // of the model: names, shapes and types of its tensors
  std::string data_digest;           // hex SHA-256 of the data
  Bytes hello;                       // the encoded reply to a task of kind hello
  bool only_ask = false;             // would it be welcome? Nothing changes; hello may be empty
  std::string trouble;               // why it cannot take part; the rest is empty
};

/// For the log, the audit log and the metrics of a server. What does not apply is empty.
struct ServiceEvent {
  enum class Kind {
    kDenied,     // a caller who is no member, or was revoked; member is -1. Without a name:
                 // connections that came to nothing, peer: of whom, text: how many and why
    kDescribed,  // text: the caller's software
    kEnrolled,
    kRefused,    // a call was answered by an error, or ended for being slow; text: which, and why
    kFetched,    // ticket, bytes: of the whole task
    kDelivered,  // ticket, bytes, sha256: of a reply that is durable now
    kLeft,
    kDoubled  // two processes speak for one member; text: what became of it
  };
  Kind kind = Kind::kRefused;
  int64_t member = -1;
  std::string name;  // from the certificate; may be a stranger's
  std::string peer;  // address and port, as gRPC writes them: "ipv4:10.0.0.7:40312"
  std::string ticket = {}, sha256 = {};
  int64_t bytes = 0;
  std::string text = {};
  Reason why = Reason::kOther;  // kRefused
  std::string serial = {};      // of the caller's certificate, lower-case hex; empty without TLS
};
const char* name_of(ServiceEvent::Kind kind);

/// A server's side of all calls. All functions are called by many threads at once, and none may
/// wait for a client. A member's number is below the board's `members`.
class ServiceHost {
 public:
  virtual ~ServiceHost() = default;

  /// Who has this name; nothing for a stranger.
  virtual std::optional<int64_t> member_of(const std::string& name) = 0;
  /// As Revocations::revoked(); asked in every handshake and before every call.
  virtual Result<bool> revoked(const std::string& serial) = 0;

  /// A member calls, by this certificate (empty without TLS), which is good at this time. Told
  /// before every call: must be quick.
  virtual void came(int64_t member, const std::string& serial) {
    static_cast<void>(member), static_cast<void>(serial);
  }

  virtual FederationFacts describe(int64_t member) = 0;
  /// kInvalid: the member's data or version do not fit; says exactly what differs. Other errors:
  /// the server cannot tell just now.
  virtual Status enroll(int64_t member, const EnrollFacts& facts) = 0;
  /// Whether the member has enrolled and is still welcome; until then it is given no task.
  virtual bool enrolled(int64_t member) = 0;
  /// The member will not come back; the host tells the board, too.
  virtual Status leave(int64_t member) = 0;
  /// JSON, for any member.
  virtual std::string status_json() = 0;
  /// Outlives all calls.
  virtual TaskBoard& board() = 0;

  /// Must be quick: calls wait for it.
  virtual void on_event(const ServiceEvent& event) = 0;
};

}  // namespace tessera
