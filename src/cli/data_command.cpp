#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "data/federation.hpp"
#include "data/find.hpp"
#include "data/get.hpp"
#include "report/holdings.hpp"

namespace tessera {
namespace {

constexpr int kPlainWidth = 100;

int output_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kPlainWidth;
}

/// Any method and model will do: only [data] and the seed matter.
Result<Experiment> experiment_of(const ExperimentArgs& args) {
  auto overrides = args.overrides();
  overrides.method = "fedavg";
  if (!args.file.empty()) return load_experiment(args.file, overrides);
  return parse_experiment("[model]\nname = \"mlp100\"\n", "--set", overrides);
}

std::string amount(uint64_t done, uint64_t total) {
  const auto bytes = human_bytes(static_cast<double>(done));
  if (total == 0) return bytes;
  return fmt::format("{} of {} ({:.0f} %)", bytes, human_bytes(static_cast<double>(total)),
                     100.0 * static_cast<double>(done) / static_cast<double>(total));
}

constexpr size_t kMostShown = 10'000;  // clients whose data must be opened for it

Holdings holdings_of(const Federation& federation) {
  Holdings out{federation.set, federation.class_names, {}};
  for (const auto* group : {&federation.clients, &federation.newcomers})
    for (const auto& client : *group)
      out.clients.push_back({client.name, group == &federation.newcomers,
                             client.class_counts(Part::kTrain), client.class_counts(Part::kTest)});
  return out;
}

/// Samples of a client in all its parts: what papers print of a federation.
struct Sizes {
  double all = 0, mean = 0, deviation = 0;  // population deviation
};
Sizes sizes_of(const Federation& federation) {
  Sizes out;
  double squares = 0;
  for (const auto& client : federation.clients) {
    int64_t n = 0;
    for (const Part part : {Part::kTrain, Part::kVal, Part::kTest, Part::kSupport})
      n += client.size(part);
    out.all += static_cast<double>(n), squares += static_cast<double>(n) * static_cast<double>(n);
  }
  const auto clients = static_cast<double>(federation.clients.size());
  out.mean = out.all / clients;
  out.deviation = std::sqrt(std::max(0.0, squares / clients - out.mean * out.mean));
  return out;
}

std::string holdings_json(const Holdings& holdings, const Federation& federation, int64_t seed) {
  auto clients = nlohmann::json::array();
  for (const auto& client : holdings.clients)
    clients.push_back({{"name", client.name},
                       {"newcomer", client.newcomer},
                       {"train", client.train},
                       {"test", client.test}});
  const auto [all, mean, deviation] = sizes_of(federation);
  const nlohmann::json out{{"dataset", federation.set},
                           {"class_names", federation.class_names},
                           {"clients", std::move(clients)},
                           {"notes", federation.notes},
                           {"samples", {{"all", all}, {"mean", mean}, {"deviation", deviation}}},
                           {"partition_digest", federation.digest},
                           {"seed", seed}};
  // Names may come from files and need not be UTF-8, which JSON must be.
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Status show_data(const ExperimentArgs& args, const std::string& svg, bool json) {
  TESSERA_ASSIGN(const auto experiment, experiment_of(args));
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  const auto everybody = federation.clients.size() + federation.newcomers.size();
  if (!federation.clients.front().is_here() && everybody > kMostShown)
    return fail(Error::kInvalid,
                "the data of {} clients are made or read when needed, too many to count their "
                "classes; look at fewer with --set data.clients={}",
                everybody, kMostShown);
  TESSERA_RETURN_IF_ERROR(open_all(federation));
  const auto holdings = holdings_of(federation);
  if (!svg.empty()) TESSERA_RETURN_IF_ERROR(write_text(svg, holdings_svg(holdings)));
  if (json) return print(holdings_json(holdings, federation, experiment.run.seed));
  std::string text = holdings_text(holdings, output_width());
  const auto [all, mean, deviation] = sizes_of(federation);
  text += fmt::format("{} clients, {:.0f} samples in all parts: mean {:.0f}, deviation {:.0f}\n",
                      federation.clients.size(), all, mean, deviation);
  for (const auto& note : federation.notes) text += note + "\n";
  text += fmt::format("partition {} (seed {})\n", federation.digest, experiment.run.seed);
  return print(svg.empty() ? text : text + svg + "\n");
}

Status get_data(const GetArgs& args) {
  const auto target = args.data_dir.empty() ? user_data_dir() : args.data_dir;
  LiveLine view(args.quiet);
  const auto progress = [&](const std::string& what, uint64_t done, uint64_t total) {
    view.update([=](int) { return what + "  " + amount(done, total); });
    return !args.stop->load();
  };
  const auto from = args.from.empty() ? std::nullopt : std::optional(args.from);
  const auto status = get_dataset(args.set, target, from, progress);
  view.finish();
  TESSERA_RETURN_IF_ERROR(status);
  if (args.json) {
    const nlohmann::json done{{"set", args.set}, {"data_dir", target}};
    return print(done.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return print(fmt::format("{} is in {}\n", args.set, target));
}

}  // namespace tessera
