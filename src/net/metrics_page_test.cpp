#include "net/metrics_page.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

/// A connection to a page on 127.0.0.1; every read ends after 10 seconds.
class PageVisitor {
 public:
  explicit PageVisitor(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  PageVisitor(const PageVisitor&) = delete;
  PageVisitor& operator=(const PageVisitor&) = delete;
  ~PageVisitor() { ::close(fd_); }

  void send(const std::string& text) { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// Everything until the server closes, which it must.
  std::string rest() {
    std::string out;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0)
      out.append(buffer, static_cast<size_t>(n));
    EXPECT_TRUE(n == 0 || errno == ECONNRESET) << "not closed by the server";
    return out;
  }

 private:
  int fd_;
};

std::string ask_page(const std::string& address, const std::string& request) {
  PageVisitor caller(address);
  caller.send(request);
  return caller.rest();
}

std::string get_page(const std::string& address, const std::string& path) {
  return ask_page(address, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
}

MetricsPage::Content plain_content() {
  return {[] { return std::string("a_total 1\n"); }, [] { return ok(); }};
}

std::unique_ptr<MetricsPage> open_page(MetricsPage::Content content = plain_content()) {
  auto page = MetricsPage::open("127.0.0.1:0", std::move(content));
  EXPECT_THAT(page, Succeeds());
  return page.ok() ? std::move(*page) : nullptr;
}

TEST(MetricsPage, AnswersMetrics) {
  const auto page = open_page();
  EXPECT_EQ(get_page(page->address(), "/metrics"),
            "HTTP/1.1 200 OK\r\n"
            "Connection: close\r\n"
            "Content-Length: 10\r\n"
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "\r\n"
            "a_total 1\n");
}

TEST(MetricsPage, HealthFollowsTheServer) {
  std::atomic<bool> fine = true;
  auto content = plain_content();
  content.health = [&] { return fine ? ok() : fail(Error::kIo, "the disk is full"); };
  const auto page = open_page(content);
  auto answer = get_page(page->address(), "/healthz");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"))
      << answer;
  fine = false;
  answer = get_page(page->address(), "/healthz");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nthe disk is full\n"))
      << answer;
}

TEST(MetricsPage, OtherPathsAndMethods) {
  const auto page = open_page();
  for (const char* path : {"/", "/metrics/", "/../etc/passwd", "/Metrics"})
    EXPECT_TRUE(get_page(page->address(), path).starts_with("HTTP/1.1 404 ")) << path;
  EXPECT_TRUE(get_page(page->address(), "/metrics?x=1").starts_with("HTTP/1.1 200 "));
  const auto posted = ask_page(page->address(), "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(posted.starts_with("HTTP/1.1 405 ")) << posted;
  EXPECT_NE(posted.find("Allow: GET, HEAD\r\n"), std::string::npos) << posted;
  const auto head = ask_page(page->address(), "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n")) << head;
}

TEST(MetricsPage, AThrowingCallbackIsA500) {
  auto content = plain_content();
  content.metrics = []() -> std::string { throw std::runtime_error("broken"); };
  const auto page = open_page(content);
  EXPECT_TRUE(get_page(page->address(), "/metrics").starts_with("HTTP/1.1 500 "));
  EXPECT_TRUE(get_page(page->address(), "/healthz").starts_with("HTTP/1.1 200 "));
}

TEST(MetricsPage, NonsenseCostsOnlyItsConnection) {
  const auto page = open_page();
  for (const std::string& bad :
       {std::string("\r\n\r\n"), std::string("GARBAGE\r\n\r\n"),
        std::string("\x16\x03\x01\x02\n\n"),
        std::string("GET /metrics HTTP/1.1\r\nX: ") + std::string(100000, 'x'),
        std::string(100000, 'y')}) {
    PageVisitor caller(page->address());
    caller.send(bad);
    EXPECT_EQ(caller.rest().find("a_total"), std::string::npos);
  }
  EXPECT_NE(get_page(page->address(), "/metrics").find("a_total 1\n"), std::string::npos);
}

TEST(MetricsPage, ACallerThatDribblesIsCutOffAndTheNextServed) {
  const auto page = open_page();
  PageVisitor slow(page->address());
  std::atomic<bool> over = false;
  std::thread dribble([&] {
    for (int i = 0; i < 1000 && !over; ++i) {
      slow.send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_EQ(slow.rest(), "");
  over = true;
  dribble.join();
  EXPECT_NE(get_page(page->address(), "/metrics").find("a_total 1\n"), std::string::npos);
}

TEST(MetricsPage, IdleConnectionsKeepNobodyFromIt) {
  const auto page = open_page();
  std::vector<std::unique_ptr<PageVisitor>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<PageVisitor>(page->address()));
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<PageVisitor>(page->address()));
    idle.back()->send("GET /healthz HTTP/1.1\r\nHost");
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(get_page(page->address(), "/healthz").ends_with("\r\n\r\nok\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
  // Each of them is cut off in time, and more than there is room for are no trouble either.
  for (int i = 0; i < 100; ++i) idle.push_back(std::make_unique<PageVisitor>(page->address()));
  EXPECT_TRUE(get_page(page->address(), "/healthz").ends_with("\r\n\r\nok\n"));
  for (auto& one : idle) EXPECT_EQ(one->rest(), "");
}

TEST(MetricsPage, StopsWhileACallerHoldsIt) {
  const auto page = open_page();
  PageVisitor silent(page->address());
  silent.send("GET /metr");
  auto stopped = std::async(std::launch::async, [&] { page->stop(); });
  // A bound for the test, not a measurement: it must not hang.
  ASSERT_EQ(stopped.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(silent.rest(), "");
  page->stop();
}

TEST(MetricsPage, ManyCallersGetWhole) {
  const std::string large(1 << 20, 'z');
  auto content = plain_content();
  content.metrics = [&] { return large; };
  const auto page = open_page(content);
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < 8; ++i)
    answers.push_back(
        std::async(std::launch::async, [&] { return get_page(page->address(), "/metrics"); }));
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ends_with("\r\n\r\n" + large));
}

TEST(MetricsPage, WorksAboveDescriptor1023) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit more = old;
  more.rlim_cur = std::min<rlim_t>(old.rlim_max, 1300);
  if (more.rlim_cur < 1300 || ::setrlimit(RLIMIT_NOFILE, &more) != 0)
    GTEST_SKIP() << "this process may not open 1300 files";
  std::vector<int> held;
  while (held.empty() || (held.back() >= 0 && held.back() < 1100))
    held.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_GE(held.back(), 1100);
  {
    const auto page = open_page();
    EXPECT_NE(get_page(page->address(), "/metrics").find("a_total 1\n"), std::string::npos);
  }
  for (const int fd : held) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &old);
}

TEST(MetricsPage, OnlyLoopback) {
  for (const std::string address :
       {"0.0.0.0:9464", "192.168.1.5:9464", "[::]:9464", "example.org:9464", ":9464",
        "[fe80::1]:9464", "128.0.0.1:9464"})
    EXPECT_EQ(message(MetricsPage::open(address, plain_content()).status()),
              "'" + address +
                  "': the metrics page answers anybody, so it is for this machine alone; write "
                  "127.0.0.1:9464, and reach it from elsewhere by a tunnel or a proxy");
  for (const std::string address :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"})
    EXPECT_EQ(
        message(MetricsPage::open(address, plain_content()).status()),
        "'" + address +
            "' is no address for the metrics page; write 127.0.0.1:PORT with a port up to 65535");
  for (const char* address : {"localhost:0", "0", "127.1.2.3:0"})
    EXPECT_THAT(MetricsPage::open(address, plain_content()), Succeeds()) << address;
}

TEST(MetricsPage, SaysWhereItListens) {
  const auto page = MetricsPage::open("localhost:0", plain_content());
  ASSERT_THAT(page, Succeeds());
  EXPECT_TRUE((*page)->address().starts_with("127.0.0.1:"));
  EXPECT_FALSE((*page)->address().ends_with(":0"));
}

TEST(MetricsPage, APortInUseIsOneSentence) {
  auto page = open_page();
  const auto address = page->address();
  const auto second = MetricsPage::open(address, plain_content());
  EXPECT_THAT(second, FailsWith(Error::kBusy, ""));
  EXPECT_EQ(
      message(second.status()),
      address + ": another program is listening there; choose another port for the metrics page");
  page.reset();
  EXPECT_THAT(MetricsPage::open(address, plain_content()), Succeeds());
}

}  // namespace
}  // namespace tessera
