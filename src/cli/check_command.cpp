#include <numeric>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "engine/client_runtime.hpp"
#include "run/driver.hpp"

namespace tessera {
namespace {

/// Tensor bytes of one client's download and upload.
struct Traffic {
  int64_t down = 0, up = 0;
};

// The size of an upload does not depend on how much data made it: a few samples show it.
Result<Traffic> traffic_of(const Experiment& experiment, const Federation& federation,
                           const Model& model) {
  if (experiment.method.pooled) return Traffic{};
  TrainOptions train = experiment.train;
  if (train.loss == "auto") train.loss = federation.multi_label_loss ? "multilabel" : "ce";
  train.epochs = 1;
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  const auto method = experiment.draft->build(train);
  const Setup setup{model,
                    static_cast<int64_t>(federation.clients.size()),
                    experiment.run.rounds,
                    experiment.federation.participation,
                    derive(seed, Purpose::kInit),
                    static_cast<int64_t>(federation.newcomers.size()),
                    federation.commons.train_size()};
  TESSERA_RETURN_IF_ERROR(suits(*method, setup, federation));
  const ClientContext context{*method, experiment.method.name, setup, seed, train.loss_kind()};
  auto data = federation.clients.front();
  data.train.resize(std::min<size_t>(data.train.size(), 8));
  ClientRuntime client(context, 0, data, data, false);
  const Outgoing message{0, 1, method->broadcast(method->init_server(setup), 0)};
  const auto reply = client.update(message);
  TESSERA_RETURN_IF_ERROR(reply.status);
  return Traffic{payload_bytes(message.down), payload_bytes(reply.up)};
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
  const auto init = experiment.model.init == "torch" ? Init::kTorch : Init::kHe0;
  TESSERA_ASSIGN(const auto model, make_model(experiment.model.name,
                                              {federation.sample_shape, federation.classes}, init));
  TESSERA_ASSIGN(const auto traffic, traffic_of(experiment, federation, *model));
  const auto clients = static_cast<int64_t>(federation.clients.size());
  const auto& options = experiment.federation;
  const auto cohort = static_cast<int64_t>(
      experiment.method.pooled ? 1 : cohort_of(seed, 1, clients, options.participation).size());
  if (options.min_replies > cohort)
    return fail(Error::kInvalid,
                "federation.min_replies = {} can never be reached: {} of {} clients take part in "
                "a round",
                options.min_replies, cohort, clients);
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
  line("model", fmt::format("{}, {} parameters", experiment.model.name, model->layout().numel()));
  line("traffic", fmt::format("{} down and {} up in the first round, {} in {} such rounds",
                              human_bytes(static_cast<double>(traffic.down * cohort)),
                              human_bytes(static_cast<double>(traffic.up * cohort)),
                              human_bytes(static_cast<double>((traffic.down + traffic.up) * cohort *
                                                              experiment.run.rounds)),
                              experiment.run.rounds));
  return print(text + "ready to run\n");
}

}  // namespace tessera
