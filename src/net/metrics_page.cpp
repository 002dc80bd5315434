#include "net/metrics_page.hpp"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "net/metrics.hpp"

namespace tessera {
// Not unnamed: MetricsPage::Inside holds some of it, which compilers warn of in unity builds.
namespace metrics_page {

constexpr std::chrono::seconds kPageTime{2};
constexpr size_t kPageRequestBytes = 16000;

using PageTime = std::chrono::steady_clock::time_point;

class PageDescriptor {
 public:
  explicit PageDescriptor(int fd) : fd_(fd) {}
  PageDescriptor(PageDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~PageDescriptor() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

/// Whether `fd` is ready before the time is up and before `wake` is; fd -1 only waits.
bool page_ready(int fd, short event, int wake, PageTime until) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waits[] = {{wake, POLLIN, 0}, {fd, event, 0}};
    const int n = ::poll(waits, 2, static_cast<int>(left.count()));
    if (n < 0 && errno == EINTR) continue;
    return n > 0 && waits[0].revents == 0;
  }
}

/// A connection as httplib sees it: no caller can hold it longer or fill it with more than allowed.
/// (httplib's own has a limit per read only, and refuses descriptors above 1023.)
class PageStream : public httplib::Stream {
 public:
  PageStream(int fd, int wake) : fd_(fd), wake_(wake) {}

  bool is_readable() const override { return page_ready(fd_, POLLIN, wake_, until_); }
  bool is_writable() const override { return page_ready(fd_, POLLOUT, wake_, until_); }
  ssize_t read(char* to, size_t size) override {
    if (left_ == 0 || !is_readable()) return -1;
    const ssize_t n = ::recv(fd_, to, std::min(size, left_), 0);
    if (n > 0) left_ -= static_cast<size_t>(n);
    return n;
  }
  ssize_t write(const char* from, size_t size) override {
    for (size_t done = 0; done < size;) {
      if (!is_writable()) return -1;
      const ssize_t n = ::send(fd_, from + done, size - done, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (n > 0) done += static_cast<size_t>(n);
    }
    return static_cast<ssize_t>(size);
  }
  // Nobody asks who called.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

 private:
  const int fd_, wake_;
  const PageTime until_ = std::chrono::steady_clock::now() + kPageTime;
  size_t left_ = kPageRequestBytes;
};

/// httplib for the HTTP alone: it reads a request and writes the answer.
class PageServer : public httplib::Server {
 public:
  explicit PageServer(MetricsPage::Content content) : content_(std::move(content)) {
    // Before routing: no pattern is matched against what callers send.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
  }
  void serve(httplib::Stream& stream) {
    bool closed = false;
    process_request(stream, true, closed, nullptr);
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) const {
    const auto say = [&](int status, const std::string& text, const char* type = "text/plain") {
      response.status = status;
      response.set_content(text, type);
    };
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      say(405, "only GET and HEAD\n");
    } else if (request.path == "/metrics") {
      say(200, content_.metrics(), kMetricsContentType);
    } else if (request.path == "/healthz") {
      const auto health = content_.health();
      say(health.ok() ? 200 : 503, health.ok() ? "ok\n" : message(health) + "\n");
    } else {
      say(404, "there are /metrics and /healthz\n");
    }
  }

  const MetricsPage::Content content_;
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
  Inside(PageDescriptor listens, PageDescriptor wakes, Content content)
      : listening(std::move(listens)), wake(std::move(wakes)), server(std::move(content)) {}

  void loop() {
    while (!stopping()) {
      pollfd waits[] = {{wake.get(), POLLIN, 0}, {listening.get(), POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 || waits[1].revents == 0) continue;
      const PageDescriptor caller(
          ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (caller.get() >= 0)
        answer(caller.get());
      else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
        // No descriptor left: the caller stays in the queue, and asking again at once is no use.
        page_ready(-1, 0, wake.get(),
                   std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    }
  }
  void answer(int fd) try {
    PageStream stream(fd, wake.get());
    server.serve(stream);
  } catch (const std::exception&) {
    // This caller gets no answer; the next one may.
  }
  bool stopping() const {
    pollfd wait{wake.get(), POLLIN, 0};
    return ::poll(&wait, 1, 0) > 0;
  }

  PageDescriptor listening, wake;
  PageServer server;
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
  PageDescriptor listening(
      ::socket(place.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listening.get() < 0) return page_error(address, "open a socket", errno);
  // A server that was just stopped must not keep its successor from the port. SO_REUSEPORT, which
  // httplib would set, would let two servers share it.
  const int yes = 1;
  ::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(listening.get(), name, place.size) != 0 || ::listen(listening.get(), 16) != 0) {
    if (errno == EADDRINUSE)
      return fail(
          Error::kBusy,
          "{}: another program is listening there; choose another port for the metrics page",
          address);
    return page_error(address, "listen", errno);
  }
  PageDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
