#include <cmath>

#include "base/metric.hpp"
#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "report/history_reader.hpp"
#include "run/privacy_spent.hpp"
#include "run/rank_host.hpp"

namespace tessera {
namespace {

/// The leading metric before and after personalization, of newcomers too where there are any.
std::string result_text(const RunHistory& run, const MetricInfo& metric) {
  const int64_t round = last_evaluated_round(run);
  const bool pooled = metric.name == "accuracy";
  std::vector<std::string> header{metric.title + (metric.fraction ? " %" : ""), "mean", "± clients",
                                  "worst 10 %", "best 10 %"};
  if (pooled) header.emplace_back("micro");
  Table table(std::move(header));
  for (const bool newcomers : {false, true}) {
    for (const std::string view : {"pre", "post"}) {
      const auto* eval = eval_at(run, round, newcomers ? "newcomers" : "clients", view, "test");
      if (!eval && newcomers) continue;
      const auto s = spread_of(run, round, newcomers, view, metric.name);
      const auto word = view == "pre" ? "before" : "after";
      const auto leads = view == run.meta.headline ? " (leads)" : "";
      std::vector<std::string> cells{newcomers ? fmt::format("newcomers, {}{}", word, leads)
                                               : fmt::format("{} personalization{}", word, leads),
                                     metric.text(s.mean), metric.text(s.std),
                                     metric.text(s.worst10), metric.text(s.best10)};
      if (pooled) cells.push_back(metric.text(eval ? eval->micro : kAbsent));
      table.row(std::move(cells));
    }
  }
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

/// Who was rejected or could not be evaluated, how often and why; at most a few lines.
std::string problems_text(const nlohmann::json& summary) {
  constexpr size_t kMost = 10;
  std::string out;
  size_t shown = 0;
  const auto problems = summary.value("problems", nlohmann::json::array());
  for (const auto& problem : problems) {
    if (shown++ == kMost) {
      out += fmt::format("… and {} more, see summary.json\n", problems.size() - kMost);
      break;
    }
    const auto kind = problem.value("kind", "");
    out += fmt::format("client {}: {} {} {}, first in round {}: {}\n", problem.value("client", ""),
                       problem.value("count", int64_t{0}), kind,
                       kind == "evaluation" ? "failed" : "rejected",
                       problem.value("round", int64_t{0}), problem.value("reason", ""));
  }
  const auto never = summary.value("never_counted", std::vector<std::string>());
  if (!never.empty())
    out += fmt::format("warning: nothing of {} {} ever counted in training\n",
                       never.size() == 1 ? "client" : "clients", join(never, ", "));
  return out;
}

std::string cell_of(const Experiment& experiment) {
  return fmt::format("{}-s{}", experiment.method.name, experiment.run.seed);
}

std::string directory_of(const RunArgs& args, const Experiment& experiment) {
  return args.out.empty() ? fmt::format("runs/{}/{}", experiment.run.name, cell_of(experiment))
                          : args.out;
}

}  // namespace

Overrides ExperimentArgs::overrides() const {
  Overrides out;
  out.sets = sets;
  if (!metric.empty()) out.sets.push_back("eval.metric=" + metric);
  if (!data_dir.empty()) out.data_dir = data_dir;
  out.seed = seed, out.method = method;
  return out;
}

Result<int> run_command_on_rank(const RunArgs& args, RankSeat& seat, int ranks) {
  TESSERA_ASSIGN(const auto experiment,
                 load_experiment(args.experiment.file, args.experiment.overrides()));
  return host_rank(experiment,
                   {.out = directory_of(args, experiment),
                    .threads = args.threads,
                    .through_wire = args.through_wire},
                   seat, ranks);
}

Status run_command(const RunArgs& args) {
  TESSERA_ASSIGN(const auto experiment,
                 load_experiment(args.experiment.file, args.experiment.overrides()));
  const auto cell = cell_of(experiment);
  const auto out = directory_of(args, experiment);
  TESSERA_ASSIGN(const auto summary, run_cell(experiment, args, out, cell));
  const auto ended = [&](const Status& printed) {
    const auto failed = summary.value("failed", nlohmann::json());
    if (!printed.ok() || !failed.is_string()) return printed;
    return fail(Error::kInternal, "{}: {}", out, failed.get<std::string>());
  };
  if (args.json) return ended(print(summary.dump(2) + "\n"));
  TESSERA_ASSIGN(const auto text, finished_text(experiment, summary, out));
  return ended(print(text));
}

/// As a summary has it; an infinite epsilon is null there.
SamplesSpent read_samples_spent(const nlohmann::json& block) {
  const auto whole = [&](const char* key) { return static_cast<int64_t>(number_at(block, key)); };
  SamplesSpent out;
  out.epsilon = block.at("epsilon").is_null() ? INFINITY : number_at(block, "epsilon");
  out.delta = number_at(block, "delta"), out.rate = number_at(block, "rate");
  out.client = whole("client"), out.samples = whole("samples"), out.steps = whole("steps");
  return out;
}

/// What differential privacy the run gives; empty without any.
std::string privacy_text(const Experiment& experiment, const nlohmann::json& summary) {
  const auto clients = static_cast<int64_t>(number_at(summary, "clients"));
  std::string out;
  const auto add = [&](const std::string& text, const std::string& weak) {
    out += fmt::format("differential privacy: {}\n{}", text, weak.empty() ? "" : weak + "\n");
  };
  if (const auto spent = privacy_spent(experiment, clients, experiment.run.rounds))
    add(spent->text(experiment.run.rounds), spent->warning(clients));
  if (const auto at = summary.find("sample_privacy"); at != summary.end()) {
    const auto spent = read_samples_spent(*at);
    add(spent.text(), spent.warning());
  }
  if (const auto at = summary.find("transform"); at != summary.end())
    out += fmt::format(
        "virtual samples: gradients {:.3g} apart (at most {:.3g}), pixels {:.3g}, in {} batches\n",
        number_at(*at, "gradient_distance"), number_at(*at, "worst_gradient_distance"),
        number_at(*at, "pixel_distance"), static_cast<int64_t>(number_at(*at, "batches")));
  return out;
}

Result<std::string> finished_text(const Experiment& experiment, const nlohmann::json& summary,
                                  const std::string& dir) {
  const auto bytes = [](const nlohmann::json& block) {
    return human_bytes(number_at(block, "bytes_down") + number_at(block, "bytes_up"));
  };
  TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
  return fmt::format(
      "{}\n{} rounds of {}, {} sent ({} more for an evaluation), {} of wall "
      "time\n{}{}{}/report.html\n",
      result_text(history, metric_of(experiment.eval.metric)), experiment.run.rounds,
      experiment.method.name, bytes(summary), bytes(summary.value("evaluation", nlohmann::json())),
      human_seconds(number_at(summary, "wall_seconds")), onboarding_text(summary),
      privacy_text(experiment, summary) + problems_text(summary), dir);
}

}  // namespace tessera
