#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "base/blas.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"

namespace {

bool asks_for_more(std::span<char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [](std::string_view word) { return word == "-v" || word == "--verbose"; });
}

}  // namespace

// OpenBLAS chooses when it is loaded, which is before main: only a new start can change it.
extern "C" void tessera_start_with_right_blas(int argc, char** argv) {
  using namespace tessera;
  const auto core = blas_core();
  const auto better =
      better_core(this_processor(), core, [](const char* name) { return std::getenv(name); });
  if (better.empty()) return;
  const bool tells = asks_for_more({argv, static_cast<size_t>(argc)});
  if (tells)
    print_note(
        fmt::format("OpenBLAS took its kernels for {}, this processor can run those for "
                    "{}: starting again with {}={}",
                    core, better, kCoreVariable, better));
  setenv(kCoreVariable, better.c_str(), 1);
  setenv(kAgainVariable, core.c_str(), 1);
  execv("/proc/self/exe", argv);
  if (tells)
    print_note(fmt::format("cannot start again ({}): going on with those for {}",
                           std::strerror(errno), core));
  unsetenv(kCoreVariable);
}
