#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <cblas.h>

#include "measure.hpp"

int main(int argc, char** argv) {
  at::set_num_threads(1);
  openblas_set_num_threads(1);
  tessera::bench::register_models();
  tessera::bench::register_vectors();
  tessera::bench::register_codec();
  tessera::bench::register_rounds();
  tessera::bench::register_ham();
  tessera::bench::register_meta();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) return 2;
  tessera::bench::print_summary();
  return 0;
}
