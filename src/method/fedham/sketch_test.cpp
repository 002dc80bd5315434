#include "method/fedham/sketch.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

const Layout kSketched({{"a.weight", {40, 50}}, {"a.bias", {40}}, {"b.weight", {5}}});

Tensor random_rows(int64_t n, int64_t d, uint64_t key) {
  auto rows = at::empty({n, d}, at::kFloat);
  Rng rng(key);
  for (int64_t i = 0; i < n * d; ++i) rows.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  return rows;
}

TEST(Sketch, BlocksAreModules) {
  const auto blocks = kSketched.blocks();
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].name, "a");
  EXPECT_EQ(blocks[0].size, 2040);
  EXPECT_EQ(blocks[1].begin, 2040);
  EXPECT_EQ(blocks[1].size, 5);
}

// The definition, written again from docs/formats.md.
TEST(Sketch, IsTheDocumentedHash) {
  const auto w = random_rows(1, 2045, 1);
  std::vector<double> expected(16, 0.0);
  for (uint64_t t = 0; t < 2040; ++t) {
    const uint64_t inner = mix(mix(7 ^ mix(0)) ^ mix(t));
    expected[(inner >> 32) * 8 >> 32] +=
        ((inner & 1) != 0 ? -1.0 : 1.0) * w[0][static_cast<int64_t>(t)].item<float>();
  }
  for (int64_t t = 0; t < 5; ++t)
    expected[static_cast<size_t>(8 + t)] = w[0][2040 + t].item<float>();
  const auto got = sketch(w, kSketched, 8, 7).flatten();
  for (int64_t i = 0; i < 16; ++i)
    EXPECT_DOUBLE_EQ(got[i].item<double>(), expected[static_cast<size_t>(i)]) << i;
}

TEST(Sketch, IsLinear) {
  const auto rows = random_rows(2, 2045, 2).to(at::kDouble);
  const auto both = sketch(rows, kSketched, 32, 0);
  const auto sum = sketch((3 * rows[0] - rows[1]).unsqueeze(0), kSketched, 32, 0);
  EXPECT_LT((sum[0] - (3 * both[0] - both[1])).abs().max().item<double>(), 1e-12);
}

TEST(Sketch, KeepsInnerProductsInExpectation) {
  auto rows = random_rows(2, 2045, 3);
  rows[1].add_(rows[0], 0.5);
  const double exact =
      at::dot(rows[0].narrow(0, 0, 2040), rows[1].narrow(0, 0, 2040)).item<float>();
  double sum = 0, squares = 0;
  constexpr int kKeys = 400;
  for (int key = 0; key < kKeys; ++key) {
    const auto s = sketch(rows, kSketched, 32, static_cast<uint64_t>(key));
    const double dot = (s[0][0] * s[1][0]).sum().item<double>();
    sum += dot, squares += dot * dot;
  }
  const double mean = sum / kKeys, deviation = std::sqrt(squares / kKeys - mean * mean);
  EXPECT_NEAR(mean, exact, 4 * deviation / std::sqrt(kKeys));
  EXPECT_LT(deviation, 0.6 * exact);  // about ||a|| ||b|| / sqrt(32) · sqrt(1 + cos²)
}

TEST(Sketch, RefusesAnotherLength) {
  EXPECT_THROW(sketch(at::zeros({1, 3}), kSketched, 8, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tessera
