// The program's main, as part of libtessera: `tessera` calls it at once, and tests call it in a
// child that has the library loaded already (tests/cli/process.hpp).
#pragma once

/// Signals and threads, then run_cli(). Returns the exit code. Once per process, before there are
/// other threads.
extern "C" int tessera_main(int argc, char** argv);

/// Starts this program again, with the same arguments and a better OPENBLAS_CORETYPE, if OpenBLAS
/// took a lesser one than the processor can run; returns otherwise, and if that cannot be done.
/// With -v among the arguments it says what it does. For `tessera` alone: in a test's child "this
/// program" is the test.
extern "C" void tessera_start_with_right_blas(int argc, char** argv);
