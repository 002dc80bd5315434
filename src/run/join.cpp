#include <ATen/ATen.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <random>

#include "base/key.hpp"
#include "base/metric.hpp"
#include "base/text.hpp"
#include "guard/frame.hpp"
#include "io/json.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "net/identity.hpp"
#include "net/private_file.hpp"
#include "net/revocations.hpp"
#include "run/config_text.hpp"
#include "run/exposed.hpp"
#include "run/joining.hpp"
#include "run/layout_digest.hpp"
#include "run/servable.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kStateFormat = 1;
constexpr size_t kMaxStateText = size_t{1} << 20;

// Every metric by its name; null where it is not defined.
json figures_of(const ClientMetrics& m) {
  json out{{"samples", m.n}};
  for (const auto& metric : metric_names()) {
    const double value = m.n > 0 ? value_of(m, metric) : std::nan("");
    out[metric] = std::isfinite(value) ? json(value) : json(nullptr);
  }
  return out;
}

std::string tensor_words(const std::string& name, const Tensor& tensor) {
  std::vector<std::string> shape;
  for (const int64_t n : tensor.sizes()) shape.push_back(std::to_string(n));
  return fmt::format("{} {} [{}], {}", name, c10::toString(tensor.scalar_type()), join(shape, ", "),
                     human_bytes(static_cast<double>(tensor.nbytes())));
}

}  // namespace

void Joining::tell_exposure() const {
  for (const auto& [who, what] : exposed(*experiment_))
    request_.log->info("exposure", {{"who", who}, {"what", what}});
}

std::string Joining::first_words() const {
  if (federation_->columns.empty() || !experiment_->data.columns.empty()) return "";
  return fmt::format(
      "; if it is the first, these inputs become everybody's: {} (the server's file has no [data] "
      "columns)",
      printable(join(federation_->columns, ", "), 300));
}

Status Joining::check_identity() {
  if (request_.transport.insecure) return ok();
  return load_identity(request_.transport.identity_dir, std::time(nullptr)).status();
}

void Joining::tell_of_revocations() const {
  const auto& dir = request_.transport.identity_dir;
  if (request_.transport.insecure || !std::filesystem::exists(dir + "/crl.pem")) return;
  const auto news = Revocations(dir + "/crl.pem", dir + "/ca.pem").news(std::time(nullptr));
  if (!news.empty()) request_.log->warning("revocations", {{"text", news}});
}

Status Joining::connect() {
  TESSERA_ASSIGN(transport_, Transport::create(request_.transport));
  TESSERA_ASSIGN(facts_, transport_->describe());
  return ok();
}

Status Joining::understand() {
  Overrides overrides;
  if (!request_.data.empty()) overrides.data_dir = request_.data;
  TESSERA_ASSIGN(experiment_, parse_foreign_experiment(facts_.experiment, "the server's experiment",
                                                       request_.model_file, std::move(overrides)));
  if (const auto digest = config_digest(experiment_->toml()); digest != facts_.config_digest)
    return fail(Error::kInvalid,
                "the server's experiment means something else here (digest {}, there {}): another "
                "version of tessera",
                digest.substr(0, 12), facts_.config_digest.substr(0, 12));
  return at_place(check_servable(*experiment_), "the server's experiment");
}

Status Joining::obey(const PolicyVerdict& verdict, bool tells) {
  if (verdict && tells) tell(status_there(verdict));
  return status_here(verdict);
}

Status Joining::judge_experiment(bool tells) {
  return obey(policy_.judge(*experiment_, facts_, request_.transport.server), tells);
}

Status Joining::judge_data(bool tells) {
  return obey(policy_.judge(*experiment_, *federation_, *session_, facts_.member), tells);
}

Status Joining::load_data() {
  const auto seed = static_cast<uint64_t>(experiment_->run.seed);
  TESSERA_ASSIGN(federation_,
                 load_member(experiment_->data, derive(seed, Purpose::kPartition), facts_.name));
  return ok();
}

Status Joining::build() {
  TESSERA_ASSIGN(
      auto session,
      make_session(*experiment_, SessionFacts{.sample_shape = federation_->sample_shape,
                                              .classes = federation_->classes,
                                              .multi_label_loss = federation_->multi_label_loss,
                                              .clients = facts_.clients,
                                              .newcomers = facts_.newcomers,
                                              .commons = &federation_->commons}));
  session_.emplace(std::move(session));
  return ok();
}

Status Joining::open_state() {
  TESSERA_RETURN_IF_ERROR(make_private_dir(request_.state));
  TESSERA_ASSIGN(auto lock, DirLock::take(request_.state));
  lock_.emplace(std::move(lock));
  const auto place = path("federation.json");
  const json ours{{"format", kStateFormat},
                  {"federation", facts_.id},
                  {"name", facts_.name},
                  {"number", facts_.member},
                  {"config_digest", facts_.config_digest}};
  if (std::filesystem::exists(place)) {
    TESSERA_ASSIGN(const auto bytes, read_file(place, kMaxStateText));
    TESSERA_ASSIGN(const auto theirs, parse_json(text_of(bytes), place));
    if (!theirs.is_object() || !theirs.contains("format"))
      return fail(Error::kInvalid, "{}: damaged; use another --state", place);
    if (theirs["format"] != kStateFormat)
      return fail(Error::kInvalid,
                  "{}: has format {}, this version knows {}; use the version that wrote it", place,
                  theirs["format"].dump(), kStateFormat);
    if (theirs != ours)
      return fail(Error::kInvalid,
                  "{}: belongs to another federation or another client; use another --state",
                  place);
  } else {
    TESSERA_RETURN_IF_ERROR(write_file_atomic(place, bytes_of(ours.dump(1) + "\n")));
  }
  TESSERA_ASSIGN(audit_, AuditLog::open(path("audit.jsonl")));
  return introduce();
}

// A directory has its name for good, so that the server can tell a restart from a second client.
Status Joining::introduce() {
  const auto place = path("state-id");
  std::string id;
  if (std::filesystem::exists(place)) {
    TESSERA_ASSIGN(const auto bytes, read_file(place, kMaxStateText));
    id = text_of(bytes);
    if (id.size() != 32 || id.find_first_not_of("0123456789abcdef") != std::string::npos)
      return fail(Error::kInvalid, "{}: damaged; use another --state", place);
  } else {
    std::random_device source;
    for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", source());
    TESSERA_RETURN_IF_ERROR(write_file_atomic(place, bytes_of(id)));
  }
  state_id_ = id;
  transport_->introduce(id);
  return ok();
}

Status Joining::open_host() {
  TESSERA_ASSIGN(store_, ClientStore::open(path("client")));
  TESSERA_RETURN_IF_ERROR(make_dirs(path("models")));
  models_ =
      std::make_unique<ModelKeeper>(*experiment_, *federation_, session_->model(), path("models"));
  const auto& data = federation_->clients.front();
  host_ = std::make_unique<ClientHost>(*session_, *store_,
                                       std::vector<HostedClient>{{facts_.member, &data}},
                                       [this, &data](const ShownModel& shown) {
                                         return models_->keep(data, experiment_->run.rounds, shown);
                                       });
  forms_.emplace(*session_, facts_.member);
  TESSERA_ASSIGN(auto ledger, TaskLedger::open(path("tasks.json"), *session_));
  ledger_.emplace(std::move(ledger));
  return ok();
}

Status Joining::enroll() {
  const auto hello = host_->handle({.client = facts_.member});
  TESSERA_RETURN_IF_ERROR(hello.status);
  const Task greeting{.client = facts_.member};
  // By name: who is asked must see what it says yes to.
  constexpr size_t kShown = 2000;
  TESSERA_RETURN_IF_ERROR(may_leave(fmt::format(
      "enrolment: shape of a sample; {} class names: {}; {} inputs{}{}; sizes of the training, "
      "validation, test and support parts; {}",
      federation_->class_names.size(), printable(join(federation_->class_names, ", "), kShown),
      federation_->columns.size(), federation_->columns.empty() ? " with names" : ": ",
      printable(join(federation_->columns, ", "), kShown),
      policy_.policy().data_digest ? "a digest of the data" : "no digest of the data")));
  const auto said = encode_reply(hello);
  TESSERA_RETURN_IF_ERROR(note(AuditRecord::Direction::kSent, greeting, std::ssize(said),
                               sha256_hex(said), "enrolment"));
  auto facts = claims();
  facts.hello = said;
  return transport_->enroll(facts);
}

EnrollFacts Joining::claims() const {
  return {.config_digest = facts_.config_digest,
          .sample_shape = federation_->sample_shape,
          .classes = federation_->classes,
          .class_names = federation_->class_names,
          .columns = federation_->columns,
          .multi_label = federation_->multi_label_loss,
          .layout_digest = layout_digest(session_->model()),
          .data_digest = data_digest()};
}

// Stable either way: the server tells by it whether a client came with other data.
std::string Joining::data_digest() const {
  return policy_.policy().data_digest ? federation_->data_digest
                                      : sha256_hex(bytes_of("kept back " + state_id_));
}

Status Joining::ask() {
  auto facts = claims();
  facts.only_ask = true, facts.data_digest.clear();
  return transport_->enroll(facts);
}

void Joining::tell(const Status& trouble) {
  const Task greeting{.client = facts_.member};
  const auto text = message(trouble);
  if (!may_leave("why this client cannot take part: " + text).ok()) return;
  auto once = request_.transport;
  once.patient = false;  // it ends anyway, whether the server hears of it or not
  const auto transport = Transport::create(once);
  if (!transport.ok() || !note(AuditRecord::Direction::kSent, greeting, std::ssize(text),
                               sha256_hex(bytes_of(text)), "trouble")
                              .ok())
    return;
  (*transport)->enroll({.trouble = text}).IgnoreError();  // always answered by a refusal
}

Result<json> Joining::work() {
  request_.log->info("joined", {{"federation", facts_.title},
                                {"as", facts_.name},
                                {"number", facts_.member},
                                {"clients", facts_.clients}});
  for (;;) {
    TESSERA_RETURN_IF_ERROR(policy_.wait_for_hours());
    TESSERA_ASSIGN(const auto polled, transport_->poll());
    switch (polled.kind) {
      case Polled::Kind::kNothing:
        break;
      case Polled::Kind::kEnroll:
        TESSERA_RETURN_IF_ERROR(enroll());
        break;
      case Polled::Kind::kTask:
        TESSERA_RETURN_IF_ERROR(handle(polled.offer));
        break;
      case Polled::Kind::kFinished:
        return finish();
      case Polled::Kind::kGone:
        return fail(Error::kInvalid, "the server has no more work for this client: {}",
                    printable(polled.reason, 200));
    }
  }
}

Status Joining::handle(const TaskOffer& offer) {
  if (const auto no = policy_.may_fetch(offer.size); !no.ok()) {
    tell(no);
    return no;
  }
  auto bytes = transport_->fetch(offer);
  if (error_of(bytes.status()) == Error::kNotFound) {
    // Taken back meanwhile. A server that goes on like that is asked less and less often.
    policy_.rest(
        std::min<int64_t>(30'000, 10 * (int64_t{1} << std::min<int64_t>(vanished_++, 12))));
    return ok();
  }
  TESSERA_RETURN_IF_ERROR(bytes.status());
  vanished_ = 0;
  const auto size = std::ssize(*bytes);
  policy_.pace(size);
  TESSERA_ASSIGN(const auto task, decode_task(std::make_shared<const Bytes>(*std::move(bytes))));
  TESSERA_RETURN_IF_ERROR(
      note(AuditRecord::Direction::kReceived, task, size, offer.ticket, "fetched"));
  request_.log->info("task",
                     {{"kind", name_of(task.kind)}, {"round", task.round}, {"bytes", size}});
  auto done = answer(task, offer.ticket, size);
  // Before the server has it: it would not be asked for again after a kill.
  if (task.last && done.evaluation) keep_figures(*done.evaluation);
  const auto reply = policy_.cleared(task, std::move(done));
  if (!reply.status.ok())
    request_.log->warning(
        "failed",
        {{"kind", name_of(task.kind)}, {"round", task.round}, {"reason", message(reply.status)}});
  if (task.kind != TaskKind::kSettle)
    TESSERA_RETURN_IF_ERROR(
        may_leave(leaving_text(reply, *session_->method().parts()) + meaning(reply)));
  const auto answer = encode_reply(reply);
  const auto sha256 = sha256_hex(answer);
  // On the disk before it leaves: what left is in the log, whatever happens now.
  TESSERA_RETURN_IF_ERROR(
      note(AuditRecord::Direction::kSent, task, std::ssize(answer), sha256, "offered"));
  TESSERA_RETURN_IF_ERROR(audit_->sync());
  const auto sent = transport_->deliver(offer.ticket, answer);
  if (error_of(sent) == Error::kNotFound) {
    request_.log->warning("late", {{"kind", name_of(task.kind)}, {"round", task.round}});
    return note(AuditRecord::Direction::kSent, task, 0, sha256, message(sent));
  }
  TESSERA_RETURN_IF_ERROR(sent);
  policy_.pace(std::ssize(answer));
  ++tasks_;
  request_.log->info(
      "sent", {{"kind", name_of(task.kind)}, {"round", task.round}, {"bytes", std::ssize(answer)}});
  return ok();
}

Reply Joining::answer(Task task, const std::string& ticket, int64_t bytes) {
  if (auto wrong = policy_.may_do(task, bytes); !wrong.ok()) return refused(task, wrong);
  if (auto wrong = check_task(*session_, task, session_->rounds()); !wrong.ok())
    return refused(task, wrong);
  if (task.kind == TaskKind::kTrain || task.kind == TaskKind::kJoin ||
      task.kind == TaskKind::kEvaluate) {
    auto down = forms_->open(task);
    if (!down.ok()) return refused(task, down.status());
    task.down = *std::move(down);
  }
  if (auto wrong = ledger_->begin(task, ticket); !wrong.ok()) return refused(task, wrong);
  auto reply = host_->handle(task);
  if (task.kind == TaskKind::kSettle && reply.status.ok()) reply.status = ledger_->settled(task);
  return reply;
}

// What the method declares that an upload tells the server, behind the guards of the experiment.
std::string Joining::meaning(const Reply& reply) const {
  if (!reply.status.ok() || reply.kind != TaskKind::kTrain) return "";
  for (const auto& [who, what] : exposed(*experiment_))
    if (who == "server") return "; what it is: " + what;
  return "";
}

Status Joining::may_leave(const std::string& what) {
  if (!shown_.insert(what).second) return ok();
  request_.log->info("leaves this machine", {{"what", what}});
  if (request_.consent && !request_.consent(what))
    return fail(Error::kInterrupted, "nothing was sent: consent was not given");
  return ok();
}

Status Joining::note(AuditRecord::Direction direction, const Task& task, int64_t bytes,
                     const std::string& sha256, const std::string& outcome) {
  return audit_->append({.direction = direction,
                         .peer = "server",
                         .round = task.round,
                         .kind = name_of(task.kind),
                         .bytes = bytes,
                         .sha256 = sha256,
                         .outcome = outcome});
}

void Joining::keep_figures(const Evaluation& evaluation) {
  figures_ = {
      {"pre",
       {{"validation", figures_of(evaluation.pre_val)}, {"test", figures_of(evaluation.pre_test)}}},
      {"post",
       {{"validation", figures_of(evaluation.post_val)},
        {"test", figures_of(evaluation.post_test)}}}};
  const auto status = write_file_atomic(path("evaluation.json"), bytes_of(figures_.dump(1) + "\n"));
  if (!status.ok()) request_.log->error("evaluation.json", {{"problem", message(status)}});
}

Result<json> Joining::finish() {
  TESSERA_RETURN_IF_ERROR(models_->failed());
  json out{{"federation", facts_.title},
           {"client", facts_.name},
           {"tasks", tasks_},
           {"evaluation", figures_},
           {"model", nullptr}};
  if (figures_.is_null() && std::filesystem::exists(path("evaluation.json"))) {
    TESSERA_ASSIGN(const auto bytes, read_file(path("evaluation.json"), kMaxStateText));
    TESSERA_ASSIGN(out["evaluation"], parse_json(text_of(bytes), path("evaluation.json")));
  }
  const auto saved = path("models") + "/" + model_file(facts_.name);
  if (std::filesystem::exists(saved)) {
    TESSERA_ASSIGN(const auto bytes, read_file(saved));
    TESSERA_RETURN_IF_ERROR(write_file_atomic(path("model.safetensors"), bytes));
    out["model"] = path("model.safetensors");
  }
  request_.log->info("finished", {{"tasks", tasks_}});
  return out;
}

std::string leaving_text(const Reply& reply, const MessageParts& parts) {
  if (!reply.status.ok())
    return fmt::format("{}: why it was not done: {}", name_of(reply.kind), message(reply.status));
  std::vector<std::string> lines;
  // A frame says nothing, and its size changes with every upload: what is shown is its content.
  const auto plain = is_frame(reply.up) ? from_frame(reply.up, kMostDownload) : reply.up;
  for (const auto& [name, tensor] : plain.ok() ? *plain : reply.up) {
    // A sealed tensor is named by what it is sealed from: "value.w/int8".
    const auto* part = parts.find(name.substr(0, name.find('/')));
    lines.push_back(tensor_words(name, tensor) + (part ? " (" + words_of(*part) + ")" : ""));
  }
  if (reply.kind == TaskKind::kTrain || reply.kind == TaskKind::kJoin)
    lines.emplace_back("the mean training loss, seconds of work");
  if (const auto& e = reply.evaluation) {
    lines.emplace_back("counts of samples and of right answers, losses and scores of this client");
    if (e->pre_confusion)
      lines.emplace_back("how often each class of its test samples was taken for which");
    for (const auto& [name, tensor] : e->notes) lines.push_back(tensor_words(name, tensor));
  }
  if (lines.empty()) lines.emplace_back("no tensors");
  return fmt::format("{}: {}", name_of(reply.kind), join(lines, "; "));
}

Result<json> join_federation(const JoinRequest& request) {
  try {
    Joining joining(request);
    TESSERA_RETURN_IF_ERROR(joining.check_identity());
    joining.tell_of_revocations();
    TESSERA_RETURN_IF_ERROR(joining.connect());
    TESSERA_RETURN_IF_ERROR(joining.understand());
    TESSERA_RETURN_IF_ERROR(joining.open_state());
    TESSERA_RETURN_IF_ERROR(joining.judge_experiment(true));
    TESSERA_RETURN_IF_ERROR(joining.load_data());
    for (const auto& text : joining.federation().notes) request.log->info("data", {{"note", text}});
    if (const auto built = joining.build(); !built.ok()) {
      joining.tell(built);
      return built;
    }
    TESSERA_RETURN_IF_ERROR(joining.judge_data(true));
    TESSERA_RETURN_IF_ERROR(joining.open_host());
    joining.tell_exposure();
    TESSERA_RETURN_IF_ERROR(joining.enroll());
    return joining.work();
  } catch (const std::bad_alloc&) {
    return fail(Error::kIo, "out of memory");
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "{}", first_line(error.what()));
  }
}

}  // namespace tessera
