#include "engine/grpc/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "io/bytes.hpp"

namespace tessera {
namespace {

constexpr int kHighestPort = 65535;

Status bind_once(const addrinfo& at, const HostPort& place) {
  const int fd = ::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, at.ai_protocol);
  if (fd < 0) return fail(Error::kIo, "{}: cannot listen: {}", place.text(), std::strerror(errno));
  // As gRPC does: a port that a server has just left is free.
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int failed = ::bind(fd, at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd, 1) == 0 ? 0 : errno;
  ::close(fd);
  switch (failed) {
    case 0:
      return ok();
    case EADDRINUSE:
      return fail(Error::kBusy,
                  "{}: another program listens there; choose another port, or find it with "
                  "'ss -ltnp'",
                  place.text());
    case EADDRNOTAVAIL:
      return fail(Error::kInvalid,
                  "{}: this machine has no such address; 0.0.0.0 stands for all it has",
                  place.text());
    case EACCES:
      return fail(Error::kIo,
                  "{}: no permission; ports below 1024 are the system's, choose another",
                  place.text());
    default:
      return fail(Error::kIo, "{}: cannot listen: {}", place.text(), std::strerror(failed));
  }
}

}  // namespace

std::string HostPort::text() const {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_address(const std::string& text) {
  const auto wrong = [&](const char* why) {
    return fail(Error::kInvalid, "'{}' is no address: {} (write HOST:PORT, as in 10.0.0.5:7443)",
                printable(text), why);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return wrong("the port is missing");
  std::string host = text.substr(0, colon);
  const auto port = whole_number(text.substr(colon + 1));
  if (!port || *port < 0 || *port > kHighestPort) return wrong("the port is no number up to 65535");
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr ignored;
    if (::inet_pton(AF_INET6, host.c_str(), &ignored) != 1)
      return wrong("what is between the brackets is no IPv6 address");
  } else if (host.find(':') != std::string::npos) {
    return wrong("an IPv6 address needs brackets");
  }
  constexpr auto kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:";
  if (host.empty()) return wrong("the host is missing");
  if (host.find_first_not_of(kAllowed) != std::string::npos) return wrong("the host is no name");
  return HostPort{host, static_cast<int>(*port)};
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr four;
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six;
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Status may_go_without_tls(const HostPort& place) {
  if (is_loopback(place.host)) return ok();
  return fail(Error::kInvalid,
              "{}: --insecure is for this machine only (127.0.0.1, ::1 or localhost); give an "
              "identity, which 'tessera pki' makes",
              place.text());
}

Status try_listening(const HostPort& place) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int failed =
      ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &raw);
  if (failed != 0)
    return fail(Error::kInvalid, "{}: no such host: {}", place.text(), ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(raw, &::freeaddrinfo);
  return bind_once(*found, place);
}

}  // namespace tessera
