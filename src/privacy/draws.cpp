#include "privacy/draws.hpp"

#include <cmath>
#include <numbers>

namespace tessera {

double Draws::uniform() {
  if (rng_) return rng_->uniform();
  if (used_ == ready_.size()) {
    SystemEntropy().fill(ready_);
    used_ = 0;
  }
  const auto bits = little_endian<uint64_t>(ByteSpan(ready_).subspan(used_, sizeof(uint64_t)));
  used_ += sizeof(uint64_t);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

double Draws::normal() {
  if (rng_) return rng_->normal();
  const double size = std::sqrt(-2 * std::log(1 - uniform()));
  return size * std::cos(2 * std::numbers::pi * uniform());
}

void Draws::add_normal(std::span<float> to, double deviation) {
  for (size_t i = 0; i < to.size(); i += 2) {
    const double size = deviation * std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    to[i] += static_cast<float>(size * std::cos(angle));
    if (i + 1 < to.size()) to[i + 1] += static_cast<float>(size * std::sin(angle));
  }
}

}  // namespace tessera
