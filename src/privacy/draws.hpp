// Random numbers that hide something: which samples a step draws, and the noise upon them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/key.hpp"
#include "privacy/entropy.hpp"

namespace tessera {

/// From a key, so that a run can be repeated by all who know its seed; or from the system, so that
/// nobody can. Not thread-safe.
class Draws {
 public:
  explicit Draws(uint64_t key) : rng_(key) {}
  static Draws of_system() { return Draws(); }

  /// In [0, 1), with 53 bits.
  double uniform();
  /// Standard normal; from a key the numbers of Rng::normal.
  double normal();
  /// Adds to every number one of a normal distribution of this deviation; two for the price of one.
  void add_normal(std::span<float> to, double deviation);

 private:
  Draws() = default;

  std::optional<Rng> rng_;  // none: the system
  std::array<uint8_t, 1024> ready_{};
  size_t used_ = ready_.size();
};

}  // namespace tessera
