#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/estimate.hpp"
#include "cli/output.hpp"
#include "guard/vote/votes.hpp"
#include "run/exposed.hpp"
#include "run/privacy_spent.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

struct Range {
  int64_t least = 0, most = 0, all = 0;
};
Range range_of(const std::vector<ClientData>& clients, Part part) {
  Range out{clients.front().size(part), clients.front().size(part), 0};
  for (const auto& client : clients) {
    out.least = std::min(out.least, client.size(part));
    out.most = std::max(out.most, client.size(part));
    out.all += client.size(part);
  }
  return out;
}

std::vector<int64_t> train_sizes(const std::vector<ClientData>& clients) {
  std::vector<int64_t> out;
  for (const auto& client : clients) out.push_back(client.train_size());
  return out;
}

/// What a run would be.
struct Plan {
  const Experiment& experiment;
  const Federation& federation;
  int64_t parameters, cohort;
  int threads;
  Estimate estimate;

  int64_t clients() const { return std::ssize(federation.clients); }
  int64_t bytes_in_all() const {
    return (estimate.bytes_down + estimate.bytes_up) * cohort * experiment.run.rounds;
  }
};

std::string text_of(const Plan& plan) {
  const auto& [experiment, federation, parameters, cohort, threads, estimate] = plan;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12}{}\n", name, value);
  };
  const auto samples = [&](const char* name, Part part) {
    const auto range = range_of(plan.federation.clients, part);
    line(name, fmt::format("{} ({} to {} per client)", range.all, range.least, range.most));
  };
  line("experiment", fmt::format("{}, seed {}", experiment.run.name, experiment.run.seed));
  line("method", fmt::format("{}: {}", experiment.method.name, experiment.method.line));
  line("data",
       fmt::format("{}, {}, {} inputs, {} classes", federation.set, experiment.data.partition,
                   fmt::join(federation.sample_shape, "×"), federation.classes));
  for (const auto& note : federation.notes) line("", note);
  line("clients", fmt::format("{}, {} in a round{}", plan.clients(), cohort,
                              federation.newcomers.empty()
                                  ? ""
                                  : fmt::format("; {} newcomers", federation.newcomers.size())));
  samples("training", Part::kTrain);
  samples("validation", Part::kVal);
  samples("test", Part::kTest);
  line("partition", federation.digest);
  line("model", fmt::format("{}, {} parameters", experiment.model.name, parameters));
  line("traffic",
       fmt::format("{} down and {} up in the first round, {} in {} such rounds",
                   human_bytes(static_cast<double>(estimate.bytes_down * cohort)),
                   human_bytes(static_cast<double>(estimate.bytes_up * cohort)),
                   human_bytes(static_cast<double>(plan.bytes_in_all())), experiment.run.rounds));
  line("time",
       fmt::format("about {} on {}, from a trial of one client", human_seconds(estimate.seconds),
                   threads == 1 ? "1 thread" : fmt::format("{} threads", threads)));
  line("memory", "about " + human_bytes(estimate.memory));
  if (const auto& server = estimate.server; server.bytes > 0)
    line("", fmt::format("{} of it at the server once all {} clients have taken part; {} clients "
                         "would be the most",
                         human_bytes(server.bytes), server.clients, server.most));
  if (const auto spent = privacy_spent(experiment, plan.clients(), experiment.run.rounds)) {
    line("privacy", spent->text(experiment.run.rounds));
    if (const auto weak = spent->warning(plan.clients()); !weak.empty()) line("", weak);
  }
  if (const auto spent =
          samples_spent(experiment, train_sizes(federation.clients), experiment.run.rounds)) {
    line("privacy", spent->text());
    if (const auto weak = spent->warning(); !weak.empty()) line("", weak);
  }
  if (experiment.guard.answers.vote) line("privacy", vote_cost_text(experiment.guard.answers, 1));
  bool first = true;
  for (const auto& [who, what] : exposed(experiment)) {
    line(first ? "exposure" : "", fmt::format("{:<8}{}", who, what));
    first = false;
  }
  return text + "ready to run\n";
}

/// The same for programs; bytes are of tensors.
std::string json_of(const Plan& plan) {
  const auto& [experiment, federation, parameters, cohort, threads, estimate] = plan;
  const auto samples = [&](Part part) -> nlohmann::json {
    const auto range = range_of(plan.federation.clients, part);
    return {{"all", range.all}, {"least", range.least}, {"most", range.most}};
  };
  auto seen = nlohmann::json::object();
  for (const auto& [who, what] : exposed(experiment)) seen[who] = what;
  nlohmann::json out{
      {"name", experiment.run.name},
      {"seed", experiment.run.seed},
      {"rounds", experiment.run.rounds},
      {"method", experiment.method.name},
      {"dataset", federation.set},
      {"partition", experiment.data.partition},
      {"partition_digest", federation.digest},
      {"sample_shape", federation.sample_shape},
      {"class_names", federation.class_names},
      {"classes", federation.classes},
      {"notes", federation.notes},
      {"clients", plan.clients()},
      {"newcomers", federation.newcomers.size()},
      {"cohort", cohort},
      {"samples",
       {{"train", samples(Part::kTrain)},
        {"val", samples(Part::kVal)},
        {"test", samples(Part::kTest)}}},
      {"model", experiment.model.name},
      {"parameters", parameters},
      {"bytes_down", estimate.bytes_down * cohort},
      {"bytes_up", estimate.bytes_up * cohort},
      {"bytes_in_all", plan.bytes_in_all()},
      {"threads", threads},
      {"seconds", estimate.seconds},
      {"memory", estimate.memory},
      {"exposure", seen},
      {"server_memory", estimate.server.bytes},
      {"server_most_clients",
       estimate.server.bytes > 0 ? nlohmann::json(estimate.server.most) : nlohmann::json()}};
  if (const auto cost = vote_cost(experiment.guard.answers, 1))
    out["vote_cost"] = {{"epsilon", cost->epsilon}, {"delta", cost->delta}};
  // Names may come from files and need not be UTF-8, which JSON must be.
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Status check_command(const ExperimentArgs& args, bool json) {
  TESSERA_ASSIGN(const auto experiment, load_experiment(args.file, args.overrides()));
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  TESSERA_ASSIGN(auto session, make_session(experiment, federation, &federation.notes));
  const auto parameters = session.model().layout().numel();
  TESSERA_RETURN_IF_ERROR(
      Simulation(std::move(session), federation, experiment.federation).driver().meet_clients());
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  TESSERA_ASSIGN(const auto estimate, estimate_run(experiment, federation, threads));
  const auto cohort = std::ssize(
      cohort_of(seed, 1, std::ssize(federation.clients), experiment.federation.participation));
  const Plan plan{experiment, federation, parameters, experiment.method.pooled ? 1 : cohort,
                  threads,    estimate};
  return print(json ? json_of(plan) : text_of(plan));
}

}  // namespace tessera
