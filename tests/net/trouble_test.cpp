// What users of other systems suffer from, and must not meet here.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Trouble : public FederationPlay {
 protected:
  Trouble() { hold_ = "0.2"; }
  static constexpr milliseconds kManyHolds{2000};  // ten

  /// Halts a client in the middle of a task, for so long that nobody else would wait.
  void halt_during(const std::string& name, const char* kind) {
    ASSERT_TRUE(waits_for(*clients_[name], "task", {{"kind", kind}})) << clients_[name]->err();
    clients_[name]->signal(SIGSTOP);
    let_pass(kManyHolds);
    ASSERT_TRUE(server_->running());
    clients_[name]->signal(SIGCONT);
  }
  void expect_all_counted(const Finished& served) {
    ASSERT_EQ(served.code, 0) << served.err;
    EXPECT_EQ(json("state/summary.json")["rejected"], 0) << served.err;
    EXPECT_EQ(rounds_digest("state"), simulated_digest());
  }
};

TEST_F(Trouble, AClientThatWasStoppedForAWhileIsWelcomeAgain) {
  federation("fedper", 6);
  make_identities();
  start_everybody();
  for (const auto& [name, signal] : {std::pair{"b", SIGTERM}, {"c", SIGKILL}, {"b", SIGINT}}) {
    const auto before = rounds_done("state");
    ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") > before; }));
    clients_[name]->signal(signal);
    const auto stopped = clients_[name]->wait(seconds(10));
    EXPECT_NE(stopped.code, 0);
    EXPECT_EQ(error_lines(stopped), signal == SIGKILL ? 0 : 1) << stopped.err;
    let_pass(kManyHolds);
    start_client(name);
    ASSERT_TRUE(waits_for(*clients_[name], "joined", {{"as", name}})) << clients_[name]->err();
  }
  expect_all_counted(wait_for_end());
}

// A client that computes makes no call; one that is halted does not even answer for its sockets.
TEST_F(Trouble, AnUpdateOrAnEvaluationMayLastManyHolds) {
  federation("fedavg", 4);
  make_identities();
  start_everybody();
  halt_during("b", "train");
  halt_during("c", "evaluate");
  const auto served = wait_for_end();
  expect_all_counted(served);
  EXPECT_THAT(served.err, Not(HasSubstr("\"refused\"")));
}

TEST_F(Trouble, ARoundWithoutAnybodyEndsAtItsDeadline) {
  federation("fedavg", 4, "deadline = 1\n");
  make_identities();
  start_server({"--linger", "1"});
  for (const auto& name : names_) start_client(name);
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; })) << server_->err();
  for (auto& [name, client] : clients_) client->signal(SIGKILL);
  const auto begun = Clock::now();
  const auto served = server_->wait(seconds(60));
  // At most three rounds, two evaluations and the farewell, a second each, and the report.
  EXPECT_LT(Clock::now() - begun, seconds(20));
  EXPECT_EQ(served.code, 1) << "nobody was left for the last evaluation: " << served.err;
  EXPECT_TRUE(
      logged(served.err, "not counted", {{"reason", "no answer in time"}, {"client", "d"}}));
  EXPECT_EQ(json("state/summary.json")["rounds"], 4);
}

TEST_F(Trouble, RoundsAreNotUsedUpWhenEverybodyHasGone) {
  federation("fedavg", 2000, "deadline = 30\n");
  make_identities();
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; })) << server_->err();
  for (const auto& name : names_) {
    const auto left =
        tessera({"leave", "--server", address_, "--identity", identities_ + "/id-" + name});
    EXPECT_EQ(left.code, 0) << left.err;
  }
  const auto served = server_->wait(seconds(60));
  EXPECT_EQ(served.code, 1) << served.err;
  EXPECT_THAT(served.err, HasSubstr("every client has left for good"));
  EXPECT_LT(rounds_done("state"), 1000);
}

TEST_F(Trouble, WhoseServerVanishesGoesOnWhenItIsBackAndCanBeStopped) {
  federation("fedavg", 5);
  make_identities();
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; })) << server_->err();
  server_->signal(SIGKILL);
  server_->wait();
  for (const auto& name : names_) {
    auto& client = *clients_[name];
    ASSERT_TRUE(client.wait_until([&] {
      return client.err().find("nothing listens there") != std::string::npos;
    })) << client.err();
  }
  const auto begun = Clock::now();
  clients_["a"]->signal(SIGTERM);
  const auto stopped = clients_["a"]->wait(seconds(20));
  EXPECT_LT(Clock::now() - begun, seconds(5));
  EXPECT_EQ(error_lines(stopped), 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("tessera: stopped"));
  start_client("a");
  start_server();
  expect_all_counted(wait_for_end());
}

// The spooled replies that a round failed with are gone with it: a server that is started again
// goes on, and ends where a simulation does.
TEST_F(Trouble, AServerHalfThatThrowsCostsTheRoundAlsoAfterARestart) {
  plugin_ = {"--plugin", TROUBLED_PLUGIN};
  federation("fragile", 6);
  make_identities();
  start_everybody();
  ASSERT_TRUE(waits_for(*server_, "not counted", {{"round", 2}, {"client", "d"}}))
      << server_->err();
  const auto log = server_->err();
  for (const auto& name : names_)
    EXPECT_TRUE(logged(log, "not counted", {{"round", 2}, {"client", name}})) << name;
  server_->signal(SIGKILL);
  server_->wait();
  start_server();
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(json("state/summary.json")["rounds_counted"], 5);
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

/// Somebody who listens, and says something else than TLS to everybody.
class WrongService {
 public:
  WrongService() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(place);
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&place), size) != 0 ||
        listen(listener_, 8) != 0)
      throw std::runtime_error("no socket for the test");
    getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size);
    address = "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
    thread_ = std::thread([this] {
      for (int fd; (fd = accept(listener_, nullptr, nullptr)) >= 0; close(fd)) {
        const std::string hello = "SSH-2.0-OpenSSH_9.2\r\n";
        if (write(fd, hello.data(), hello.size()) < 0) continue;
      }
    });
  }
  ~WrongService() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string address;

 private:
  int listener_ = -1;
  std::thread thread_;
};

class Mistakes : public Trouble {
 protected:
  /// One sentence, and nothing that only a programmer reads.
  void expect_sentence(const Finished& finished, const std::string& part) {
    EXPECT_NE(finished.code, 0);
    EXPECT_EQ(error_lines(finished), 1) << finished.err;
    EXPECT_THAT(finished.err,
                AllOf(HasSubstr(part), Not(HasSubstr("what():")), Not(HasSubstr("terminate")),
                      Not(HasSubstr(".cc:")), Not(HasSubstr("error:1"))));
  }
  Finished preflight(const std::string& server, const std::string& identity) const {
    return tessera({"preflight", "--server", server, "--identity", identity, "--data",
                    path("data/client-a.npz")});
  }
  void issue(const std::string& ca, const std::string& name, const std::string& to,
             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"pki", "issue", name, "--ca", ca, "--identity", path(to)};
    words.insert(words.end(), more.begin(), more.end());
    const auto made = tessera(words);
    ASSERT_EQ(made.code, 0) << made.err;
  }
};

TEST_F(Mistakes, OfTheCaller) {
  federation("fedavg", 3, "start_deadline = 60\n");
  make_identities();
  start_server();
  ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
  const auto me = identities_ + "/id-a";
  expect_sentence(preflight("127.0.0.1:1", me), "nothing listens there");
  expect_sentence(preflight("127.0.0.1:0", me), "port 0 is nobody's");
  expect_sentence(preflight("127.0.0.1", me), "127.0.0.1");
  expect_sentence(preflight("no-such-host.invalid:7443", me), "no such host");
  expect_sentence(preflight(address_, path("nowhere")), "nowhere");
  const WrongService other;
  expect_sentence(preflight(other.address, me), "does not speak TLS there");
  // A certificate of another CA, and one of this CA for somebody who is no member.
  ASSERT_EQ(tessera({"pki", "init", path("ca2")}).code, 0);
  issue(path("ca2"), "a", "id-other");
  expect_sentence(preflight(address_, path("id-other")), "CA");
  issue(identities_ + "/ca", "mallory", "id-mallory");
  expect_sentence(preflight(address_, path("id-mallory")), "'mallory' is not a member");
  // The right call, after all that.
  const auto fine = preflight(address_, me);
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
}

TEST_F(Mistakes, OfWhoServes) {
  federation("fedavg", 3, "start_deadline = 60\n");
  make_identities();
  start_server();
  ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
  auto words = serve_words();
  words[5] = path("another-state");
  expect_sentence(tessera(words), "another program listens there");
  words = serve_words();
  expect_sentence(tessera(words), path("state"));  // another process has it
  words[5] = path("another-state"), words[3] = "203.0.113.7:7443";
  expect_sentence(tessera(words), "203.0.113.7");
  // A server whose certificate is for another name: its callers are told, and which.
  issue(identities_ + "/ca", "elsewhere", "id-elsewhere", {"--server", "fed.example"});
  server_->signal(SIGTERM);
  server_->wait();
  words = serve_words();
  words[7] = path("id-elsewhere");
  server_ = std::make_unique<Process>(words, Process::Options{});
  ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
  expect_sentence(preflight(address_, identities_ + "/id-a"), "for another host name");
}

}  // namespace
}  // namespace tessera::testing
