#include <numeric>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

/// Tensor bytes of one client's download and upload.
struct Traffic {
  int64_t down = 0, up = 0;
};

constexpr size_t kFewSamples = 8;

// The size of an upload does not depend on how much data made it: a few samples show it.
Result<Traffic> traffic_of(const Experiment& experiment, Federation federation) {
  if (experiment.method.pooled) return Traffic{};
  auto small = experiment;
  small.train.epochs = 1;
  const auto shorten = [](ClientData& data) {
    data.train.resize(std::min<size_t>(data.train.size(), kFewSamples));
  };
  for (auto& data : federation.clients) shorten(data);
  shorten(federation.commons);
  TESSERA_ASSIGN(auto session, make_session(small, federation));
  Simulation simulation(std::move(session), federation, small.federation);
  TESSERA_RETURN_IF_ERROR(simulation.driver().begin());
  TESSERA_ASSIGN(const auto download, simulation.driver().first_download(0));
  const auto reply = simulation.host().handle(
      {.client = 0, .kind = TaskKind::kTrain, .round = 1, .attempt = 1, .down = download});
  TESSERA_RETURN_IF_ERROR(reply.status);
  return Traffic{payload_bytes(download), payload_bytes(reply.up)};
}

std::string range_of(const std::vector<ClientData>& clients, Part part) {
  int64_t least = clients.front().size(part), most = least, all = 0;
  for (const auto& client : clients) {
    least = std::min(least, client.size(part)), most = std::max(most, client.size(part));
    all += client.size(part);
  }
  return fmt::format("{} ({} to {} per client)", all, least, most);
}

std::string shape_text(const Federation& federation) {
  return fmt::format("{}, {} classes", fmt::join(federation.sample_shape, "×"), federation.classes);
}

}  // namespace

Status check_command(const ExperimentArgs& args) {
  TESSERA_ASSIGN(const auto experiment, load_experiment(args.file, args.overrides()));
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(const auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  TESSERA_ASSIGN(auto session, make_session(experiment, federation));
  const auto parameters = session.model().layout().numel();
  TESSERA_RETURN_IF_ERROR(
      Simulation(std::move(session), federation, experiment.federation).driver().meet_clients());
  TESSERA_ASSIGN(const auto traffic, traffic_of(experiment, federation));
  const auto clients = static_cast<int64_t>(federation.clients.size());
  const auto& options = experiment.federation;
  const auto cohort = static_cast<int64_t>(
      experiment.method.pooled ? 1 : cohort_of(seed, 1, clients, options.participation).size());
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12}{}\n", name, value);
  };
  line("experiment", fmt::format("{}, seed {}", experiment.run.name, experiment.run.seed));
  line("method", fmt::format("{}: {}", experiment.method.name, experiment.method.line));
  line("data", fmt::format("{}, {}, {}", federation.set, experiment.data.partition,
                           shape_text(federation)));
  for (const auto& note : federation.notes) line("", note);
  line("clients", fmt::format("{}, {} in a round{}", clients, cohort,
                              federation.newcomers.empty()
                                  ? ""
                                  : fmt::format("; {} newcomers", federation.newcomers.size())));
  line("training", range_of(federation.clients, Part::kTrain));
  line("validation", range_of(federation.clients, Part::kVal));
  line("test", range_of(federation.clients, Part::kTest));
  line("partition", federation.digest);
  line("model", fmt::format("{}, {} parameters", experiment.model.name, parameters));
  line("traffic", fmt::format("{} down and {} up in the first round, {} in {} such rounds",
                              human_bytes(static_cast<double>(traffic.down * cohort)),
                              human_bytes(static_cast<double>(traffic.up * cohort)),
                              human_bytes(static_cast<double>((traffic.down + traffic.up) * cohort *
                                                              experiment.run.rounds)),
                              experiment.run.rounds));
  return print(text + "ready to run\n");
}

}  // namespace tessera
