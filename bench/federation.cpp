// How a server of a real federation does under load: see README.md for what the figures mean.
// One `tessera serve` in a process of its own; all clients are in this one. Loopback only.
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "engine/grpc/credentials.hpp"
#include "federation_load.hpp"

namespace tessera::bench {
namespace {

using nlohmann::json;

struct LoadArgs {
  std::vector<std::string> what{"load", "sizes"};
  int64_t clients = 1000, cohort = 0, rounds = 500, model_bytes = 1000;
  std::vector<int64_t> sizes{1'000, 100'000, 1'000'000, 10'000'000};
  int64_t size_clients = 20, size_rounds = 20;
  int64_t huge_bytes = 1'070'000'000, cuts = 6;  // a model may have 2^28 parameters
  double limit = 3600;
  std::string tessera = TESSERA_BINARY;
  std::string tmp = std::filesystem::temp_directory_path();
  bool json = false;
};

/// A directory that goes with the object.
class Scratch {
 public:
  explicit Scratch(const std::string& parent) : path_(parent + "/tessera-load-XXXXXX") {
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f}", 1e-6 * static_cast<double>(bytes));
}

double per_second(double count, const LoadFigures& f) { return count / f.seconds; }
double rounds_per_minute(const LoadFigures& f) {
  return per_second(60 * static_cast<double>(f.plan.rounds), f);
}

json json_of(const LoadFigures& f) {
  json memory = json::array();
  for (const auto& [round, bytes] : f.memory)
    memory.push_back({{"round", round}, {"bytes", bytes}});
  const auto slope = memory_slope(f.memory, f.plan.rounds);
  const auto half_and_most = [](const std::vector<double>& values) {
    return json{{"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
  };
  return {{"clients", f.plan.clients},
          {"asked", f.plan.asked()},
          {"rounds", f.plan.rounds},
          {"model_bytes", f.parameter_bytes},
          {"join_seconds", f.join_seconds},
          {"seconds", f.seconds},
          {"rounds_per_minute", rounds_per_minute(f)},
          {"round_seconds", half_and_most(f.round_seconds)},
          {"tail_seconds", half_and_most(f.tail_seconds)},
          {"server_memory", memory},
          {"server_memory_peak", f.peak_memory},
          {"server_memory_per_100_rounds", slope.known ? json(slope.per_100_rounds) : json()},
          {"server_memory_flat", slope.known ? json(slope.share < 0.05) : json()},
          {"server_cpu_seconds", f.server_cpu},
          {"clients_cpu_seconds", f.clients_cpu},
          {"messages", f.messages},
          {"messages_per_second", per_second(static_cast<double>(f.messages), f)},
          {"message_bytes", f.message_bytes},
          {"bytes_per_second", per_second(static_cast<double>(f.message_bytes), f)},
          {"largest_task", f.largest_task},
          {"largest_reply", f.largest_reply},
          {"retries", f.retries},
          {"connections_cut", f.cut}};
}

std::string load_text(const LoadFigures& f) {
  Table table({"", "", "unit"});
  const auto row = [&](const char* what, const std::string& value, const char* unit) {
    table.row({what, value, unit});
  };
  row("clients", std::to_string(f.plan.clients), "");
  row("of them in a round", std::to_string(f.plan.asked()), "");
  row("rounds", std::to_string(f.plan.rounds), "");
  row("model", std::to_string(f.parameter_bytes), "bytes");
  row("everybody has joined after", fmt::format("{:.1f}", f.join_seconds), "s");
  row("rounds per minute", fmt::format("{:.1f}", rounds_per_minute(f)), "");
  row("round, p50", fmt::format("{:.3f}", percentile(f.round_seconds, 0.5)), "s");
  row("round, p99", fmt::format("{:.3f}", percentile(f.round_seconds, 0.99)), "s");
  row("tail, p50", fmt::format("{:.3f}", percentile(f.tail_seconds, 0.5)), "s");
  row("tail, p99", fmt::format("{:.3f}", percentile(f.tail_seconds, 0.99)), "s");
  row("messages per second", fmt::format("{:.0f}", per_second(static_cast<double>(f.messages), f)),
      "");
  row("server, CPU per round",
      fmt::format("{:.3f}", f.server_cpu / static_cast<double>(f.plan.rounds)), "s");
  row("clients, CPU per round",
      fmt::format("{:.3f}", f.clients_cpu / static_cast<double>(f.plan.rounds)), "s");
  row("calls tried again", std::to_string(f.retries), "");
  row("server memory, most", megabytes(f.peak_memory), "MB");
  for (const auto& [round, bytes] : f.memory)
    row(fmt::format("server memory after round {}", round).c_str(), megabytes(bytes), "MB");
  const auto slope = memory_slope(f.memory, f.plan.rounds);
  if (slope.known)
    row(fmt::format("growth per 100 rounds ({})", slope.share < 0.05 ? "flat" : "NOT flat").c_str(),
        fmt::format("{:+.2f}", 1e-6 * slope.per_100_rounds), "MB");
  return table.text() +
         "A round begins with its first task at a client and ends with the first task of what "
         "follows\n"
         "it. Its tail is the time from the acknowledgement of the median upload to its end.\n"
         "Memory is resident (VmRSS); its growth is a straight line through the samples after the\n"
         "first fifth of the rounds; flat: over all rounds less than 5 % of the mean.\n";
}

std::string sizes_text(const std::vector<LoadFigures>& all) {
  Table table({"model bytes", "clients", "rounds", "messages/s", "MB/s", "round p50 s",
               "server CPU ms/message", "server memory most MB", "tried again"});
  for (const auto& f : all)
    table.row({std::to_string(f.parameter_bytes), std::to_string(f.plan.clients),
               std::to_string(f.plan.rounds),
               fmt::format("{:.0f}", per_second(static_cast<double>(f.messages), f)),
               fmt::format("{:.1f}", 1e-6 * per_second(static_cast<double>(f.message_bytes), f)),
               fmt::format("{:.3f}", percentile(f.round_seconds, 0.5)),
               fmt::format("{:.2f}", 1000 * f.server_cpu / static_cast<double>(f.messages)),
               megabytes(f.peak_memory), std::to_string(f.retries)});
  return table.text() +
         "A message is a task that was fetched or a reply that was acknowledged; half of them are\n"
         "settlements, which carry no tensors.\n";
}

std::string huge_text(const LoadFigures& f) {
  Table table({"", "", "unit"});
  table.row({"largest task", std::to_string(f.largest_task), "bytes"});
  table.row({"largest reply", std::to_string(f.largest_reply), "bytes"});
  table.row({"connections cut on the way", std::to_string(f.cut), ""});
  table.row({"calls tried again", std::to_string(f.retries), ""});
  table.row({"the round", fmt::format("{:.1f}", f.round_seconds.front()), "s"});
  table.row({"server CPU", fmt::format("{:.1f}", f.server_cpu), "s"});
  table.row({"server memory, most", megabytes(f.peak_memory), "MB"});
  table.row({"server memory, most / model",
             fmt::format("{:.2f}", static_cast<double>(f.peak_memory) /
                                       static_cast<double>(f.parameter_bytes)),
             ""});
  return table.text();
}

Result<std::vector<LoadFigures>> play_sizes(const LoadArgs& args, const LoadPlace& place) {
  std::vector<LoadFigures> out;
  for (const int64_t size : args.sizes) {
    TESSERA_ASSIGN(auto figures, play_load({.clients = args.size_clients,
                                            .rounds = args.size_rounds,
                                            .model_bytes = size,
                                            .limit = args.limit},
                                           place));
    out.push_back(std::move(figures));
  }
  return out;
}

Result<std::string> measure(const LoadArgs& args, const LoadPlace& place) {
  json out;
  std::string text;
  for (const auto& what : args.what) {
    if (what == "load") {
      TESSERA_ASSIGN(const auto figures, play_load({.clients = args.clients,
                                                    .rounds = args.rounds,
                                                    .cohort = args.cohort,
                                                    .model_bytes = args.model_bytes,
                                                    .limit = args.limit},
                                                   place));
      out[what] = json_of(figures), text += load_text(figures) + "\n";
    } else if (what == "sizes") {
      TESSERA_ASSIGN(const auto all, play_sizes(args, place));
      for (const auto& figures : all) out[what].push_back(json_of(figures));
      text += sizes_text(all) + "\n";
    } else {
      // The model down, up, and twice down for the evaluation.
      TESSERA_ASSIGN(const auto figures, play_load({.clients = 1,
                                                    .rounds = 1,
                                                    .model_bytes = args.huge_bytes,
                                                    .limit = args.limit,
                                                    .cuts = args.cuts,
                                                    .cut_every = args.huge_bytes / 3},
                                                   place));
      out[what] = json_of(figures), text += huge_text(figures) + "\n";
    }
  }
  return args.json ? out.dump(1) + "\n" : text;
}

Status run_load(const LoadArgs& args) {
  if (args.cohort > args.clients)
    return fail(Error::kInvalid, "--cohort {} is more than --clients {}", args.cohort,
                args.clients);
  // A connection each, on both sides, and a thousand is what many systems allow.
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const Scratch scratch(args.tmp);
  if (scratch.path().empty()) return fail(Error::kIo, "{}: cannot make a directory", args.tmp);
  const double start = wall_seconds();
  const bool load = std::count(args.what.begin(), args.what.end(), "load") > 0;
  const auto identities = std::max({load ? args.clients : 1, args.size_clients});
  TESSERA_RETURN_IF_ERROR(make_load_identities(scratch.path(), identities));
  fmt::print(stderr, "{} identities in {:.1f} s\n", identities, wall_seconds() - start);
  TESSERA_ASSIGN(const auto text, measure(args, {scratch.path(), args.tessera}));
  fmt::print("{}", text);
  return ok();
}

int main_of(int argc, char** argv) {
  LoadArgs args;
  CLI::App app(
      "A federation under load, on this machine only: a server process, and clients that answer\n"
      "without training.");
  app.add_option("what", args.what, "load, sizes, huge; the first two unless named")
      ->check(CLI::IsMember({"load", "sizes", "huge"}));
  app.add_option("--clients", args.clients, "load: clients")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--cohort", args.cohort, "load: clients that a round asks; 0: all")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_option("--rounds", args.rounds, "load: rounds")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--model", args.model_bytes, "load: bytes of the model")->capture_default_str();
  app.add_option("--sizes", args.sizes, "sizes: bytes of the models")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--size-clients", args.size_clients, "sizes: clients")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--size-rounds", args.size_rounds, "sizes: rounds")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--huge", args.huge_bytes,
                 "huge: bytes of the model; the evaluation sends it twice")
      ->check(CLI::Range(int64_t{1000}, int64_t{1'070'000'000}))
      ->capture_default_str();
  app.add_option("--cuts", args.cuts,
                 "huge: how often the connection is cut, each time after a third of the model")
      ->capture_default_str();
  app.add_option("--limit", args.limit, "seconds for each federation; then it is ended")
      ->capture_default_str();
  app.add_option("--tessera", args.tessera, "the program to measure")->capture_default_str();
  app.add_option("--tmp", args.tmp, "where a directory is made for the time of the run")
      ->capture_default_str();
  app.add_flag("--json", args.json, "print JSON only");
  CLI11_PARSE(app, argc, argv);
  prepare_grpc();
  at::set_num_threads(1);
  const auto status = run_load(args);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", message(status));
  return 1;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) { return tessera::bench::main_of(argc, argv); }
