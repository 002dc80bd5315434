// Who may come in by the network at all: a server's listening sockets, and bounds for them.
//
// gRPC 1.51 would listen itself, but stops for good when the process has no file descriptor left
// (CVE-2023-4785), and takes any number of connections. So connections are accepted here and handed
// over.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/address.hpp"

namespace tessera {

/// How many connections may be open; 0: so many as the files that this process may open allow.
struct DoorLimits {
  int64_t all = 0;
  /// From one IPv4 address, or one network (/64) of IPv6.
  int64_t per_address = 0;
};
/// What 0 stands for, where `files` may be open and `open` are. Some are left for other uses, and a
/// call may open a file beside its connection; one address has at most a quarter of all. kInvalid:
/// too few files for a server.
Result<DoorLimits> door_limits(DoorLimits wanted, int64_t files, int64_t open);

/// Connections that came to nothing: no room for them, or no handshake.
struct TurnedAway {
  int64_t connections = 0;
  std::string from;  // "10.0.0.7:40312", or of several "10.0.0.7 (12), 10.0.0.9 (1)"
  std::string why;   // for people, several by counts, too
};

struct DoorOptions {
  DoorLimits limits;
  /// Told at most so often as `report_every` allows, on the door's thread; may be empty.
  std::function<void(const TurnedAway&)> on_turned_away = {};
  std::chrono::milliseconds report_every{10'000};
};

/// Listening sockets, and a thread that accepts. What is beyond the limits is closed at once, so
/// that a caller is not left waiting and a flood costs nothing that stays. Connections whose other
/// end has vanished are ended by the system within minutes (TCP keep-alive). Thread-safe.
class Doorkeeper {
 public:
  /// Takes an accepted connection; its descriptor is the callee's. On the door's thread.
  using HandOver = std::function<void(int listener, int fd)>;

  /// Listens; takes the port in use into `place`. Errors as open_listeners() and door_limits().
  static Result<std::unique_ptr<Doorkeeper>> open(HostPort& place, DoorOptions options);
  ~Doorkeeper();  // stops

  /// Accepts from here on; once.
  void start(HandOver hand_over);

  /// There was a call on the connection of this peer (as gRPC writes it): it has come in, and is
  /// not among those that were turned away.
  void called(const std::string& peer);
  /// Why a handshake failed, for the next report.
  void failed(const std::string& reason);
  /// Connects as anybody would. kIo: nobody else could come in either; says why.
  Status healthy();
  /// Ends the thread and listens no more; connections stay. May be repeated.
  void stop();

 private:
  class Inside;
  explicit Doorkeeper(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace tessera
