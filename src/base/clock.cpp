#include "base/clock.hpp"

#include <ctime>

namespace tessera {
namespace {

double read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double wall_seconds() { return read(CLOCK_MONOTONIC); }
double thread_cpu_seconds() { return read(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace tessera
