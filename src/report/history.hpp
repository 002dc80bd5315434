// A run as history.sqlite tells it (docs/formats.md): plain values, no database, no torch.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/metric.hpp"

namespace tessera {

/// A number the database holds as NULL. Charts leave it out, tables print "–".
inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

struct RunMeta {
  std::string name, method, dataset, model, partition, seed, config, partition_digest;
  std::string headline = "pre";     // the view the run is judged by: pre or post
  std::string metric = "accuracy";  // that leads, a name of base/metric.hpp
  std::string state = "running";    // or finished
  std::string summary;              // JSON, empty while running
  /// What differential privacy has cost, a sentence each; empty without guards that promise any.
  std::vector<std::string> privacy;
  int64_t clients = 0, newcomers = 0, rounds = 0, parameters = 0;
  std::vector<std::string> class_names;  // empty when the data have none
};

struct ClientRow {
  int64_t id = 0;
  std::string name;
  bool newcomer = false;
  int64_t train = 0, val = 0, test = 0;  // samples
  /// part → (class → samples); classes without samples are left out.
  std::map<std::string, std::map<int64_t, int64_t>> labels;
};

/// One round alone, nothing cumulated. Seconds and loss may be kAbsent.
struct RoundRow {
  int64_t round = 0, cohort = 0, dropped = 0, rejected = 0;
  double loss = kAbsent;
  int64_t bytes_down = 0, bytes_up = 0, wire_down = 0, wire_up = 0;
  double sim_seconds = kAbsent, wall_seconds = kAbsent, train_seconds = kAbsent;
  bool counted = true;  // enough uploads were accepted: the server's state moved on
};

/// Accuracy over clients as fractions 0…1; every figure may be kAbsent.
struct EvalRow {
  int64_t round = 0;       // 0 = before any training
  std::string who;         // clients, newcomers
  std::string view, part;  // pre, post, global; test, val
  double mean = kAbsent, std = kAbsent, micro = kAbsent, min = kAbsent, max = kAbsent;
  double worst10 = kAbsent, best10 = kAbsent;
  double precision_macro = kAbsent, f1_macro = kAbsent, f1_remap = kAbsent, loss = kAbsent;
  double balanced_accuracy = kAbsent, auroc = kAbsent, ece = kAbsent;
};
/// The mean of a metric over clients, by a name of base/metric.hpp.
double value_of(const EvalRow& row, const std::string& metric);

struct ClientEvalRow {
  int64_t round = 0, client = 0;
  std::string view, part;
  int64_t n = 0, correct = 0;
  double loss = kAbsent, precision_macro = kAbsent, f1_macro = kAbsent, f1_remap = kAbsent;
  double balanced_accuracy = kAbsent, auroc = kAbsent, ece = kAbsent;

  double accuracy() const {
    return n > 0 ? static_cast<double>(correct) / static_cast<double>(n) : kAbsent;
  }
};
double value_of(const ClientEvalRow& row, const std::string& metric);

/// How many test samples of one class a client's model took for another (or the same) one.
struct ConfusionRow {
  int64_t round = 0, client = 0;
  std::string view;  // pre, post
  int64_t truth = 0, predicted = 0, n = 0;
};

/// What went wrong with a client, each kind apart: how often, and round and reason of the first.
struct ProblemRow {
  int64_t client = 0;
  std::string kind;  // upload, evaluation, join
  int64_t count = 0, round = 0;
  std::string reason;
};

/// What evaluating after a round sent beside training: payload bytes, and exchanges with newcomers.
struct EvalTrafficRow {
  int64_t round = 0;
  int64_t eval_down = 0, eval_up = 0, exchanges = 0, onboard_down = 0, onboard_up = 0;
};

/// Numbers of the method that people look at, after one round. Kinds as in docs/formats.md.
struct ExhibitRow {
  enum class Kind { kMatrix, kGraph, kPoints, kImages };
  int64_t round = 0;
  std::string name, title;
  Kind kind = Kind::kMatrix;
  std::vector<std::string> rows, columns;  // as many as shape says, or empty
  std::vector<int64_t> shape;              // two sizes >= 1, of images four
  std::vector<double> values;              // row-major; NaN = no value

  size_t height() const { return static_cast<size_t>(shape[0]); }
  size_t width() const { return static_cast<size_t>(shape[1]); }
  double at(size_t row, size_t column) const { return values[row * width() + column]; }
};

struct RunHistory {
  /// What a comparison calls this run; empty = meta.method. Runs of one label differ by seed only.
  std::string label;
  RunMeta meta;
  std::vector<ClientRow> clients;            // by id
  std::vector<RoundRow> rounds;              // by round
  std::vector<EvalRow> evals;                // by round
  std::vector<ClientEvalRow> client_evals;   // by round, then client
  std::vector<EvalTrafficRow> eval_traffic;  // by round
  std::vector<ConfusionRow> confusions;      // by round, client, view, truth, predicted
  std::vector<ProblemRow> problems;          // by client, then kind; the first 1000
  /// By round, then in the method's order. Of exhibits that are large in all, the first, the middle
  /// and the last round only; for_each_exhibit has every one.
  std::vector<ExhibitRow> exhibits;

  const std::string& display() const { return label.empty() ? meta.method : label; }
};

/// For people: the name, or "client 7" where there is none.
std::string client_name(const ClientRow& client);
/// "786 parameters", "61.71 k parameters"; empty where it is not known.
std::string parameters_text(const RunMeta& meta);
/// The name of a class, or its number.
std::string class_name(const RunMeta& meta, int64_t label);

/// What has been spent up to and including a round.
struct Spent {
  double bytes_down = 0, bytes_up = 0, sim_seconds = 0, wall_seconds = 0;
};
Spent spent_until(const RunHistory& run, int64_t round);
/// The same for many rounds: the sums are made once.
class Spending {
 public:
  explicit Spending(const RunHistory& run);
  Spent until(int64_t round) const;

 private:
  std::vector<std::pair<int64_t, Spent>> sums_;  // by round
};

/// The evals of one kind, by round.
std::vector<EvalRow> evals_of(const RunHistory& run, const std::string& who,
                              const std::string& view, const std::string& part);
/// The row of that kind at a round, or null.
const EvalRow* eval_at(const RunHistory& run, int64_t round, const std::string& who,
                       const std::string& view, const std::string& part);
/// Test accuracy of every client at a round, in the order of run.clients; kAbsent where none.
std::vector<double> client_accuracy(const RunHistory& run, int64_t round, const std::string& view);

/// The same of any metric, by a name of base/metric.hpp.
std::vector<double> client_values(const RunHistory& run, int64_t round, const std::string& view,
                                  const std::string& metric);
/// A metric over the clients, or over the newcomers, that have it on their test samples.
MetricSpread spread_of(const RunHistory& run, int64_t round, bool newcomers,
                       const std::string& view, const std::string& metric);
/// counts[truth][predicted] over all clients but newcomers, as many as there are classes; empty
/// where the history holds none.
std::vector<std::vector<int64_t>> confusion_at(const RunHistory& run, int64_t round,
                                               const std::string& view);

/// The round a run is judged at, as in summary.json. −1 = no evals.
int64_t last_evaluated_round(const RunHistory& run);
/// The first round in which the run's metric of the headline view was best on validation data, if
/// any was measured.
std::optional<int64_t> best_validation_round(const RunHistory& run);

}  // namespace tessera
