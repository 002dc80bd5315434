#include "federation_load.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "federation_crowd.hpp"
#include "federation_line.hpp"
#include "federation_process.hpp"
#include "io/file.hpp"
#include "net/pki.hpp"

namespace tessera::bench {
namespace {

using nlohmann::json;

constexpr int64_t kLoadClasses = 10;
constexpr std::chrono::milliseconds kLook{5};

double between(LoadTime from, LoadTime to) {
  return std::chrono::duration<double>(to - from).count();
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A linear model: one weight for each input and class, and as many biases as classes. Where that
// would be too many inputs, a hidden layer takes the rest.
constexpr int64_t kHiddenFrom = 100'000'000, kHiddenInputs = 10'000;
int64_t inputs_for(int64_t model_bytes) {
  if (model_bytes >= kHiddenFrom) return kHiddenInputs;
  return std::max<int64_t>(1, model_bytes / 4 / kLoadClasses - 1);
}
std::string hidden_for(int64_t model_bytes) {
  if (model_bytes < kHiddenFrom) return "";
  return std::to_string(model_bytes / 4 / (kHiddenInputs + 1 + kLoadClasses));
}

std::string experiment_text(const LoadPlan& plan) {
  std::vector<std::string> members, classes;
  for (int64_t i = 0; i < plan.clients; ++i) members.push_back(load_client(i));
  for (int64_t c = 0; c < kLoadClasses; ++c) classes.push_back(std::to_string(c));
  return fmt::format(
      "name = \"load\"\nrounds = {0}\n[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = "
      "\".\"\n"
      "class_names = \"{1}\"\n[model]\nname = \"mlp\"\nhidden = [{6}]\n[federation]\n"
      "eval_every = {0}\neval_clients = 1\nmin_replies = {2}\nparticipation = "
      "{5}\n[serve]\nmembers = \"{3}\"\n"
      "deadline = {4:.0f}\nstart_deadline = {4:.0f}\n[method]\nname = \"fedavg\"\n",
      plan.rounds, join(classes, ","), plan.asked(), join(members, ","), plan.limit,
      static_cast<double>(plan.asked()) / static_cast<double>(plan.clients),
      hidden_for(plan.model_bytes));
}

/// Lines of a server's log, those of one event.
std::vector<json> events_in(const std::string& log, const std::string& event) {
  std::vector<json> out;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    auto parsed = json::parse(line, nullptr, false);
    if (parsed.is_object() && parsed.value("event", "") == event) out.push_back(std::move(parsed));
  }
  return out;
}

/// One plan from its start to its figures.
class Load {
 public:
  Load(const LoadPlan& plan, const LoadPlace& place)
      : plan_(plan), place_(place), start_(wall_seconds()), state_(place.dir + "/state") {}

  Result<LoadFigures> play() {
    TESSERA_RETURN_IF_ERROR(serve());
    TESSERA_RETURN_IF_ERROR(join());
    TESSERA_RETURN_IF_ERROR(watch());
    TESSERA_RETURN_IF_ERROR(server_->wait(left()));
    out_.cut = line_ ? line_->broken() : 0;
    TESSERA_RETURN_IF_ERROR(crowd_->stop());
    TESSERA_RETURN_IF_ERROR(check_rounds());
    TESSERA_RETURN_IF_ERROR(sum_up());
    return std::move(out_);
  }

 private:
  double left() const { return plan_.limit - (wall_seconds() - start_); }
  Status serve();
  Status join();
  /// Until all clients have ended; looks at the server on the way.
  Status watch();
  void begin_measuring();
  void end_measuring();
  /// Every upload that was asked for counted in every round: else the figures mean something else.
  Status check_rounds() const;
  Status sum_up();

  const LoadPlan& plan_;
  const LoadPlace& place_;
  const double start_;
  const std::string state_;
  LoadFigures out_{.plan = plan_};
  std::string address_;
  Chronicle chronicle_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<BadLine> line_;
  std::unique_ptr<Crowd> crowd_;  // last: its threads use all others
};

Status Load::serve() {
  std::error_code ignored;
  std::filesystem::remove_all(state_, ignored);
  const auto file = place_.dir + "/load.toml", log = place_.dir + "/server.log";
  TESSERA_RETURN_IF_ERROR(write_file_atomic(file, bytes_of(experiment_text(plan_))));
  TESSERA_ASSIGN(server_,
                 ServerProcess::start(
                     {place_.tessera, "serve", file, "--listen", "127.0.0.1:0", "--state", state_,
                      "--identity", place_.dir + "/id-server", "--log-json", "--linger", "60"},
                     log));
  while (address_.empty()) {
    if (!server_->running()) return server_->wait(0);
    if (left() <= 0) return fail(Error::kBusy, "the server does not listen in time");
    std::this_thread::sleep_for(kLook);
    for (const auto& line : events_in(log, "listening")) address_ = line.at("address");
  }
  if (plan_.cuts == 0) return ok();
  TESSERA_ASSIGN(line_, BadLine::open(address_, plan_.cuts, plan_.cut_every));
  address_ = line_->address();
  return ok();
}

Status Load::join() {
  TESSERA_ASSIGN(crowd_, Crowd::start({.server = address_,
                                       .dir = place_.dir,
                                       .clients = plan_.clients,
                                       .sample_shape = {inputs_for(plan_.model_bytes)},
                                       .classes = kLoadClasses},
                                      chronicle_));
  out_.parameter_bytes = crowd_->parameter_bytes();
  return ok();
}

void Load::begin_measuring() {
  out_.join_seconds = wall_seconds() - start_;
  out_.server_cpu = -server_->cpu_seconds(), out_.clients_cpu = -own_cpu_seconds();
  out_.messages = -chronicle_.messages(), out_.message_bytes = -chronicle_.bytes();
}

void Load::end_measuring() {
  out_.server_cpu += server_->cpu_seconds(), out_.clients_cpu += own_cpu_seconds();
  out_.messages += chronicle_.messages(), out_.message_bytes += chronicle_.bytes();
}

Status Load::watch() {
  int64_t seen = 0;  // rounds that had begun
  while (!crowd_->all_done()) {
    if (left() <= 0) {
      crowd_->stop().IgnoreError();
      return fail(Error::kBusy, "{} of {} rounds were begun in {:.0f} s", seen, plan_.rounds,
                  plan_.limit);
    }
    if (crowd_->failed()) return crowd_->stop();
    const bool gone = !server_->running();
    if (gone && !server_->wait(0).ok()) {
      crowd_->stop().IgnoreError();
      return server_->wait(0);
    }
    if (!gone) out_.peak_memory = std::max(out_.peak_memory, server_->peak_memory());
    for (const int64_t begun = chronicle_.begun(); seen < begun; ++seen) {
      if (seen == 0) begin_measuring();
      if (seen % plan_.sample_every == 0 && !gone) out_.memory.push_back({seen, server_->memory()});
      if (seen == plan_.rounds) end_measuring();
    }
    std::this_thread::sleep_for(kLook);
  }
  if (seen <= plan_.rounds) return fail(Error::kInternal, "the federation ended in round {}", seen);
  return ok();
}

Status Load::check_rounds() const {
  const auto rounds = events_in(place_.dir + "/server.log", "round");
  if (std::ssize(rounds) != plan_.rounds)
    return fail(Error::kInternal, "{} of {} rounds are in the log", rounds.size(), plan_.rounds);
  for (const auto& round : rounds)
    if (!round.at("counted") || round.at("rejected") != 0 || round.at("asked") != plan_.asked())
      return fail(Error::kInternal, "a round without all it asked: {}", round.dump());
  return ok();
}

Status Load::sum_up() {
  out_.retries = chronicle_.retries();
  out_.largest_task = chronicle_.largest_task(), out_.largest_reply = chronicle_.largest_reply();
  const auto& rounds = chronicle_.rounds();
  for (int64_t number = 1; number <= plan_.rounds; ++number) {
    const auto here = rounds.find(number), next = rounds.find(number + 1);
    if (here == rounds.end() || next == rounds.end() || !here->second.begun ||
        !next->second.begun || here->second.uploads.empty())
      return fail(Error::kInternal, "round {} was not seen whole", number);
    auto uploads = here->second.uploads;
    std::sort(uploads.begin(), uploads.end());
    const auto end = *next->second.begun;
    out_.round_seconds.push_back(between(*here->second.begun, end));
    out_.tail_seconds.push_back(between(uploads[(uploads.size() - 1) / 2], end));
  }
  out_.seconds = std::accumulate(out_.round_seconds.begin(), out_.round_seconds.end(), 0.0);
  return ok();
}

}  // namespace

std::string load_client(int64_t number) { return fmt::format("c{}", number); }

Status make_load_identities(const std::string& dir, int64_t clients) {
  const auto ca = dir + "/ca", server = dir + "/id-server";
  const auto now = unix_now();
  TESSERA_RETURN_IF_ERROR(create_ca(ca, {}, now));
  TESSERA_RETURN_IF_ERROR(
      issue_identity("server", ca, server, {.hosts = {"127.0.0.1", "localhost"}}, now).status());
  for (int64_t i = 0; i < clients; ++i) {
    const auto name = load_client(i);
    TESSERA_RETURN_IF_ERROR(issue_identity(name, ca, dir + "/id-" + name, {}, now).status());
  }
  return ok();
}

double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

MemorySlope memory_slope(const std::vector<MemorySample>& samples, int64_t rounds) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [round, bytes] : samples) {
    if (5 * round < rounds) continue;
    const auto at = static_cast<double>(round), size = static_cast<double>(bytes);
    n += 1, x += at, y += size, xx += at * at, xy += at * size;
  }
  if (n < 3) return {};
  const double slope = (n * xy - x * y) / (n * xx - x * x);
  return {true, 100 * slope, slope * static_cast<double>(rounds) / (y / n)};
}

Result<LoadFigures> play_load(const LoadPlan& plan, const LoadPlace& place) {
  return Load(plan, place).play();
}

}  // namespace tessera::bench
