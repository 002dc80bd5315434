#include "cli/cli.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <thread>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

const char* const kExitCodes =
    "Exit codes: 0 done, 1 failed while running, 2 wrong input, 130 interrupted.";

/// The parser and what its chosen sub-command will do.
struct Cli {
  CLI::App app{"Tessera: personalized federated learning, simulated on one machine.", "tessera"};
  const std::atomic<bool>* stop = nullptr;
  std::function<Status()> action;

  /// A sub-command with an example and the exit codes below its help.
  CLI::App* command(CLI::App& parent, const char* name, const char* line, const char* example) {
    auto* sub = parent.add_subcommand(name, line);
    sub->footer(fmt::format("Example:\n  {}\n\n{}", example, kExitCodes));
    return sub;
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

void add_running(CLI::App& sub, RunArgs& args) {
  add_experiment(sub, args.experiment, true);
  args.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  sub.add_option("--out", args.out, "output directory")->type_name("DIR");
  sub.add_option("--threads", args.threads,
                 "clients at work at the same time; never changes a result")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  sub.add_flag("--json", args.json, "print JSON only");
  sub.add_flag("--quiet", args.quiet, "no progress");
}

void add_run(Cli& cli, RunArgs& args) {
  auto* sub = cli.command(cli.app, "run", "run an experiment",
                          "tessera run examples/quickstart.toml --set rounds=10 --out /tmp/first");
  add_running(*sub, args);
  sub->add_flag("--resume", args.resume, "continue an unfinished run; starts one if there is none");
  sub->add_flag("--force", args.force, "overwrite what a former run left in the output directory");
  sub->add_flag("--through-wire", args.through_wire,
                "encode and decode every message, as a network would");
  sub->get_option("--out")->description("output directory (default: runs/<name>/<method>-s<seed>)");
  sub->callback([&] { cli.action = [&] { return run_command(args); }; });
}

void add_compare(Cli& cli, CompareArgs& args) {
  auto* sub = cli.command(
      cli.app, "compare", "run several methods and seeds and compare them",
      "tessera compare examples/quickstart.toml --methods local,fedavg,fedper --seeds 3");
  add_running(*sub, args.run);
  sub->add_option("--methods", args.methods,
                  "methods, separated by commas (see `tessera methods`); fedacs:p=0.9:train.lr=0.1 "
                  "is a method with its own settings, and 'ditto:train.lr=0.1|0.2' takes the value "
                  "with the best validation accuracy on the first seed")
      ->type_name("A,B,C")
      ->required();
  sub->add_option("--seeds", args.seeds,
                  "3: seeds 1, 2, 3; or a list: 4,7,9 (default: the seed of the file)")
      ->type_name("N | A,B,C");
  sub->add_flag("--force", args.run.force,
                "run cells anew that belong to another configuration or are damaged");
  sub->get_option("--out")->description(
      "output directory (default: runs/<name>/compare); what is "
      "finished there is read, the rest resumed");
  sub->callback([&] { cli.action = [&] { return compare_command(args); }; });
}

void add_check(Cli& cli, ExperimentArgs& args) {
  auto* sub = cli.command(cli.app, "check",
                          "check an experiment without running it: file, data, model, traffic",
                          "tessera check examples/quickstart.toml");
  add_experiment(*sub, args, true);
  sub->callback([&] { cli.action = [&] { return check_command(args); }; });
}

void add_lists(Cli& cli, bool& json) {
  const auto list = [&](const char* name, const char* line, Status (*print_list)(bool)) {
    auto* sub = cli.command(cli.app, name, line, fmt::format("tessera {} --json", name).c_str());
    sub->add_flag("--json", json, "print JSON only");
    sub->callback([&cli, &json, print_list] {
      cli.action = [&json, print_list] { return print_list(json); };
    });
  };
  list("methods", "list the methods and their options", list_methods);
  list("models", "list the models", list_models);
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
  show->callback([&] { cli.action = [&] { return show_data(args.experiment, args.svg); }; });

  auto* get = cli.command(*data, "get", "download a dataset, or take it from a file or URL",
                          "tessera data get cifar10 --data-dir ~/data");
  get->add_option("NAME", args.get.set, "dataset (see `tessera data list`)")->required();
  get->add_option("--from", args.get.from,
                  "a file, a directory or a URL instead of the official one")
      ->type_name("PATH|URL");
  get->add_option("--data-dir", args.get.data_dir, "where to put it")->type_name("DIR");
  get->add_flag("--quiet", args.get.quiet, "no progress");
  get->callback([&] { cli.action = [&] { return get_data(args.get); }; });
}

void add_report(Cli& cli, std::string& dir) {
  auto* sub = cli.command(cli.app, "report",
                          "rebuild report.html of a run or a comparison; export what a run's "
                          "method shows (attention, similarity, embeddings) as CSV",
                          "tessera report runs/quickstart/compare");
  sub->add_option("DIR", dir, "output directory of a run or a comparison")->required();
  sub->callback([&] { cli.action = [&] { return report_command(dir); }; });
}

/// The innermost sub-command that was recognised.
const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

/// What the parser could not place, with the nearest name there is.
std::string usage_error(const CLI::App& root, const CLI::ParseError& error) {
  const auto* app = innermost(&root);
  const auto extras = root.remaining(true);
  auto path = app->get_name();
  if (app->get_parent() && app->get_parent() != &root)
    path = app->get_parent()->get_name() + " " + path;
  const auto help = app == &root ? std::string("tessera --help") : "tessera " + path + " --help";
  if (extras.empty()) return fmt::format("{}; see `{}`", error.what(), help);
  const auto& word = extras.front();
  std::vector<std::string> known;
  if (word.starts_with("-")) {
    for (const auto* option : app->get_options())
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    return fmt::format("unknown flag '{}'{}; see `{}`", word,
                       suggestion(word.substr(0, word.find('=')), known), help);
  }
  for (const auto* sub : app->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("unexpected argument '{}'; see `{}`", word, help);
  return fmt::format("unknown command '{}'{}; see `{}`", word, suggestion(word, known), help);
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

int parse_and_run(const std::vector<std::string>& arguments, const std::atomic<bool>& stop) {
  Cli cli;
  cli.app.set_version_flag("--version", std::string("tessera ") + TESSERA_VERSION);
  cli.app.require_subcommand(1);
  cli.app.footer(fmt::format("Example:\n  tessera run examples/quickstart.toml\n\n{}", kExitCodes));
  RunArgs run;
  CompareArgs compare;
  ExperimentArgs check;
  DataArgs data;
  std::string report;
  bool json = false;
  run.stop = compare.run.stop = data.get.stop = &stop;
  add_run(cli, run);
  add_compare(cli, compare);
  add_check(cli, check);
  add_lists(cli, json);
  add_data(cli, data, json);
  add_report(cli, report);
  try {
    // The parser takes its arguments from the back.
    cli.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& asked) {  // --help, --version
    return cli.app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return print_error(fail(Error::kInvalid, "{}", usage_error(cli.app, error)));
  }
  return guarded(cli.action);
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
