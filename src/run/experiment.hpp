// An experiment: a TOML file, every name resolved and every value checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"
#include "data/federation.hpp"
#include "method/any_method.hpp"
#include "model/model.hpp"
#include "train/train_options.hpp"

namespace tessera {

/// Top level of the file.
struct RunOptions {
  std::string name = "experiment";
  int64_t seed = 1;
  int64_t rounds = 50;
  static void options(auto& o, auto&& f) {
    f(any("name", "name of the experiment; names the output directory"), o.name);
    f(between("seed", 0, 9e15, "everything random follows from it"), o.seed);
    f(between("rounds", 1, 1e7, "communication rounds"), o.rounds);
  }
};

/// Section [model].
struct ModelOptions {
  std::string name = "lenet";
  std::string init = "he0";
  static void options(auto& o, auto&& f) {
    f(any("name", "network (see `tessera models`)"), o.name);
    f(one_of("init", {"he0", "torch"}, "initial weights: scaled He, or torch's uniform default"),
      o.init);
  }
};

/// Section [federation].
struct FederationOptions {
  double participation = 1.0;
  double drop_rate = 0.0;
  int64_t eval_every = 5;
  int64_t eval_clients = 0;
  int64_t min_replies = 1;
  double bandwidth = 20.0;
  double latency = 0.05;
  double stragglers = 0.0;
  double slowdown = 5.0;
  int64_t checkpoint_every = 1;
  static void options(auto& o, auto&& f) {
    f(above("participation", 0, "share of the clients that take part in a round (rounded up)"),
      o.participation);
    f(between("drop_rate", 0, 1, "chance that a chosen client is lost in a round"), o.drop_rate);
    f(between("eval_every", 1, 1e7,
              "rounds between evaluations; the last round is always evaluated"),
      o.eval_every);
    f(between("eval_clients", 0, 1e9,
              "clients that are evaluated, a sample that the seed chooses; 0: all"),
      o.eval_clients);
    f(between("min_replies", 1, 1e6, "with fewer uploads the old global state stands"),
      o.min_replies);
    f(above("bandwidth", 0, "simulated clock: Mbit/s of every client, each way"), o.bandwidth);
    f(at_least("latency", 0, "simulated clock: seconds per message"), o.latency);
    f(between("stragglers", 0, 1, "simulated clock: share of clients that compute slowly"),
      o.stragglers);
    f(at_least("slowdown", 1, "simulated clock: how many times slower they are"), o.slowdown);
    f(between("checkpoint_every", 0, 1e7, "rounds between checkpoints; 0: about every 20 seconds"),
      o.checkpoint_every);
  }
};

/// Section [debug]: what a run writes down beside its results. Changes no number, and so is no part
/// of what makes two experiments the same: toml() leaves it out.
struct DebugOptions {
  std::string dump;
  static void options(auto& o, auto&& f) {
    f(any("dump", "directory for data, batches and states, for another program to repeat the run"),
      o.dump);
  }
};

/// Immutable once loaded.
struct Experiment {
  RunOptions run;
  DataOptions data;
  ModelOptions model;
  TrainOptions train;
  FederationOptions federation;
  DebugOptions debug;
  MethodInfo method;
  std::shared_ptr<MethodDraft> draft;  // its options are set

  /// The whole experiment as TOML, every default written out; loads back to the same experiment.
  std::string toml() const;
};

/// What a command line may change.
struct Overrides {
  std::vector<std::string> sets;      // "train.lr=0.1", values as TOML (bare words are text)
  std::optional<std::string> method;  // compare: [method] name
  std::optional<int64_t> seed;
  std::optional<std::string> data_dir;
};

/// Reads and checks a file. Every error is in the message, one line each:
/// "file.toml:12:3: unknown key 'train.lrr' (did you mean 'lr'?)".
/// [method] holds `name` and that method's options; [method.NAME] holds options that apply when
/// NAME is the method, so that one file serves a comparison.
Result<Experiment> load_experiment(const std::string& path, const Overrides& overrides);
/// The same from text; `place` stands for the file in messages.
Result<Experiment> parse_experiment(const std::string& text, const std::string& place,
                                    const Overrides& overrides);

}  // namespace tessera
