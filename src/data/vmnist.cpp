#include "data/vmnist.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/key.hpp"

namespace tessera {
namespace {

constexpr int64_t kDigitSide = 28, kPixels = kDigitSide * kDigitSide;
constexpr double kFlatPatch = 10.0;  // patches whose deviation is below are no background
constexpr int kPatchTries = 1000;

// Totals in the order of kVariants; inside a variant 0.28, 0.33 and 0.39 go to its clients.
constexpr std::array<int64_t, 6> kTotals{21000, 18000, 9000, 9000, 8400, 7395};
constexpr std::array<int64_t, 4> kCuts{0, 28, 61, 100};
constexpr int64_t kBalanced = 4600;

enum Variant { kPlain, kFashion, kRotated, kNoise, kPhoto, kRotatedPhoto };

void cut_patch(const ImageSet& photos, Rng& rng, uint8_t* patch) {
  for (int attempt = 0; attempt < kPatchTries; ++attempt) {
    const auto row = static_cast<int64_t>(rng.below(static_cast<uint64_t>(photos.count())));
    const auto top = static_cast<int64_t>(rng.below(static_cast<uint64_t>(photos.height - 27)));
    const auto left = static_cast<int64_t>(rng.below(static_cast<uint64_t>(photos.width - 27)));
    double sum = 0.0, squares = 0.0;
    for (int64_t y = 0; y < kDigitSide; ++y) {
      const auto* from = photos.image(row) + (top + y) * photos.width + left;
      std::memcpy(patch + y * kDigitSide, from, kDigitSide);
      for (int64_t x = 0; x < kDigitSide; ++x)
        sum += from[x], squares += double{1} * from[x] * from[x];
    }
    const double mean = sum / kPixels;
    if (squares / kPixels - mean * mean >= kFlatPatch * kFlatPatch) return;
  }
}

void render(Variant variant, const uint8_t* source, const ImageSet& photos, Rng& rng, uint8_t* to) {
  std::array<uint8_t, kPixels> background;
  if (variant == kRotated || variant == kRotatedPhoto)
    rotate_digit(source, rng.uniform(0.0, 2.0 * std::numbers::pi), to);
  else
    std::memcpy(to, source, kPixels);
  if (variant == kPlain || variant == kFashion || variant == kRotated) return;
  if (variant == kNoise)
    for (auto& pixel : background) pixel = static_cast<uint8_t>(rng.below(256));
  else
    cut_patch(photos, rng, background.data());
  for (size_t i = 0; i < background.size(); ++i)
    if (to[i] == 0) to[i] = background[i];
}

}  // namespace

std::vector<int64_t> vmnist_counts(bool balanced, int64_t shrink) {
  std::vector<int64_t> counts;
  for (const int64_t variant_total : kTotals) {
    const int64_t all = variant_total / shrink;
    for (size_t i = 0; i < kVariantClients; ++i) {
      // Whole numbers only: the cuts must be the same on every machine.
      const int64_t own = (all * kCuts[i + 1] + 50) / 100 - (all * kCuts[i] + 50) / 100;
      counts.push_back(balanced ? kBalanced / shrink : own);
    }
  }
  return counts;
}

void rotate_digit(const uint8_t* from, double angle, uint8_t* to) {
  const double centre = (kDigitSide - 1) / 2.0, sine = std::sin(angle), cosine = std::cos(angle);
  const auto pixel = [&](int64_t y, int64_t x) {
    return y < 0 || x < 0 || y >= kDigitSide || x >= kDigitSide
               ? 0.0
               : double{1} * from[y * kDigitSide + x];
  };
  for (int64_t y = 0; y < kDigitSide; ++y) {
    for (int64_t x = 0; x < kDigitSide; ++x) {
      const double dx = static_cast<double>(x) - centre, dy = static_cast<double>(y) - centre;
      const double sx = centre + cosine * dx - sine * dy, sy = centre + sine * dx + cosine * dy;
      const double fx = std::floor(sx), fy = std::floor(sy), wx = sx - fx, wy = sy - fy;
      const auto ix = static_cast<int64_t>(fx), iy = static_cast<int64_t>(fy);
      const double top = (1 - wx) * pixel(iy, ix) + wx * pixel(iy, ix + 1);
      const double bottom = (1 - wx) * pixel(iy + 1, ix) + wx * pixel(iy + 1, ix + 1);
      to[y * kDigitSide + x] = static_cast<uint8_t>((1 - wy) * top + wy * bottom + 0.5);
    }
  }
}

ImageSet build_vmnist(const ImageSet& mnist, const ImageSet& fashion, const ImageSet& photos,
                      const std::vector<int64_t>& counts, uint64_t key) {
  key = derive(key, Purpose::kBuild);
  const auto digits = Rng(derive(key, 0)).permutation(mnist.count());
  const auto clothes = Rng(derive(key, 1)).permutation(fashion.count());
  ImageSet out{1, kDigitSide, kDigitSide, {}, {}, {}};
  out.labels.classes = 10;
  size_t next_digit = 0, next_cloth = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const auto variant = static_cast<Variant>(k / kVariantClients);
    const auto& set = variant == kFashion ? fashion : mnist;
    for (int64_t i = 0; i < counts[k]; ++i) {
      const int64_t row = variant == kFashion ? clothes[next_cloth++] : digits[next_digit++];
      Rng rng(derive(key, 2, variant, row));
      out.pixels.resize(out.pixels.size() + kPixels);
      render(variant, set.image(row), photos, rng, out.pixels.data() + out.pixels.size() - kPixels);
      out.labels.train.push_back(set.labels.label(row));
    }
  }
  return out;
}

}  // namespace tessera
