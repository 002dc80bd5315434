// The program `tessera`.
#include "cli/program.hpp"

int main(int argc, char** argv) { return tessera_main(argc, argv); }
