// The command line: words to calls. The only folder that knows a command-line parser.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace tessera {

/// Runs a whole command (arguments without the program's name) and returns its exit code:
/// 0 done, 1 failed while running, 2 wrong input, 130 interrupted. Never throws.
int run_cli(const std::vector<std::string>& arguments, const std::atomic<bool>& stop);

}  // namespace tessera
