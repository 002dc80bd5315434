// Randomness by key: every random decision of a run is a pure function of (seed, what it is for).
//
// No generator is shared, none lives longer than its use, so neither the number of threads nor the
// order of work can change a number. The standard library's distributions differ between
// implementations; these are our own and fixed forever (docs/formats.md).
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

/// What a stream of random numbers is for. Values are part of the reproducibility contract.
enum class Purpose : uint64_t {
  kInit = 1,        // initial weights
  kCohort = 2,      // which clients take part
  kDrop = 3,        // which of them are lost
  kLocal = 4,       // a client's work in a round: batch order, dropout
  kPartition = 5,   // how data are dealt to clients
  kBuild = 6,       // built datasets (V-MNIST, MNIST-M)
  kClient = 7,      // a client's initial state
  kStraggler = 8,   // which clients are slow
  kCommons = 9,     // the server's work on public data
  kEvaluated = 10,  // which clients evaluations ask
  kGuard = 11,      // how a client's upload is rounded
};

/// SplitMix64's output function: a bijection that scatters neighbouring inputs.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A new key from a key and any number of integers; order matters.
template <class... Parts>
constexpr uint64_t derive(uint64_t key, Parts... parts) {
  ((key = mix(key ^ mix(static_cast<uint64_t>(parts)))), ...);
  return key;
}

/// Counter-based: the n-th number is a function of key and n, so a stream is never "advanced" by
/// accident.
class Rng {
 public:
  explicit Rng(uint64_t key) : key_(mix(key)) {}

  uint64_t bits() { return mix(key_ + 0x9e3779b97f4a7c15ULL * ++count_); }
  /// Uniform in [0, 1) with 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in {0, …, n−1}, without modulo bias. n >= 1.
  uint64_t below(uint64_t n);
  /// Standard normal (Box–Muller; two draws a number, nothing is kept back).
  double normal();
  /// Gamma(shape, 1), shape > 0 (Marsaglia and Tsang).
  double gamma(double shape);
  /// Symmetric Dirichlet of n shares. Exact zeros are possible for tiny alpha.
  std::vector<double> dirichlet(int64_t n, double alpha);

  template <class T>
  void shuffle(std::span<T> items) {
    for (uint64_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  /// A random order of 0 … n−1.
  std::vector<int64_t> permutation(int64_t n);
  /// k distinct numbers of 0 … n−1, ascending.
  std::vector<int64_t> sample(int64_t n, int64_t k);

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

}  // namespace tessera
