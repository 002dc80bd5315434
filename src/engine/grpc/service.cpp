#include "engine/grpc/service.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "engine/grpc/rpc_status.hpp"
#include "net/chunk.hpp"
#include "net/task_board.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

using EventKind = ServiceEvent::Kind;

void describe_window(const RetryWindow& window, v1::Retry& out) {
  const auto number = [](std::chrono::milliseconds time) {
    return static_cast<uint32_t>(std::clamp<int64_t>(time.count(), 0, UINT32_MAX));
  };
  out.set_hold_ms(number(window.hold));
  out.set_first_wait_ms(number(window.first_wait));
  out.set_longest_wait_ms(number(window.longest_wait));
  out.set_give_up_ms(number(window.give_up));
  out.set_chunk_bytes(static_cast<uint32_t>(window.chunk_bytes));
}

EnrollFacts enroll_facts(const v1::EnrollRequest& request) {
  return {.config_digest = request.config_digest(),
          .sample_shape = {request.sample_shape().begin(), request.sample_shape().end()},
          .classes = request.classes(),
          .class_names = {request.class_names().begin(), request.class_names().end()},
          .columns = {request.columns().begin(), request.columns().end()},
          .multi_label = request.multi_label(),
          .layout_digest = request.layout_digest(),
          .data_digest = request.data_digest(),
          .hello = {request.hello().begin(), request.hello().end()},
          .only_ask = request.only_ask(),
          .trouble = request.trouble()};
}

void fill_poll_reply(const PollAnswer& answer, v1::PollReply& reply) {
  switch (answer.kind) {
    case PollAnswer::Kind::kTask:
      reply.set_kind(v1::PollReply::TASK);
      reply.set_ticket(answer.offer.ticket);
      reply.set_size(answer.offer.size);
      return;
    case PollAnswer::Kind::kNothing:
      return reply.set_kind(v1::PollReply::NOTHING);
    case PollAnswer::Kind::kFinished:
      return reply.set_kind(v1::PollReply::FINISHED);
    case PollAnswer::Kind::kGone:
      reply.set_kind(v1::PollReply::GONE);
      reply.set_reason(answer.reason);
  }
}

// A process that makes no call for two polls and so much more is taken to be gone.
constexpr std::chrono::seconds kSilence{2};

Status check_ticket(const std::string& ticket) {
  if (is_ticket(ticket)) return ok();
  return fail(Error::kInvalid, "'{}' is no ticket", printable(ticket));
}

}  // namespace

const char* name_of(ServiceEvent::Kind kind) {
  switch (kind) {
    case EventKind::kDenied:
      return "denied";
    case EventKind::kDescribed:
      return "described";
    case EventKind::kEnrolled:
      return "enrolled";
    case EventKind::kRefused:
      return "refused";
    case EventKind::kFetched:
      return "fetched";
    case EventKind::kDelivered:
      return "delivered";
    case EventKind::kLeft:
      return "left";
    case EventKind::kDoubled:
      return "doubled";
  }
  return "";
}

/// A poll from its call to its end. Whoever takes it out of HeldPolls finishes it, so that happens
/// once; gRPC calls OnCancel and OnDone only after Poll() has returned.
class FederationService::HeldReactor final : public grpc::ServerUnaryReactor {
 public:
  HeldReactor(HeldPolls& polls, int64_t member) : polls_(polls), member_(member) {}
  void OnCancel() override {
    if (polls_.drop(member_, number)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

  uint64_t number = 0;

 private:
  HeldPolls& polls_;
  const int64_t member_;
};

FederationService::FederationService(ServiceHost& host, ServiceOptions options)
    : host_(host),
      board_(host.board()),
      options_(options),
      callers_(host, options.insecure),
      polls_(board_, options.most_held_polls),
      presences_(2 * options.retry.hold + kSilence),
      streams_(options.streams),
      ticker_([this](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          never.wait_for(lock, stop, options_.tick, [] { return false; });
          polls_.check();
          streams_.check();
        }
      }) {}

FederationService::~FederationService() = default;

void FederationService::tell(const Caller& caller, ServiceEvent event) const {
  event.member = caller.member;
  event.name = caller.name;
  event.peer = caller.peer;
  event.serial = caller.serial;
  host_.on_event(event);
}

template <class Call>
grpc::Status FederationService::answer(const grpc::ServerContextBase& context, const char* what,
                                       Call&& call) {
  Caller caller;
  auto status = callers_.identify(context, caller);
  if (options_.on_call) options_.on_call(caller.peer);
  if (!status.ok()) {
    tell(caller,
         {.kind = EventKind::kDenied, .text = fmt::format("{}: {}", what, status.error_message())});
    return status;
  }
  const tessera::Status done = call(caller);
  if (!done.ok())
    tell(caller, {.kind = EventKind::kRefused,
                  .text = fmt::format("{}: {}", what, message(done)),
                  .why = reason_of(done)});
  return to_grpc(done);
}

template <class Call>
grpc::Status FederationService::work(const grpc::ServerContextBase& context, const char* what,
                                     Call&& call) {
  return answer(context, what, [&](const Caller& caller) -> tessera::Status {
    const auto state = board_.member(caller.member);
    const bool busy = state.offered || polls_.holds(caller.member);
    const auto admitted = presences_.admit(caller.member, caller.process, busy);
    if (admitted.ok()) return call(caller);
    tell(caller, {.kind = EventKind::kDoubled, .text = message(admitted)});
    return admitted;
  });
}

grpc::Status FederationService::Describe(grpc::ServerContext* context,
                                         const v1::DescribeRequest* request,
                                         v1::DescribeReply* reply) {
  return answer(*context, "Describe", [&](const Caller& caller) -> tessera::Status {
    if (request->protocol() != kProtocolVersion)
      return fail(
          Error::kInvalid,
          "the server speaks version {} of the protocol, the caller version {}; install the "
          "same version of tessera on both",
          kProtocolVersion, request->protocol());
    const auto facts = host_.describe(caller.member);
    reply->set_protocol(kProtocolVersion);
    reply->set_client(caller.member);
    reply->set_name(caller.name);
    reply->set_clients(facts.clients);
    reply->set_newcomers(facts.newcomers);
    reply->set_experiment(facts.experiment);
    reply->set_config_digest(facts.config_digest);
    reply->set_federation(facts.id);
    reply->set_title(facts.title);
    describe_window(options_.retry, *reply->mutable_retry());
    tell(caller, {.kind = EventKind::kDescribed, .text = printable(request->software())});
    return ok();
  });
}

grpc::Status FederationService::Enroll(grpc::ServerContext* context,
                                       const v1::EnrollRequest* request, v1::EnrollReply* reply) {
  const auto take = [&](const Caller& caller) -> tessera::Status {
    const auto status = host_.enroll(caller.member, enroll_facts(*request));
    if (!status.ok() && error_of(status) != Error::kInvalid) return status;
    reply->set_welcome(status.ok());
    reply->set_reason(message(status));
    if (!status.ok() || !request->only_ask())
      tell(caller, {.kind = status.ok() ? EventKind::kEnrolled : EventKind::kRefused,
                    .text = status.ok() ? "" : "Enroll: " + message(status)});
    return ok();
  };
  // Who only asks, or only says why it cannot come, takes nobody's place.
  const bool comes = !request->only_ask() && request->trouble().empty();
  return comes ? work(*context, "Enroll", take) : answer(*context, "Enroll", take);
}

grpc::ServerUnaryReactor* FederationService::Poll(grpc::CallbackServerContext* context,
                                                  const v1::PollRequest*, v1::PollReply* reply) {
  int64_t member = -1;
  bool held = false;
  const auto status = work(*context, "Poll", [&](const Caller& caller) {
    member = caller.member;
    held = host_.enrolled(member);
    if (held) return ok();
    // Who has left or come too late is told so, and not to enroll.
    const auto last = board_.poll(member, {});
    fill_poll_reply(last, *reply);
    if (last.kind != PollAnswer::Kind::kGone && last.kind != PollAnswer::Kind::kFinished) {
      reply->Clear();
      reply->set_kind(v1::PollReply::ENROLL);
    }
    return ok();
  });
  if (!held) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  auto* reactor = new HeldReactor(polls_, member);  // deletes itself
  const auto until = std::chrono::steady_clock::now() + options_.retry.hold;
  reactor->number = polls_.hold(
      member, until,
      [this, reactor, reply, until](const tessera::Status& kept, const PollAnswer& told) {
        fill_poll_reply(told, *reply);
        if (told.kind == PollAnswer::Kind::kNothing && std::chrono::steady_clock::now() < until)
          reply->set_again_ms(static_cast<uint32_t>(options_.retry.first_wait.count()));
        reactor->Finish(to_grpc(kept));
      });
  return reactor;
}

tessera::Status FederationService::send(const Caller& caller, const v1::FetchRequest& request,
                                        grpc::ServerWriter<v1::Chunk>& writer,
                                        StreamWatch::Stream& stream) {
  TESSERA_RETURN_IF_ERROR(check_ticket(request.ticket()));
  if (request.offset() < 0) return fail(Error::kInvalid, "offset {}", request.offset());
  v1::Chunk chunk;
  for (int64_t offset = request.offset();;) {
    TESSERA_ASSIGN(const auto bytes, board_.read(caller.member, request.ticket(), offset,
                                                 options_.retry.chunk_bytes));
    if (bytes.empty()) {
      tell(caller, {.kind = EventKind::kFetched, .ticket = request.ticket(), .bytes = offset});
      return ok();
    }
    chunk.set_offset(offset);
    chunk.set_data(bytes.data(), bytes.size());
    chunk.set_crc32c(crc32c(bytes));
    if (!writer.Write(chunk)) return ok();  // the caller has gone, or was cut off
    offset += std::ssize(bytes);
    stream.moved(std::ssize(bytes));
  }
}

grpc::Status FederationService::Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                                      grpc::ServerWriter<v1::Chunk>* writer) {
  return work(*context, "Fetch", [&](const Caller& caller) -> tessera::Status {
    const auto stream = streams_.begin(caller.member, StreamWatch::Direction::kFetch,
                                       [context] { context->TryCancel(); });
    TESSERA_RETURN_IF_ERROR(send(caller, *request, *writer, *stream));
    if (const auto why = stream->cut(); !why.empty()) return fail(Error::kBusy, "{}", why);
    return ok();
  });
}

grpc::Status FederationService::Stored(grpc::ServerContext* context,
                                       const v1::StoredRequest* request, v1::StoredReply* reply) {
  return work(*context, "Stored", [&](const Caller& caller) -> tessera::Status {
    TESSERA_RETURN_IF_ERROR(check_ticket(request->ticket()));
    TESSERA_ASSIGN(const auto size, board_.stored(caller.member, request->ticket()));
    reply->set_size(size);
    return ok();
  });
}

tessera::Status FederationService::receive(const Caller& caller,
                                           grpc::ServerReader<v1::Chunk>& reader,
                                           StreamWatch::Stream& stream, v1::StoredReply& reply) {
  std::string ticket;
  for (v1::Chunk chunk; reader.Read(&chunk);) {
    if (ticket.empty()) {
      TESSERA_RETURN_IF_ERROR(check_ticket(chunk.ticket()));
      ticket = chunk.ticket();
    } else if (!chunk.ticket().empty() && chunk.ticket() != ticket) {
      return fail(Error::kInvalid, "the ticket changes within a transfer");
    }
    const auto data = bytes_of(chunk.data());
    TESSERA_RETURN_IF_ERROR(check_chunk({chunk.offset(), data, chunk.crc32c()}, kMostChunkBytes));
    TESSERA_RETURN_IF_ERROR(board_.write(caller.member, ticket, chunk.offset(), data));
    stream.moved(std::ssize(data));
    reply.set_size(chunk.offset() + std::ssize(data));
  }
  return ok();
}

grpc::Status FederationService::Deliver(grpc::ServerContext* context,
                                        grpc::ServerReader<v1::Chunk>* reader,
                                        v1::StoredReply* reply) {
  return work(*context, "Deliver", [&](const Caller& caller) -> tessera::Status {
    const auto stream = streams_.begin(caller.member, StreamWatch::Direction::kDeliver,
                                       [context] { context->TryCancel(); });
    TESSERA_RETURN_IF_ERROR(receive(caller, *reader, *stream, *reply));
    if (const auto why = stream->cut(); !why.empty()) return fail(Error::kBusy, "{}", why);
    return ok();
  });
}

grpc::Status FederationService::Complete(grpc::ServerContext* context,
                                         const v1::CompleteRequest* request, v1::CompleteReply*) {
  return work(*context, "Complete", [&](const Caller& caller) -> tessera::Status {
    TESSERA_RETURN_IF_ERROR(check_ticket(request->ticket()));
    if (!is_ticket(request->sha256())) return fail(Error::kInvalid, "the SHA-256 is none");
    TESSERA_RETURN_IF_ERROR(
        board_.complete(caller.member, request->ticket(), request->size(), request->sha256()));
    tell(caller, {.kind = EventKind::kDelivered,
                  .ticket = request->ticket(),
                  .sha256 = request->sha256(),
                  .bytes = request->size()});
    wake(caller.member);  // its next task may be on offer now
    return ok();
  });
}

grpc::Status FederationService::Leave(grpc::ServerContext* context, const v1::LeaveRequest*,
                                      v1::LeaveReply*) {
  return answer(*context, "Leave", [&](const Caller& caller) -> tessera::Status {
    TESSERA_RETURN_IF_ERROR(host_.leave(caller.member));
    tell(caller, {.kind = EventKind::kLeft});
    wake(caller.member);
    return ok();
  });
}

grpc::Status FederationService::Status(grpc::ServerContext* context, const v1::StatusRequest*,
                                       v1::StatusReply* reply) {
  return answer(*context, "Status", [&](const Caller&) -> tessera::Status {
    reply->set_json(host_.status_json());
    return ok();
  });
}

}  // namespace tessera
