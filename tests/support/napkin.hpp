// Two clients on NapkinModel, and its gradient in double precision: what hand calculations need.
#pragma once

#include <cmath>
#include <vector>

#include "support/toy.hpp"

namespace tessera::test {

/// The two weights of NapkinModel.
struct Napkin {
  double body, head;
};
struct NapkinData {
  std::vector<float> x;
  std::vector<int64_t> y;
};

inline const NapkinData kNapkinA{{1.0F}, {0}}, kNapkinB{{2.0F, -1.0F, 0.5F}, {1, 0, 0}};
constexpr Napkin kNapkinStart{0.5, -0.25};
constexpr double kNapkinLr = 0.2;

/// Gradient of the mean cross-entropy: (p0 − [y=0]) x and (p1 − [y=1]) x.
inline Napkin napkin_slope(Napkin w, const NapkinData& data) {
  Napkin g{0, 0};
  for (size_t i = 0; i < data.x.size(); ++i) {
    const double p0 = 1 / (1 + std::exp(-(w.body - w.head) * data.x[i]));
    const double share = data.x[i] / static_cast<double>(data.x.size());
    g.body += (p0 - (data.y[i] == 0)) * share;
    g.head += ((1 - p0) - (data.y[i] == 1)) * share;
  }
  return g;
}

/// A federation of A and B (1 and 3 samples), and `newcomers` like B; full batches.
inline Toy napkin_toy(ToyOptions options, int64_t newcomers = 0) {
  options.train.lr = kNapkinLr;
  options.train.batch = 100;
  Federation data;
  data.sample_shape = {1};
  data.classes = 2;
  data.clients = {napkin_client(kNapkinA.x, kNapkinA.y), napkin_client(kNapkinB.x, kNapkinB.y)};
  for (int64_t i = 0; i < newcomers; ++i)
    data.newcomers.push_back(napkin_client(kNapkinB.x, kNapkinB.y));
  return Toy(std::move(data), std::make_shared<NapkinModel>(), options);
}

}  // namespace tessera::test
