#include "engine/grpc/transport.hpp"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <random>
#include <thread>

#include "base/version.hpp"
#include "engine/grpc/address.hpp"
#include "engine/grpc/back_off.hpp"
#include "engine/grpc/caller.hpp"
#include "engine/grpc/credentials.hpp"
#include "engine/grpc/federation.grpc.pb.h"
#include "engine/grpc/rpc_call.hpp"
#include "engine/grpc/rpc_status.hpp"
#include "net/chunk.hpp"

namespace tessera {
namespace {

using Milliseconds = std::chrono::milliseconds;

// A transfer that lasts longer goes on in a further call.
constexpr Milliseconds kLongestTransfer{600'000};
// So often a whole message may turn out to be damaged before it is given up.
constexpr int kMostAnew = 3;
// Checking and syncing an upload takes a server at most a second for so many bytes.
constexpr int64_t kSyncedPerSecond = 20'000'000;
constexpr Milliseconds kSleepSlice{100};
// Reasons of refusals come in headers.
constexpr int kMostReplyHeaderBytes = 16 << 10;

grpc::ChannelArguments channel_arguments(const HostPort& place) {
  grpc::ChannelArguments out;
  out.SetMaxReceiveMessageSize(static_cast<int>(kMostChunkBytes + (64 << 10)));
  out.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else a new channel has the old connection
  out.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  out.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMostReplyHeaderBytes);
  out.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  if (is_loopback(place.host)) out.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return out;
}

RetryWindow window_of(const v1::Retry& told) {
  RetryWindow out;
  out.hold = Milliseconds(told.hold_ms());
  out.first_wait = Milliseconds(told.first_wait_ms());
  out.longest_wait = Milliseconds(told.longest_wait_ms());
  out.give_up = Milliseconds(told.give_up_ms());
  out.chunk_bytes = std::clamp<int64_t>(told.chunk_bytes(), 1, kMostChunkBytes);
  return out;
}

Polled polled_of(const v1::PollReply& reply) {
  const auto reason = printable(reply.reason(), 1000);
  switch (reply.kind()) {
    case v1::PollReply::TASK:
      return {Polled::Kind::kTask, {reply.ticket(), reply.size()}, ""};
    case v1::PollReply::FINISHED:
      return {Polled::Kind::kFinished, {}, ""};
    case v1::PollReply::GONE:
      return {Polled::Kind::kGone, {}, reason};
    case v1::PollReply::ENROLL:
      return {Polled::Kind::kEnroll, {}, ""};
    default:
      return {};
  }
}

void set_chunk(v1::Chunk& chunk, int64_t offset, ByteSpan data) {
  chunk.set_offset(offset);
  chunk.set_data(data.data(), data.size());
  chunk.set_crc32c(crc32c(data));
}

grpc::Status broken_off(const std::string& why) { return {grpc::StatusCode::UNAVAILABLE, why}; }

TransportClock complete_clock(TransportClock clock) {
  if (!clock.now) clock.now = std::chrono::steady_clock::now;
  if (!clock.sleep) clock.sleep = [](Milliseconds time) { std::this_thread::sleep_for(time); };
  if (!clock.random)
    clock.random = [source = std::mt19937_64(std::random_device{}())]() mutable {
      return std::uniform_real_distribution<double>(0, 1)(source);
    };
  return clock;
}

}  // namespace

struct Transport::Parts {
  Parts(TransportOptions given, HostPort at, std::shared_ptr<grpc::ChannelCredentials> tls)
      : options(std::move(given)),
        place(std::move(at)),
        credentials(std::move(tls)),
        clock(complete_clock(options.clock)),
        retry(options.retry),
        back_off(retry.first_wait, retry.longest_wait) {}

  bool stopped() const { return options.stop && options.stop->load(); }
  static Status interrupted() { return fail(Error::kInterrupted, "stopped"); }

  v1::Federation::Stub& stub() {
    if (!stub_)
      stub_ = v1::Federation::NewStub(
          grpc::CreateCustomChannel(place.text(), credentials, channel_arguments(place)));
    return *stub_;
  }
  void disconnect() {
    stub_.reset();
    answered = false;
  }
  void name_caller(grpc::ClientContext& context) const {
    if (options.insecure) context.AddMetadata(kInsecureNameHeader, options.name);
    if (!process.empty()) context.AddMetadata(kProcessHeader, process);
  }

  template <class Request, class Reply>
  using Begin = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (v1::Federation::Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
  /// One attempt.
  template <class Request, class Reply>
  grpc::Status once(Begin<Request, Reply> begin, const Request& request, Reply& reply,
                    Milliseconds deadline) {
    RpcCall call(options.stop, deadline);
    name_caller(call.context);
    const auto rpc = (stub().*begin)(&call.context, request, &call.queue);
    grpc::Status status;
    reply.Clear();
    rpc->Finish(&reply, &status, call.tag());
    call.wait(deadline);
    return status;
  }
  template <class Request, class Reply>
  Status unary(Begin<Request, Reply> begin, const Request& request, Reply& reply,
               Milliseconds more = {}) {
    return retried([&] { return once(begin, request, reply, options.call_deadline + more); });
  }

  Status retried(const std::function<grpc::Status()>& attempt);
  Status wait_after(const grpc::Status& failure);
  void sleep(Milliseconds time);
  /// Something went through: what fails next is a first failure.
  void went_well() {
    met = answered = true;
    failing_since.reset();
    back_off.reset();
  }

  grpc::Status fetch_rest(const std::string& ticket, ChunkAssembler& assembler);
  grpc::Status send_rest(const std::string& ticket, ByteSpan reply, int64_t offset);
  grpc::Status deliver_rest(const v1::CompleteRequest& whole, ByteSpan reply, int64_t& known);

  const TransportOptions options;
  const HostPort place;
  const std::shared_ptr<grpc::ChannelCredentials> credentials;
  const TransportClock clock;
  std::string process;  // who calls; empty: not introduced
  RetryWindow retry;
  BackOff back_off;
  bool met = false;       // the server has answered once
  bool answered = false;  // also on this connection
  std::optional<std::chrono::steady_clock::time_point> failing_since;
  std::unique_ptr<v1::Federation::Stub> stub_;  // null: no connection
};

Status Transport::Parts::retried(const std::function<grpc::Status()>& attempt) {
  for (;;) {
    if (stopped()) return interrupted();
    const auto status = attempt();
    if (stopped() && !status.ok()) return interrupted();
    const auto trouble = status.ok() ? Trouble::kAnswer : trouble_of(status);
    if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED && answered) {
      // The certificate of this connection may have been renewed since: a new one shows the new.
      disconnect();
      continue;
    }
    if (trouble == Trouble::kAnswer) {
      went_well();
      return from_grpc(status, place.text());
    }
    if (!options.patient || (trouble == Trouble::kMistake && !met))
      return from_grpc(status, place.text());
    TESSERA_RETURN_IF_ERROR(wait_after(status));
  }
}

Status Transport::Parts::wait_after(const grpc::Status& failure) {
  const auto now = clock.now();
  if (!failing_since) failing_since = now;
  const auto sentence = explain(failure, place.text());
  if (retry.give_up.count() > 0 && now - *failing_since >= retry.give_up)
    return fail(Error::kIo, "{}; given up after {} s of trying", sentence,
                std::chrono::duration_cast<std::chrono::seconds>(now - *failing_since).count());
  disconnect();
  const auto time = back_off.next(clock.random());
  if (options.on_trouble) options.on_trouble(sentence, time);
  sleep(time);
  return ok();
}

void Transport::Parts::sleep(Milliseconds time) {
  while (time.count() > 0 && !stopped()) {
    const auto slice = std::min(time, kSleepSlice);
    clock.sleep(slice);
    time -= slice;
  }
}

grpc::Status Transport::Parts::fetch_rest(const std::string& ticket, ChunkAssembler& assembler) {
  RpcCall call(options.stop, kLongestTransfer);
  name_caller(call.context);
  v1::FetchRequest request;
  request.set_ticket(ticket);
  request.set_offset(assembler.received());
  const auto reader = stub().AsyncFetch(&call.context, request, &call.queue, call.tag());
  bool alive = call.wait(options.stall);
  std::string damage;
  for (v1::Chunk chunk; alive && damage.empty();) {
    reader->Read(&chunk, call.tag());
    alive = call.wait(options.stall);
    if (!alive) break;
    const auto added = assembler.add({chunk.offset(), bytes_of(chunk.data()), chunk.crc32c()});
    if (added.ok())
      went_well();
    else
      damage = message(added);
  }
  if (!damage.empty()) call.context.TryCancel();
  grpc::Status status;
  reader->Finish(&status, call.tag());
  call.wait(options.stall);
  if (!damage.empty()) return broken_off(damage);
  if (status.ok() && !assembler.whole()) return broken_off("the transfer ended too early");
  return status;
}

grpc::Status Transport::Parts::send_rest(const std::string& ticket, ByteSpan reply,
                                         int64_t offset) {
  RpcCall call(options.stop, kLongestTransfer);
  name_caller(call.context);
  v1::StoredReply stored;
  const auto writer = stub().AsyncDeliver(&call.context, &stored, &call.queue, call.tag());
  bool alive = call.wait(options.stall);
  v1::Chunk chunk;
  chunk.set_ticket(ticket);
  while (alive && offset < std::ssize(reply)) {
    const auto rest = reply.subspan(static_cast<size_t>(offset));
    const auto data =
        rest.first(std::min<size_t>(rest.size(), static_cast<size_t>(retry.chunk_bytes)));
    set_chunk(chunk, offset, data);
    writer->Write(chunk, call.tag());
    alive = call.wait(options.stall);
    chunk.clear_ticket();
    offset += std::ssize(data);
  }
  if (alive) {
    writer->WritesDone(call.tag());
    call.wait(options.stall);
  }
  grpc::Status status;
  writer->Finish(&status, call.tag());
  call.wait(options.stall);
  return status;
}

grpc::Status Transport::Parts::deliver_rest(const v1::CompleteRequest& whole, ByteSpan reply,
                                            int64_t& known) {
  v1::StoredRequest question;
  question.set_ticket(whole.ticket());
  v1::StoredReply there;
  auto status = once(&v1::Federation::Stub::AsyncStored, question, there, options.call_deadline);
  if (!status.ok()) return status;
  // Only what has arrived is a success: an answer alone must not shorten the waits.
  if (there.size() > known) went_well();
  known = there.size();
  if (there.size() < whole.size()) {
    status = send_rest(whole.ticket(), reply, there.size());
    if (!status.ok()) return status;
  }
  v1::CompleteReply acknowledged;
  const Milliseconds checking(1000 * (whole.size() / kSyncedPerSecond));
  return once(&v1::Federation::Stub::AsyncComplete, whole, acknowledged,
              options.call_deadline + checking);
}

Transport::Transport(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::create(TransportOptions options) {
  prepare_grpc();
  TESSERA_ASSIGN(auto place, parse_address(options.server));
  if (place.port == 0)
    return fail(Error::kInvalid, "'{}' is no server: port 0 is nobody's", options.server);
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (options.insecure) {
    TESSERA_RETURN_IF_ERROR(may_go_without_tls(place));
    const bool plain = std::all_of(options.name.begin(), options.name.end(),
                                   [](char c) { return c >= ' ' && c <= '~'; });
    if (options.name.empty() || !plain)
      return fail(Error::kInvalid, "'{}': without TLS a name is of plain letters (ASCII)",
                  printable(options.name));
    credentials = grpc::InsecureChannelCredentials();
  } else {
    TESSERA_ASSIGN(credentials, channel_credentials(options.identity_dir, options.reload_seconds));
    TESSERA_ASSIGN(const auto identity, load_identity(options.identity_dir, unix_now()));
    options.name = identity.name;
  }
  return std::unique_ptr<Transport>(new Transport(
      std::make_unique<Parts>(std::move(options), std::move(place), std::move(credentials))));
}

void Transport::introduce(const std::string& state) {
  std::random_device source;
  parts_->process = fmt::format("{}/{:08x}{:08x}{:08x}", state, source(), source(), source());
}

const std::string& Transport::process() const { return parts_->process; }

Result<FederationFacts> Transport::describe() {
  v1::DescribeRequest request;
  request.set_protocol(kProtocolVersion);
  request.set_software("tessera " TESSERA_VERSION);
  v1::DescribeReply reply;
  TESSERA_RETURN_IF_ERROR(parts_->unary(&v1::Federation::Stub::AsyncDescribe, request, reply));
  if (const auto& name = parts_->options.name; reply.name() != name)
    return fail(Error::kInvalid,
                "{}: the server takes this client for '{}', but it is '{}'; ask who runs the "
                "federation, and send nothing",
                parts_->place.text(), printable(reply.name()), printable(name));
  FederationFacts out{.id = reply.federation(),
                      .title = reply.title(),
                      .member = reply.client(),
                      .name = reply.name(),
                      .clients = reply.clients(),
                      .newcomers = reply.newcomers(),
                      .experiment = reply.experiment(),
                      .config_digest = reply.config_digest(),
                      .retry = window_of(reply.retry())};
  parts_->retry = out.retry;
  parts_->back_off = BackOff(out.retry.first_wait, out.retry.longest_wait);
  return out;
}

Status Transport::enroll(const EnrollFacts& facts) {
  v1::EnrollRequest request;
  request.set_config_digest(facts.config_digest);
  request.mutable_sample_shape()->Add(facts.sample_shape.begin(), facts.sample_shape.end());
  request.set_classes(facts.classes);
  for (const auto& name : facts.class_names) request.add_class_names(name);
  for (const auto& name : facts.columns) request.add_columns(name);
  request.set_multi_label(facts.multi_label);
  request.set_layout_digest(facts.layout_digest);
  request.set_data_digest(facts.data_digest);
  request.set_hello(facts.hello.data(), facts.hello.size());
  request.set_only_ask(facts.only_ask);
  request.set_trouble(facts.trouble);
  v1::EnrollReply reply;
  TESSERA_RETURN_IF_ERROR(parts_->unary(&v1::Federation::Stub::AsyncEnroll, request, reply));
  return reply.welcome() ? ok() : fail(Error::kInvalid, "{}", printable(reply.reason(), 2000));
}

Result<Polled> Transport::poll() {
  v1::PollReply reply;
  TESSERA_RETURN_IF_ERROR(parts_->unary(&v1::Federation::Stub::AsyncPoll, v1::PollRequest(), reply,
                                        parts_->retry.hold));
  if (reply.kind() == v1::PollReply::NOTHING && reply.again_ms() > 0)
    parts_->sleep(std::min(Milliseconds(reply.again_ms()), parts_->retry.longest_wait));
  return polled_of(reply);
}

Result<Bytes> Transport::fetch(const TaskOffer& offer) {
  TESSERA_ASSIGN(auto assembler,
                 ChunkAssembler::create(offer.size, offer.ticket, parts_->options.max_task_bytes));
  for (int tries = 1;; ++tries) {
    TESSERA_RETURN_IF_ERROR(
        parts_->retried([&] { return parts_->fetch_rest(offer.ticket, assembler); }));
    auto bytes = assembler.take();
    if (bytes.ok() || tries == kMostAnew) return bytes;
  }
}

Status Transport::deliver(const std::string& ticket, ByteSpan reply) {
  v1::CompleteRequest whole;
  whole.set_ticket(ticket);
  whole.set_size(std::ssize(reply));
  whole.set_sha256(sha256_hex(reply));
  int64_t known = 0;
  for (int tries = 1;; ++tries) {
    const auto status = parts_->retried([&] { return parts_->deliver_rest(whole, reply, known); });
    // The server may hold the beginning of another reply, which it drops when the two differ.
    if (status.ok() || error_of(status) != Error::kInvalid || tries == kMostAnew) return status;
  }
}

Status Transport::leave() {
  v1::LeaveReply reply;
  return parts_->unary(&v1::Federation::Stub::AsyncLeave, v1::LeaveRequest(), reply);
}

Result<std::string> Transport::status() {
  v1::StatusReply reply;
  TESSERA_RETURN_IF_ERROR(
      parts_->unary(&v1::Federation::Stub::AsyncStatus, v1::StatusRequest(), reply));
  return reply.json();
}

}  // namespace tessera
