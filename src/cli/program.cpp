#include "cli/program.hpp"

#include <ATen/Parallel.h>
#include <cblas.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/cli.hpp"

namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

// The first asks for a stop at the next safe point; the second means now.
extern "C" void on_signal(int) {
  if (!stop_asked.exchange(true)) return;
  constexpr char kLine[] = "\ntessera: stopped at once; continue with --resume\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(130);
}

}  // namespace

int tessera_main(int argc, char** argv) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  // Parallelism is over clients; torch's and OpenBLAS's own pools would fight with it.
  at::set_num_threads(1);
  openblas_set_num_threads(1);
  return tessera::run_cli({argv + 1, argv + argc}, stop_asked);
}
