#include "engine/grpc/doorkeeper.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <mutex>

#include "engine/grpc/handshake_watch.hpp"
#include "engine/grpc/testing.hpp"

namespace tessera {
namespace {

using testing::eventually;
using testing::FailsWith;
using testing::Succeeds;

/// Connects to 127.0.0.1 from 127.0.0.`last`.
OwnedDescriptor door_caller(int port, int last = 1) {
  OwnedDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{}, to{};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl((127U << 24) | static_cast<uint32_t>(last));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const timeval patience{10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

/// Whether the other end closes it; waits for that, at most 10 seconds.
bool is_closed(const OwnedDescriptor& fd) {
  char byte = 0;
  const auto n = ::recv(fd.get(), &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

/// A door that keeps what it lets in, as gRPC does.
class Door {
 public:
  explicit Door(DoorLimits limits, std::chrono::milliseconds report_every = {}) {
    auto made = Doorkeeper::open(place, {.limits = limits,
                                         .on_turned_away =
                                             [this](const TurnedAway& told) {
                                               const std::scoped_lock guard(mutex_);
                                               told_.push_back(told);
                                             },
                                         .report_every = report_every});
    if (!made.ok()) throw std::runtime_error(message(made.status()));
    keeper = *std::move(made);
    keeper->start([this](int, int fd) {
      const std::scoped_lock guard(mutex_);
      inside_.emplace_back(fd);
    });
  }
  ~Door() { keeper->stop(); }
  size_t inside() const {
    const std::scoped_lock guard(mutex_);
    return inside_.size();
  }
  /// As gRPC ends a connection.
  void close(size_t at) {
    const std::scoped_lock guard(mutex_);
    inside_[at].close();
  }
  std::vector<TurnedAway> told() const {
    const std::scoped_lock guard(mutex_);
    return told_;
  }

  HostPort place{"127.0.0.1", 0};
  std::unique_ptr<Doorkeeper> keeper;

 private:
  mutable std::mutex mutex_;
  std::vector<OwnedDescriptor> inside_;
  std::vector<TurnedAway> told_;
};

TEST(Doorkeeper, LimitsFollowFromTheFilesOfTheProcess) {
  // (1024 − 24 − 64) / 2 = 468; a quarter of that for an address.
  auto limits = door_limits({}, 1024, 24);
  ASSERT_THAT(limits, Succeeds());
  EXPECT_EQ(limits->all, 468);
  EXPECT_EQ(limits->per_address, 117);
  limits = door_limits({}, 1 << 20, 24);
  EXPECT_EQ(limits->all, 20'000);
  EXPECT_EQ(limits->per_address, 5'000);
  limits = door_limits({.all = 10, .per_address = 20}, 1024, 24);
  EXPECT_EQ(limits->all, 10);
  EXPECT_EQ(limits->per_address, 10);
  EXPECT_EQ(door_limits({.all = 1'000'000}, 1024, 24)->all, 468);
  // 16 connections are the fewest: 30 + 64 + 32 files.
  EXPECT_THAT(door_limits({}, 125, 30), FailsWith(Error::kInvalid, "allow it 126 or more"));
  EXPECT_THAT(door_limits({}, 126, 30), Succeeds());
}

TEST(Doorkeeper, BeyondTheLimitsConnectionsAreClosedAtOnce) {
  Door door({.all = 6, .per_address = 3});
  std::vector<OwnedDescriptor> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(door_caller(door.place.port, 2));
  ASSERT_TRUE(eventually([&] { return door.inside() == 3; }));
  EXPECT_TRUE(is_closed(door_caller(door.place.port, 2))) << "a fourth of one address";
  for (int i = 0; i < 3; ++i) callers.push_back(door_caller(door.place.port, 3));
  ASSERT_TRUE(eventually([&] { return door.inside() == 6; }));
  EXPECT_TRUE(is_closed(door_caller(door.place.port, 4))) << "a seventh of all";
  EXPECT_THAT(door.keeper->healthy(), FailsWith(Error::kIo, "all 6 connections are in use"));
  ASSERT_TRUE(eventually([&] { return door.told().size() == 2; }));
  EXPECT_EQ(door.told()[0].why, "its address has all of its 3 connections");
  EXPECT_TRUE(door.told()[0].from.starts_with("127.0.0.2:")) << door.told()[0].from;
  EXPECT_EQ(door.told()[1].why, "all 6 connections are in use");
  // One that ends makes room for another, whoever ends it.
  door.close(0);
  EXPECT_TRUE(eventually([&] { return door.keeper->healthy().ok(); }));
  callers.push_back(door_caller(door.place.port, 5));
  EXPECT_TRUE(eventually([&] { return door.inside() == 7; }));
}

TEST(Doorkeeper, WithoutADescriptorCallersAreToldAndItRecovers) {
  Door door({});
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  auto caller = door_caller(door.place.port);
  auto prober = OwnedDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(eventually([&] { return door.inside() == 1; }));
  std::vector<OwnedDescriptor> held;
  rlimit few = old;
  few.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  while (held.empty() || held.back().get() >= 0)
    held.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(door.keeper->healthy(), FailsWith(Error::kIo, "nobody can connect"));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(door.place.port));
  ASSERT_EQ(::connect(prober.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  EXPECT_TRUE(is_closed(prober));
  held.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_THAT(door.keeper->healthy(), Succeeds());
  auto later = door_caller(door.place.port);
  EXPECT_TRUE(eventually([&] { return door.inside() == 2; }));
  ASSERT_TRUE(eventually([&] { return !door.told().empty(); }));
  EXPECT_EQ(door.told()[0].why, "the server has no file descriptor left");
}

TEST(Doorkeeper, WhoMadeNoCallIsToldSeldomAndTogether) {
  Door door({}, std::chrono::milliseconds(600));
  const auto come = [&](int last) {
    const auto before = door.inside();
    auto caller = door_caller(door.place.port, last);
    EXPECT_TRUE(eventually([&] { return door.inside() == before + 1; }));
    return caller;
  };
  auto first = come(2);
  door.keeper->failed("it shows no certificate");
  door.close(0);
  ASSERT_TRUE(eventually([&] { return door.told().size() == 1; }));
  EXPECT_TRUE(door.told()[0].from.starts_with("127.0.0.2:")) << door.told()[0].from;
  EXPECT_EQ(door.told()[0].why, "it shows no certificate");
  // Five more at once are one line; one that made a call is in none.
  std::vector<OwnedDescriptor> more;
  for (int i = 0; i < 3; ++i) more.push_back(come(3));
  for (int i = 0; i < 2; ++i) more.push_back(come(4));
  auto member = come(9);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ::getsockname(member.get(), reinterpret_cast<sockaddr*>(&own), &size);
  door.keeper->called(fmt::format("ipv4:127.0.0.9:{}", ntohs(own.sin_port)));
  for (size_t i = 1; i <= 6; ++i) door.close(i);
  for (int i = 0; i < 5; ++i) door.keeper->failed("no handshake in time");
  ASSERT_TRUE(eventually([&] { return door.told().size() == 2; }));
  EXPECT_EQ(door.told()[1].connections, 5);
  EXPECT_EQ(door.told()[1].from, "127.0.0.3 (3), 127.0.0.4 (2)");
  EXPECT_EQ(door.told()[1].why, "no handshake in time (5)");
}

TEST(Doorkeeper, FindsItselfWhereverItListens) {
  for (const char* host : {"0.0.0.0", "127.0.0.3", "localhost", "::", "::1"}) {
    HostPort place{host, 0};
    const auto keeper = Doorkeeper::open(place, {});
    if (!keeper.ok()) {
      EXPECT_NE(std::string(host).find(':'), std::string::npos) << "IPv6 may be missing here";
      continue;
    }
    (*keeper)->start([](int, int fd) { ::close(fd); });
    EXPECT_THAT((*keeper)->healthy(), Succeeds()) << host;
  }
}

TEST(Doorkeeper, StopsListening) {
  Door door({});
  EXPECT_THAT(door.keeper->healthy(), Succeeds());
  door.keeper->stop();
  EXPECT_THAT(door.keeper->healthy(), FailsWith(Error::kIo, "has stopped listening"));
  EXPECT_THAT(open_listeners(door.place), Succeeds());
}

TEST(HandshakeReason, IsAFewWords) {
  EXPECT_EQ(handshake_reason("Using polling engine: epoll1"), "");
  EXPECT_EQ(handshake_reason("Handshaking failed: UNKNOWN:Tls handshake failed: SSL_ERROR_SSL: "
                             "error:0A0000C7:SSL routines::peer did not return a certificate "
                             "{tsi_code:10, file_line:393}"),
            "it shows no certificate");
  EXPECT_EQ(handshake_reason("Handshaking failed: UNKNOWN:Custom verification check failed with "
                             "error: UNAUTHENTICATED: the certificate of 'a' was revoked {file:x}"),
            "the certificate of 'a' was revoked");
  EXPECT_EQ(handshake_reason("Handshaking failed: UNKNOWN:Handshake read failed {children:["
                             "UNKNOWN:FD Shutdown {children:[UNKNOWN:Handshake timed out {}]}]}"),
            "no handshake in time");
  EXPECT_EQ(handshake_reason("Handshaking failed: UNKNOWN:Tls handshake failed: SSL_ERROR_SSL: "
                             "error:0A000102:SSL routines::something\nnew {x:1}"),
            "something?new");
}

}  // namespace
}  // namespace tessera
