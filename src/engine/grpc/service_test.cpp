#include "engine/grpc/service.hpp"

#include <future>

#include "engine/grpc/testing.hpp"
#include "net/chunk.hpp"

namespace tessera {
namespace {

using testing::counted_bytes;
using testing::eventually;
using testing::LoopbackFederation;
using testing::RawCall;
using testing::Succeeds;
using EventKind = ServiceEvent::Kind;

const std::string kNobodysTicket(64, '0');

v1::Chunk chunk_at(int64_t offset, const Bytes& data, const std::string& ticket = "") {
  v1::Chunk out;
  out.set_ticket(ticket);
  out.set_offset(offset);
  out.set_data(data.data(), data.size());
  out.set_crc32c(crc32c(data));
  return out;
}

/// What Deliver says to these chunks.
grpc::Status deliver_chunks(const LoopbackFederation& f, const std::string& name,
                            const std::vector<v1::Chunk>& chunks) {
  const auto stub = f.stub();
  RawCall call(name);
  v1::StoredReply reply;
  const auto writer = stub->Deliver(&call, &reply);
  for (const auto& chunk : chunks)
    if (!writer->Write(chunk)) break;
  writer->WritesDone();
  return writer->Finish();
}

TEST(Service, WhoIsNoMemberGetsNoAnswerFromAnyCall) {
  LoopbackFederation f;
  f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  for (const std::string name : {"stranger", ""}) {
    const auto refused = [&](const char* what, const auto& call) {
      RawCall context(name);
      const grpc::Status status = call(&context);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << what;
    };
    v1::DescribeReply described;
    v1::EnrollReply enrolled;
    v1::PollReply polled;
    v1::StoredReply stored;
    v1::CompleteReply complete;
    v1::LeaveReply left;
    v1::StatusReply status;
    refused("Describe", [&](auto* c) { return stub->Describe(c, {}, &described); });
    refused("Enroll", [&](auto* c) { return stub->Enroll(c, {}, &enrolled); });
    refused("Poll", [&](auto* c) { return stub->Poll(c, {}, &polled); });
    refused("Stored", [&](auto* c) { return stub->Stored(c, {}, &stored); });
    refused("Complete", [&](auto* c) { return stub->Complete(c, {}, &complete); });
    refused("Leave", [&](auto* c) { return stub->Leave(c, {}, &left); });
    refused("Status", [&](auto* c) { return stub->Status(c, {}, &status); });
    refused("Fetch", [&](auto* c) {
      v1::Chunk chunk;
      const auto reader = stub->Fetch(c, {});
      EXPECT_FALSE(reader->Read(&chunk));
      return reader->Finish();
    });
    refused("Deliver", [&](auto* c) { return stub->Deliver(c, &stored)->Finish(); });
  }
  EXPECT_EQ(f.host.events(EventKind::kDenied, "'stranger' is not a member"), 9);
  EXPECT_EQ(f.host.events(EventKind::kDenied, "does not say who it is"), 9);
}

TEST(Service, AnotherVersionOfTheProtocolIsRefused) {
  LoopbackFederation f;
  const auto stub = f.stub();
  RawCall call("a");
  v1::DescribeRequest request;
  request.set_protocol(2);
  v1::DescribeReply reply;
  const auto status = stub->Describe(&call, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("version 1 of the protocol, the caller version 2"),
            std::string::npos);
  EXPECT_EQ(f.host.events(EventKind::kRefused, "Describe: "), 1);
}

TEST(Service, NobodySeesOrAnswersAnothersTask) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  RawCall fetching("c");
  v1::FetchRequest request;
  request.set_ticket(ticket);
  v1::Chunk chunk;
  const auto reader = stub->Fetch(&fetching, request);
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(deliver_chunks(f, "c", {chunk_at(0, {1, 2}, ticket)}).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(f.host.events(EventKind::kRefused, "Deliver: not this member's task"), 1);
  EXPECT_EQ(*f.host.board().stored(0, ticket), 0);
}

TEST(Service, ChunksAreCheckedBeforeAnyByteIsKept) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10));
  auto damaged = chunk_at(0, {1, 2, 3}, ticket);
  damaged.set_data("abd");
  auto other = chunk_at(2, {3}, kNobodysTicket);
  struct Case {
    const char* what;
    std::vector<v1::Chunk> chunks;
    grpc::StatusCode code;
  };
  const auto bad = grpc::StatusCode::INVALID_ARGUMENT;
  for (const auto& [what, chunks, code] :
       std::vector<Case>{{"damaged", {damaged}, bad},
                         {"no ticket", {chunk_at(0, {1})}, bad},
                         {"a path as ticket", {chunk_at(0, {1}, "../../etc/passwd")}, bad},
                         {"no data", {chunk_at(0, {}, ticket)}, bad},
                         {"a gap", {chunk_at(5, {1}, ticket)}, bad},
                         {"before the beginning", {chunk_at(-5, {1}, ticket)}, bad},
                         {"too large", {chunk_at(0, Bytes(kMostChunkBytes + 1), ticket)}, bad},
                         {"larger than a message",
                          {chunk_at(0, Bytes(kMostChunkBytes + (128 << 10)), ticket)},
                          grpc::StatusCode::RESOURCE_EXHAUSTED}}) {
    EXPECT_EQ(deliver_chunks(f, "a", chunks).error_code(), code) << what;
    EXPECT_EQ(*f.host.board().stored(0, ticket), 0) << what;
  }
  EXPECT_EQ(deliver_chunks(f, "a", {chunk_at(0, {1, 2}, ticket), other}).error_code(), bad);
  EXPECT_EQ(*f.host.board().stored(0, ticket), 2) << "what came before a bad chunk stays";
  EXPECT_EQ(f.host.events(EventKind::kRefused, "Deliver: "), 8);
}

TEST(Service, CompleteNeedsAllBytesAndTheirDigest) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10));
  const Bytes reply{1, 2, 3};
  ASSERT_TRUE(deliver_chunks(f, "a", {chunk_at(0, reply, ticket)}).ok());
  const auto stub = f.stub();
  const auto complete = [&](const std::string& name, const std::string& sha256) {
    RawCall call(name);
    v1::CompleteRequest request;
    request.set_ticket(ticket), request.set_size(3), request.set_sha256(sha256);
    v1::CompleteReply done;
    return stub->Complete(&call, request, &done).error_code();
  };
  EXPECT_EQ(complete("a", "x"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(complete("c", sha256_hex(reply)), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(complete("a", sha256_hex(reply)), grpc::StatusCode::OK);
  EXPECT_EQ(complete("a", sha256_hex(reply)), grpc::StatusCode::OK) << "may be repeated";
  const auto event = f.host.last(EventKind::kDelivered);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->name, "a");
  EXPECT_EQ(event->member, 0);
  EXPECT_EQ(event->bytes, 3);
  EXPECT_EQ(event->ticket, ticket);
  EXPECT_EQ(event->sha256, sha256_hex(reply));
  const auto delivered = f.host.board().next({});
  ASSERT_TRUE(delivered);
  EXPECT_EQ(*delivered->bytes, reply);
}

TEST(Service, AStreamThatSendsNothingIsCutAndTheServerGoesOn) {
  auto options = LoopbackFederation::insecure();
  options.streams.idle = std::chrono::milliseconds(1000);
  LoopbackFederation f(options);
  const auto ticket = f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  RawCall call("a");
  v1::StoredReply reply;
  const auto writer = stub->Deliver(&call, &reply);
  ASSERT_TRUE(writer->Write(chunk_at(0, {1, 2}, ticket)));
  // No further chunk: Finish() returns because the server ends the call.
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(eventually(
      [&] { return f.host.events(EventKind::kRefused, "Deliver: nothing moved for") == 1; }));
  EXPECT_EQ(*f.host.board().stored(0, ticket), 2) << "what has arrived can be gone on from";
  EXPECT_TRUE(deliver_chunks(f, "a", {chunk_at(2, {3}, ticket)}).ok());
}

TEST(Service, ASecondStreamOfAMemberEndsTheFirst) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  RawCall old_call("a");
  v1::StoredReply reply;
  const auto old_writer = stub->Deliver(&old_call, &reply);
  ASSERT_TRUE(old_writer->Write(chunk_at(0, {1, 2}, ticket)));
  ASSERT_TRUE(eventually([&] { return *f.host.board().stored(0, ticket) == 2; }));
  EXPECT_TRUE(deliver_chunks(f, "a", {chunk_at(2, {3}, ticket)}).ok());
  EXPECT_EQ(old_writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(*f.host.board().stored(0, ticket), 3);
}

TEST(Service, APollIsAnsweredWhenATaskIsPosted) {
  LoopbackFederation f;
  const auto stub = f.stub();
  auto polling = std::async(std::launch::async, [&] {
    RawCall call("c");
    v1::PollReply reply;
    EXPECT_TRUE(stub->Poll(&call, {}, &reply).ok());
    return reply;
  });
  ASSERT_TRUE(eventually([&] { return f.host.board().member(2).seconds_since_poll >= 0; }));
  const auto ticket = f.post(2, counted_bytes(10));
  const auto reply = polling.get();
  EXPECT_EQ(reply.kind(), v1::PollReply::TASK);
  EXPECT_EQ(reply.ticket(), ticket);
  EXPECT_EQ(reply.size(), 10);
}

TEST(Service, WhoHasNotEnrolledIsToldToAndGetsNoTask) {
  LoopbackFederation f;
  f.host.forget_enrolled(0);
  f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  const auto kind_now = [&] {
    RawCall call("a");
    v1::PollReply reply;
    EXPECT_TRUE(stub->Poll(&call, {}, &reply).ok());
    return reply.kind();
  };
  EXPECT_EQ(kind_now(), v1::PollReply::ENROLL);
  f.host.board().finish();
  EXPECT_EQ(kind_now(), v1::PollReply::FINISHED);
  f.host.board().send_away(0, "was revoked");
  EXPECT_EQ(kind_now(), v1::PollReply::GONE);
}

// A held poll costs no thread: far more are held than the server may have threads.
TEST(Service, ManyPollsAreHeldByFewThreads) {
  constexpr int kPolls = 200;
  std::vector<std::string> names;
  for (int i = 0; i < kPolls; ++i) names.push_back(fmt::format("m{}", i));
  testing::TempDir dir;
  testing::TableHost host(dir.file("spool"), names);
  auto options = LoopbackFederation::insecure();
  options.threads = 4;
  options.retry.hold = std::chrono::seconds(60);
  auto server = *FederationServer::start(options, host);
  // A connection carries 16 calls at most; these have ten each.
  std::vector<std::unique_ptr<v1::Federation::Stub>> stubs;
  grpc::ChannelArguments alone;
  alone.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  for (int i = 0; i < kPolls / 10; ++i)
    stubs.push_back(v1::Federation::NewStub(
        grpc::CreateCustomChannel(server->address(), grpc::InsecureChannelCredentials(), alone)));
  std::vector<std::unique_ptr<RawCall>> calls;
  std::vector<v1::PollReply> replies(kPolls);
  std::vector<std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PollReply>>> readers;
  std::vector<grpc::Status> statuses(kPolls);
  grpc::CompletionQueue queue;
  for (int i = 0; i < kPolls; ++i) {
    calls.push_back(std::make_unique<RawCall>(names[i]));
    readers.push_back(stubs[i / 10]->AsyncPoll(calls.back().get(), {}, &queue));
    readers.back()->Finish(&replies[i], &statuses[i], nullptr);
  }
  const auto everybody_polls = [&] {
    for (int i = 0; i < kPolls; ++i)
      if (host.board().member(i).seconds_since_poll < 0) return false;
    return true;
  };
  EXPECT_TRUE(eventually(everybody_polls));
  for (int i = 0; i < kPolls; ++i) {
    EXPECT_THAT(host.board().post(i, std::make_shared<const Bytes>(Bytes{1, 2})), Succeeds());
    server->wake(i);
  }
  for (int i = 0; i < kPolls; ++i) {
    void* tag = nullptr;
    bool okay = false;
    ASSERT_TRUE(queue.Next(&tag, &okay));
  }
  for (int i = 0; i < kPolls; ++i) EXPECT_EQ(replies[i].kind(), v1::PollReply::TASK);
  queue.Shutdown();
}

TEST(Server, MistakesAreOneSentenceEach) {
  LoopbackFederation f;
  const auto start = [&](ServerOptions options) {
    return FederationServer::start(options, f.host).status();
  };
  auto options = LoopbackFederation::insecure();
  options.listen = f.server->address();
  EXPECT_THAT(start(options), testing::FailsWith(Error::kBusy, "another program listens there"));
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(start(options), testing::FailsWith(Error::kInvalid, "for this machine only"));
  options.listen = "nonsense";
  EXPECT_THAT(start(options), testing::FailsWith(Error::kInvalid, "the port is missing"));
  options = LoopbackFederation::insecure();
  options.retry.chunk_bytes = kMostChunkBytes + 1;
  EXPECT_THAT(start(options), testing::FailsWith(Error::kInvalid, "chunks have 1 … 4194304"));
  options.insecure = false;
  options.retry.chunk_bytes = 1;
  options.identity_dir = f.dir.file("nowhere");
  EXPECT_THAT(start(options), testing::FailsWith(Error::kNotFound, "nowhere"));
}

TEST(Server, StoppingEndsPollsAndTransfersInTime) {
  LoopbackFederation f;
  const auto ticket = f.post(0, counted_bytes(10));
  const auto stub = f.stub();
  auto polling = std::async(std::launch::async, [&] {
    RawCall call("c");
    v1::PollReply reply;
    return stub->Poll(&call, {}, &reply);
  });
  RawCall call("a");
  v1::StoredReply reply;
  const auto writer = stub->Deliver(&call, &reply);
  ASSERT_TRUE(writer->Write(chunk_at(0, {1, 2}, ticket)));
  ASSERT_TRUE(eventually([&] {
    return *f.host.board().stored(0, ticket) == 2 &&
           f.host.board().member(2).seconds_since_poll >= 0;
  }));
  // Both would go on for many seconds; the test's own time is the bound.
  f.server->stop(std::chrono::milliseconds(100));
  EXPECT_EQ(polling.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(writer->Finish().ok());
  f.server->stop();
}

}  // namespace
}  // namespace tessera
