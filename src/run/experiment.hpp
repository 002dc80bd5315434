// An experiment: a TOML file, every name resolved and every value checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metric.hpp"
#include "base/options.hpp"
#include "base/status.hpp"
#include "data/federation.hpp"
#include "guard/options.hpp"
#include "method/any_method.hpp"
#include "model/model.hpp"
#include "model/options.hpp"
#include "run/toml_entries.hpp"
#include "train/train_options.hpp"

namespace tessera {

/// Top level of the file. Help texts below are the documentation of each key, for all sections.
struct RunOptions {
  /// Must do as a directory's name: 1 to 100 characters, no '/', not beginning with '.' or '-'.
  std::string name = "experiment";
  /// Two runs of one seed, experiment and data give the same numbers, whatever threads and engine.
  int64_t seed = 1;
  int64_t rounds = 50;
  static void options(auto& o, auto&& f) {
    f(any("name", "name of the experiment; names the output directory"), o.name);
    f(between("seed", 0, 9e15, "everything random follows from it"), o.seed);
    f(between("rounds", 1, 1e7, "communication rounds"), o.rounds);
  }
};

/// Section [federation]. The simulated clock's keys change times in reports, never a metric.
struct FederationOptions {
  /// Shares and chances are in 0 … 1; loading refuses participation above 1 and a drop_rate of 1.
  double participation = 1.0;
  double drop_rate = 0.0;
  /// Rounds, clients and uploads. min_replies is at most the clients that a round asks.
  int64_t eval_every = 5;
  int64_t eval_clients = 0;
  int64_t min_replies = 1;
  /// Mbit/s (10^6 bits), and seconds.
  double bandwidth = 20.0;
  double latency = 0.05;
  double stragglers = 0.0;
  double slowdown = 5.0;
  /// What a stopped run may lose at most; changes no number.
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

/// Section [eval]: what leads tables, reports and the choice of the best. Training and its numbers
/// do not depend on it.
struct EvalOptions {
  std::string metric = "accuracy";
  std::string headline = "method";
  bool predictions = false;
  static void options(auto& o, auto&& f) {
    f(one_of("metric", metric_names(),
             "what leads tables, and on validation data says which round, setting or saved model "
             "is best"),
      o.metric);
    f(one_of("headline", {"method", "pre", "post"},
             "the view that leads: before or after personalization; method: what the method is "
             "judged by"),
      o.headline);
    f(any("predictions", "write predictions.csv: the headline view's answer to every test sample"),
      o.predictions);
  }
};

/// Section [output]: what a run leaves for use.
struct OutputOptions {
  /// Up to so many clients every evaluated one's model is saved without being asked for.
  static constexpr int64_t kMostSaved = 1000;
  std::string model = "best";
  std::string clients = "auto";
  static void options(auto& o, auto&& f) {
    f(one_of("model", {"best", "headline", "pre", "post"},
             "the view whose models are saved; best: per client the one that is better on its "
             "validation samples, the headline where it has none"),
      o.model);
    f(one_of("clients", {"auto", "all", "none"},
             "whose models are saved: all evaluated clients', or none but the global one; auto: "
             "all of up to 1000 clients, none of more"),
      o.clients);
  }
};

/// Section [serve]: what `tessera serve` needs to know of a real federation, and how patient it is.
/// A simulation disregards it. Like [debug] it is no part of what makes two experiments the same.
struct ServeOptions {
  /// Names between commas, as in the certificates; ids follow the natural order of names.
  std::string members, newcomers;
  /// Seconds; 0: no limit.
  double deadline = 600;
  double start_deadline = 86400;
  /// Clients that must have joined before round 1; 0: all members.
  int64_t wait_for = 0;
  double over_select = 0;
  double hold = 20, stall = 60;
  /// Times the round's median length beyond which a change is rejected; 0: never.
  double most_norm = 10;
  static void options(auto& o, auto&& f) {
    f(any("members", "names of the clients, \"north,south\"; none: 0, 1, … as the set has them"),
      o.members);
    f(any("newcomers", "names of clients that only receive models; none: by [data] newcomers"),
      o.newcomers);
    f(at_least("deadline", 0, "seconds that a round or evaluation waits for answers; 0: no limit"),
      o.deadline);
    f(at_least("start_deadline", 0, "seconds that the start waits for clients; 0: no limit"),
      o.start_deadline);
    f(at_least("wait_for", 0, "clients that must be there before round 1; 0: all members"),
      o.wait_for);
    f(between("over_select", 0, 10,
              "ask so many more clients than a round needs, as a share; the fastest count"),
      o.over_select);
    f(between("hold", 0.05, 60, "seconds that a client's question for work is held open"), o.hold);
    f(between("stall", 0.5, 3600, "seconds after which a transfer that does not move is ended"),
      o.stall);
    f(at_least("most_norm", 0,
               "a change longer than so many times the round's median is rejected, as by guard "
               "'reject'; 0: none is"),
      o.most_norm);
  }
};

/// The names of a list of [serve], in the order that gives clients their numbers.
std::vector<std::string> natural_list(const std::string& commas);

/// Section [run]: what a run computes with, and what it may take of its machine. `memory` changes
/// no number, and so is no part of what makes two experiments the same: toml() leaves it out.
struct MachineOptions {
  std::string kernels = "auto";
  /// GiB. A third each for clients' states, for samples of own data, and for work that an
  /// evaluation has done for the coming round.
  double memory = 2;
  int64_t third() const { return static_cast<int64_t>(memory * 0x1p30 / 3); }
  static void options(auto& o, auto&& f) {
    f(one_of("kernels", {"auto", "avx512", "avx2", "portable"},
             "hand-written loops of networks; results differ in their last bits from one set to "
             "another; auto: the best that the processor can run"),
      o.kernels);
    f(between("memory", 0.001, 1e6,
              "GiB for clients' states and own data; what is more waits on the disk"),
      o.memory);
  }
};

/// Section [debug]: what a run writes down beside its results. Changes no number, and so is no part
/// of what makes two experiments the same: toml() leaves it out.
struct DebugOptions {
  /// Empty: nothing is written.
  std::string dump;
  static void options(auto& o, auto&& f) {
    f(any("dump", "directory for data, batches and states, for another program to repeat the run"),
      o.dump);
  }
};

/// Immutable once loaded. Copies share the draft, which nobody may change any more.
struct Experiment {
  RunOptions run;
  /// `clients` is the number that takes part; 0 only where the set's files alone can tell.
  DataOptions data;
  /// `file` and `start` are absolute paths and their digests are filled in.
  ModelOptions model;
  TrainOptions train;
  FederationOptions federation;
  GuardOptions guard;
  EvalOptions eval;
  OutputOptions output;
  MachineOptions machine;
  ServeOptions serve;
  DebugOptions debug;
  /// Chosen by [method] name or by the command line; `draft` is of this method.
  MethodInfo method;
  std::shared_ptr<MethodDraft> draft;  // its options are set

  /// The view that leads.
  View headline() const;

  /// The whole experiment as TOML, every default written out; loads back to the same experiment.
  /// Without [serve] and [debug], without [run] memory, and without [method.NAME] of other methods;
  /// without guards and kernels where none are chosen, so that it is the text of versions that had
  /// none.
  std::string toml() const;
};

/// What a command line may change; each wins over the file. Later `sets` win over earlier ones, the
/// named fields win over `sets`. Empty: as the file says.
struct Overrides {
  std::vector<std::string> sets;      // "train.lr=0.1", values as TOML (bare words are text)
  std::optional<std::string> method;  // compare: [method] name
  /// Stand for `seed` at the top and [data] data_dir.
  std::optional<int64_t> seed;
  std::optional<std::string> data_dir;
};

/// Section [model] as text, what the network uses written out, and back. A network's file is code,
/// so the path in the text is never opened: it is `network`, a file that the user named, or empty.
/// kInvalid names the key, a file that is missing there or not needed, or one that is not what it
/// was; kNotFound if it does not exist.
std::string model_text(const ModelOptions& options);
Result<ModelOptions> parse_model(const std::string& text, const std::string& place,
                                 const std::string& network = "");

/// Reads and checks a file of at most 1 MiB; touches no other file but those that [model] file and
/// start name (relative to the experiment's directory, from a command line to the current one),
/// whose digests become part of the experiment. kInvalid holds every error, one
/// line each, by place in the file and the command line's last:
/// "file.toml:12:3: unknown key 'train.lrr' (did you mean 'lr'?)".
/// A file that cannot be read: kNotFound or kIo.
/// [method] holds `name` and that method's options; [method.NAME] holds options that apply when
/// NAME is the method, so that one file serves a comparison.
Result<Experiment> load_experiment(const std::string& path, const Overrides& overrides);
/// The same from keys with their places, later ones over earlier ones; `place` stands for the file
/// where a key is missing.
Result<Experiment> assemble_experiment(std::vector<TomlEntry> entries, const std::string& place,
                                       const Overrides& overrides);
/// What an experiment says that no default does: "data.alpha = 0.1", a line each, in the order of
/// toml(); with the names of set, partition, model and method in any case. Unlike toml() it stays
/// the same when the program learns new options. Without `seed`, `name`, places of files and the
/// metric that leads.
std::vector<std::string> settings_of(const Experiment& experiment);
/// The same from text; `place` stands for the file in messages.
Result<Experiment> parse_experiment(const std::string& text, const std::string& place,
                                    const Overrides& overrides);
/// An experiment that came from elsewhere: a server, a run's directory. Its [model] file is never
/// opened, whatever it is: the network is `network`, a file that the user named; kInvalid if that
/// is empty and the experiment has one.
Result<Experiment> parse_foreign_experiment(const std::string& text, const std::string& place,
                                            const std::string& network, Overrides overrides);

}  // namespace tessera
