// Times: for progress, reports and the simulated clock. Never an input of a computation.
#pragma once

namespace tessera {

double wall_seconds();        // monotonic, from an arbitrary start
double thread_cpu_seconds();  // CPU time of the calling thread

}  // namespace tessera
