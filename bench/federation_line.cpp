#include "federation_line.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/text.hpp"

namespace tessera::bench {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(static_cast<uint16_t>(port));
  return out;
}

bool send_all(int to, const char* data, ssize_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, data, static_cast<size_t>(size), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent, size -= sent;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<BadLine>> BadLine::open(const std::string& server, int64_t cuts,
                                               int64_t every) {
  const auto port = whole_number(server.substr(server.rfind(':') + 1));
  if (!port) return fail(Error::kInvalid, "'{}' has no port", server);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto place = loopback(0);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof(place)) != 0 ||
      listen(listener, 16) != 0)
    return fail(Error::kIo, "cannot listen on this machine");
  return std::unique_ptr<BadLine>(new BadLine(listener, static_cast<int>(*port), cuts, every));
}

BadLine::BadLine(int listener, int port, int64_t cuts, int64_t every)
    : listener_(listener), port_(port), cuts_(cuts), every_(every) {
  sockaddr_in place{};
  socklen_t size = sizeof(place);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size);
  address_ = fmt::format("127.0.0.1:{}", ntohs(place.sin_port));
  acceptor_ = std::jthread([this] { accept_callers(); });
}

BadLine::~BadLine() {
  stop_ = true;
  if (acceptor_.joinable()) acceptor_.join();
  break_all();
  for (auto& one : connections_) {
    one.up.join(), one.down.join();
    close(one.caller), close(one.server);
  }
  close(listener_);
}

void BadLine::accept_callers() {
  while (!stop_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 100) <= 0) continue;
    const int caller = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller < 0) continue;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto place = loopback(port_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&place), sizeof(place)) != 0) {
      close(caller), close(server);
      continue;
    }
    const std::scoped_lock guard(mutex_);
    auto& made = connections_.emplace_back();
    made.caller = caller, made.server = server;
    made.up = std::jthread([this, caller, server] { pass_on(caller, server); });
    made.down = std::jthread([this, caller, server] { pass_on(server, caller); });
  }
}

void BadLine::pass_on(int from, int to) {
  std::vector<char> buffer(1 << 18);
  for (;;) {
    const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0 || !send_all(to, buffer.data(), got)) break;
    count(got);
  }
  // The other direction ends, too: half a connection is of no use here.
  shutdown(from, SHUT_RDWR), shutdown(to, SHUT_RDWR);
}

void BadLine::count(int64_t bytes) {
  const int64_t now = passed_ += bytes;
  if (now / every_ == (now - bytes) / every_) return;
  if (broken_ >= cuts_) return;
  ++broken_;
  break_all();
}

void BadLine::break_all() {
  const std::scoped_lock guard(mutex_);
  for (const auto& one : connections_)
    shutdown(one.caller, SHUT_RDWR), shutdown(one.server, SHUT_RDWR);
}

}  // namespace tessera::bench
