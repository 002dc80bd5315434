#include "run/coordinator.hpp"

#include <algorithm>
#include <atomic>
#include <set>

#include "base/text.hpp"
#include "net/identity.hpp"
#include "net/ticket.hpp"
#include "run/config_text.hpp"
#include "run/layout_digest.hpp"
#include "run/servable.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

constexpr size_t kKeptEvents = 50;

// Names that go into federation.json, the status and the log.
Status check_names(const std::vector<std::string>& names, const char* what) {
  constexpr size_t kMostNames = 1'000'000, kMostNameBytes = 256, kMostBytes = size_t{4} << 20;
  size_t bytes = 0;
  for (const auto& name : names) {
    bytes += name.size();
    if (name.size() > kMostNameBytes)
      return fail(Error::kInvalid, "one of its {} has {} bytes, more than {}: '{}'", what,
                  name.size(), kMostNameBytes, printable(name));
  }
  if (names.size() > kMostNames || bytes > kMostBytes)
    return fail(Error::kInvalid, "its {} {} have {} bytes; at most {} and {} bytes are allowed",
                names.size(), what, bytes, kMostNames, kMostBytes);
  return ok();
}

// What a stranger could claim, held to what a model could be made of.
Status check_claims(const EnrollFacts& facts) {
  constexpr int64_t kMostNumbers = int64_t{1} << 31;
  int64_t numbers = 1;
  for (const int64_t n : facts.sample_shape) {
    if (n < 1 || n > kMostNumbers / numbers)
      return fail(Error::kInvalid, "a sample cannot have {} numbers along an axis", n);
    numbers *= n;
  }
  if (facts.sample_shape.empty() || facts.sample_shape.size() > 4)
    return fail(Error::kInvalid, "a sample has 1 to 4 axes, not {}", facts.sample_shape.size());
  if (facts.classes < 1 || facts.classes > 1'000'000)
    return fail(Error::kInvalid, "there cannot be {} classes", facts.classes);
  TESSERA_RETURN_IF_ERROR(check_names(facts.class_names, "class names"));
  TESSERA_RETURN_IF_ERROR(check_names(facts.columns, "columns"));
  const bool no_data = facts.only_ask && facts.data_digest.empty();
  if (!is_ticket(facts.layout_digest) || (!no_data && !is_ticket(facts.data_digest)))
    return fail(Error::kInvalid, "its digests are not 64 lower-case hex digits");
  return ok();
}

// What the server's own file says of the data holds before anybody has enrolled.
Status check_declared(const DataOptions& data, const EnrollFacts& facts) {
  if (data.set != "own" && data.set != "npz") return ok();
  if (const auto classes = comma_list(data.class_names);
      !classes.empty() && classes != facts.class_names)
    return fail(Error::kInvalid, "its classes are {}, the server's file has class_names = {}",
                printable(join(facts.class_names, ", "), 200), toml_names(classes));
  const auto inputs = declared_inputs(data);
  if (inputs.empty()) return ok();
  const auto differ = column_difference(inputs, facts.columns);
  return differ.empty() ? ok()
                        : fail(Error::kInvalid, "{} ([data] columns of the server's file)", differ);
}

}  // namespace

Coordinator::Coordinator(CoordinatorParts parts)
    : parts_(std::move(parts)),
      toml_(parts_.experiment.toml()),
      digest_(config_digest(toml_)),
      started_(utc_text(std::chrono::system_clock::now())),
      secret_(draws_in_secret(parts_.experiment)),
      tallies_(static_cast<size_t>(parts_.book->names().size())) {
  warn_of_revocations();
}

std::optional<int64_t> Coordinator::member_of(const std::string& name) {
  return parts_.book->number_of(name);
}

Result<bool> Coordinator::revoked(const std::string& serial) {
  if (!parts_.revocations) return false;
  warn_of_revocations();
  return parts_.revocations->revoked(serial);
}

void Coordinator::warn_of_revocations() {
  if (!parts_.revocations) return;
  const auto news = parts_.revocations->news(unix_now());
  if (!news.empty()) parts_.log.warning("revocation list", {{"problem", news}});
}

void Coordinator::came(int64_t member, const std::string& serial) {
  const std::scoped_lock guard(mutex_);
  auto& tally = tallies_[static_cast<size_t>(member)];
  tally.denied = false;
  if (tally.serial != serial) tally.serial = serial;
}

FederationFacts Coordinator::describe(int64_t member) {
  const auto& names = parts_.book->names();
  return {.id = parts_.book->id(),
          .title = parts_.experiment.run.name,
          .member = member,
          .name = parts_.book->name_of(member),
          .clients = std::ssize(names.clients),
          .newcomers = std::ssize(names.newcomers),
          .experiment = toml_,
          .config_digest = digest_};
}

Result<std::shared_ptr<const Session>> Coordinator::session_of(const CommonFacts& facts) const {
  const auto& names = parts_.book->names();
  TESSERA_ASSIGN(auto session, make_session(parts_.experiment,
                                            SessionFacts{.sample_shape = facts.sample_shape,
                                                         .classes = facts.classes,
                                                         .multi_label_loss = facts.multi_label,
                                                         .clients = std::ssize(names.clients),
                                                         .newcomers = std::ssize(names.newcomers),
                                                         .commons = parts_.commons}));
  return std::make_shared<const Session>(std::move(session));
}

std::shared_ptr<const Session> Coordinator::session() {
  const std::scoped_lock guard(mutex_);
  if (session_) return session_;
  // After a restart the facts are in the book.
  if (const auto facts = parts_.book->common())
    if (auto made = session_of(*facts); made.ok()) session_ = *std::move(made);
  return session_;
}

Status Coordinator::enroll(int64_t member, const EnrollFacts& facts) {
  auto status = take_enrolment(member, facts);
  if (!status.ok()) parts_.metrics.enrolments_refused.add();
  return status;
}

Status Coordinator::take_enrolment(int64_t member, const EnrollFacts& facts) {
  if (!facts.trouble.empty())
    return fail(Error::kInvalid, "it cannot take part: {}", printable(facts.trouble, 500));
  TESSERA_RETURN_IF_ERROR(check_claims(facts));
  if (facts.config_digest != digest_)
    return fail(Error::kInvalid,
                "it works from another experiment than this federation's: ask for the description "
                "again (restart `tessera join`)");
  CommonFacts common{.sample_shape = facts.sample_shape,
                     .classes = facts.classes,
                     .class_names = facts.class_names,
                     .columns = facts.columns,
                     .multi_label = facts.multi_label,
                     .layout_digest = facts.layout_digest,
                     .from = parts_.book->name_of(member)};
  Hello hello;
  if (!facts.only_ask) {
    TESSERA_ASSIGN(const auto reply, decode_reply(std::make_shared<const Bytes>(facts.hello)));
    if (!reply.status.ok()) return reply.status;
    if (!reply.hello) return fail(Error::kInvalid, "its hello is no answer to a hello");
    if (reply.hello->train < 1) return fail(Error::kInvalid, "it has no training samples");
    hello = *reply.hello;
  }
  TESSERA_RETURN_IF_ERROR(check_declared(parts_.experiment.data, facts));
  const auto known = parts_.book->common();
  TESSERA_RETURN_IF_ERROR(parts_.book->check(member, common));
  // Of the first member, and of one that stands alone and corrects itself.
  const bool fresh = !known || !difference(*known, common).empty();
  if (fresh) {
    TESSERA_ASSIGN(auto made, session_of(common));
    if (layout_digest(made->model()) != facts.layout_digest)
      return fail(Error::kInvalid,
                  "its model has other tensors than the one made here for such samples: another "
                  "version of tessera, or another file of [model]");
  }
  if (facts.only_ask) return ok();
  const auto changed = parts_.book->changed_data(member, facts.data_digest);
  TESSERA_RETURN_IF_ERROR(parts_.book->enroll(member, common, hello, facts.data_digest));
  if (fresh) {
    const std::scoped_lock guard(mutex_);
    session_.reset();  // made anew from the book
  }
  // What an upload may count for follows from it, so it should be seen.
  parts_.log.info("samples", {{"client", common.from},
                              {"train", hello.train},
                              {"val", hello.val},
                              {"test", hello.test},
                              {"support", hello.support}});
  if (!changed.empty())
    parts_.log.warning("other data", {{"client", common.from}, {"what", changed}});
  parts_.board->readmit(member);
  came_.notify_all();
  return ok();
}

Status Coordinator::leave(int64_t member) {
  TESSERA_RETURN_IF_ERROR(parts_.book->leave(member));
  parts_.board->send_away(member, "it has left for good");
  return ok();
}

bool Coordinator::there(int64_t member) {
  if (!parts_.book->present(member)) return false;
  const std::scoped_lock guard(mutex_);
  return !tallies_[static_cast<size_t>(member)].denied;
}

bool Coordinator::wait_for_clients(int64_t count, std::chrono::steady_clock::time_point until,
                                   const std::atomic<bool>* stop) {
  std::unique_lock lock(mutex_);
  const auto clients_there = [&] {
    int64_t n = 0;
    for (int64_t id = 0; id < std::ssize(parts_.book->names().clients); ++id)
      n += parts_.book->present(id) && !tallies_[static_cast<size_t>(id)].denied;
    return n;
  };
  // A signal handler cannot notify: look now and then.
  while (clients_there() < count) {
    if ((stop && stop->load()) || std::chrono::steady_clock::now() >= until) return false;
    came_.wait_for(lock, std::chrono::milliseconds(100));
  }
  return true;
}

void Coordinator::enter(FederationStage stage, int64_t round, double seconds) {
  const std::scoped_lock guard(mutex_);
  stage_ = stage, round_ = round;
  deadline_.reset();
  if (seconds > 0)
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
  parts_.metrics.current_round.set(static_cast<double>(round));
}

void Coordinator::note_round(const RoundReport& report, const std::vector<ClientId>& asked) {
  parts_.metrics.rounds_done.add();
  parts_.metrics.round_seconds.observe(report.wall_seconds);
  const std::scoped_lock guard(mutex_);
  std::set<ClientId> rejected;
  for (const auto& problem : report.problems) {
    rejected.insert(problem.client);
    auto& tally = tallies_.at(static_cast<size_t>(problem.client));
    ++tally.rejected, tally.reason = problem.reason;
    parts_.metrics.rejected(problem.why).add();
    parts_.log.warning("not counted", {{"round", report.round},
                                       {"client", parts_.book->name_of(problem.client)},
                                       {"kind", name_of(problem.why)},
                                       {"reason", problem.reason}});
  }
  for (const ClientId id : asked)
    if (!rejected.contains(id)) {
      ++tallies_.at(static_cast<size_t>(id)).accepted;
      parts_.metrics.replies_accepted.add();
    }
  parts_.log.info("round", {{"round", report.round},
                            {"asked", report.cohort},
                            {"rejected", report.rejected},
                            {"counted", report.counted},
                            {"loss", report.loss},
                            {"seconds", report.wall_seconds}});
}

void Coordinator::remember(const std::string& text) {
  events_.push_back({utc_text(std::chrono::system_clock::now()), text});
  if (events_.size() > kKeptEvents) events_.pop_front();
}

void Coordinator::note(const std::string& text) {
  parts_.log.info("note", {{"text", text}});
  const std::scoped_lock guard(mutex_);
  remember(text);
}

void Coordinator::note_posted(const Task& task, const std::string& ticket) {
  constexpr size_t kKeptTickets = 20000;
  const std::scoped_lock guard(mutex_);
  if (!posted_.insert_or_assign(ticket, Posted{task.round, name_of(task.kind)}).second) return;
  tickets_.push_back(ticket);
  if (tickets_.size() <= kKeptTickets) return;
  posted_.erase(tickets_.front());
  tickets_.pop_front();
}

void Coordinator::audit(const ServiceEvent& event) {
  const bool sent = event.kind == ServiceEvent::Kind::kFetched;
  (sent ? parts_.metrics.bytes_down : parts_.metrics.bytes_up).add(event.bytes);
  Posted about;
  {
    const std::scoped_lock guard(mutex_);
    if (const auto at = posted_.find(event.ticket); at != posted_.end()) about = at->second;
  }
  const auto status = parts_.audit.append(
      {.direction = sent ? AuditRecord::Direction::kSent : AuditRecord::Direction::kReceived,
       .peer = event.name,
       .round = about.round,
       .kind = about.kind,
       .bytes = event.bytes,
       .sha256 = sent ? event.ticket : event.sha256,
       .outcome = sent ? "fetched" : "stored"});
  // Said once for each time that it breaks: a full disk must not fill another with lines.
  if (status.ok())
    audit_broken_ = false;
  else if (!audit_broken_.exchange(true))
    parts_.log.error("audit log", {{"problem", message(status)}});
}

// Nothing was sent or received, but whoever reads the log later must find it.
void Coordinator::audit_doubled(const ServiceEvent& event) {
  const auto status = parts_.audit.append({.direction = AuditRecord::Direction::kReceived,
                                           .peer = event.name,
                                           .kind = name_of(event.kind),
                                           .outcome = event.text + " (" + event.peer + ")"});
  if (!status.ok()) parts_.log.error("audit log", {{"problem", message(status)}});
}

void Coordinator::on_event(const ServiceEvent& event) {
  using Kind = ServiceEvent::Kind;
  auto& metrics = parts_.metrics;
  if (event.kind == Kind::kFetched || event.kind == Kind::kDelivered) return audit(event);
  if (event.kind == Kind::kDenied) metrics.strangers_refused.add();
  if (event.kind == Kind::kRefused && event.why != Reason::kOther)
    metrics.rejected(event.why).add();
  if (event.kind == Kind::kDoubled) audit_doubled(event);
  parts_.log.info(name_of(event.kind),
                  {{"client", event.name}, {"peer", event.peer}, {"text", event.text}});
  if (event.name.empty()) return;  // of strangers the log is enough
  const auto member = member_of(event.name);
  const std::scoped_lock guard(mutex_);
  if (member && event.kind == Kind::kDenied) {
    // By certificate, not by name: whoever holds an old one that was revoked says nothing of the
    // member, which comes with a newer one.
    auto& tally = tallies_[static_cast<size_t>(*member)];
    if (!tally.serial || *tally.serial == event.serial)
      tally.denied = true, tally.reason = event.text;
  }
  if (secret_) return;
  remember(fmt::format("{} {}{}{}", event.name, name_of(event.kind), event.text.empty() ? "" : ": ",
                       event.text));
}

std::string Coordinator::status_json() {
  FederationStatus out{.federation = parts_.experiment.run.name,
                       .method = parts_.experiment.method.name,
                       .rounds = parts_.experiment.run.rounds,
                       .started = started_};
  const auto& names = parts_.book->names();
  int64_t open = 0;
  const std::scoped_lock guard(mutex_);
  out.round = round_, out.stage = stage_;
  if (deadline_)
    out.seconds_left = std::max(
        0.0, std::chrono::duration<double>(*deadline_ - std::chrono::steady_clock::now()).count());
  for (int64_t id = 0; id < names.size(); ++id) {
    const auto state = parts_.board->member(id);
    const auto& tally = tallies_[static_cast<size_t>(id)];
    MemberStatus member{
        .name = parts_.book->name_of(id),
        .number = id,
        .role = id < std::ssize(names.clients) ? MemberRole::kClient : MemberRole::kNewcomer,
        .accepted = tally.accepted,
        .rejected = tally.rejected,
        .reason = tally.reason};
    if (state.seconds_since_poll >= 0) member.seen_seconds = state.seconds_since_poll;
    member.state = parts_.book->has_left(id)   ? MemberActivity::kLeft
                   : tally.denied              ? MemberActivity::kRevoked
                   : !parts_.book->present(id) ? MemberActivity::kNotThere
                   : state.uploaded > 0        ? MemberActivity::kUploading
                   : state.fetched             ? MemberActivity::kWorking
                   : state.offered             ? MemberActivity::kFetching
                                               : MemberActivity::kIdle;
    open += state.offered;
    if (secret_) {
      // Who works, when, and how often it was asked would tell who was drawn.
      const bool away = member.state == MemberActivity::kLeft ||
                        member.state == MemberActivity::kRevoked ||
                        member.state == MemberActivity::kNotThere;
      if (!away) member.state = MemberActivity::kIdle;
      member.seen_seconds.reset(), member.reason.clear();
      member.accepted = member.rejected = 0;
    }
    out.members.push_back(std::move(member));
  }
  if (secret_)
    out.events.push_back({started_,
                          "who is asked in a round is a secret of the server (guard 'dp'): "
                          "what members do is not shown"});
  else
    out.events.assign(events_.begin(), events_.end());
  parts_.metrics.tasks_open.set(static_cast<double>(open));
  return tessera::status_json(out);
}

}  // namespace tessera
