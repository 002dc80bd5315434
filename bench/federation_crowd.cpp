#include "federation_crowd.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "federation_load.hpp"
#include "io/sha256.hpp"
#include "run/experiment.hpp"
#include "run/layout_digest.hpp"
#include "run/simulation.hpp"

namespace tessera::bench {
namespace {

// Nobody renews these certificates: a thousand clients need not look for it all the time.
constexpr unsigned kRarelySeconds = 3600;
constexpr int64_t kSamplesTold = 10;

void raise(std::atomic<int64_t>& most, int64_t value) {
  for (int64_t seen = most; seen < value && !most.compare_exchange_weak(seen, value);) {
  }
}

ClientMetrics some_metrics() {
  const double none = std::nan("");
  return {kSamplesTold, kSamplesTold / 2, 1.0, none, none, none, none, none, none};
}

// Takes the task's tensors: a large download is gone before the reply is encoded.
Reply reply_of(Task& task) {
  auto reply = refused(task, ok());
  reply.loss = 1;
  if (task.kind == TaskKind::kTrain) {
    const auto down = unpack<Weights>(std::exchange(task.down, {}));
    reply.up = pack(Weighted{{down.w + 1e-3, down.b.clone()}, double{kSamplesTold}});
  }
  if (task.kind == TaskKind::kEvaluate) {
    const auto m = some_metrics();
    reply.evaluation = Evaluation{task.client, m, m, m, m};
    if (task.global) reply.evaluation->global_test = reply.evaluation->global_val = m;
    task.down.clear(), task.global.reset();
  }
  return reply;
}

}  // namespace

void Chronicle::fetched(const Task& task, LoadTime offered, int64_t bytes) {
  ++messages_, bytes_ += bytes;
  raise(largest_task_, bytes);
  if (task.kind != TaskKind::kTrain && task.kind != TaskKind::kEvaluate) return;
  const std::scoped_lock guard(mutex_);
  auto& begun = rounds_[task.round].begun;
  if (!begun || offered < *begun) begun = offered;
  raise(begun_, task.round);
}

void Chronicle::acknowledged(const Task& task, LoadTime when, int64_t bytes) {
  ++messages_, bytes_ += bytes;
  raise(largest_reply_, bytes);
  if (task.kind != TaskKind::kTrain) return;
  const std::scoped_lock guard(mutex_);
  rounds_[task.round].uploads.push_back(when);
}

Result<std::unique_ptr<Crowd>> Crowd::start(CrowdOptions options, Chronicle& chronicle) {
  std::unique_ptr<Crowd> crowd(new Crowd(std::move(options), chronicle));
  TESSERA_RETURN_IF_ERROR(crowd->meet());
  for (int64_t number = 0; number < crowd->options_.clients; ++number)
    crowd->members_.emplace_back([it = crowd.get(), number] {
      const auto status = it->take_part(number);
      if (!status.ok() && error_of(status) != Error::kInterrupted) {
        const std::scoped_lock guard(it->mutex_);
        it->status_.Update(at_place(status, load_client(number)));
        it->failed_ = true;
      }
      ++it->done_;
    });
  return crowd;
}

Crowd::~Crowd() { stop().IgnoreError(); }

Status Crowd::stop() {
  stop_ = true;
  members_.clear();  // joins
  return status_;
}

Result<std::unique_ptr<Transport>> Crowd::connect(int64_t number) {
  return Transport::create({.server = options_.server,
                            .identity_dir = options_.dir + "/id-" + load_client(number),
                            .reload_seconds = kRarelySeconds,
                            .stop = &stop_,
                            .on_trouble = [this](const std::string&, std::chrono::milliseconds) {
                              chronicle_.retried();
                            }});
}

// Model and method once for all: they are the same for everybody.
Status Crowd::meet() {
  TESSERA_ASSIGN(const auto transport, connect(0));
  TESSERA_ASSIGN(const auto facts, transport->describe());
  TESSERA_ASSIGN(const auto experiment,
                 parse_experiment(facts.experiment, "the server's experiment", {}));
  TESSERA_ASSIGN(const auto session,
                 make_session(experiment, SessionFacts{.sample_shape = options_.sample_shape,
                                                       .classes = options_.classes,
                                                       .clients = facts.clients,
                                                       .newcomers = facts.newcomers}));
  layout_digest_ = layout_digest(session.model());
  parameter_bytes_ = 4 * session.model().layout().numel();
  return ok();
}

EnrollFacts Crowd::facts_of(int64_t number, const FederationFacts& told) const {
  Reply hello;
  hello.client = told.member;
  hello.hello = Hello{.name = load_client(number),
                      .train = kSamplesTold,
                      .val = kSamplesTold,
                      .test = kSamplesTold};
  EnrollFacts out{.config_digest = told.config_digest,
                  .sample_shape = options_.sample_shape,
                  .classes = options_.classes,
                  .layout_digest = layout_digest_,
                  .data_digest = sha256_hex(bytes_of(load_client(number))),
                  .hello = encode_reply(hello)};
  for (int64_t c = 0; c < options_.classes; ++c) out.class_names.push_back(std::to_string(c));
  return out;
}

Status Crowd::take_part(int64_t number) {
  TESSERA_ASSIGN(const auto transport, connect(number));
  TESSERA_ASSIGN(const auto told, transport->describe());
  TESSERA_RETURN_IF_ERROR(transport->enroll(facts_of(number, told)));
  for (;;) {
    TESSERA_ASSIGN(const auto polled, transport->poll());
    const auto offered = std::chrono::steady_clock::now();
    switch (polled.kind) {
      case Polled::Kind::kNothing:
        break;
      case Polled::Kind::kTask:
        TESSERA_RETURN_IF_ERROR(handle(*transport, polled.offer, offered));
        break;
      case Polled::Kind::kFinished:
        return ok();
      case Polled::Kind::kEnroll:
        TESSERA_RETURN_IF_ERROR(transport->enroll(facts_of(number, told)));
        break;
      case Polled::Kind::kGone:
        return fail(Error::kInternal, "was sent away: {}", polled.reason);
    }
  }
}

Status Crowd::handle(Transport& transport, const TaskOffer& offer, LoadTime offered) {
  Bytes answer;
  Task task;
  {
    TESSERA_ASSIGN(auto bytes, transport.fetch(offer));
    const auto size = std::ssize(bytes);
    TESSERA_ASSIGN(task, decode_task(std::make_shared<const Bytes>(std::move(bytes))));
    chronicle_.fetched(task, offered, size);
    answer = encode_reply(reply_of(task));
  }
  TESSERA_RETURN_IF_ERROR(transport.deliver(offer.ticket, answer));
  chronicle_.acknowledged(task, std::chrono::steady_clock::now(), std::ssize(answer));
  return ok();
}

}  // namespace tessera::bench
