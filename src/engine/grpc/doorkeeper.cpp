#include "engine/grpc/doorkeeper.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/text.hpp"

namespace tessera {
// Not unnamed: Doorkeeper::Inside holds some of it, which compilers warn of in unity builds.
namespace door {

using DoorClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Files for everything but members: checkpoint, history, logs, other sockets, libraries.
constexpr int64_t kKeptFiles = 64;
constexpr int64_t kFewestConnections = 16;
constexpr int64_t kMostConnections = 20'000;
constexpr milliseconds kTick{250};
// Under a flood every connection would have all others looked at.
constexpr milliseconds kBetweenSweeps{50};
constexpr milliseconds kNoDescriptorPause{100};
constexpr milliseconds kProbeTime{1000};
constexpr size_t kMostNoted = 1000;

struct PeerAddress {
  std::string address;  // "10.0.0.7", for people
  std::string group;    // what the limit of an address is for
  std::string grpc;     // "ipv4:10.0.0.7:40312"
  int port = 0;
};

PeerAddress peer_address(const sockaddr_storage& from) {
  PeerAddress out;
  char text[INET6_ADDRSTRLEN] = {};
  const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
  const bool is_six = from.ss_family == AF_INET6;
  out.port = ntohs(reinterpret_cast<const sockaddr_in&>(from).sin_port);
  if (is_six && !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    in6_addr network = six.sin6_addr;
    std::memset(network.s6_addr + 8, 0, 8);
    ::inet_ntop(AF_INET6, &network, text, sizeof text);
    out.group = text;
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    out.address = fmt::format("[{}]", text);
    out.grpc = fmt::format("ipv6:%5B{}%5D:{}", text, out.port);
    return out;
  }
  const void* four = is_six ? static_cast<const void*>(six.sin6_addr.s6_addr + 12)
                            : &reinterpret_cast<const sockaddr_in&>(from).sin_addr;
  ::inet_ntop(AF_INET, four, text, sizeof text);
  out.address = out.group = text;
  out.grpc = fmt::format("ipv4:{}:{}", text, out.port);
  return out;
}

/// Of a socket, and of no other that this machine ever has; 0: the number is no socket's (now).
uint64_t cookie_of(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

void prepare_connection(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A machine that was switched off would hold its place for ever: 120 s, then four times 30 s.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 120);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

/// At once and without a state that stays in the system.
void close_hard(OwnedDescriptor& connection) {
  const linger at_once{1, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  connection.close();
}

int64_t open_files() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : std::distance(files, {});
}

/// Texts by how often they came, the most frequent first.
class Counted {
 public:
  void add(const std::string& text) {
    const bool known = counts_.contains(text);
    ++counts_[known || counts_.size() < kMostNoted ? text : "others"];
  }
  bool empty() const { return counts_.empty(); }
  void clear() { counts_.clear(); }
  std::string text() const {
    constexpr size_t kShown = 5;
    std::vector<std::pair<std::string, int64_t>> all(counts_.begin(), counts_.end());
    if (all.size() == 1 && all[0].second == 1) return all[0].first;
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> words;
    for (size_t i = 0; i < std::min(all.size(), kShown); ++i)
      words.push_back(fmt::format("{} ({})", all[i].first, all[i].second));
    if (all.size() > kShown) words.push_back(fmt::format("and {} more", all.size() - kShown));
    return join(words, ", ");
  }

 private:
  std::map<std::string, int64_t> counts_;
};

}  // namespace door

using namespace door;

class Doorkeeper::Inside {
 public:
  Inside(std::vector<OwnedDescriptor> listeners, DoorOptions options)
      : options_(std::move(options)),
        listeners_(std::move(listeners)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

  bool usable() const { return wake_.get() >= 0 && spare_.get() >= 0; }
  void start(HandOver hand_over) {
    hand_over_ = std::move(hand_over);
    thread_ = std::thread([this] { loop(); });
  }
  void stop() {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
    const std::scoped_lock guard(mutex_);
    listeners_.clear();
  }
  void called(const std::string& peer) {
    const std::scoped_lock guard(mutex_);
    if (const auto at = connections_.find(peer); at != connections_.end()) at->second.called = true;
  }
  void failed(const std::string& reason) {
    const std::scoped_lock guard(mutex_);
    reasons_.add(reason);
  }
  Status healthy();

 private:
  struct Connection {
    int fd = -1;  // gRPC's: a number to ask about, never to read from or close
    uint64_t cookie = 0;
    PeerAddress from;
    bool called = false;
  };
  struct Probe {
    bool decided = false;
    std::string why;  // empty: came in
  };

  void loop();
  /// True if woken to end.
  bool pause(milliseconds time);
  void take(int listener);
  void turn_one_away(int listener);
  /// Why there is no room for it; empty: there is. The caller holds mutex_.
  std::string no_room(const PeerAddress& from, bool probe);
  /// Forgets connections that are closed; `all`: also those that have made a call.
  void sweep(bool all);
  void note_away(const PeerAddress& from);
  void report();
  /// Starts a connection to the own listener from `port`; fine once it stands.
  Status connect_to_self(OwnedDescriptor& socket, int& port);

  const DoorOptions options_;
  HandOver hand_over_;
  std::vector<OwnedDescriptor> listeners_;
  const OwnedDescriptor wake_;
  OwnedDescriptor spare_;  // given up to answer a caller when there is no other descriptor
  std::thread thread_;

  std::mutex mutex_;  // guards the following
  std::condition_variable decided_;
  std::unordered_map<std::string, Connection> connections_;  // by PeerAddress::grpc
  std::unordered_map<std::string, int64_t> by_group_;
  std::map<int, Probe> probes_;  // by the port they come from
  DoorClock::time_point swept_;
  Counted away_, reasons_;
  std::string last_away_;
  int64_t away_count_ = 0;
  DoorClock::time_point reported_ = DoorClock::now() - std::chrono::hours(1);
};

bool Doorkeeper::Inside::pause(milliseconds time) {
  pollfd wait{wake_.get(), POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(time.count())) > 0;
}

void Doorkeeper::Inside::loop() {
  std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
  for (const auto& listener : listeners_) waits.push_back({listener.get(), POLLIN, 0});
  for (;;) {
    ::poll(waits.data(), waits.size(), static_cast<int>(kTick.count()));
    if (waits[0].revents != 0) return;
    for (size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents != 0) take(waits[i].fd);
    report();
  }
}

void Doorkeeper::Inside::take(int listener) {
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  OwnedDescriptor connection(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() < 0) {
    if (errno == EMFILE || errno == ENFILE)
      turn_one_away(listener);
    else if (errno == ENOBUFS || errno == ENOMEM)
      pause(kNoDescriptorPause);
    return;  // else the caller has gone again
  }
  const auto peer = peer_address(from);
  std::string why;
  {
    const std::scoped_lock guard(mutex_);
    const auto probe = probes_.find(peer.port);
    const bool probed = probe != probes_.end() && !probe->second.decided;
    why = no_room(peer, probed);
    if (probed) {
      probe->second = {true, why};
      decided_.notify_all();
      return close_hard(connection);
    }
    if (!why.empty()) {
      note_away(peer);
      reasons_.add(why);
      return close_hard(connection);
    }
    ++by_group_[peer.group];
    connections_[peer.grpc] = {connection.get(), cookie_of(connection.get()), peer, false};
  }
  prepare_connection(connection.get());
  hand_over_(listener, connection.release());
}

void Doorkeeper::Inside::turn_one_away(int listener) {
  constexpr const char* kWhy = "the server has no file descriptor left";
  spare_.close();
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  OwnedDescriptor connection(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC));
  if (connection.get() >= 0) {
    const auto peer = peer_address(from);
    const std::scoped_lock guard(mutex_);
    if (const auto probe = probes_.find(peer.port); probe != probes_.end()) {
      probe->second = {true, kWhy};
      decided_.notify_all();
    }
    note_away(peer);
    reasons_.add(kWhy);
    close_hard(connection);
  }
  spare_ = OwnedDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Somebody else took it: asking again at once is no use.
  if (spare_.get() < 0) pause(kNoDescriptorPause);
}

std::string Doorkeeper::Inside::no_room(const PeerAddress& from, bool probe) {
  const auto full = [&] { return std::ssize(connections_) >= options_.limits.all; };
  const auto much_of_one = [&] {
    const auto at = by_group_.find(from.group);
    return !probe && at != by_group_.end() && at->second >= options_.limits.per_address;
  };
  if (const auto same = connections_.find(from.grpc); same != connections_.end()) {
    // To another address of this machine; it would be counted once.
    if (cookie_of(same->second.fd) == same->second.cookie)
      return "its address and port have a connection already";
    sweep(true);
  }
  if ((full() || much_of_one()) && DoorClock::now() - swept_ >= kBetweenSweeps) sweep(true);
  if (full()) return fmt::format("all {} connections are in use", options_.limits.all);
  if (much_of_one())
    return fmt::format("its address has all of its {} connections", options_.limits.per_address);
  return "";
}

void Doorkeeper::Inside::sweep(bool all) {
  if (all) swept_ = DoorClock::now();
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto& one = at->second;
    if ((one.called && !all) || cookie_of(one.fd) == one.cookie) {
      ++at;
      continue;
    }
    if (!one.called) note_away(one.from);
    if (--by_group_[one.from.group] == 0) by_group_.erase(one.from.group);
    at = connections_.erase(at);
  }
}

void Doorkeeper::Inside::note_away(const PeerAddress& from) {
  ++away_count_;
  away_.add(from.address);
  last_away_ = fmt::format("{}:{}", from.address, from.port);
}

void Doorkeeper::Inside::report() {
  TurnedAway told;
  {
    const std::scoped_lock guard(mutex_);
    sweep(false);
    if (away_count_ == 0 || DoorClock::now() - reported_ < options_.report_every) return;
    told = {away_count_, away_count_ == 1 ? last_away_ : away_.text(),
            reasons_.empty() ? "closed before any call" : reasons_.text()};
    reported_ = DoorClock::now();
    away_count_ = 0;
    away_.clear(), reasons_.clear();
  }
  if (options_.on_turned_away) options_.on_turned_away(told);
}

Status Doorkeeper::Inside::connect_to_self(OwnedDescriptor& socket, int& port) {
  sockaddr_storage to{}, from{};
  socklen_t size = sizeof to;
  {
    const std::scoped_lock guard(mutex_);
    if (listeners_.empty()) return fail(Error::kIo, "the server has stopped listening");
    ::getsockname(listeners_[0].get(), reinterpret_cast<sockaddr*>(&to), &size);
  }
  const auto& six = reinterpret_cast<sockaddr_in6&>(to);
  auto& four = reinterpret_cast<sockaddr_in&>(to);
  const auto any = htonl(INADDR_ANY);
  // All addresses, of both families: not every machine has a loopback of IPv6.
  if ((to.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)) ||
      (to.ss_family == AF_INET && four.sin_addr.s_addr == any)) {
    const auto port_number = four.sin_port;
    to = {};
    four.sin_family = AF_INET, four.sin_port = port_number;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof four;
  }
  from.ss_family = to.ss_family;  // any address, any port
  socket = OwnedDescriptor(::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t bound = size;
  if (socket.get() < 0 || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&from), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &bound) != 0)
    return fail(Error::kIo, "nobody can connect: {}", std::strerror(errno));
  port = ntohs(reinterpret_cast<sockaddr_in&>(from).sin_port);
  {
    const std::scoped_lock guard(mutex_);
    probes_[port] = {};
  }
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), size) == 0) return ok();
  pollfd wait{socket.get(), POLLOUT, 0};
  int error = errno;
  if (error == EINPROGRESS) {
    socklen_t length = sizeof error;
    if (::poll(&wait, 1, static_cast<int>(kProbeTime.count())) != 1) error = ETIMEDOUT;
    if (error != ETIMEDOUT) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  // Closed at once by the other end, which may be quicker: that end knows why.
  if (error == 0 || error == ECONNRESET) return ok();
  return fail(Error::kIo, "nobody can connect: {}", std::strerror(error));
}

Status Doorkeeper::Inside::healthy() {
  OwnedDescriptor socket;
  int port = 0;
  auto status = connect_to_self(socket, port);
  std::unique_lock lock(mutex_);
  auto& probe = probes_[port];
  if (status.ok() && !decided_.wait_for(lock, kProbeTime, [&] { return probe.decided; }))
    status = fail(Error::kIo, "connections are not accepted in time");
  if (status.ok() && !probe.why.empty()) status = fail(Error::kIo, "{}", probe.why);
  probes_.erase(port);
  return status;
}

Result<DoorLimits> door_limits(DoorLimits wanted, int64_t files, int64_t open) {
  const int64_t room = std::clamp<int64_t>((files - open - kKeptFiles) / 2, 0, kMostConnections);
  if (room < kFewestConnections)
    return fail(Error::kInvalid,
                "this process may open {} files and has opened {}, too few for a server; allow it "
                "{} or more (ulimit -n, or LimitNOFILE= of systemd)",
                files, open, open + kKeptFiles + 2 * kFewestConnections);
  const auto of = [](int64_t asked, int64_t most) {
    return asked > 0 ? std::min(asked, most) : most;
  };
  const auto all = of(wanted.all, room);
  const auto one = wanted.per_address > 0 ? wanted.per_address : std::max<int64_t>(all / 4, 1);
  return DoorLimits{all, std::min(one, all)};
}

Doorkeeper::Doorkeeper(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Doorkeeper::~Doorkeeper() { stop(); }

Result<std::unique_ptr<Doorkeeper>> Doorkeeper::open(HostPort& place, DoorOptions options) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0)
    return fail(Error::kIo, "the system does not say how many files may be open");
  const auto most = static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, INT32_MAX));
  TESSERA_ASSIGN(options.limits, door_limits(options.limits, most, open_files()));
  TESSERA_ASSIGN(auto listeners, open_listeners(place));
  auto inside = std::make_unique<Inside>(std::move(listeners), std::move(options));
  if (!inside->usable()) return fail(Error::kIo, "{}: no file descriptor left", place.text());
  return std::unique_ptr<Doorkeeper>(new Doorkeeper(std::move(inside)));
}

void Doorkeeper::start(HandOver hand_over) { inside_->start(std::move(hand_over)); }
void Doorkeeper::called(const std::string& peer) { inside_->called(peer); }
void Doorkeeper::failed(const std::string& reason) { inside_->failed(reason); }
Status Doorkeeper::healthy() { return inside_->healthy(); }
void Doorkeeper::stop() { inside_->stop(); }

}  // namespace tessera
