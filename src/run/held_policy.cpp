#include "run/held_policy.hpp"

#include <ctime>
#include <span>
#include <thread>

#include "base/text.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/privacy_spent.hpp"

namespace tessera {
namespace {

std::tm local_now() {
  const auto now = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&now, &out);
  return out;
}

// What an upload of the method takes as it is, before guards make it smaller.
int64_t upload_bytes(const Session& session) {
  const auto setup = session.client_setup(1);
  const auto server = session.method().init_server(session.client_setup(0));
  return encoded_size(session.method().expected(*server, Why::kTrain, setup));
}

}  // namespace

PolicyVerdict HeldPolicy::judge(const Experiment& experiment, const FederationFacts& facts,
                                const std::string& server) {
  offer_ = offer_of(experiment, plain_host(server.substr(0, server.rfind(':'))));
  offer_.digest = facts.config_digest;
  if (const auto spent = privacy_spent(experiment, facts.clients, experiment.run.rounds))
    offer_.epsilon = spent->server_epsilon;
  // How many samples there are is not known yet: the second look says what each is promised.
  if (const auto& dp = experiment.guard.dp_sgd; dp && dp->sigma > 0) offer_.sample_epsilon = 0;
  return check_offer(policy_, offer_);
}

PolicyVerdict HeldPolicy::judge(const Experiment& experiment, const Federation& federation,
                                const Session& session, ClientId member) {
  const auto& own = federation.clients.front();
  if (offer_.sample_epsilon) {
    // Of this member: the others' samples are not known here, and left out of the reckoning.
    std::vector<int64_t> samples(static_cast<size_t>(session.clients()), 0);
    if (!session.is_newcomer(member)) samples[static_cast<size_t>(member)] = own.size(Part::kTrain);
    const auto spent = samples_spent(experiment, samples, experiment.run.rounds);
    offer_.sample_epsilon = spent ? std::optional(spent->epsilon) : std::nullopt;
  }
  offer_.sample_shape = federation.sample_shape, offer_.classes = federation.classes;
  std::vector<std::string> declared;
  if (const auto categories = declared_categories(experiment.data); categories.ok())
    for (const auto& [name, texts] : *categories) declared.push_back(name);
  offer_.columns = offered_columns(federation.input, declared);
  offer_.largest_upload = session.is_newcomer(member) ? 0 : upload_bytes(session);
  return check_offer(policy_, offer_);
}

Status HeldPolicy::may_fetch(int64_t bytes) const {
  if (bytes <= policy_.largest_received) return ok();
  return fail(
      Error::kInvalid,
      "{}: receive.largest_message is {}, and the server offers a task of {}; nothing of it "
      "was fetched",
      policy_.name, human_bytes(static_cast<double>(policy_.largest_received)),
      human_bytes(static_cast<double>(bytes)));
}

Status HeldPolicy::may_do(const Task& task, int64_t bytes) {
  const auto verdict = check_task(policy_, task, bytes);
  if (verdict) log_.warning("policy", {{"text", verdict->here}});
  return status_there(verdict);
}

Reply HeldPolicy::cleared(const Task& task, Reply reply) {
  auto out = stripped(policy_, offer_, std::move(reply));
  const auto bytes =
      encoded_size(out.up) + (out.evaluation ? encoded_size(out.evaluation->notes) : 0);
  const auto verdict = check_reply(policy_, offer_, out, bytes);
  if (!verdict) return out;
  log_.warning("policy", {{"text", verdict->here}});
  return refused(task, status_there(verdict));
}

Status HeldPolicy::wait_for_hours() {
  constexpr std::chrono::seconds kLook{30};
  bool told = false;
  while (!stopped() && !may_work(policy_, local_now())) {
    const auto now = local_now();
    if (!told) log_.info("waiting", {{"text", waiting_words(policy_, now)}});
    told = true;
    sleep(std::min<std::chrono::milliseconds>(until_work(policy_, now), kLook));
  }
  return stopped() ? fail(Error::kInterrupted, "stopped") : ok();
}

void HeldPolicy::pace(int64_t bytes) {
  sleep(pace_.pause_after(bytes, std::chrono::steady_clock::now()));
}

void HeldPolicy::sleep(std::chrono::milliseconds time) const {
  constexpr std::chrono::milliseconds kSlice{100};
  for (; time.count() > 0 && !stopped(); time -= kSlice)
    std::this_thread::sleep_for(std::min(time, kSlice));
}

}  // namespace tessera
