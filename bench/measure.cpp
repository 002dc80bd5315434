#include "measure.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/text.hpp"

namespace tessera::bench {
namespace {

constexpr int kIterations = 11;

Table& table() {
  static Table lines({"what", "reached", "unit", "target"});
  return lines;
}

}  // namespace

Paired paired(benchmark::State& state, const std::function<void()>& work,
              const std::function<void()>& yardstick) {
  const auto times = calls_in(work, 0.02);
  std::vector<double> works, yardsticks;
  for (auto _ : state) {
    yardsticks.push_back(cpu_seconds(yardstick, 1));
    works.push_back(cpu_seconds(work, times));
    state.SetIterationTime(works.back());
  }
  return {median(works), median(yardsticks)};
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->UseManualTime()
      ->Iterations(kIterations)
      ->Unit(benchmark::kMicrosecond);
}

void summarise(const std::string& what, double reached, const std::string& unit, double target) {
  table().row({what, fmt::format("{:.2f}", reached), unit,
               target > 0 ? fmt::format("{:.2f}", target) : ""});
}

void print_summary() {
  fmt::print(
      "\nOne thread, CPU time, medians. A step is gradient + update and counts 3 × the forward "
      "operations\n(1 multiply-add = 2), though the first layer needs no gradient of its input. "
      "of sgemm: divided by the\nrate of a 1024³ product measured in turn with it. of copy: bytes "
      "read and written a second, divided\nby those of memcpy on {} MiB.\n\n{}",
      static_cast<int64_t>(kCopyBytes) >> 20, table().text());
}

}  // namespace tessera::bench
