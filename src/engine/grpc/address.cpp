#include "engine/grpc/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
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

constexpr int kListenBacklog = 512;

Status cannot_listen(const HostPort& place, int error) {
  switch (error) {
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
      return fail(Error::kIo, "{}: cannot listen: {}", place.text(), std::strerror(error));
  }
}

/// 0, or why not. Both families have their port at the same place.
int listen_at(const sockaddr* at, socklen_t size, OwnedDescriptor& out, int& port) {
  sockaddr_storage address{};
  std::memcpy(&address, at, size);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port));
  OwnedDescriptor socket(
      ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A port that a server has just left is free; two servers that listen on one are not possible.
  const int yes = 1, no = 0;
  if (socket.get() < 0) return errno;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.ss_family == AF_INET6) {
    const bool all = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, all ? &no : &yes, sizeof yes);
  }
  if (::bind(socket.get(), raw, size) != 0 || ::listen(socket.get(), kListenBacklog) != 0 ||
      ::getsockname(socket.get(), raw, &size) != 0)
    return errno;
  port = ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  out = std::move(socket);
  return 0;
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

Result<std::vector<OwnedDescriptor>> open_listeners(HostPort& place) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int failed = ::getaddrinfo(place.host.c_str(), nullptr, &hints, &raw);
  if (failed != 0)
    return fail(Error::kInvalid, "{}: no such host: {}", place.text(), ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(raw, &::freeaddrinfo);
  std::vector<OwnedDescriptor> out(1);
  if (place.host == "0.0.0.0") {
    sockaddr_in6 all{};
    all.sin6_family = AF_INET6;
    // A machine without IPv6 goes on below.
    const int error = listen_at(reinterpret_cast<sockaddr*>(&all), sizeof all, out[0], place.port);
    if (error == 0) return out;
    if (error == EADDRINUSE || error == EACCES) return cannot_listen(place, error);
  }
  int first_error = 0;
  for (const auto* at = found.get(); at; at = at->ai_next) {
    OwnedDescriptor one;
    const int error = listen_at(at->ai_addr, at->ai_addrlen, one, place.port);
    if (error == 0)
      out.push_back(std::move(one));
    else if (first_error == 0 || error == EADDRINUSE)
      first_error = error;
  }
  out.erase(out.begin());
  // "localhost" may be ::1 as well where there is no IPv6; that other one must do then.
  if (out.empty() || first_error == EADDRINUSE) return cannot_listen(place, first_error);
  return out;
}

}  // namespace tessera
