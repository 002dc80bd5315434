// A federation on loopback whose host is a table, for tests of what includes gRPC.
#pragma once

#include <grpcpp/create_channel.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/grpc/caller.hpp"
#include "engine/grpc/federation.grpc.pb.h"
#include "engine/grpc/server.hpp"
#include "engine/grpc/service_host.hpp"
#include "engine/grpc/transport.hpp"
#include "io/testing.hpp"
#include "net/task_board.hpp"
#include "net/ticket.hpp"

namespace tessera::testing {

/// Waits for what another thread brings about, at most 20 seconds.
inline bool eventually(const std::function<bool()>& true_now) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!true_now()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Members by name, all of them enrolled at first.
class TableHost final : public ServiceHost {
 public:
  TableHost(const std::string& dir, std::vector<std::string> names) : names_(std::move(names)) {
    auto board = TaskBoard::open(dir, {.members = std::ssize(names_)});
    if (!board.ok()) throw std::runtime_error(message(board.status()));
    board_ = *std::move(board);
    for (int64_t i = 0; i < std::ssize(names_); ++i) enrolled_.insert(i);
  }

  std::optional<int64_t> member_of(const std::string& name) override {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<int64_t>(i);
    return std::nullopt;
  }
  Result<bool> revoked(const std::string& serial) override {
    const std::scoped_lock guard(mutex_);
    if (!revocation_trouble_.ok()) return revocation_trouble_;
    return revoked_.contains(serial);
  }
  FederationFacts describe(int64_t member) override {
    return {.id = "f1",
            .title = "a test",
            .member = member,
            .clients = std::ssize(names_),
            .newcomers = 7,
            .experiment = "[method]\n",
            .config_digest = "c0ffee"};
  }
  Status enroll(int64_t member, const EnrollFacts& facts) override {
    const std::scoped_lock guard(mutex_);
    facts_ = facts;
    if (facts.classes != 10)
      return fail(Error::kInvalid, "the data have {} classes, the federation 10", facts.classes);
    enrolled_.insert(member);
    return ok();
  }
  bool enrolled(int64_t member) override {
    const std::scoped_lock guard(mutex_);
    return enrolled_.contains(member);
  }
  Status leave(int64_t member) override {
    board_->send_away(member, "has left");
    const std::scoped_lock guard(mutex_);
    enrolled_.erase(member);
    return ok();
  }
  std::string status_json() override { return R"({"round":3})"; }
  TaskBoard& board() override { return *board_; }
  void on_event(const ServiceEvent& event) override {
    const std::scoped_lock guard(mutex_);
    events_.push_back(event);
  }

  void forget_enrolled(int64_t member) {
    const std::scoped_lock guard(mutex_);
    enrolled_.erase(member);
  }
  void revoke(const std::string& serial) {
    const std::scoped_lock guard(mutex_);
    revoked_.insert(serial);
  }
  void revocations_fail(Status why) {
    const std::scoped_lock guard(mutex_);
    revocation_trouble_ = std::move(why);
  }
  EnrollFacts facts() const {
    const std::scoped_lock guard(mutex_);
    return facts_;
  }
  /// How many events of this kind have this in their text.
  int64_t events(ServiceEvent::Kind kind, const std::string& text = "") const {
    const std::scoped_lock guard(mutex_);
    return std::count_if(events_.begin(), events_.end(), [&](const ServiceEvent& event) {
      return event.kind == kind && event.text.find(text) != std::string::npos;
    });
  }
  std::optional<ServiceEvent> last(ServiceEvent::Kind kind) const {
    const std::scoped_lock guard(mutex_);
    for (auto at = events_.rbegin(); at != events_.rend(); ++at)
      if (at->kind == kind) return *at;
    return std::nullopt;
  }

 private:
  const std::vector<std::string> names_;
  std::unique_ptr<TaskBoard> board_;
  mutable std::mutex mutex_;
  std::set<int64_t> enrolled_;
  std::set<std::string> revoked_;
  Status revocation_trouble_;
  EnrollFacts facts_;
  std::vector<ServiceEvent> events_;
};

/// A server with members "a", "bad" and "c" on a free port; without TLS unless told otherwise.
struct LoopbackFederation {
  explicit LoopbackFederation(ServerOptions options = insecure())
      : host(dir.file("spool"), {"a", "bad", "c"}), server_options(std::move(options)) {
    start();
  }
  static ServerOptions insecure() {
    ServerOptions out;
    out.listen = "127.0.0.1:0";
    out.insecure = true;
    out.retry.hold = std::chrono::seconds(60);
    out.retry.first_wait = std::chrono::milliseconds(10);
    out.retry.longest_wait = std::chrono::milliseconds(50);
    out.retry.chunk_bytes = 1000;
    return out;
  }
  /// Again on the same port, if it has run before.
  void start() {
    auto started = FederationServer::start(server_options, host);
    if (!started.ok()) throw std::runtime_error(message(started.status()));
    server = *std::move(started);
    server_options.listen = server->address();
  }

  TransportOptions calling_as(const std::string& name) const {
    TransportOptions out;
    out.server = server_options.listen;
    out.insecure = true;
    out.name = name;
    out.retry = server_options.retry;
    out.retry.give_up = std::chrono::milliseconds(20'000);
    return out;
  }
  std::unique_ptr<Transport> transport(const std::string& name) const {
    return transport(calling_as(name));
  }
  static std::unique_ptr<Transport> transport(TransportOptions options) {
    auto made = Transport::create(std::move(options));
    if (!made.ok()) throw std::runtime_error(message(made.status()));
    return *std::move(made);
  }
  /// gRPC itself, for callers who do not keep to the rules.
  std::unique_ptr<v1::Federation::Stub> stub() const {
    return v1::Federation::NewStub(
        grpc::CreateChannel(server_options.listen, grpc::InsecureChannelCredentials()));
  }

  /// Puts a task onto the board and tells the server; gives its ticket.
  std::string post(int64_t member, const Bytes& task) {
    EXPECT_THAT(host.board().post(member, std::make_shared<const Bytes>(task)), Succeeds());
    server->wake(member);
    return ticket_of(task);
  }

  TempDir dir;
  TableHost host;
  ServerOptions server_options;
  std::unique_ptr<FederationServer> server;
};

/// A call of `name` that ends in any case.
struct RawCall : grpc::ClientContext {
  explicit RawCall(const std::string& name) {
    set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!name.empty()) AddMetadata(kInsecureNameHeader, name);
  }
};

/// 0, 1, 2, … as bytes.
inline Bytes counted_bytes(size_t size) {
  Bytes out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return out;
}

}  // namespace tessera::testing
