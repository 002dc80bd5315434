#include "measure/timing.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"

namespace tessera::bench {
namespace {

/// What was written there must be there: nothing that computes it is left out.
void keep(const void* data) { asm volatile("" : : "g"(data) : "memory"); }

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double cpu_seconds(const std::function<void()>& work, int64_t times) {
  const double start = thread_cpu_seconds();
  for (int64_t i = 0; i < times; ++i) work();
  return (thread_cpu_seconds() - start) / static_cast<double>(times);
}

int64_t calls_in(const std::function<void()>& work, double seconds) {
  work();
  return static_cast<int64_t>(std::ceil(seconds / std::max(cpu_seconds(work, 1), 1e-6)));
}

Paired paired_for(double seconds, const std::function<void()>& work,
                  const std::function<void()>& yardstick) {
  const auto times = calls_in(work, std::min(0.02, seconds / 6));
  yardstick();
  std::vector<double> works, yardsticks;
  const double end = wall_seconds() + seconds;
  while (works.size() < 3 || wall_seconds() < end) {
    yardsticks.push_back(cpu_seconds(yardstick, 1));
    works.push_back(cpu_seconds(work, times));
  }
  return {median(std::move(works)), median(std::move(yardsticks))};
}

void sgemm() {
  constexpr int kSide = 1024;
  static const std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, 0.25f);
  static std::vector<float> c(kSide * kSide);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSide, kSide, kSide, 1.0f, a.data(), kSide,
              b.data(), kSide, 0.0f, c.data(), kSide);
  keep(c.data());
}

void copy() {
  static const std::vector<char> from(static_cast<size_t>(kCopyBytes), 1);
  static std::vector<char> to(from.size());
  std::memcpy(to.data(), from.data(), from.size());
  keep(to.data());
}

}  // namespace tessera::bench
