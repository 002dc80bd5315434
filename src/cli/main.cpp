// The program `tessera`.
#include "cli/program.hpp"

int main(int argc, char** argv) {
  tessera_start_with_right_blas(argc, argv);
  return tessera_main(argc, argv);
}
