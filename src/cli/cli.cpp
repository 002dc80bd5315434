#include "cli/cli.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <list>

#include "base/metric.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/commands.hpp"
#include "cli/federation_command.hpp"
#include "cli/machine.hpp"
#include "cli/manual.hpp"
#include "cli/output.hpp"
#include "cli/pki_command.hpp"
#include "cli/plugin.hpp"
#include "cli/ranks.hpp"
#include "cli/starter.hpp"
#include "cli/usage_error.hpp"

namespace tessera {
namespace {

const char* const kExitCodes =
    "Exit codes: 0 done, 1 failed while running, 2 wrong input, 130 interrupted.";

/// The parser and what its chosen sub-command will do.
struct Cli {
  CLI::App app{"Tessera: personalized federated learning, simulated or for real.", "tessera"};
  const std::atomic<bool>* stop = nullptr;
  std::list<std::vector<std::string>> plugins;  // of the program and of each command
  bool verbose = false;
  std::function<Status()> action;
  /// Of a command that several ranks can play; else empty.
  std::optional<RankedCommand> ranked;

  /// A sub-command with an example and the exit codes below its help.
  CLI::App* command(CLI::App& parent, const char* name, const char* line, const char* example) {
    auto* sub = parent.add_subcommand(name, line);
    sub->footer(fmt::format("Example:\n  {}\n\n{}", example, kExitCodes));
    add_verbose(*sub);
    return sub;
  }
  void add_verbose(CLI::App& to) {
    to.add_flag("-v,--verbose", verbose, "say which kernels and which BLAS do the work");
  }
  /// Where methods are named: those of plugins count.
  void add_plugins(CLI::App& to) {
    to.add_option(
          "--plugin", plugins.emplace_back(),
          "a shared library with more methods (see examples/own-method); may be given often")
        ->type_name("FILE")
        ->allow_extra_args(false);
  }
};

void add_experiment(CLI::App& sub, ExperimentArgs& args, bool required) {
  auto* file = sub.add_option("FILE", args.file, "experiment (TOML)")->type_name("");
  if (required) file->required();
  sub.add_option("--set", args.sets, "change a key: --set train.lr=0.1; may be given often")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub.add_option("--data-dir", args.data_dir, "where dataset files are")->type_name("DIR");
}

/// What people try before --set; each wins over it.
void add_choices(CLI::App& sub, ExperimentArgs& args) {
  sub.add_option("--seed", args.seed, "the same as --set seed=N")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{9'000'000'000'000'000}));
  sub.add_option("--method", args.method,
                 "the same as --set method.name=NAME (see `tessera methods`)")
      ->type_name("NAME");
}

void add_running(CLI::App& sub, RunArgs& args) {
  add_experiment(sub, args.experiment, true);
  args.threads = usual_threads();
  sub.add_option("-o,--out", args.out, "output directory")->type_name("DIR");
  sub.add_option("--threads", args.threads,
                 "clients at work at the same time; never changes a result")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub.add_option("--metric", args.experiment.metric,
                 "what leads the tables and decides what is best; the same as --set "
                 "eval.metric=NAME: " +
                     join(metric_names(), ", "))
      ->type_name("NAME")
      ->check(CLI::IsMember(metric_names()).description(""));
  sub.add_flag("--json", args.json, "print JSON only");
  sub.add_flag("--quiet", args.quiet, "no progress");
}

/// Of commands that are made of many runs.
void add_spread(CLI::App& sub, std::string& what) {
  sub.add_option(
         "--spread", what,
         "cells: under mpirun each rank plays whole runs, and rank 0 tells who plays which; "
         "in one process it changes nothing (docs/cluster.md)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"cells"}).description(""));
}

void add_new(Cli& cli, NewArgs& args) {
  auto* sub = cli.command(cli.app, "new", "write an experiment and data to start from",
                          "tessera new first --from pictures");
  sub->add_option("DIR", args.dir, "a directory that does not exist yet, or is empty")
      ->type_name("")
      ->required();
  sub->add_option("--from", args.from, "kind of data: " + join(kStarters, ", "))
      ->type_name("KIND")
      ->check(CLI::IsMember(kStarters).description(""))
      ->capture_default_str();
  sub->add_flag("--json", args.json, "print JSON only");
  sub->callback([&] { cli.action = [&] { return new_command(args); }; });
}

void add_run(Cli& cli, RunArgs& args) {
  auto* sub = cli.command(cli.app, "run", "run an experiment",
                          "tessera run examples/quickstart.toml --set rounds=10 --out /tmp/first");
  add_running(*sub, args);
  add_choices(*sub, args.experiment);
  cli.add_plugins(*sub);
  sub->add_flag("--resume", args.resume, "continue an unfinished run; starts one if there is none");
  sub->add_flag("--force", args.force, "overwrite what a former run left in the output directory");
  sub->add_flag("--through-wire", args.through_wire,
                "encode and decode every message, as a network would");
  sub->get_option("--out")->description("output directory (default: runs/<name>/<method>-s<seed>)");
  sub->callback([&] {
    cli.action = [&] { return run_command(args); };
    cli.ranked = {
        .lead =
            [&](RankDesk& desk) {
              args.ranks = &desk;
              return run_command(args);
            },
        .host = [&](RankSeat& seat, int ranks) { return run_command_on_rank(args, seat, ranks); },
        .threads = args.threads};
  });
}

void add_compare(Cli& cli, CompareArgs& args) {
  auto* sub = cli.command(
      cli.app, "compare", "run several methods and seeds and compare them",
      "tessera compare examples/quickstart.toml --methods local,fedavg,fedper --seeds 3");
  add_running(*sub, args.run);
  cli.add_plugins(*sub);
  sub->add_option("--methods", args.methods,
                  "methods, separated by commas (see `tessera methods`); fedacs:p=0.9:train.lr=0.1 "
                  "is a method with its own settings, and 'ditto:train.lr=0.1|0.2' takes the value "
                  "that is best on validation data on the first seed; fedper@pre and fedper@post "
                  "are its views before and after personalization")
      ->type_name("A,B,C")
      ->required();
  sub->add_option("--grid", args.grids,
                  "values that every method chooses from on validation data, in its own view: "
                  "train.lr=0.5x,1x,2x (x: times what it has); given often, a method takes the "
                  "first whose key it has")
      ->type_name("KEY=A,B,C")
      ->allow_extra_args(false);
  sub->add_option("--seeds", args.seeds,
                  "3: seeds 1, 2, 3; or a list: 4,7,9 (default: the seed of the file)")
      ->type_name("N | A,B,C");
  sub->add_flag("--strict", args.strict,
                "refuse to start if one of the methods cannot run; without it such a method is "
                "left out, with its reason in the table");
  sub->add_flag("--force", args.run.force,
                "run cells anew that belong to another configuration or are damaged");
  sub->get_option("--out")->description(
      "output directory (default: runs/<name>/compare); what is "
      "finished there is read, the rest resumed");
  add_spread(*sub, args.spread);
  sub->callback([&] {
    cli.action = [&] { return compare_command(args); };
    if (args.spread.empty()) return;
    cli.ranked = {.lead =
                      [&](RankDesk& desk) {
                        args.ranks = &desk;
                        return compare_command(args);
                      },
                  .host = [&](RankSeat& seat, int) { return compare_command_on_rank(args, seat); },
                  .threads = args.run.threads};
  });
}

void add_reproduce(Cli& cli, ReproduceArgs& args) {
  auto* sub = cli.command(cli.app, "reproduce",
                          "run a table or figure of a paper again and judge its claims",
                          "tessera reproduce HAM-T2 --size tiny");
  sub->add_option("ID", args.ids, "exhibits: HAM-T2, all of a paper: HAM, or all")->type_name("");
  sub->add_flag("--list", args.list,
                "every exhibit: its title, cost, and which cells have records");
  sub->add_option("--size", args.size,
                  "tiny: seconds, proves the plumbing; small: two cores and an evening; paper: "
                  "the paper's own")
      ->type_name("SIZE")
      ->check(CLI::IsMember({"tiny", "small", "paper"}).description(""))
      ->capture_default_str();
  sub->add_option("--seeds", args.seeds, "how many seeds (default: what the exhibit says)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  sub->add_option("--first-seed", args.first_seed,
                  "the first of them; the others follow (default: what the exhibit says)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  sub->add_option("--only", args.only, "rows, by name or by method, separated by commas")
      ->type_name("METHODS");
  sub->add_option("--column", args.columns, "a column, by name; may be given often (default: all)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub->add_option("--swap", args.swap,
                  "another method in the rows of one: fedham=mymethod puts yours into the paper's "
                  "table; the page says so")
      ->type_name("METHOD=METHOD");
  sub->add_option("-o,--out", args.out,
                  "where pages and unfinished runs go (default: runs/reproduce)")
      ->type_name("DIR");
  sub->add_option("--exhibits", args.exhibits, "where the exhibits' files are")
      ->type_name("DIR")
      ->capture_default_str();
  sub->add_option("--records", args.records,
                  "where finished cells leave their records; what is there is not run again "
                  "(default: results in the exhibits' directory)")
      ->type_name("DIR");
  sub->add_option("--write", args.write,
                  "write all exhibits as one Markdown document, and an index with pages in --out, "
                  "from the records alone")
      ->type_name("FILE");
  sub->add_option("--data-dir", args.data_dir, "where dataset files are")->type_name("DIR");
  args.threads = usual_threads();
  sub->add_option("--threads", args.threads,
                  "clients at work at the same time; never changes a result")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub->add_flag("--keep", args.keep, "keep the directories of finished runs, with their reports");
  sub->add_flag("--json", args.json, "print JSON only");
  sub->add_flag("--quiet", args.quiet, "no progress");
  cli.add_plugins(*sub);
  add_spread(*sub, args.spread);
  sub->callback([&] {
    cli.action = [&] { return reproduce_command(args); };
    if (args.spread.empty()) return;
    cli.ranked = {
        .lead =
            [&](RankDesk& desk) {
              args.ranks = &desk;
              return reproduce_command(args);
            },
        .host = [&](RankSeat& seat, int) { return reproduce_command_on_rank(args, seat); },
        .threads = args.threads};
  });
}

void add_check(Cli& cli, ExperimentArgs& args, bool& json) {
  auto* sub = cli.command(cli.app, "check",
                          "check an experiment without running it: file, data, model, traffic",
                          "tessera check examples/quickstart.toml");
  add_experiment(*sub, args, true);
  add_choices(*sub, args);
  cli.add_plugins(*sub);
  sub->add_flag("--json", json, "print JSON only");
  sub->callback([&] { cli.action = [&] { return check_command(args, json); }; });
}

/// Where somebody is answered.
void add_answer_guards(CLI::App& sub, std::vector<std::string>& guards) {
  sub.add_option(
         "--guard", guards,
         "tell less of how sure the model is, never another class: round:digits=2, "
         "topk:k=1, noise:scale=0.05, aggregate:times=5; or vote:parts=5, whose class is that of "
         "models of parts of a client's data; may be given often. In place of the "
         "experiment's [[guard]] of that name, or beside them; none: without those")
      ->type_name("NAME[:KEY=VALUE]")
      ->allow_extra_args(false);
}

/// A network from a file is code: only who types the command says which one is run.
void add_network(CLI::App& sub, std::string& network) {
  sub.add_option("--model", network,
                 "the network's file (.pt), where a run or a saved model was made with one")
      ->type_name("FILE");
}

/// What audit and attack share. The positional FILE is already there.
void add_auditing(Cli& cli, CLI::App& sub, AuditArgs& args) {
  args.threads = usual_threads();
  sub.add_option("--against", args.against, "who looks: server, client, user, between commas")
      ->type_name("WHO")
      ->capture_default_str();
  sub.add_option("--budget", args.budget,
                 "how long it may take; what does not fit is cut, and said")
      ->type_name("TIME")
      ->capture_default_str();
  sub.add_option("-o,--out", args.out, "output directory")->type_name("DIR");
  sub.add_flag("--json", args.json, "print JSON only");
  sub.add_flag("--quiet", args.quiet, "no progress");
  add_answer_guards(sub, args.guards);
  add_network(sub, args.network);
  add_choices(sub, args.experiment);
  cli.add_plugins(sub);
}

void add_audit(Cli& cli, AuditArgs& args) {
  auto* sub = cli.command(cli.app, "audit",
                          "what an experiment exposes of a client, and what attackers get out of "
                          "it; or check an audit log line by line",
                          "tessera audit examples/quickstart.toml --against server --budget 5m");
  add_experiment(*sub, args.experiment, true);
  sub->get_option("FILE")->description(
      "an experiment (.toml), a run's directory, or an audit log (.jsonl) that is checked");
  add_auditing(cli, *sub, args);
  sub->get_option("--out")->description(
      "where audit.html and audit.json go (default: runs/<name>/audit-<method>-s<seed>)");
  sub->callback([&] { cli.action = [&] { return audit_command(args); }; });
}

void add_attack(Cli& cli, AttackArgs& args) {
  auto* sub = cli.command(cli.app, "attack", "one attack on an experiment or a run",
                          "tessera attack geiping examples/quickstart.toml --samples 1");
  sub->add_option("NAME", args.name, "an attack (see --list)")->type_name("");
  add_experiment(*sub, args.experiment, false);
  sub->get_option("FILE")->description("an experiment (.toml), or a run's directory");
  sub->add_flag("--list", args.list, "the attacks, and what each needs");
  sub->add_option("--samples", args.samples,
                  "of a victim, trained in one step; 0: all it has, as the experiment says")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1000}));
  sub->add_option("--after", args.after,
                  "rounds that are played first (default: none for attacks on uploads, all for "
                  "those on models)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{10'000'000}));
  sub->add_flag("--mislabel", args.mislabel,
                "gan-inversion: the participant also trains on what it made, under wrong labels");
  add_auditing(cli, *sub, args);
  sub->get_option("--out")->description(
      "where attack.html and attack.json go (default: runs/<name>/attack-<method>-s<seed>)");
  sub->callback([&] { cli.action = [&] { return attack_command(args); }; });
}

void add_methods(Cli& cli, std::string& name, bool& json) {
  auto* sub = cli.command(cli.app, "methods", "list the methods, or show one in full",
                          "tessera methods fedprox");
  sub->add_option("NAME", name, "a method: its paper, options, traffic and exposure")
      ->type_name("");
  sub->add_flag("--json", json, "print JSON only");
  cli.add_plugins(*sub);
  sub->callback([&] {
    cli.action = [&] { return name.empty() ? list_methods(json) : show_method(name, json); };
  });
}

void add_models(Cli& cli, bool& json) {
  auto* sub = cli.command(cli.app, "models", "list the models", "tessera models --json");
  sub->add_flag("--json", json, "print JSON only");
  sub->callback([&] { cli.action = [&] { return list_models(json); }; });
}

struct DataArgs {
  ExperimentArgs experiment;
  std::string svg;
  GetArgs get;
};

void add_data(Cli& cli, DataArgs& args, bool& json) {
  auto* data = cli.command(cli.app, "data", "list, draw and fetch datasets",
                           "tessera data show examples/quickstart.toml");
  data->require_subcommand(1);
  auto* list = cli.command(*data, "list", "list datasets, partitions and their options",
                           "tessera data list --json");
  list->add_flag("--json", json, "print JSON only");
  list->callback([&] { cli.action = [&] { return list_data(json); }; });

  auto* show =
      cli.command(*data, "show", "draw who holds how much of which class",
                  "tessera data show --set data.set=mnist --set data.alpha=0.1 --svg deal.svg");
  add_experiment(*show, args.experiment, false);
  show->add_option("--svg", args.svg, "also write the picture as SVG")->type_name("FILE");
  show->add_flag("--json", json, "print JSON only");
  show->callback([&] { cli.action = [&] { return show_data(args.experiment, args.svg, json); }; });

  auto* get = cli.command(*data, "get", "download a dataset, or take it from a file or URL",
                          "tessera data get cifar10 --data-dir ~/data");
  get->add_option("NAME", args.get.set, "dataset (see `tessera data list`)")->required();
  get->add_option("--from", args.get.from,
                  "a file, a directory or a URL instead of the official one")
      ->type_name("PATH|URL");
  get->add_option("--data-dir", args.get.data_dir, "where to put it")->type_name("DIR");
  get->add_flag("--quiet", args.get.quiet, "no progress");
  get->add_flag("--json", args.get.json, "print JSON only");
  get->callback([&] { cli.action = [&] { return get_data(args.get); }; });
}

/// What commands that take a saved model have in common; `all`: of every client, if asked for.
CLI::App* add_model_command(Cli& cli, ModelArgs& args, bool all, const char* name, const char* line,
                            const char* example) {
  auto* sub = cli.command(cli.app, name, line, example);
  sub->add_option("RUN", args.run, "a run's directory, or a model's file")->required();
  sub->add_option(
         "--client", args.client,
         fmt::format("whose model: a client's name{}", all ? ", global or all" : ", or global"))
      ->type_name("NAME");
  add_network(*sub, args.network);
  sub->add_option("-o,--out", args.out);
  sub->add_flag("--json", args.json);
  cli.add_plugins(*sub);
  return sub;
}

void add_predict(Cli& cli, PredictArgs& args) {
  auto* sub =
      add_model_command(cli, args, false, "predict", "what a client's saved model says of new rows",
                        "tessera predict runs/quickstart/fedper-s1 --client 7 --data x.npz");
  sub->add_option("--data", args.data, "rows to predict: x.csv, or x.npz with the array x")
      ->type_name("FILE")
      ->required();
  sub->add_flag("--proba", args.proba, "the probability of every class, too");
  add_answer_guards(*sub, args.guards);
  sub->get_option("--out")
      ->description("write there instead of standard output")
      ->type_name("FILE");
  sub->get_option("--json")->description("JSON instead of CSV");
  sub->callback([&] { cli.action = [&] { return predict_command(args); }; });
}

void add_export(Cli& cli, ExportArgs& args) {
  auto* sub = add_model_command(cli, args, true, "export", "saved models for other programs",
                                "tessera export runs/quickstart/fedper-s1 --client 7 --to onnx");
  sub->add_option("--to", args.to, "torchscript, onnx, safetensors or npz")
      ->type_name("FORMAT")
      ->required()
      ->check(CLI::IsMember({"torchscript", "onnx", "safetensors", "npz"}));
  sub->get_option("--out")->description("directory (default: the current one)")->type_name("DIR");
  sub->get_option("--json")->description("print the paths as JSON");
  sub->callback([&] { cli.action = [&] { return export_command(args); }; });
}

void add_report(Cli& cli, std::string& dir, bool& json) {
  auto* sub = cli.command(cli.app, "report",
                          "rebuild report.html of a run or a comparison; export what a run's "
                          "method shows (attention, similarity, embeddings) as CSV",
                          "tessera report runs/quickstart/compare");
  sub->add_option("DIR", dir, "output directory of a run or a comparison")->required();
  sub->add_flag("--json", json, "print JSON only");
  sub->callback([&] { cli.action = [&] { return report_command(dir, json); }; });
}

void add_bench(Cli& cli, BenchArgs& args) {
  auto* sub = cli.command(cli.app, "bench",
                          "measure this machine: networks, a round, many models, each against what "
                          "the processor could do",
                          "tessera bench --json > this-machine.json");
  sub->add_option("--only", args.only, "lines with this in their name: facnn, step, Gram …")
      ->type_name("TEXT");
  sub->add_option("--seconds", args.seconds, "about how long each line is measured")
      ->type_name("S")
      ->check(CLI::Range(1e-4, 1e4))
      ->capture_default_str();
  sub->add_option("--models", args.models,
                  "models of the server's lines; 2000 take 5 GB and some minutes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{2}, int64_t{100000}))
      ->capture_default_str();
  sub->add_option("--kernels", args.kernels, "auto, avx512, avx2 or portable, as run.kernels")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "avx512", "avx2", "portable"}).description(""))
      ->capture_default_str();
  sub->add_flag("--json", args.json, "print JSON only");
  sub->add_flag("--quiet", args.quiet, "no progress");
  sub->callback([&] { cli.action = [&] { return bench_command(args); }; });
}

struct HelpArgs {
  std::vector<std::string> words;
  bool man = false, completion = false;
};

void add_help(Cli& cli, HelpArgs& args) {
  auto* sub = cli.command(cli.app, "help", "show what a command does and its flags",
                          "tessera help data show");
  sub->add_option("COMMAND", args.words, "a command; none: all of them")->type_name("");
  sub->add_flag("--man", args.man, "everything, as the source of a man page");
  sub->add_flag("--completion", args.completion, "a script by which bash completes commands");
  sub->callback([&] {
    cli.action = [&] {
      if (args.man) return print(man_page(cli.app));
      if (args.completion) return print(bash_completion(cli.app));
      return print_help(cli.app, args.words);
    };
  });
}

int guarded(const std::function<Status()>& action) {
  try {
    const auto status = action();
    return status.ok() ? kExitDone : print_error(status);
  } catch (const std::bad_alloc&) {
    return print_error(fail(Error::kIo, "out of memory"));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return print_error(fail(Error::kInternal, "{}", text.substr(0, text.find('\n'))));
  }
}

/// Several copies of a command that knows nothing of ranks would do the same work, into the same
/// files.
int run_on_ranks(Cli& cli, const Started& started, const std::function<Status()>& load_all,
                 const std::atomic<bool>& stop) {
  if (cli.ranked) {
    auto command = *cli.ranked;
    command.lead = [&](RankDesk& desk) -> Status {
      TESSERA_RETURN_IF_ERROR(load_all());
      return cli.ranked->lead(desk);
    };
    command.host = [&](RankSeat& seat, int ranks) -> Result<int> {
      TESSERA_RETURN_IF_ERROR(load_all());
      return cli.ranked->host(seat, ranks);
    };
    return play_on_ranks(command, stop);
  }
  const auto* command = innermost(&cli.app);
  const auto status =
      fail(Error::kInvalid,
           "`tessera {}` runs in one process, but mpirun has started {}; start it without mpirun{}",
           path_of(cli.app, command), started.size,
           command->get_option_no_throw("--spread")
               ? ", or with --spread cells, by which each of them plays whole runs"
               : "");
  return started.rank == 0 ? print_error(status) : exit_code(status);
}

int parse_and_run(const std::vector<std::string>& arguments, const std::atomic<bool>& stop) {
  Cli cli;
  cli.app.set_version_flag("-V,--version",
                           fmt::format("tessera {}\n{}", TESSERA_VERSION, machine_text()));
  cli.app.require_subcommand(1);
  cli.add_plugins(cli.app);
  cli.add_verbose(cli.app);
  cli.app.footer(fmt::format("Example:\n  tessera run examples/quickstart.toml\n\n{}", kExitCodes));
  NewArgs fresh;
  RunArgs run;
  CompareArgs compare;
  ReproduceArgs reproduce;
  ExperimentArgs check;
  DataArgs data;
  std::string method, report;
  HelpArgs help;
  BenchArgs bench;
  PredictArgs predict;
  ExportArgs exported;
  PkiArgs pki;
  ServeArgs serve;
  CallArgs call;
  AuditArgs audit;
  AttackArgs attack;
  bool json = false;
  const auto started = started_by_mpirun();
  run.stop = compare.run.stop = reproduce.stop = data.get.stop = serve.stop = call.stop =
      bench.stop = audit.stop = attack.stop = &stop;
  add_new(cli, fresh);
  add_run(cli, run);
  add_compare(cli, compare);
  add_reproduce(cli, reproduce);
  add_check(cli, check, json);
  add_audit(cli, audit);
  add_attack(cli, attack);
  add_methods(cli, method, json);
  add_models(cli, json);
  add_data(cli, data, json);
  add_report(cli, report, json);
  add_predict(cli, predict);
  add_export(cli, exported);
  add_bench(cli, bench);
  const DeclareCommand declare = [&](auto& parent, auto... words) {
    return cli.command(parent, words...);
  };
  const auto experiment = [&](CLI::App& sub, ExperimentArgs& args) {
    add_experiment(sub, args, true);
    cli.add_plugins(sub);
  };
  add_federation(cli.app, declare, experiment, serve, call, cli.action);
  add_pki(cli.app, declare, pki, cli.action);
  add_help(cli, help);
  try {
    // The parser takes its arguments from the back.
    cli.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& asked) {  // --help, --version
    return started.rank == 0 ? cli.app.exit(asked) : kExitDone;
  } catch (const CLI::ParseError& error) {
    const auto status = fail(Error::kInvalid, "{}", usage_error(cli.app, error));
    return started.rank == 0 ? print_error(status) : exit_code(status);
  }
  const auto load_all = [&]() -> Status {
    if (cli.verbose && started.rank == 0) print_note(machine_text());
    for (const auto& paths : cli.plugins) TESSERA_RETURN_IF_ERROR(load_plugins(paths));
    return ok();
  };
  if (started.size > 1) return run_on_ranks(cli, started, load_all, stop);
  return guarded([&]() -> Status {
    TESSERA_RETURN_IF_ERROR(load_all());
    return cli.action();
  });
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments, const std::atomic<bool>& stop) {
  int code = kExitFailed;
  guarded([&] {
    code = parse_and_run(arguments, stop);
    return ok();
  });
  return code;
}

}  // namespace tessera
