#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "data/sources.hpp"

namespace tessera {
namespace {

Pool empty_pool(const ImageSet& images, std::span<const int64_t> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  Pool pool{at::empty({n, images.channels, images.height, images.width}, at::kFloat),
            at::empty({n}, at::kLong), images.labels.classes};
  int64_t* y = pool.y.data_ptr<int64_t>();
  for (const int64_t row : rows) *y++ = images.labels.label(row);
  return pool;
}

}  // namespace

Pool make_pool(const ImageSet& images, std::span<const int64_t> rows, const Moments& moments) {
  auto pool = empty_pool(images, rows);
  pool.pixel_mean = moments.mean, pool.pixel_std = moments.std;
  const int64_t plane = images.height * images.width;
  float* x = pool.x.data_ptr<float>();
  std::vector<std::array<float, 256>> tables(static_cast<size_t>(images.channels));
  for (size_t c = 0; c < tables.size(); ++c)
    for (size_t v = 0; v < 256; ++v)
      tables[c][v] =
          static_cast<float>((static_cast<double>(v) / 255.0 - moments.mean[c]) / moments.std[c]);
  for (const int64_t row : rows) {
    const uint8_t* from = images.image(row);
    for (const auto& table : tables)
      for (int64_t i = 0; i < plane; ++i) *x++ = table[*from++];
  }
  return pool;
}

Pool make_pixel_pool(const ImageSet& images, std::span<const int64_t> rows) {
  const auto size = static_cast<size_t>(images.image_size());
  std::vector<uint64_t> sums(size), squares(size);
  for (int64_t row = 0; row < images.count(); ++row) {
    const uint8_t* from = images.image(row);
    for (size_t i = 0; i < size; ++i) {
      const uint64_t v = from[i];
      sums[i] += v, squares[i] += v * v;
    }
  }
  const auto n = static_cast<double>(images.count());
  std::vector<double> mean(size), scale(size);
  for (size_t i = 0; i < size; ++i) {
    mean[i] = static_cast<double>(sums[i]) / n;
    const double variance = static_cast<double>(squares[i]) / n - mean[i] * mean[i];
    scale[i] = 1.0 / (std::sqrt(std::max(0.0, variance)) + 0.001);
  }
  auto pool = empty_pool(images, rows);
  float* x = pool.x.data_ptr<float>();
  for (const int64_t row : rows) {
    const uint8_t* from = images.image(row);
    for (size_t i = 0; i < size; ++i)
      *x++ = static_cast<float>((static_cast<double>(from[i]) - mean[i]) * scale[i]);
  }
  return pool;
}

}  // namespace tessera
