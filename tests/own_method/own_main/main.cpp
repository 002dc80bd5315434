// The conformance suite called by somebody else's program.
#include "conformance/conformance.hpp"

int main(int argc, char** argv) { return tessera::test::run_conformance({"local"}, argc, argv); }
