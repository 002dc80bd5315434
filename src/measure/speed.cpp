#include "measure/speed.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/blas.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/memory.hpp"
#include "measure/rounds.hpp"
#include "measure/timing.hpp"
#include "measure/trial.hpp"
#include "model/fast/kernels.hpp"
#include "tensor/gram.hpp"
#include "tensor/weights.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kParameters = 582026;  // facnn on 28×28

/// Steps by batch with their goals, and the goal of evaluating 256 samples.
struct NetworkGoals {
  const char* name;
  std::vector<std::pair<int64_t, double>> steps;
  double predict;
};
std::vector<NetworkGoals> networks() {
  return {{"facnn", {{10, 0.75}, {32, 0.75}}, 0.75},   {"lenet", {{10, 0.65}, {32, 0.65}}, 0.75},
          {"lenet16", {{10, 0.75}, {32, 0.75}}, 0.75}, {"mlp100", {{10, 0.7}, {32, 0.9}}, 0.75},
          {"gru64", {{10, 0.6}, {32, 0.6}}, 0.75},     {"vit-s", {{64, 0.8}}, 0.75}};
}

std::string step_name(const NetworkGoals& network, int64_t batch) {
  return fmt::format("{} step, batch {}", network.name, batch);
}
std::string predict_name(const NetworkGoals& network) {
  return fmt::format("{} predict, batch 256", network.name);
}
constexpr const char *kRound = "FedAvg round, 20 clients of facnn",
                     *kTwoThreads = "FedAvg round, two threads", *kGram = "Gram matrix",
                     *kAttention = "attention", *kMixture = "mixture";

class Measurement {
 public:
  Measurement(const SpeedOptions& options, const fast::Kernels& kernels) : options_(options) {
    report_.processor = this_processor().name, report_.kernels = kernels.name;
    report_.blas = blas_name();
    for (const auto& network : networks()) {
      for (const auto& [batch, goal] : network.steps) all_ += wanted(step_name(network, batch));
      all_ += wanted(predict_name(network));
    }
    for (const auto* name : {kRound, kTwoThreads, kGram, kAttention, kMixture})
      all_ += wanted(name);
  }

  Result<SpeedReport> run() {
    for (const auto& network : networks()) TESSERA_RETURN_IF_ERROR(measure_network(network));
    TESSERA_RETURN_IF_ERROR(measure_round());
    TESSERA_RETURN_IF_ERROR(measure_second_thread());
    TESSERA_RETURN_IF_ERROR(measure_server());
    if (report_.lines.empty() && report_.notes.empty())
      return fail(Error::kInvalid, "nothing that is measured has '{}' in its name", options_.only);
    report_.sgemm = sgemms_.empty() ? kSgemmFlops / cpu_seconds(sgemm, 3) * 1e-9 : median(sgemms_);
    if (report_.copy == 0) report_.copy = 2 * kCopyBytes / cpu_seconds(copy, 3) * 1e-9;
    return std::move(report_);
  }

 private:
  bool wanted(const std::string& what) const { return what.find(options_.only) != what.npos; }

  Status begin(const std::string& what) {
    if (options_.stop && *options_.stop) return fail(Error::kInterrupted, "stopped");
    if (options_.on_progress) options_.on_progress(what, done_, all_);
    ++done_;
    return ok();
  }

  /// Reached and GFLOP/s of work that does `flops`; gives seconds a call.
  double against_sgemm(SpeedLine& line, double flops, const std::function<void()>& work) {
    const auto time = paired_for(options_.seconds, work, sgemm);
    const double limit = kSgemmFlops / time.yardstick;
    sgemms_.push_back(limit * 1e-9);
    line.gflops = flops / time.work * 1e-9;
    line.reached = flops / time.work / limit, line.unit = "of sgemm";
    return time.work;
  }

  Status measure_network(const NetworkGoals& network) {
    const auto subject = subject_named(network.name);
    for (const auto& [batch, goal] : network.steps) {
      if (!wanted(step_name(network, batch))) continue;
      TESSERA_RETURN_IF_ERROR(begin(step_name(network, batch)));
      Trial trial(subject, batch);
      auto line = sample_line(network.name + std::string(" step"), batch, goal);
      const double seconds = against_sgemm(line, 3 * trial.flops, [&] { trial.step(); });
      line.per_second = static_cast<double>(batch) / seconds;
      report_.lines.push_back(line);
    }
    constexpr int64_t kEvaluated = 256;
    if (!wanted(predict_name(network))) return ok();
    TESSERA_RETURN_IF_ERROR(begin(predict_name(network)));
    Trial trial(subject, kEvaluated);
    auto line = sample_line(network.name + std::string(" predict"), kEvaluated, network.predict);
    const double seconds = against_sgemm(line, trial.flops, [&] { trial.predict(); });
    line.per_second = static_cast<double>(kEvaluated) / seconds;
    report_.lines.push_back(line);
    return ok();
  }
  static SpeedLine sample_line(std::string what, int64_t batch, double goal) {
    return {.what = std::move(what), .batch = batch, .goal = goal, .things = "samples"};
  }

  /// pair() gives two wall times of about half a second; the least of each over about six lines'
  /// time, once at least. Medians of so few would show who else uses the machine: others only add.
  Paired in_turn(const std::function<Paired()>& pair) const {
    pair();
    Paired least = pair();
    const double end = wall_seconds() + 6 * options_.seconds;
    while (wall_seconds() < end) {
      const auto [a, b] = pair();
      least = {std::min(least.work, a), std::min(least.yardstick, b)};
    }
    return least;
  }

  Status measure_round() {
    if (!wanted(kRound)) return ok();
    TESSERA_RETURN_IF_ERROR(begin(kRound));
    Rounds rounds("fedavg", 1, false);
    Trial trial(subject_named("facnn"), Rounds::kBatch);
    const auto time = in_turn([&] {
      const double round = rounds.seconds(), start = wall_seconds();
      for (int64_t i = 0; i < Rounds::kClients * Rounds::kStepsEach; ++i) trial.step();
      return Paired{round, wall_seconds() - start};
    });
    report_.lines.push_back({.what = kRound,
                             .batch = Rounds::kBatch,
                             .reached = time.work / time.yardstick,
                             .unit = "x its steps",
                             .goal = 1.05,
                             .at_most = true,
                             .per_second = Rounds::kClients / time.work,
                             .things = "clients"});
    return ok();
  }

  Status measure_second_thread() {
    if (!wanted(kTwoThreads)) return ok();
    TESSERA_RETURN_IF_ERROR(begin(kTwoThreads));
    if (std::thread::hardware_concurrency() < 2) {
      report_.notes.emplace_back("There is one core: a second thread was not measured.");
      return ok();
    }
    Rounds one("fedavg", 1, false), two("fedavg", 2, false);
    const auto time = in_turn([&] {
      const double alone = one.seconds();
      return Paired{alone, two.seconds()};
    });
    report_.lines.push_back({.what = kTwoThreads,
                             .batch = Rounds::kBatch,
                             .reached = time.work / time.yardstick,
                             .unit = "x one thread",
                             .goal = 1.9,
                             .per_second = Rounds::kClients / time.yardstick,
                             .things = "clients"});
    return ok();
  }

  /// As many models as are asked for, or as a third of the free memory holds.
  std::vector<Tensor> models() {
    const int64_t room = available_memory() / (3 * 4 * kParameters);
    report_.models = std::max<int64_t>(2, std::min(options_.models, room));
    if (report_.models < options_.models)
      report_.notes.push_back(fmt::format("Memory holds {} models of {} numbers, not {}.",
                                          report_.models, kParameters, options_.models));
    const auto all = at::empty({report_.models, kParameters}, at::kFloat);
    Rng rng(4);
    auto* value = all.data_ptr<float>();
    std::vector<float> noise(1 << 16);
    for (auto& number : noise) number = static_cast<float>(rng.uniform()) - 0.5F;
    for (int64_t i = 0; i < all.numel(); ++i)
      value[i] = noise[static_cast<size_t>(i * 31 + i / 65521) % noise.size()];
    return all.unbind(0);
  }

  Status measure_server() {
    if (!wanted(kGram) && !wanted(kAttention) && !wanted(kMixture)) return ok();
    const auto rows = models();
    const std::vector<double> equal(rows.size(), 1);
    TESSERA_RETURN_IF_ERROR(measure_products(kGram, " of", rows, [&] { gram(rows); }));
    TESSERA_RETURN_IF_ERROR(measure_products(kAttention, " among", rows, [&] {
      at::softmax(cosines(gram(rows, mean(rows, equal))).mul_(10), 1);
    }));
    if (!wanted(kMixture)) return ok();
    TESSERA_RETURN_IF_ERROR(begin(kMixture));
    const auto time = paired_for(
        options_.seconds, [&] { mean(rows, equal); }, copy);
    const double bytes = 4.0 * kParameters * static_cast<double>(report_.models + 1);
    const double limit = 2 * kCopyBytes / time.yardstick;
    report_.copy = limit * 1e-9;
    report_.lines.push_back({.what = fmt::format("{} of {} facnn", kMixture, report_.models),
                             .reached = bytes / time.work / limit,
                             .unit = "of copy",
                             .goal = 0.7});
    return ok();
  }
  Status measure_products(const char* name, const char* of, const std::vector<Tensor>& rows,
                          const std::function<void()>& work) {
    if (!wanted(name)) return ok();
    TESSERA_RETURN_IF_ERROR(begin(name));
    const auto n = static_cast<double>(rows.size());
    SpeedLine line{.what = fmt::format("{}{} {} facnn", name, of, report_.models), .goal = 0.7};
    against_sgemm(line, 2 * n * n * kParameters, work);
    report_.lines.push_back(line);
    return ok();
  }

  const SpeedOptions& options_;
  SpeedReport report_;
  std::vector<double> sgemms_;
  int64_t done_ = 0, all_ = 0;
};

}  // namespace

Result<SpeedReport> measure_speed(const SpeedOptions& options) {
  TESSERA_ASSIGN(const auto* kernels, fast::kernels_named(options.kernels));
  const fast::KernelScope scope(*kernels);
  return Measurement(options, *kernels).run();
}

}  // namespace tessera::bench
