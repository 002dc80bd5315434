// The program's main, as part of libtessera: `tessera` calls it at once, and tests call it in a
// child that has the library loaded already (tests/cli/process.hpp).
#pragma once

/// Signals and threads, then run_cli(). Returns the exit code. Once per process, before there are
/// other threads.
extern "C" int tessera_main(int argc, char** argv);
