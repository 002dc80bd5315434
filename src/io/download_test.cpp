#include "io/download.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <functional>
#include <mutex>
#include <thread>

#include "io/sha256.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::get;
using ::testing::HasSubstr;
using testing::put;
using testing::Succeeds;
using testing::TempDir;

// Answers a handful of requests on 127.0.0.1, one connection each, then stops. Every wait is
// bounded.
class Server {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit Server(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 8) != 0 || ::pipe(stop_) != 0)
      throw std::runtime_error("no local server");
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = fmt::format("http://127.0.0.1:{}/file.bin", ntohs(address.sin_port));
    ::setenv("no_proxy", "127.0.0.1", 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
    ::close(listener_);
  }

  const std::string& url() const { return url_; }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static constexpr int kPatience = 5000;  // milliseconds

  void serve() {
    while (true) {
      pollfd waits[] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
      if (::poll(waits, 2, kPatience) <= 0 || waits[1].revents) return;
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      talk(connection);
      ::close(connection);
    }
  }

  void talk(int connection) {
    std::string request;
    char buffer[4096];
    pollfd wait{connection, POLLIN, 0};
    while (request.find("\r\n\r\n") == std::string::npos) {
      if (::poll(&wait, 1, kPatience) <= 0) return;
      const ssize_t n = ::recv(connection, buffer, sizeof(buffer), 0);
      if (n <= 0) return;
      request.append(buffer, static_cast<size_t>(n));
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string answer = answer_(request);
    for (size_t done = 0; done < answer.size();) {
      const ssize_t n =
          ::send(connection, answer.data() + done, answer.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }

  Answer answer_;
  int listener_ = -1, stop_[2] = {-1, -1};
  std::string url_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string response(std::string_view status, std::string_view body, size_t length,
                     std::string_view more = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status,
                     length, more, body);
}
std::string whole(std::string_view body) { return response("200 OK", body, body.size()); }

// As real servers do: ranges honoured, 416 beyond the end.
std::string ranged(const std::string& request, std::string_view body) {
  const size_t at = request.find("Range: bytes=");
  if (at == std::string::npos) return whole(body);
  size_t begin = 0;
  std::from_chars(request.data() + at + 13, request.data() + request.size(), begin);
  if (begin >= body.size()) return response("416 Range Not Satisfiable", "", 0);
  const auto rest = body.substr(begin);
  return response(
      "206 Partial Content", rest, rest.size(),
      fmt::format("Content-Range: bytes {}-{}/{}\r\n", begin, body.size() - 1, body.size()));
}

std::string body_text() {
  std::string out;
  for (int i = 0; i < 20000; ++i) out += static_cast<char>(i * i >> 2);
  return out;
}

DownloadOptions checked(std::string_view body) {
  DownloadOptions options;
  options.sha256 = sha256_hex(bytes_of(body));
  return options;
}

class Download : public ::testing::Test {
 protected:
  TempDir dir;
  const std::string body = body_text();
  const std::string target = dir.file("x");
};

TEST_F(Download, FetchesChecksAndReportsProgress) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  DownloadOptions options = checked(body);
  options.size = body.size();
  options.md5 = Digest(DigestKind::kMd5).add(body).hex();
  uint64_t last = 0, total = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done, total = std::max(total, all);
    return true;
  };
  put(target, "an older version");
  EXPECT_THAT(download(server.url(), target, options), Succeeds());
  EXPECT_EQ(get(target), body);
  EXPECT_EQ(last, body.size());
  EXPECT_EQ(total, body.size());
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST_F(Download, GoesOnAfterTheServerClosedEarly) {
  int calls = 0;
  Server server([&](const std::string& request) {
    if (++calls == 1)
      return response("200 OK", std::string_view(body).substr(0, 7000), body.size());
    return ranged(request, body);
  });
  EXPECT_THAT(download(server.url(), target, checked(body)),
              FailsWith(Error::kIo, "broke off after 7.00 kB"));
  EXPECT_THAT(dir.names(), ElementsAre("x.part"));
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
  EXPECT_THAT(dir.names(), ElementsAre("x"));
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_THAT(server.requests()[1], HasSubstr("Range: bytes=7000-"));
}

TEST_F(Download, StartsOverWhereTheServerKnowsNoRanges) {
  Server server([&](const std::string&) { return whole(body); });
  put(target + ".part", std::string_view(body).substr(0, 100));
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
}

TEST_F(Download, StartsOverWhenTheServerSendsAnotherRange) {
  int calls = 0;
  Server server([&](const std::string& request) {
    if (++calls > 1) return ranged(request, body);
    return response("206 Partial Content", body, body.size(), "Content-Range: bytes 0-9/20000\r\n");
  });
  put(target + ".part", std::string_view(body).substr(0, 100));
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
}

TEST_F(Download, ACompletePartOnlyNeedsItsName) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  put(target + ".part", body);
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
  EXPECT_EQ(server.requests().size(), 1u);
  DownloadOptions sized = checked(body);
  sized.size = body.size();
  put(target + ".part", body);
  EXPECT_THAT(download(server.url(), target, sized), Succeeds());
  EXPECT_EQ(server.requests().size(), 1u) << "size and checksum say all, so nobody is asked";
}

TEST_F(Download, WithoutAChecksumNothingIsContinued) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  put(target + ".part", "of another file");
  EXPECT_THAT(download(server.url(), target), Succeeds());
  EXPECT_EQ(get(target), body);
}

TEST_F(Download, AWrongChecksumLeavesNothing) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  EXPECT_THAT(download(server.url(), target, checked("other")),
              FailsWith(Error::kInvalid, "wrong checksum"));
  EXPECT_THAT(dir.names(), ElementsAre());
  DownloadOptions md5;
  md5.md5 = std::string(32, '0');
  EXPECT_THAT(download(server.url(), target, md5), FailsWith(Error::kInvalid, "MD5"));
  EXPECT_THAT(dir.names(), ElementsAre());
  put(target, "old");
  EXPECT_FALSE(download(server.url(), target, checked("other")).ok());
  EXPECT_EQ(get(target), "old");
}

TEST_F(Download, AWrongSizeLeavesNothing) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  DownloadOptions options;
  options.size = body.size() - 1;
  EXPECT_THAT(download(server.url(), target, options), FailsWith(Error::kInvalid, "larger than"));
  options.size = body.size() + 1;
  EXPECT_THAT(download(server.url(), target, options), FailsWith(Error::kInvalid, "20000 bytes"));
  EXPECT_THAT(dir.names(), ElementsAre());
}

TEST_F(Download, ServerErrorsAreToldApart) {
  std::string status = "404 Not Found";
  Server server([&](const std::string&) { return response(status, "no such page", 12); });
  EXPECT_THAT(download(server.url(), target), FailsWith(Error::kNotFound, "answered 404"));
  status = "500 Internal Server Error";
  EXPECT_THAT(download(server.url(), target), FailsWith(Error::kIo, "answered 500"));
  EXPECT_THAT(dir.names(), ElementsAre());
}

TEST_F(Download, CanBeStoppedAndGoesOnLater) {
  Server server([&](const std::string& request) { return ranged(request, body); });
  DownloadOptions options = checked(body);
  options.progress = [](uint64_t done, uint64_t) { return done == 0; };
  EXPECT_THAT(download(server.url(), target, options),
              FailsWith(Error::kInterrupted, "run it again"));
  EXPECT_THAT(dir.names(), ElementsAre("x.part"));
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
}

TEST_F(Download, GivesUpOnASilentServer) {
  std::mutex held;
  std::unique_lock hold(held);
  Server server([&](const std::string&) {
    const std::lock_guard wait(held);
    return std::string();
  });
  DownloadOptions options;
  options.stall_timeout = std::chrono::seconds(1);
  EXPECT_THAT(download(server.url(), target, options),
              FailsWith(Error::kIo, "broke off after 0 B"));
  hold.unlock();
}

TEST_F(Download, FollowsRedirectsButNotToLocalFiles) {
  put(dir.file("secret"), "secret");
  std::string location;
  Server server([&](const std::string& request) {
    if (request.find("GET /file.bin") == std::string::npos) return whole(body);
    return response("302 Found", "", 0, fmt::format("Location: {}\r\n", location));
  });
  location = server.url() + "2";
  EXPECT_THAT(download(server.url(), target, checked(body)), FailsWith(Error::kIo, "redirects"));
  location = server.url().substr(0, server.url().size() - 8) + "other";
  EXPECT_THAT(download(server.url(), target, checked(body)), Succeeds());
  location = "file://" + dir.file("secret");
  EXPECT_THAT(download(server.url(), dir.file("y")), FailsWith(Error::kInvalid, "address"));
}

TEST_F(Download, FilesOfThisMachine) {
  put(dir.file("source"), body);
  const std::string url = "file://" + dir.file("source");
  EXPECT_THAT(download(url, target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
  put(target + ".part", std::string_view(body).substr(0, 5000));
  EXPECT_THAT(download(url, target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
  put(target + ".part", body + "longer than the source");
  EXPECT_THAT(download(url, target, checked(body)), Succeeds());
  EXPECT_EQ(get(target), body);
  EXPECT_THAT(download("file://" + dir.file("none"), dir.file("y")),
              FailsWith(Error::kNotFound, "none"));
  EXPECT_THAT(dir.names(), ElementsAre("source", "x"));
}

TEST_F(Download, WrongAddressesAndDirectories) {
  EXPECT_THAT(download("gopher://127.0.0.1/x", target), FailsWith(Error::kInvalid, "address"));
  EXPECT_THAT(download("", target), FailsWith(Error::kInvalid, "address"));
  EXPECT_THAT(download("file:///dev/null", dir.file("no/x")), FailsWith(Error::kNotFound, "no/x"));
  EXPECT_THAT(dir.names(), ElementsAre());
}

}  // namespace
}  // namespace tessera
