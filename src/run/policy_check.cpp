#include "run/policy_check.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "run/exposed.hpp"
#include "run/guard_sections.hpp"

namespace tessera {
namespace {

bool lists(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A few names of many, quoted.
std::string few_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::vector<std::string> out;
  for (const auto& name : names)
    if (out.size() < kShown) out.push_back("'" + printable(name) + "'");
  const auto more = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
  return join(out, ", ") + more;
}

std::string bytes_words(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// Both ends hear the same.
PolicyVerdict refuse(const Policy& policy, const std::string& text) {
  const auto sentence = policy.name + ": " + text;
  return Refusal{sentence, sentence};
}
// The server hears less.
PolicyVerdict refuse(const Policy& policy, const std::string& here, const std::string& there) {
  return Refusal{policy.name + ": " + here, policy.name + ": " + there};
}

PolicyVerdict check_server(const Policy& policy, const Offer& offer) {
  if (!policy.servers.empty() && !lists(policy.servers, plain_host(offer.server)))
    return refuse(policy,
                  fmt::format("server.names has no '{}' (it has {})", printable(offer.server),
                              few_of(policy.servers)),
                  "server.names does not have this server");
  if (!policy.experiments.empty() && !lists(policy.experiments, offer.experiment))
    return refuse(policy,
                  fmt::format("experiment.names has no '{}' (it has {})",
                              printable(offer.experiment), few_of(policy.experiments)),
                  fmt::format("experiment.names has no '{}'", printable(offer.experiment)));
  if (!policy.digests.empty() && !lists(policy.digests, lower(offer.digest)))
    return refuse(policy, fmt::format("experiment.digests does not have {}, the SHA-256 of this "
                                      "experiment: it is not one that the owner has agreed to",
                                      printable(offer.digest, 64)));
  return std::nullopt;
}

PolicyVerdict check_method(const Policy& policy, const Offer& offer) {
  if (!policy.methods.empty() && !lists(policy.methods, offer.method))
    return refuse(policy,
                  fmt::format("method.allow has no '{}' (it has {})", printable(offer.method),
                              few_of(policy.methods)),
                  fmt::format("method.allow has no '{}'", printable(offer.method)));
  for (const auto& told : offer.told) {
    if (told.what == Tells::kData)
      return refuse(policy, fmt::format("no policy lets samples leave, and method '{}' sends them "
                                        "({})",
                                        printable(offer.method), told.words));
    if (told.what != Tells::kStatistics) continue;
    const bool loss = told.tensor == "loss";
    if (loss ? !policy.losses : !policy.class_counts)
      return refuse(policy, fmt::format("send.{} = false does not allow what method '{}' sends: {}",
                                        loss ? "losses" : "class_counts", printable(offer.method),
                                        told.words));
  }
  return std::nullopt;
}

PolicyVerdict check_epsilon(const Policy& policy, const char* key, double most,
                            std::optional<double> epsilon, const char* whom, const char* guard) {
  if (!epsilon || !std::isfinite(*epsilon))
    return refuse(policy, fmt::format("guards.{} = {:g} asks for a promise to {}, and the "
                                      "experiment gives none; it needs guard {}",
                                      key, most, whom, guard));
  if (*epsilon > most)
    return refuse(policy, fmt::format("guards.{} = {:g} is below what the experiment promises to "
                                      "{}: epsilon {:.3g}",
                                      key, most, whom, *epsilon));
  return std::nullopt;
}

PolicyVerdict check_guards_on(const Policy& policy, const Offer& offer) {
  for (const auto& guard : policy.guards)
    if (!lists(offer.guards, guard))
      return refuse(policy, fmt::format("guards.require has '{}', which the experiment does not "
                                        "have; it needs [[guard]] name = \"{}\"",
                                        guard, guard));
  if (policy.max_epsilon)
    if (auto no = check_epsilon(policy, "max_epsilon", *policy.max_epsilon, offer.epsilon,
                                "a client towards the server", "'dp'"))
      return no;
  if (policy.max_sample_epsilon)
    return check_epsilon(policy, "max_sample_epsilon", *policy.max_sample_epsilon,
                         offer.sample_epsilon, "a single sample", "'dp-sgd'");
  return std::nullopt;
}

PolicyVerdict check_columns(const Policy& policy, const Offer& offer) {
  std::vector<std::string> untold;
  for (const auto& column : offer.columns)
    if (policy.columns && !lists(*policy.columns, column.name)) untold.push_back(column.name);
  if (!untold.empty())
    return refuse(policy,
                  fmt::format("send.columns has no {}; take the column out of the table, or add it "
                              "there",
                              few_of(untold)),
                  fmt::format("send.columns does not allow {} of the {} columns of this client's "
                              "table",
                              untold.size(), offer.columns.size()));
  for (const auto& column : offer.columns) {
    if (column.values == 0 || column.declared) continue;
    const auto name = printable(column.name);
    // The experiment has asked for the column by name; its values are what stays here.
    if (!lists(policy.categories, column.name))
      return refuse(policy,
                    fmt::format("send.categories has no '{}', whose values would be told "
                                "because the experiment does not declare them; declare them there, "
                                "or have the owner add it",
                                name));
    if (column.values > policy.most_categories)
      return refuse(policy,
                    fmt::format("send.most_categories = {} is below the {} values of column '{}'",
                                policy.most_categories, column.values, name),
                    fmt::format("send.most_categories = {} is below the number of values of column "
                                "'{}'",
                                policy.most_categories, name));
  }
  return std::nullopt;
}

int64_t numbers_in(const TensorDict& tensors) {
  int64_t out = 0;
  for (const auto& [name, tensor] : tensors) out += tensor.numel();
  return out;
}

bool may_note(const Policy& policy, const Offer& offer, const TensorDict& notes) {
  if (notes.empty() || policy.exhibits == Exhibits::kAll) return true;
  if (policy.exhibits == Exhibits::kNone || offer.sample_shape.empty()) return false;
  int64_t sample = 1;
  for (const int64_t n : offer.sample_shape) sample *= n;
  return numbers_in(notes) < sample;
}

// The rows of a confusion table add up to how often each class occurs.
bool may_confuse(const Policy& policy) { return policy.confusion && policy.class_counts; }

std::string column_words(const Offer& offer) {
  std::vector<std::string> names, told, declared;
  for (const auto& column : offer.columns) {
    names.push_back(column.name);
    if (column.values > 0)
      (column.declared ? declared : told)
          .push_back(fmt::format("'{}' ({})", printable(column.name), column.values));
  }
  if (names.empty()) return "";
  auto out = fmt::format(", the names of {} columns: {}", names.size(), few_of(names));
  if (!told.empty()) out += ", and every value of " + join(told, ", ");
  if (!declared.empty()) out += "; of " + join(declared, ", ") + " the experiment's own values";
  return out;
}

std::string enrolment_words(const Policy& policy, const Offer& offer) {
  std::vector<std::string> shape;
  for (const int64_t n : offer.sample_shape) shape.push_back(std::to_string(n));
  return fmt::format(
      "leaves at enrolment: the client's name, the shape of a sample{}, {} class names{}, how many "
      "samples it has for training, validation and test, SHA-256 of the model's layout{}",
      shape.empty() ? "" : " [" + join(shape, ", ") + "]",
      offer.classes == 0 ? std::string("the") : std::to_string(offer.classes), column_words(offer),
      policy.data_digest ? " and of the data" : "");
}

std::string round_words(const Policy& policy, const Offer& offer) {
  return fmt::format(
      "leaves in every round: {} (method '{}'{}{}), its weight (a number of samples){}, CPU "
      "seconds; "
      "no message above {}",
      offer.seen.empty() ? "the upload" : offer.seen, printable(offer.method),
      offer.guards.empty() ? "" : ", guards ", join(offer.guards, ", "),
      offer.tells_loss ? ", its mean training loss" : "", bytes_words(policy.largest_sent));
}

std::string evaluation_words(const Policy& policy) {
  if (!policy.evaluation) return "leaves at evaluations: nothing but that it is not allowed";
  const char* notes = policy.exhibits == Exhibits::kAll ? "; all that the method notes"
                      : policy.exhibits == Exhibits::kNumbers
                          ? "; what the method notes, if it is less than one sample"
                          : "";
  return fmt::format(
      "leaves at evaluations: numbers of samples and of right answers, loss and "
      "scores on its validation and test samples{}{}",
      may_confuse(policy)
          ? "; at the last one which class was taken for which, and with it how often "
            "each class occurs in its test samples"
          : "",
      notes);
}

std::string staying_words(const Policy& policy, const Offer& offer) {
  std::vector<std::string> stays{"samples"};
  if (!offer.stays.empty()) stays.push_back(offer.stays);
  if (!offer.tells_loss) stays.push_back("its training loss");
  if (!policy.class_counts) stays.push_back("class counts");
  if (!policy.evaluation) stays.push_back("figures of evaluations");
  if (policy.evaluation && !may_confuse(policy)) stays.push_back("confusion tables");
  if (policy.exhibits == Exhibits::kNone) stays.push_back("what the method notes for the report");
  if (policy.exhibits == Exhibits::kNumbers) stays.push_back("notes as large as a sample");
  if (!policy.data_digest) stays.push_back("the digest of the data");
  return "stays: " + join(stays, ", ");
}

}  // namespace

std::vector<OfferedColumn> offered_columns(const InputSchema& schema,
                                           const std::vector<std::string>& declared) {
  std::vector<OfferedColumn> out;
  for (const auto& column : schema.columns)
    out.push_back({column.name, std::ssize(column.categories), lists(declared, column.name)});
  return out;
}

Offer offer_of(const Experiment& experiment, const std::string& server) {
  Offer out{.server = server,
            .experiment = experiment.run.name,
            .method = experiment.method.name,
            .told = experiment.method.exposure.server,
            .guards = active_guards(experiment.guard)};
  for (const auto& [who, what] : exposed(experiment)) {
    if (who == "server") out.seen = what;
    if (who == "stays") out.stays = what;
  }
  const auto& guard = experiment.guard;
  out.tells_loss = !guard.secure && !(guard.dp_sgd && guard.dp_sgd->sigma > 0);
  return out;
}

Status status_here(const PolicyVerdict& verdict) {
  return verdict ? fail(Error::kInvalid, "{}", verdict->here) : ok();
}
Status status_there(const PolicyVerdict& verdict) {
  return verdict ? fail(Error::kInvalid, "{}", verdict->there) : ok();
}

PolicyVerdict check_offer(const Policy& policy, const Offer& offer) {
  for (const auto check : {check_server, check_method, check_guards_on, check_columns})
    if (auto no = check(policy, offer)) return no;
  if (!policy.losses && offer.tells_loss)
    return refuse(policy,
                  "send.losses = false, and in this experiment every client tells its training "
                  "loss; guard 'dp-sgd' or 'secure-aggregation' keeps it back");
  if (offer.largest_upload > policy.largest_sent)
    return refuse(policy, fmt::format("send.largest_message = {} is below an upload of method "
                                      "'{}', {}",
                                      bytes_words(policy.largest_sent), printable(offer.method),
                                      bytes_words(offer.largest_upload)));
  return std::nullopt;
}

PolicyVerdict check_task(const Policy& policy, const Task& task, int64_t bytes) {
  if (bytes > policy.largest_received)
    return refuse(policy,
                  fmt::format("receive.largest_message = {} is below the task '{}' of round {}, {}",
                              bytes_words(policy.largest_received), name_of(task.kind), task.round,
                              bytes_words(bytes)));
  if (task.kind == TaskKind::kEvaluate && !policy.evaluation && !task.last)
    return refuse(policy,
                  "send.evaluation = false: no figures of this client leave, so it does not "
                  "evaluate");
  return std::nullopt;
}

Reply stripped(const Policy& policy, const Offer& offer, Reply reply) {
  if (!reply.evaluation) return reply;
  if (!may_confuse(policy)) reply.evaluation->pre_confusion = reply.evaluation->post_confusion = {};
  if (!may_note(policy, offer, reply.evaluation->notes)) reply.evaluation->notes.clear();
  return reply;
}

PolicyVerdict check_reply(const Policy& policy, const Offer& offer, const Reply& reply,
                          int64_t bytes) {
  if (bytes > policy.largest_sent)
    return refuse(policy, fmt::format("send.largest_message = {} is below the answer to '{}' of "
                                      "round {}, {}",
                                      bytes_words(policy.largest_sent), name_of(reply.kind),
                                      reply.round, bytes_words(bytes)));
  if (!reply.status.ok()) return std::nullopt;
  // Guards that keep a loss back send 0, or NaN.
  if (!policy.losses && reply.loss != 0 && !std::isnan(reply.loss))
    return refuse(policy, "send.losses = false: the answer holds a training loss");
  if (!reply.evaluation) return std::nullopt;
  const auto& evaluation = *reply.evaluation;
  if (!policy.evaluation)
    return refuse(policy, "send.evaluation = false: no figures of this client leave");
  if (!may_confuse(policy) && (evaluation.pre_confusion || evaluation.post_confusion))
    return refuse(policy, fmt::format("send.{} = false: the answer holds confusion tables",
                                      policy.confusion ? "class_counts" : "confusion"));
  if (!may_note(policy, offer, evaluation.notes))
    return refuse(policy,
                  fmt::format("send.exhibits = \"{}\": the answer holds notes of {} numbers",
                              policy.exhibits == Exhibits::kNone ? "none" : "numbers",
                              numbers_in(evaluation.notes)));
  return std::nullopt;
}

std::vector<std::string> leaving_words(const Policy& policy, const Offer& offer) {
  std::vector<std::string> out;
  out.push_back(
      fmt::format("policy: {}; to server '{}', experiment '{}'{}", policy.name,
                  printable(offer.server), printable(offer.experiment),
                  offer.digest.empty() ? "" : ", SHA-256 " + printable(offer.digest, 64)));
  if (const auto no = check_offer(policy, offer)) {
    out.push_back("leaves: nothing but one sentence, why not: " + no->there);
    return out;
  }
  out.push_back(enrolment_words(policy, offer));
  out.push_back(round_words(policy, offer));
  out.push_back(evaluation_words(policy));
  out.push_back(staying_words(policy, offer));
  return out;
}

PolicyNames policy_names() {
  PolicyNames out{.methods = {}, .guards = guard_names()};
  for (const auto& info : methods()) out.methods.push_back(info.name);
  return out;
}

Result<Policy> load_policy(const std::string& path) {
  if (path.empty()) return Policy();
  return read_policy(path, policy_names());
}

}  // namespace tessera
