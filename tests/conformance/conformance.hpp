// What every method must do, as a library: Tessera::conformance.
//
// States survive the codec, inputs stay as they are, the order of replies does not matter, a round
// that does not count changes nothing, a lie costs its upload, newcomers are served, any number of
// threads and a resumed run give the same bits, the loss falls, traffic is what the method says.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

/// Runs the suite on these methods of the table, or on all of them if none are named. Arguments are
/// GoogleTest's. Once in a program; returns its exit code.
int run_conformance(const std::vector<std::string>& methods, int argc, char** argv);

}  // namespace tessera::test
