// Rounds of 20 clients that hold equal amounts of random images, trained as the examples do:
// nothing but the engine can wait.
#pragma once

#include <string>

#include "run/simulation.hpp"

namespace tessera::bench {

class Rounds {
 public:
  static constexpr int64_t kClients = 20, kBatch = 10, kStepsEach = 6;  // of a client in a round

  /// `method` on facnn, with an evaluation after every round if asked. Throws where it cannot
  /// begin.
  Rounds(const std::string& method, int threads, bool evaluates);

  /// Wall time of one more round.
  double seconds();

 private:
  Federation federation_;
  Simulation simulation_;
  bool evaluates_;
  int64_t round_ = 0;
};

}  // namespace tessera::bench
