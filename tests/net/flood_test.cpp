// A flood of connections at a server that may open few files (issue 27, item 7): it goes on, says
// what happens, and is well again afterwards.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

/// Connected to 127.0.0.1, from 127.0.0.`last`; -1 if that fails.
int connect_from(int last, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in from{}, to{};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl((127U << 24) | static_cast<uint32_t>(last));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const timeval patience{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) == 0 &&
      connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0)
    return fd;
  close(fd);
  return -1;
}

class Flood : public FederationPlay {
 protected:
  ~Flood() override { end_flood(); }

  /// Starts the server with so many files at most.
  void start_with_files(int files) {
    std::vector<std::string> words{
        "-c", "ulimit -n " + std::to_string(files) + " && exec \"$0\" \"$@\"", TESSERA_BINARY};
    const auto serve = serve_words({"--metrics", "0"});
    words.insert(words.end(), serve.begin(), serve.end());
    server_ = std::make_unique<Process>(words, Process::Options{.program = "/bin/sh"});
    ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
    ASSERT_TRUE(server_->wait_until([&] { return metrics_port() > 0; })) << server_->err();
  }
  int metrics_port() const {
    std::istringstream lines(server_->err());
    for (std::string text; std::getline(lines, text);) {
      const auto line = nlohmann::json::parse(text, nullptr, false);
      if (!line.is_object() || line.value("event", "") != "metrics") continue;
      const std::string address = line["address"];
      return std::stoi(address.substr(address.rfind(':') + 1));
    }
    return 0;
  }
  int port() const { return std::atoi(address_.c_str() + address_.rfind(':') + 1); }
  std::string health() const {
    const int fd = connect_from(1, metrics_port());
    const std::string request = "GET /healthz HTTP/1.1\r\n\r\n";
    std::string answer;
    char buffer[1024];
    if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0)
      for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        answer.append(buffer, static_cast<size_t>(n));
    close(fd);
    return answer;
  }
  bool healthy() const { return health().starts_with("HTTP/1.1 200 "); }
  /// Idle connections of many addresses.
  void flood(int count) {
    for (int i = 0; i < count; ++i) flood_.push_back(connect_from(2 + i % 20, port()));
  }
  void end_flood() {
    for (const int fd : flood_)
      if (fd >= 0) close(fd);
    flood_.clear();
  }

 private:
  std::vector<int> flood_;
};

TEST_F(Flood, AServerWithFewFilesIsWellAgainAfterwards) {
  federation("fedavg", 4, "start_deadline = 100\n");
  make_identities();
  ASSERT_NO_FATAL_FAILURE(start_with_files(256));
  EXPECT_THAT(health(), HasSubstr("\r\n\r\nok\n"));
  flood(400);
  ASSERT_TRUE(server_->wait_until([&] { return !healthy(); })) << server_->err();
  EXPECT_THAT(health(), HasSubstr("connections are in use"));
  ASSERT_TRUE(server_->wait_until([&] {
    return server_->err().find("connections are in use") != std::string::npos;
  })) << server_->err();
  end_flood();
  ASSERT_TRUE(server_->wait_until([&] { return healthy(); })) << server_->err();
  for (const auto& name : names_) start_client(name);
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(json("state/summary.json")["rejected"], 0);
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

// One address may take its share and no more; connections that say nothing end by themselves.
TEST_F(Flood, OfOneAddressKeepsNobodyElseOut) {
  federation("fedavg", 4, "start_deadline = 100\n");
  make_identities();
  ASSERT_NO_FATAL_FAILURE(start_with_files(256));
  std::vector<int> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(connect_from(7, port()));
  EXPECT_TRUE(healthy());
  for (const auto& name : names_) start_client(name);
  const auto served = wait_for_end();
  for (const int fd : idle) close(fd);
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(json("state/summary.json")["rejected"], 0);
}

}  // namespace
}  // namespace tessera::testing
