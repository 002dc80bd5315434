#include "engine/grpc/address.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

TEST(Address, HostAndPortComeBackAsTheyWereWritten) {
  for (const std::string text : {"10.0.0.5:7443", "host.example.org:1", "[::1]:65535", "a:0"}) {
    const auto place = parse_address(text);
    ASSERT_THAT(place, Succeeds());
    EXPECT_EQ(place->text(), text);
  }
  EXPECT_EQ(parse_address("[fe80::1]:7443")->host, "fe80::1");
  EXPECT_EQ(parse_address("[fe80::1]:7443")->port, 7443);
}

TEST(Address, WhatIsWrongWithATextIsSaid) {
  EXPECT_THAT(parse_address("server"), FailsWith(Error::kInvalid, "the port is missing"));
  EXPECT_THAT(parse_address("server:"), FailsWith(Error::kInvalid, "no number up to 65535"));
  EXPECT_THAT(parse_address("server:65536"), FailsWith(Error::kInvalid, "no number up to 65535"));
  EXPECT_THAT(parse_address("server:-1"), FailsWith(Error::kInvalid, "no number up to 65535"));
  EXPECT_THAT(parse_address(":7443"), FailsWith(Error::kInvalid, "the host is missing"));
  EXPECT_THAT(parse_address("::1:7443"), FailsWith(Error::kInvalid, "needs brackets"));
  EXPECT_THAT(parse_address("[nonsense]:7443"), FailsWith(Error::kInvalid, "no IPv6 address"));
  EXPECT_THAT(parse_address("a b:1"), FailsWith(Error::kInvalid, "the host is no name"));
  EXPECT_THAT(parse_address("unix:/tmp/x:1"), FailsWith(Error::kInvalid, ""));
}

TEST(Address, OnlyThisMachineIsLoopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.255.3.4", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "128.0.0.1", "10.0.0.1", "localhost.example.org",
                           "127.0.0.1.example.org", "::ffff:10.0.0.1", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
  EXPECT_THAT(may_go_without_tls({"127.0.0.1", 1}), Succeeds());
  EXPECT_THAT(may_go_without_tls({"0.0.0.0", 1}),
              FailsWith(Error::kInvalid, "0.0.0.0:1: --insecure is for this machine only"));
}

TEST(Address, WhyNobodyCanListenThereIsSaid) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof at;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  HostPort taken{"127.0.0.1", ntohs(at.sin_port)};
  EXPECT_THAT(open_listeners(taken), FailsWith(Error::kBusy, "another program listens there"));
  ::close(fd);
  EXPECT_THAT(open_listeners(taken), Succeeds());
  HostPort elsewhere{"192.0.2.1", 7443}, nowhere{"no such host", 7443};
  EXPECT_THAT(open_listeners(elsewhere), FailsWith(Error::kInvalid, "no such address"));
  EXPECT_THAT(open_listeners(nowhere), FailsWith(Error::kInvalid, "no such host"));
}

bool can_connect(const std::string& address, int port) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET, six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(static_cast<uint16_t>(port));
  const bool is_six = ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1;
  if (!is_six) ::inet_pton(AF_INET, address.c_str(), &four.sin_addr);
  const OwnedDescriptor fd(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return is_six ? ::connect(fd.get(), reinterpret_cast<sockaddr*>(&six), sizeof six) == 0
                : ::connect(fd.get(), reinterpret_cast<sockaddr*>(&four), sizeof four) == 0;
}

TEST(Address, AllAddressesOfAPlaceAreListenedOn) {
  const OwnedDescriptor six(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const char* host : {"0.0.0.0", "127.0.0.1", "localhost"}) {
    HostPort place{host, 0};
    const auto listeners = open_listeners(place);
    ASSERT_THAT(listeners, Succeeds());
    EXPECT_NE(place.port, 0);
    EXPECT_TRUE(can_connect("127.0.0.1", place.port)) << host;
    EXPECT_EQ(can_connect("127.0.0.2", place.port), place.host == "0.0.0.0") << host;
  }
  for (const char* host : {"::", "::1", "0.0.0.0"}) {
    HostPort place{host, 0};
    const auto listeners = open_listeners(place);
    if (!listeners.ok() && six.get() < 0) GTEST_SKIP() << "no IPv6 here";
    ASSERT_THAT(listeners, Succeeds());
    EXPECT_TRUE(can_connect("::1", place.port)) << host;
    EXPECT_EQ(can_connect("127.0.0.1", place.port), place.host != "::1") << host;
  }
}

}  // namespace
}  // namespace tessera
