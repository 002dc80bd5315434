#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

std::string percent(const nlohmann::json& block, const char* key) {
  return block.contains(key) && block[key].is_number()
             ? fmt::format("{:.1f}", block[key].get<double>() * 100)
             : "–";
}

/// Before and after personalization, and newcomers where there are any.
std::string result_text(const nlohmann::json& summary) {
  Table table({"accuracy %", "mean", "± clients", "worst 10 %", "best 10 %", "micro"});
  const auto add = [&](const char* name, const nlohmann::json& block) {
    if (block.is_object())
      table.row({name, percent(block, "mean"), percent(block, "std"), percent(block, "worst10"),
                 percent(block, "best10"), percent(block, "micro")});
  };
  add("before personalization", summary.value("accuracy_pre", nlohmann::json()));
  add("after personalization", summary.value("accuracy_post", nlohmann::json()));
  const auto newcomers = summary.value("newcomers", nlohmann::json::object());
  add("newcomers, before", newcomers.value("accuracy_pre", nlohmann::json()));
  add("newcomers, after", newcomers.value("accuracy_post", nlohmann::json()));
  return table.text();
}

double number_at(const nlohmann::json& block, const char* key) {
  return block.is_object() && block.contains(key) && block[key].is_number()
             ? block[key].get<double>()
             : 0.0;
}

/// What was sent beside training, where there are newcomers.
std::string onboarding_text(const nlohmann::json& summary) {
  const auto block = summary.value("onboarding", nlohmann::json());
  const double newcomers = number_at(summary.value("newcomers", nlohmann::json()), "clients");
  if (!block.is_object() || newcomers == 0) return "";
  const double exchanges = number_at(block, "exchanges");
  return fmt::format(
      "a newcomer gets its model by {} and {}\n",
      exchanges == 1 ? "1 exchange" : fmt::format("{} exchanges", exchanges),
      human_bytes((number_at(block, "bytes_down") + number_at(block, "bytes_up")) / newcomers));
}

}  // namespace

Overrides ExperimentArgs::overrides() const {
  Overrides out;
  out.sets = sets;
  if (!data_dir.empty()) out.data_dir = data_dir;
  return out;
}

Status run_command(const RunArgs& args) {
  TESSERA_ASSIGN(const auto experiment,
                 load_experiment(args.experiment.file, args.experiment.overrides()));
  const auto cell = fmt::format("{}-s{}", experiment.method.name, experiment.run.seed);
  const auto out =
      args.out.empty() ? fmt::format("runs/{}/{}", experiment.run.name, cell) : args.out;
  TESSERA_ASSIGN(const auto summary, run_cell(experiment, args, out, cell));
  const auto ended = [&](const Status& printed) {
    const auto failed = summary.value("failed", nlohmann::json());
    if (!printed.ok() || !failed.is_string()) return printed;
    return fail(Error::kInternal, "{}: {}", out, failed.get<std::string>());
  };
  if (args.json) return ended(print(summary.dump(2) + "\n"));
  const auto bytes = [](const nlohmann::json& block) {
    return human_bytes(number_at(block, "bytes_down") + number_at(block, "bytes_up"));
  };
  return ended(print(fmt::format(
      "{}\n{} rounds of {}, {} sent ({} more for an evaluation), {} of wall "
      "time\n{}{}/report.html\n",
      result_text(summary), experiment.run.rounds, experiment.method.name, bytes(summary),
      bytes(summary.value("evaluation", nlohmann::json())),
      human_seconds(number_at(summary, "wall_seconds")), onboarding_text(summary), out)));
}

}  // namespace tessera
