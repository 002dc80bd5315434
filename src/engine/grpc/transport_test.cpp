#include "engine/grpc/transport.hpp"

#include <grpcpp/server_builder.h>

#include <future>

#include "engine/grpc/rpc_status.hpp"
#include "engine/grpc/testing.hpp"
#include "net/chunk.hpp"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::counted_bytes;
using testing::eventually;
using testing::FailsWith;
using testing::LoopbackFederation;
using testing::Succeeds;

TEST(Transport, TheWholeConversation) {
  LoopbackFederation f;
  f.host.forget_enrolled(0);
  const auto transport = f.transport("a");
  const auto facts = transport->describe();
  ASSERT_THAT(facts, Succeeds());
  EXPECT_EQ(facts->id, "f1");
  EXPECT_EQ(facts->title, "a test");
  EXPECT_EQ(facts->member, 0);
  EXPECT_EQ(facts->name, "a");
  EXPECT_EQ(facts->clients, 3);
  EXPECT_EQ(facts->newcomers, 7);
  EXPECT_EQ(facts->experiment, "[method]\n");
  EXPECT_EQ(facts->config_digest, "c0ffee");
  EXPECT_EQ(facts->retry.hold, milliseconds(60'000));
  EXPECT_EQ(facts->retry.chunk_bytes, 1000);

  EXPECT_EQ(transport->poll()->kind, Polled::Kind::kEnroll);
  EnrollFacts mine{.config_digest = "c0ffee",
                   .sample_shape = {1, 28, 28},
                   .classes = 3,
                   .class_names = {"x", "y"},
                   .layout_digest = "l",
                   .data_digest = "d",
                   .hello = {1, 0, 255}};
  EXPECT_THAT(transport->enroll(mine),
              FailsWith(Error::kInvalid, "the data have 3 classes, the federation 10"));
  mine.classes = 10;
  ASSERT_THAT(transport->enroll(mine), Succeeds());
  EXPECT_EQ(f.host.facts().sample_shape, mine.sample_shape);
  EXPECT_EQ(f.host.facts().class_names, mine.class_names);
  EXPECT_EQ(f.host.facts().hello, mine.hello);
  EXPECT_EQ(f.host.facts().data_digest, "d");

  const auto task = counted_bytes(10'500), reply = counted_bytes(3'001);  // 11 and 4 chunks
  const auto ticket = f.post(0, task);
  const auto polled = transport->poll();
  ASSERT_THAT(polled, Succeeds());
  ASSERT_EQ(polled->kind, Polled::Kind::kTask);
  EXPECT_EQ(polled->offer.ticket, ticket);
  const auto fetched = transport->fetch(polled->offer);
  ASSERT_THAT(fetched, Succeeds());
  EXPECT_EQ(*fetched, task);
  ASSERT_THAT(transport->deliver(ticket, reply), Succeeds());
  const auto delivered = f.host.board().next({});
  ASSERT_TRUE(delivered);
  EXPECT_EQ(delivered->member, 0);
  EXPECT_EQ(*delivered->bytes, reply);

  EXPECT_EQ(*transport->status(), R"({"round":3})");
  ASSERT_THAT(transport->leave(), Succeeds());
  const auto last = transport->poll();
  EXPECT_EQ(last->kind, Polled::Kind::kGone);
  EXPECT_EQ(last->reason, "has left");
}

TEST(Transport, AnUploadGoesOnWhereAnEarlierProcessStopped) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10)), late = std::string(64, 'a');
  const auto reply = counted_bytes(5'000);
  ASSERT_THAT(f.host.board().write(0, ticket, 0, ByteSpan(reply).first(2'345)), Succeeds());
  const auto transport = f.transport("a");
  ASSERT_THAT(transport->deliver(ticket, reply), Succeeds());
  EXPECT_EQ(*f.host.board().next({})->bytes, reply);
  EXPECT_THAT(transport->deliver(late, reply), FailsWith(Error::kNotFound, "not this member's"));
}

TEST(Transport, WhatIsLeftOfAnotherReplyIsReplaced) {
  LoopbackFederation f;
  const auto reply = counted_bytes(5'000);
  for (const size_t left : {size_t{700}, size_t{5'000}, size_t{7'000}}) {
    const auto ticket = f.post(0, counted_bytes(left));
    ASSERT_THAT(f.host.board().write(0, ticket, 0, Bytes(left, 9)), Succeeds());
    const auto transport = f.transport("a");
    ASSERT_THAT(transport->deliver(ticket, reply), Succeeds());
    EXPECT_EQ(*f.host.board().next({})->bytes, reply);
  }
}

TEST(Transport, AServerThatIsStartedAgainIsFoundAgain) {
  LoopbackFederation f;
  int troubles = 0;
  auto options = f.calling_as("a");
  options.on_trouble = [&](const std::string& sentence, milliseconds) {
    EXPECT_NE(sentence.find("nothing listens there"), std::string::npos) << sentence;
    if (++troubles == 3) f.start();
  };
  const auto transport = f.transport(options);
  ASSERT_THAT(transport->describe(), Succeeds());
  f.server.reset();
  const auto ticket_task = counted_bytes(20);
  ASSERT_THAT(f.host.board().post(0, std::make_shared<const Bytes>(ticket_task)), Succeeds());
  const auto polled = transport->poll();
  ASSERT_THAT(polled, Succeeds());
  EXPECT_EQ(polled->kind, Polled::Kind::kTask);
  EXPECT_GE(troubles, 3);
}

TEST(Transport, WaitsGrowWithinTheWindowAndEndWithIt) {
  TransportOptions options;
  options.server = "127.0.0.1:1";  // nobody's
  options.insecure = true;
  options.name = "a";
  options.retry.first_wait = milliseconds(100);
  options.retry.longest_wait = milliseconds(400);
  options.retry.give_up = milliseconds(1000);
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  milliseconds slept{};
  std::vector<int64_t> waits;
  options.clock.now = [&] { return now; };
  options.clock.sleep = [&](milliseconds time) { now += time, slept += time; };
  options.clock.random = [] { return 0.5; };
  options.on_trouble = [&](const std::string&, milliseconds wait) {
    waits.push_back(wait.count());
  };
  const auto facts = LoopbackFederation::transport(options)->describe();
  EXPECT_THAT(facts, FailsWith(Error::kIo, "nothing listens there; is 'tessera serve' running"));
  EXPECT_THAT(facts, FailsWith(Error::kIo, "given up after 1 s of trying"));
  // Half of 100, 200, 400, 400, …: after 50 + 100 + 5 × 200 ms the window of 1000 is over.
  EXPECT_EQ(waits, (std::vector<int64_t>{50, 100, 200, 200, 200, 200, 200}));
  EXPECT_EQ(slept.count(), 1150);
}

TEST(Transport, WhoOnlyAsksIsToldTheFirstFailure) {
  TransportOptions options;
  options.server = "127.0.0.1:1";
  options.insecure = true;
  options.name = "a";
  options.patient = false;
  options.on_trouble = [](const std::string&, milliseconds) { FAIL() << "no second try"; };
  EXPECT_THAT(LoopbackFederation::transport(options)->status(),
              FailsWith(Error::kIo, "127.0.0.1:1: nothing listens there"));
}

TEST(Transport, WhatCannotWorkIsRefusedBeforeAnyCall) {
  TransportOptions options;
  options.insecure = true;
  options.name = "a";
  const auto made = [&](const std::string& server) {
    options.server = server;
    return Transport::create(options).status();
  };
  EXPECT_THAT(made("192.0.2.1:7443"), FailsWith(Error::kInvalid, "for this machine only"));
  EXPECT_THAT(made("127.0.0.1:0"), FailsWith(Error::kInvalid, "port 0"));
  EXPECT_THAT(made("127.0.0.1"), FailsWith(Error::kInvalid, "the port is missing"));
  options.name = "jürgen";
  EXPECT_THAT(made("127.0.0.1:1"), FailsWith(Error::kInvalid, "plain letters"));
  options.insecure = false;
  options.identity_dir = "/nowhere";
  EXPECT_THAT(made("127.0.0.1:1"), FailsWith(Error::kNotFound, "/nowhere"));
}

TEST(Transport, AStrangerIsToldSoAndDoesNotTryAgain) {
  LoopbackFederation f;
  auto options = f.calling_as("stranger");
  options.on_trouble = [](const std::string&, milliseconds) { FAIL() << "no second try"; };
  EXPECT_THAT(f.transport(options)->describe(),
              FailsWith(Error::kInvalid, "'stranger' is not a member of this federation"));
}

TEST(Transport, TwoProgramsWithOneIdentityNoticeEachOther) {
  LoopbackFederation f;
  auto options = f.calling_as("a");
  std::atomic<bool> noticed = false;
  options.on_trouble = [&](const std::string& sentence, milliseconds) {
    noticed = sentence.find("one identity is in use twice") != std::string::npos;
  };
  const auto first = f.transport(options);
  auto polling = std::async(std::launch::async, [&] { return first->poll(); });
  const auto second = f.transport("a");
  ASSERT_TRUE(eventually([&] { return f.host.board().member(0).seconds_since_poll >= 0; }));
  auto other = std::async(std::launch::async, [&] { return second->poll(); });
  EXPECT_TRUE(eventually([&] { return noticed.load(); }));
  f.post(0, counted_bytes(5));
  EXPECT_EQ(polling.get()->kind, Polled::Kind::kTask);
  EXPECT_EQ(other.get()->kind, Polled::Kind::kTask);
}

TEST(Transport, AStopEndsEveryWait) {
  LoopbackFederation f;
  for (const bool reachable : {true, false}) {
    std::atomic<bool> stop = false;
    auto options = f.calling_as("c");
    options.stop = &stop;
    options.retry.first_wait = options.retry.longest_wait = milliseconds(3'600'000);
    options.clock.random = [] { return 0.999; };
    std::atomic<bool> waits = false;
    options.on_trouble = [&](const std::string&, milliseconds) { waits = true; };
    if (!reachable) options.server = "127.0.0.1:1";
    const auto transport = f.transport(options);
    auto polling = std::async(std::launch::async, [&] { return transport->poll().status(); });
    ASSERT_TRUE(
        eventually([&] { return waits || f.host.board().member(2).seconds_since_poll >= 0; }));
    stop = true;
    // Long before the hour that it would wait, and before the minute of a poll.
    ASSERT_EQ(polling.wait_for(milliseconds(20'000)), std::future_status::ready);
    EXPECT_THAT(polling.get(), FailsWith(Error::kInterrupted, "stopped"));
    EXPECT_THAT(transport->status(), FailsWith(Error::kInterrupted, "stopped"));
  }
}

/// A server that does in its first calls what bad lines and bad servers do.
class FaultyServer : public v1::Federation::Service {
 public:
  explicit FaultyServer(Bytes task) : task_(std::move(task)) {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    server_ = builder.BuildAndStart();
  }
  ~FaultyServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::Chunk>* writer) override {
    offsets.push_back(request->offset());
    const auto call = offsets.size();
    for (int64_t at = request->offset(); at < std::ssize(task_); at += kStep) {
      const auto rest = ByteSpan(task_).subspan(static_cast<size_t>(at));
      const auto data = rest.first(std::min<size_t>(rest.size(), kStep));
      v1::Chunk chunk;
      chunk.set_offset(at);
      chunk.set_data(data.data(), data.size());
      chunk.set_crc32c(crc32c(data) ^ (call == 2 ? 1U : 0U));
      if (forged)
        chunk.mutable_data()->at(0) ^= 1, chunk.set_crc32c(crc32c(bytes_of(chunk.data())));
      if (call == 4 && stalls) {
        while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
        return grpc::Status::CANCELLED;
      }
      writer->Write(chunk);
      if (call == 1 && !forged) return {grpc::StatusCode::UNAVAILABLE, "cut"};
      if (call == 3 && !forged) return grpc::Status::OK;  // too early
    }
    return grpc::Status::OK;
  }

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*,
                        v1::DescribeReply* reply) override {
    if (takes_caller_for.empty()) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    reply->set_name(takes_caller_for);
    return grpc::Status::OK;
  }

  TransportOptions calling() const {
    TransportOptions out;
    out.server = fmt::format("127.0.0.1:{}", port_);
    out.insecure = true;
    out.name = "a";
    out.retry.first_wait = out.retry.longest_wait = milliseconds(1);
    out.retry.give_up = milliseconds(20'000);
    out.stall = milliseconds(2'000);
    return out;
  }
  TaskOffer offer() const { return {ticket_of(task_), std::ssize(task_)}; }

  static constexpr size_t kStep = 100;
  std::vector<int64_t> offsets;
  bool stalls = false, forged = false;
  std::string takes_caller_for;  // empty: it does not know the call

 private:
  const Bytes task_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Transport, AFetchGoesOnWhereItBroke) {
  const auto task = counted_bytes(1'050);
  FaultyServer faulty(task);
  faulty.stalls = true;
  std::vector<std::string> troubles;
  auto options = faulty.calling();
  options.on_trouble = [&](const std::string& sentence, milliseconds) {
    troubles.push_back(sentence);
  };
  const auto fetched = LoopbackFederation::transport(options)->fetch(faulty.offer());
  ASSERT_THAT(fetched, Succeeds());
  EXPECT_EQ(*fetched, task);
  // Cut after a chunk; a damaged chunk, which does not count; one more and a polite end too early;
  // nothing at all until this side ends it; the rest.
  EXPECT_EQ(faulty.offsets, (std::vector<int64_t>{0, 100, 100, 200, 200}));
  ASSERT_EQ(troubles.size(), 4U);
  EXPECT_NE(troubles[1].find("damaged on the way"), std::string::npos) << troubles[1];
  EXPECT_NE(troubles[2].find("ended too early"), std::string::npos) << troubles[2];
}

TEST(Transport, AServerThatTakesItForAnotherIsRefused) {
  FaultyServer server(counted_bytes(10));
  server.takes_caller_for = "a";
  const auto transport = LoopbackFederation::transport(server.calling());
  EXPECT_THAT(transport->describe(), Succeeds());
  server.takes_caller_for = "b";
  EXPECT_THAT(transport->describe(),
              FailsWith(Error::kInvalid, "the server takes this client for 'b', but it is 'a'"));
}

TEST(Transport, ATaskThatIsNotItsTicketIsGivenUp) {
  FaultyServer faulty(counted_bytes(300));
  faulty.forged = true;
  EXPECT_THAT(LoopbackFederation::transport(faulty.calling())->fetch(faulty.offer()),
              FailsWith(Error::kInvalid, "SHA-256"));
  EXPECT_EQ(faulty.offsets, (std::vector<int64_t>{0, 0, 0})) << "three times, each from the start";
}

TEST(Transport, AServerOfSomethingElseIsRecognised) {
  FaultyServer faulty({1});
  EXPECT_THAT(LoopbackFederation::transport(faulty.calling())->describe(),
              FailsWith(Error::kIo, "no 'tessera serve' of this version"));
}

TEST(Transport, OffersThatCannotBeAreRefused) {
  LoopbackFederation f;
  auto options = f.calling_as("a");
  options.max_task_bytes = 1000;
  const auto transport = f.transport(options);
  EXPECT_THAT(transport->fetch({std::string(64, 'a'), 1001}), FailsWith(Error::kInvalid, ""));
  EXPECT_THAT(transport->fetch({std::string(64, 'a'), -1}), FailsWith(Error::kInvalid, ""));
  EXPECT_THAT(transport->fetch({"x", 10}), FailsWith(Error::kInvalid, ""));
  EXPECT_THAT(transport->fetch({std::string(64, 'a'), 10}),
              FailsWith(Error::kNotFound, "not this member's task"));
}

}  // namespace
}  // namespace tessera
