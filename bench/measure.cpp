#include "measure.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace tessera::bench {
namespace {

constexpr int kIterations = 11;

double seconds(const std::function<void()>& work, int64_t times) {
  const double start = thread_cpu_seconds();
  for (int64_t i = 0; i < times; ++i) work();
  return (thread_cpu_seconds() - start) / static_cast<double>(times);
}

Table& table() {
  static Table lines({"what", "reached", "unit", "target"});
  return lines;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Paired paired(benchmark::State& state, const std::function<void()>& work,
              const std::function<void()>& yardstick) {
  work();  // buffers grow, pages are touched
  const auto times = static_cast<int64_t>(std::ceil(0.02 / std::max(seconds(work, 1), 1e-6)));
  std::vector<double> works, yardsticks;
  for (auto _ : state) {
    yardsticks.push_back(seconds(yardstick, 1));
    works.push_back(seconds(work, times));
    state.SetIterationTime(works.back());
  }
  return {median(works), median(yardsticks)};
}

void sgemm() {
  constexpr int kSide = 1024;
  static const std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, 0.25f);
  static std::vector<float> c(kSide * kSide);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSide, kSide, kSide, 1.0f, a.data(), kSide,
              b.data(), kSide, 0.0f, c.data(), kSide);
  benchmark::DoNotOptimize(c.data());
}

void copy() {
  static const std::vector<char> from(static_cast<size_t>(kCopyBytes), 1);
  static std::vector<char> to(from.size());
  std::memcpy(to.data(), from.data(), from.size());
  benchmark::DoNotOptimize(to.data());
  benchmark::ClobberMemory();
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
