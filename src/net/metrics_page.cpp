#include "net/metrics_page.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "net/descriptor.hpp"
#include "net/metrics.hpp"

namespace tessera {
// Not unnamed: MetricsPage::Inside holds some of it, which compilers warn of in unity builds.
namespace metrics_page {

constexpr std::chrono::seconds kPageTime{2};
constexpr size_t kPageRequestBytes = 16000;
// Beyond it the one that has waited longest goes, so there is always room for the next.
constexpr size_t kMostPageCallers = 64;

using PageClock = std::chrono::steady_clock;

const char* page_status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

struct PageAnswer {
  int status = 200;
  std::string body;
  const char* type = "text/plain";

  std::string text(bool with_body) const {
    return fmt::format(
        "HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Length: {}\r\nContent-Type: {}\r\n{}\r\n{}",
        status, page_status_text(status), body.size(), type,
        status == 405 ? "Allow: GET, HEAD\r\n" : "", with_body ? body : "");
  }
};

/// `method` and `path` are of the request line, the path without its query.
PageAnswer page_answer(const MetricsPage::Content& content, std::string_view method,
                       std::string_view path) try {
  if (method != "GET" && method != "HEAD") return {405, "only GET and HEAD\n"};
  if (path == "/metrics") return {200, content.metrics(), kMetricsContentType};
  if (path != "/healthz") return {404, "there are /metrics and /healthz\n"};
  const auto health = content.health();
  return health.ok() ? PageAnswer{200, "ok\n"} : PageAnswer{503, message(health) + "\n"};
} catch (const std::exception&) {
  return {500, "failed\n"};
}

/// To a whole request, of which only the first line counts.
std::string page_reply(const MetricsPage::Content& content, std::string_view request) {
  const auto line = request.substr(0, request.find_first_of("\r\n"));
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return PageAnswer{400, "this is no request\n"}.text(true);
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  return page_answer(content, method, target.substr(0, target.find('?'))).text(method != "HEAD");
}

/// A connection: a request that comes in bit by bit, then an answer that goes out so.
class PageCaller {
 public:
  explicit PageCaller(OwnedDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  short waits_for() const { return answer_.empty() ? POLLIN : POLLOUT; }
  bool late(PageClock::time_point now) const { return now >= until_; }
  /// Does what can be done without waiting; false once it is over.
  bool go_on(const MetricsPage::Content& content) {
    return answer_.empty() ? read(content) : write();
  }

 private:
  bool read(const MetricsPage::Content& content) {
    char buffer[4096];
    const ssize_t n = ::recv(fd(), buffer, sizeof buffer, 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    request_.append(buffer, static_cast<size_t>(n));
    const bool whole =
        request_.find("\r\n\r\n") != request_.npos || request_.find("\n\n") != request_.npos;
    if (!whole) return request_.size() < kPageRequestBytes;
    answer_ = page_reply(content, request_);
    return write();
  }
  bool write() {
    const ssize_t n = ::send(fd(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<size_t>(n);
    return sent_ < answer_.size();
  }

  OwnedDescriptor socket_;
  const PageClock::time_point until_ = PageClock::now() + kPageTime;
  std::string request_, answer_;
  size_t sent_ = 0;
};

struct PageAddress {
  sockaddr_storage socket{};
  socklen_t size = 0;
  std::string host;  // as it is written before a colon
};

/// Nothing if the host is no address of this machine alone.
std::optional<PageAddress> loopback_address(const std::string& host, uint16_t port) {
  PageAddress out;
  in_addr four{};
  in6_addr six{};
  const auto name = host == "localhost" ? "127.0.0.1" : host;
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1 && (ntohl(four.s_addr) >> 24) == 127) {
    auto& to = reinterpret_cast<sockaddr_in&>(out.socket);
    to.sin_family = AF_INET, to.sin_addr = four, to.sin_port = htons(port);
    out.size = sizeof(to), out.host = name;
    return out;
  }
  if (::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six)) {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.socket);
    to.sin6_family = AF_INET6, to.sin6_addr = six, to.sin6_port = htons(port);
    out.size = sizeof(to), out.host = "[::1]";
    return out;
  }
  return std::nullopt;
}

Result<PageAddress> parse_page_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const bool alone = colon == std::string::npos;
  const auto port = whole_number(alone ? text : text.substr(colon + 1));
  auto host = alone ? "127.0.0.1" : text.substr(0, colon);
  if (!port || *port > 65535)
    return fail(
        Error::kInvalid,
        "'{}' is no address for the metrics page; write 127.0.0.1:PORT with a port up to 65535",
        printable(text));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const auto address = loopback_address(host, static_cast<uint16_t>(*port));
  if (!address)
    return fail(Error::kInvalid,
                "'{}': the metrics page answers anybody, so it is for this machine alone; write "
                "127.0.0.1:{}, and reach it from elsewhere by a tunnel or a proxy",
                printable(text), *port);
  return *address;
}

Status page_error(const std::string& address, const char* action, int error) {
  return fail(Error::kIo, "{}: cannot {} for the metrics page: {}", address, action,
              std::generic_category().message(error));
}

}  // namespace metrics_page

using namespace metrics_page;

struct MetricsPage::Inside {
  Inside(OwnedDescriptor listens, OwnedDescriptor wakes, Content shows)
      : listening(std::move(listens)), wake(std::move(wakes)), content(std::move(shows)) {}

  void loop() {
    while (true) {
      std::vector<pollfd> waits{{wake.get(), POLLIN, 0}, {listening.get(), POLLIN, 0}};
      for (const auto& caller : callers) waits.push_back({caller->fd(), caller->waits_for(), 0});
      // Often enough to end those whose time is over; nobody is kept from another's by them.
      ::poll(waits.data(), waits.size(), callers.empty() ? -1 : 100);
      if (waits[0].revents != 0) return callers.clear();
      const auto now = PageClock::now();
      size_t at = 2;
      std::erase_if(callers, [&](const auto& caller) {
        const bool ready = waits[at++].revents != 0;
        return caller->late(now) || (ready && !caller->go_on(content));
      });
      if (waits[1].revents != 0) take();
    }
  }
  void take() {
    OwnedDescriptor caller(
        ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (caller.get() >= 0) {
      if (callers.size() >= kMostPageCallers) callers.erase(callers.begin());
      callers.push_back(std::make_unique<PageCaller>(std::move(caller)));
    } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      // No descriptor left: the caller stays in the queue, and asking again at once is no use.
      if (!callers.empty()) callers.erase(callers.begin());
      pollfd wait{wake.get(), POLLIN, 0};
      ::poll(&wait, 1, 100);
    }
  }

  OwnedDescriptor listening, wake;
  const Content content;
  std::vector<std::unique_ptr<PageCaller>> callers;  // by the time they came
  std::string address;
  std::thread thread;
};

MetricsPage::MetricsPage(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}

MetricsPage::~MetricsPage() { stop(); }

const std::string& MetricsPage::address() const { return inside_->address; }

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(const std::string& address,
                                                       Content content) try {
  TESSERA_ASSIGN(auto place, parse_page_address(address));
  auto* name = reinterpret_cast<sockaddr*>(&place.socket);
  OwnedDescriptor listening(
      ::socket(place.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listening.get() < 0) return page_error(address, "open a socket", errno);
  // A server that was just stopped must not keep its successor from the port.
  const int yes = 1;
  ::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(listening.get(), name, place.size) != 0 || ::listen(listening.get(), 128) != 0) {
    if (errno == EADDRINUSE)
      return fail(
          Error::kBusy,
          "{}: another program is listening there; choose another port for the metrics page",
          address);
    return page_error(address, "listen", errno);
  }
  OwnedDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return page_error(address, "make an event", errno);
  if (::getsockname(listening.get(), name, &place.size) != 0)
    return page_error(address, "find the port", errno);
  // The port is at the same place in both kinds of address.
  const auto port = ntohs(reinterpret_cast<sockaddr_in&>(place.socket).sin_port);
  auto inside = std::make_unique<Inside>(std::move(listening), std::move(wake), std::move(content));
  inside->address = fmt::format("{}:{}", place.host, port);
  inside->thread = std::thread([loop = inside.get()] { loop->loop(); });
  return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(inside)));
} catch (const std::system_error& error) {
  return fail(Error::kIo, "{}: no thread for the metrics page: {}", address, error.what());
}

void MetricsPage::stop() {
  if (!inside_->thread.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(inside_->wake.get(), &one, sizeof(one));
  inside_->thread.join();
  inside_->listening.close();  // who is still in its queue is told
}

}  // namespace tessera
