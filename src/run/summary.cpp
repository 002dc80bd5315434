#include "run/summary.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/metric.hpp"
#include "base/text.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/config_text.hpp"
#include "run/driver.hpp"
#include "run/privacy_spent.hpp"
#include "run/servable.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr size_t kMostProblems = 100;

// JSON has no NaN: a value that does not exist is null.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json accuracy_block(const Summary& s) {
  return {{"mean", number(s.mean)},    {"std", number(s.std)}, {"micro", number(s.micro)},
          {"min", number(s.min)},      {"max", number(s.max)}, {"worst10", number(s.worst10)},
          {"best10", number(s.best10)}};
}

// `all`: the same clients together.
json score_block(const std::vector<ClientMetrics>& clients, const Summary& all,
                 const MetricInfo& metric) {
  std::vector<double> values;
  for (const auto& client : clients) values.push_back(value_of(client, metric.name));
  auto s = spread_of(metric, std::move(values));
  if (metric.pooled) s.mean = value_of(all, metric.name);
  return {{"mean", number(s.mean)}, {"std", number(s.std)},         {"min", number(s.min)},
          {"max", number(s.max)},   {"worst10", number(s.worst10)}, {"best10", number(s.best10)}};
}

const char* view_name(View view) { return view == View::kPre ? "pre" : "post"; }

// The row of a round; all NaN if nobody's numbers counted then.
Summary at_round(const std::vector<History::EvalRow>& rows, int64_t round) {
  for (const auto& row : rows)
    if (row.round == round) return row.summary;
  return summarize({});
}

// The mean of a metric over the last five evaluations, or as many as there are.
json last_five(const std::vector<History::EvalRow>& rows, std::span<const int64_t> evaluated,
               const std::string& metric) {
  const auto from = evaluated[evaluated.size() - std::min<size_t>(evaluated.size(), 5)];
  double sum = 0, count = 0;
  for (const auto& row : rows)
    if (row.round >= from) sum += value_of(row.summary, metric), ++count;
  return number(sum / count);
}

// The evaluation with the best validation metric (the earliest of equals), by the test metrics.
json best_by_validation(const std::vector<History::EvalRow>& test,
                        const std::vector<History::EvalRow>& val, const MetricInfo& metric) {
  const History::EvalRow* best = nullptr;
  const auto score = [&](const History::EvalRow& row) {
    return value_of(row.summary, metric.name);
  };
  for (const auto& row : val)
    if (metric.better(score(row), best ? score(*best) : std::nan(""))) best = &row;
  if (!best) return nullptr;
  for (const auto& row : test)
    if (row.round == best->round)
      return {{"round", row.round},
              {"validation", number(score(*best))},
              {"score", number(score(row))},
              {"accuracy", accuracy_block(row.summary)}};
  return nullptr;
}

// Reasons and names may quote files and need not be UTF-8, which JSON must be.
json text(const std::string& value) {
  return json::parse(json(value).dump(-1, ' ', false, json::error_handler_t::replace));
}

json class_names(const Roster& roster) {
  auto out = json::array();
  for (int64_t k = 0; k < roster.classes; ++k) {
    const auto i = static_cast<size_t>(k);
    out.push_back(i < roster.class_names.size() ? text(roster.class_names[i])
                                                : json(std::to_string(k)));
  }
  return out;
}

// Recall and precision of every class over all test samples, and what was taken for what.
json class_figures(const std::vector<History::ConfusionRow>& rows, const Roster& roster) {
  if (rows.empty()) return {{"recall", nullptr}, {"precision", nullptr}, {"confusion", nullptr}};
  const auto classes = static_cast<size_t>(roster.classes);
  std::vector<std::vector<int64_t>> counts(classes, std::vector<int64_t>(classes));
  std::vector<int64_t> truth(classes), predicted(classes);
  for (const auto& row : rows) {
    const auto t = static_cast<size_t>(row.truth), p = static_cast<size_t>(row.predicted);
    if (t >= classes || p >= classes) continue;  // a client may tell anything
    counts[t][p] += row.n, truth[t] += row.n, predicted[p] += row.n;
  }
  const auto share = [](int64_t part, int64_t whole) {
    return number(static_cast<double>(part) / static_cast<double>(whole));
  };
  json recall = json::object(), precision = json::object();
  const auto names = class_names(roster);
  for (size_t k = 0; k < classes; ++k) {
    recall[names[k].get<std::string>()] = share(counts[k][k], truth[k]);
    precision[names[k].get<std::string>()] = share(counts[k][k], predicted[k]);
  }
  return {{"recall", recall}, {"precision", precision}, {"confusion", counts}};
}

// Everything about one group: headline, both views, best round, last five.
Result<json> group_block(History& history, const std::string& who, const Experiment& experiment,
                         const Roster& roster, std::span<const int64_t> evaluated) {
  json out;
  const auto& metric = metric_of(experiment.eval.metric);
  for (const View view : {View::kPre, View::kPost}) {
    const std::string name = view_name(view);
    TESSERA_ASSIGN(const auto test, history.evals(who, name, "test"));
    TESSERA_ASSIGN(const auto val, history.evals(who, name, "val"));
    TESSERA_ASSIGN(const auto clients, history.client_metrics(who, name, "test", evaluated.back()));
    const auto last = at_round(test, evaluated.back());
    out["accuracy_" + name] = accuracy_block(last);
    out["score_" + name] = score_block(clients, last, metric);
    out["best_" + name] = best_by_validation(test, val, metric);
    if (view != experiment.headline()) continue;
    out["accuracy"] = accuracy_block(last);
    out["score"] = out["score_" + name];
    out["precision_macro"] = number(last.precision_macro);
    out["f1_macro"] = number(last.f1_macro);
    out["f1_remap"] = number(last.f1_remap);
    out["loss"] = number(last.loss);
    out["balanced_accuracy"] = number(last.balanced_accuracy);
    out["auroc"] = number(last.auroc);
    out["ece"] = number(last.ece);
    out["best"] = out["best_" + name];
    out["last5_mean"] = last_five(test, evaluated, "accuracy");
    out["last5_micro"] = last_five(test, evaluated, "acc_micro");
    out["last5_score"] = last_five(test, evaluated, metric.name);
    TESSERA_ASSIGN(const auto confusion, history.confusion(who, name, evaluated.back()));
    out.update(class_figures(confusion, roster));
  }
  TESSERA_ASSIGN(const auto global, history.evals(who, "global", "test"));
  out["global_accuracy"] = number(at_round(global, evaluated.back()).mean);
  return out;
}

// By client, kinds apart; the first ones stand for all.
json problem_list(const std::vector<ProblemCount>& problems, const Roster& roster) {
  auto out = json::array();
  for (const auto& problem : problems) {
    if (out.size() == kMostProblems) break;
    out.push_back({{"client", text(roster.name_of(problem.client))},
                   {"id", problem.client},
                   {"kind", problem.kind},
                   {"count", problem.count},
                   {"round", problem.round},
                   {"reason", text(problem.reason)}});
  }
  return out;
}

// The first of a kind, and how many clients have had one.
struct First {
  const ProblemCount* problem = nullptr;
  int64_t clients = 0;
};
First first_of(const std::vector<ProblemCount>& problems, Problem::Kind kind) {
  First out;
  for (const auto& problem : problems) {
    if (problem.kind != name_of(kind)) continue;
    ++out.clients;
    if (!out.problem || problem.round < out.problem->round) out.problem = &problem;
  }
  return out;
}

// Names of the clients that were asked in some round and whose upload never counted.
json never_counted(const std::vector<ProblemCount>& problems, const Experiment& experiment,
                   const Roster& roster) {
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  const auto& options = experiment.federation;
  std::map<ClientId, int64_t> left;  // how often asked, less how often rejected
  for (const auto& problem : problems)
    if (problem.kind == name_of(Problem::Kind::kUpload)) left[problem.client] = -problem.count;
  auto out = json::array();
  if (left.empty() || experiment.method.pooled) return out;
  // Who was asked is a secret of the server then, and in no file.
  const bool by_lot = draws_in_secret(experiment);
  if (by_lot && experiment.guard.dp->entropy == "system") return out;
  const auto draw = by_lot ? cohort_one_by_one : cohort_of;
  for (int64_t round = 1; round <= experiment.run.rounds; ++round)
    for (const ClientId id : draw(seed, round, std::ssize(roster.clients), options.participation))
      if (left.contains(id) && !is_dropped(seed, round, id, options.drop_rate)) ++left[id];
  for (const auto& [id, times] : left)
    if (times == 0) out.push_back(text(roster.name_of(id)));
  return out;
}

// Why the numbers do not tell what was asked for; null if they do. `evaluated`: enough clients
// were.
json failure(const std::vector<ProblemCount>& problems, const HistoryTotals& totals,
             const Experiment& experiment, const Roster& roster, bool evaluated) {
  std::vector<std::string> out;
  if (totals.counted == 0) {
    const auto first = first_of(problems, Problem::Kind::kUpload).problem;
    out.push_back(first ? fmt::format("no round counted: client {} in round {}: {}",
                                      roster.name_of(first->client), first->round, first->reason)
                        : fmt::format("no round counted: fewer than federation.min_replies = {} "
                                      "uploads arrived in each",
                                      experiment.federation.min_replies));
  }
  if (const auto [first, clients] = first_of(problems, Problem::Kind::kEvaluation);
      first && !evaluated)
    out.push_back(fmt::format("the evaluation of {} failed, first client {} after round {}: {}",
                              clients == 1 ? "a client" : fmt::format("{} clients", clients),
                              roster.name_of(first->client), first->round, first->reason));
  return out.empty() ? json(nullptr) : text(join(out, "; "));
}

}  // namespace

Summary headline_of(std::span<const Evaluation> clients, View headline) {
  std::vector<ClientMetrics> metrics;
  for (const auto& client : clients)
    metrics.push_back(headline == View::kPre ? client.pre_test : client.post_test);
  return summarize(metrics);
}

std::vector<std::pair<std::string, std::string>> run_facts(const Experiment& experiment,
                                                           const Roster& roster, const Model& model,
                                                           const std::string& config) {
  return {{"name", experiment.run.name},
          {"method", experiment.method.name},
          {"dataset", roster.set},
          {"model", experiment.model.name},
          {"partition", experiment.data.partition},
          {"clients", std::to_string(roster.clients.size())},
          {"newcomers", std::to_string(roster.newcomers.size())},
          {"rounds", std::to_string(experiment.run.rounds)},
          {"seed", std::to_string(experiment.run.seed)},
          {"parameters", std::to_string(model.layout().numel())},
          {"headline", view_name(experiment.headline())},
          {"class_names", json(roster.class_names).dump()},
          {"config", config},
          {"partition_digest", roster.digest},
          {"data_digest", roster.data_digest},
          {"metric", experiment.eval.metric},
          {"state", "running"}};
}

Result<nlohmann::json> summarize_run(const Experiment& experiment, const Roster& roster,
                                     const Model& model, History& history, Awaited awaited) {
  json out{{"method", experiment.method.name},
           {"name", experiment.run.name},
           {"dataset", roster.set},
           {"partition", experiment.data.partition},
           {"model", experiment.model.name},
           {"clients", roster.clients.size()},
           {"rounds", experiment.run.rounds},
           {"seed", experiment.run.seed},
           {"parameters", model.layout().numel()},
           {"headline", view_name(experiment.headline())},
           {"metric", experiment.eval.metric},
           {"class_names", class_names(roster)},
           {"partition_digest", roster.digest},
           {"data_digest", roster.data_digest},
           {"config_digest", config_digest(experiment.toml())}};
  TESSERA_ASSIGN(const auto evaluated, history.evaluated_rounds());
  if (evaluated.empty()) return fail(Error::kInternal, "the history has no evaluation");
  TESSERA_ASSIGN(const auto clients,
                 group_block(history, "clients", experiment, roster, evaluated));
  out.update(clients);
  if (!roster.newcomers.empty()) {
    TESSERA_ASSIGN(auto newcomers,
                   group_block(history, "newcomers", experiment, roster, evaluated));
    newcomers["clients"] = roster.newcomers.size();
    out["newcomers"] = std::move(newcomers);
  }
  TESSERA_ASSIGN(out["inside"], history.figures(evaluated.back()));
  // Of the last evaluation: every one costs about the same, and how often a run evaluates is its
  // own affair.
  TESSERA_ASSIGN(const auto traffic, history.last_eval_traffic());
  out["evaluation"] = {{"bytes_down", traffic.eval_down}, {"bytes_up", traffic.eval_up}};
  if (!roster.newcomers.empty())
    out["onboarding"] = {{"exchanges", traffic.exchanges},
                         {"bytes_down", traffic.onboard_down},
                         {"bytes_up", traffic.onboard_up}};
  TESSERA_ASSIGN(const auto totals, history.totals());
  out.update({{"bytes_down", totals.bytes_down},
              {"bytes_up", totals.bytes_up},
              {"wire_bytes_down", totals.wire_down},
              {"wire_bytes_up", totals.wire_up},
              {"dropped", totals.dropped},
              {"rejected", totals.rejected},
              {"rounds_counted", totals.counted},
              {"sim_seconds", number(totals.sim_seconds)},
              {"wall_seconds", number(totals.wall_seconds)},
              {"train_seconds", number(totals.train_seconds)}});
  // Rounds that did not count have been answered all the same.
  if (const auto spent =
          privacy_spent(experiment, std::ssize(roster.clients), experiment.run.rounds))
    out["privacy"] = {
        {"epsilon", number(spent->epsilon)},
        {"delta", spent->delta},
        {"server_epsilon", spent->server_epsilon ? number(*spent->server_epsilon) : json(nullptr)},
        {"simulated", spent->simulated},
        {"rate", spent->rate},
        {"of_uploads", spent->of_uploads}};
  if (const auto spent = samples_spent(experiment, roster.train_sizes(), experiment.run.rounds))
    out["sample_privacy"] = {
        {"epsilon", number(spent->epsilon)}, {"delta", spent->delta},     {"rate", spent->rate},
        {"client", spent->client},           {"samples", spent->samples}, {"steps", spent->steps}};
  TESSERA_ASSIGN(const auto problems, history.problems());
  int64_t total = 0;
  for (const auto& problem : problems) total += problem.count;
  TESSERA_ASSIGN(out["figures_digest"], history.figures_digest());
  out["problems"] = problem_list(problems, roster);
  out["problems_total"] = total;
  const bool evaluated_some = !out["accuracy"]["mean"].is_null();
  out["failed"] =
      failure(problems, totals, experiment, roster, awaited == Awaited::kAnybody && evaluated_some);
  out["never_counted"] = never_counted(problems, experiment, roster);
  return out;
}

}  // namespace tessera
