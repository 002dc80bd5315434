#include "attack/image_metrics.hpp"

#include <numeric>

#include "attack/pixels.hpp"
#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::normal;

Tensor picture(std::vector<double> pixels, std::vector<int64_t> shape) {
  return at::tensor(pixels, at::kDouble).view(shape);
}

TEST(ImageMetrics, ErrorAndNoiseRatioByHand) {
  const auto a = picture({0, 0.5, 1, 0.25}, {1, 2, 2}),
             b = picture({0.1, 0.5, 0.8, 0.25}, {1, 2, 2});
  EXPECT_NEAR(image_mse(a, b), (0.01 + 0.04) / 4, 1e-15);
  EXPECT_NEAR(psnr(a, b), 10 * std::log10(4 / 0.05), 1e-10);
  // What lies outside the box counts as its border.
  EXPECT_EQ(image_mse(picture({-3, 7}, {1, 1, 2}), picture({0, 1}, {1, 1, 2})), 0);
  EXPECT_EQ(psnr(a, a), kMostPsnr);
  EXPECT_NEAR(psnr_of_mse(1e-6), 60, 1e-12);
  EXPECT_EQ(psnr_of_mse(0), kMostPsnr);
  EXPECT_THROW(image_mse(a, a.flatten()), std::invalid_argument);
}

// Two constant pictures have no variance: what is left of SSIM is (2ab + C1) / (a² + b² + C1).
TEST(ImageMetrics, SimilarityOfConstantPictures) {
  const auto a = at::full({2, 12, 13}, 0.25, at::kDouble),
             b = at::full({2, 12, 13}, 0.75, at::kDouble);
  EXPECT_NEAR(ssim(a, b), (2 * 0.25 * 0.75 + 1e-4) / (0.0625 + 0.5625 + 1e-4), 1e-10);
  EXPECT_NEAR(ssim(a, a), 1, 1e-12);
  EXPECT_THROW(ssim(a, b, {13, 1.5}), std::invalid_argument);  // higher than the picture
  EXPECT_THROW(ssim(a, b, {4, 1.5}), std::invalid_argument);
  EXPECT_THROW(ssim(a, at::full({2, 12, 12}, 0.5, at::kDouble)), std::invalid_argument);
}

// From the definition, window by window.
double ssim_by_loops(const Tensor& a, const Tensor& b, int64_t side, double sigma) {
  double sum = 0, places = 0;
  const int64_t half = side / 2;
  for (int64_t c = 0; c < a.size(0); ++c) {
    for (int64_t i = half; i + half < a.size(1); ++i) {
      for (int64_t j = half; j + half < a.size(2); ++j) {
        double total = 0, ma = 0, mb = 0, va = 0, vb = 0, both = 0;
        for (const bool second : {false, true}) {
          for (int64_t y = -half; y <= half; ++y) {
            for (int64_t x = -half; x <= half; ++x) {
              const double w = std::exp(-static_cast<double>(x * x + y * y) / (2 * sigma * sigma));
              const double p = a[c][i + y][j + x].item<double>(),
                           q = b[c][i + y][j + x].item<double>();
              if (!second)
                total += w, ma += w * p, mb += w * q;
              else
                va += w * (p - ma) * (p - ma), vb += w * (q - mb) * (q - mb),
                    both += w * (p - ma) * (q - mb);
            }
          }
          if (!second) ma /= total, mb /= total;
        }
        va /= total, vb /= total, both /= total;
        sum += (2 * ma * mb + 1e-4) * (2 * both + 9e-4) /
               ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4));
        ++places;
      }
    }
  }
  return sum / places;
}

TEST(ImageMetrics, SimilarityByLoops) {
  const auto a = normal({2, 13, 12}, 1).sigmoid(),
             b = (a + 0.2 * normal({2, 13, 12}, 2)).clamp(0, 1);
  EXPECT_NEAR(ssim(a, b), ssim_by_loops(a, b, 11, 1.5), 1e-10);
  EXPECT_NEAR(ssim(a, b, {7, 1.0}), ssim_by_loops(a, b, 7, 1.0), 1e-10);
  EXPECT_LT(ssim(a, 1 - a), 0);
}

double cost_of(const Tensor& cost, const std::vector<int64_t>& columns) {
  double sum = 0;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] >= 0) sum += cost[static_cast<int64_t>(i)][columns[i]].item<double>();
  return sum;
}

/// Over all permutations of the columns; of rows as many as there are columns, at most.
double least_by_force(const Tensor& cost) {
  const auto tall = cost.size(0) > cost.size(1) ? cost.t() : cost;
  std::vector<int64_t> order(static_cast<size_t>(tall.size(1)));
  std::iota(order.begin(), order.end(), 0);
  double least = 1e300;
  do {
    const std::vector<int64_t> first(order.begin(), order.begin() + tall.size(0));
    least = std::min(least, cost_of(tall, first));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(ImageMetrics, AssignmentAgainstAllPermutations) {
  uint64_t key = 1;
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {2, 2}, {3, 3}, {5, 5}, {6, 6}, {3, 6}, {6, 3}, {1, 5}, {5, 1}}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      auto cost = normal({rows, columns}, ++key);
      if (repeat % 2 == 0) cost = (cost * 2).round();  // with ties
      const auto got = least_cost_assignment(cost);
      ASSERT_EQ(got.size(), static_cast<size_t>(rows));
      std::set<int64_t> taken;
      for (const auto column : got)
        if (column >= 0) taken.insert(column);
      EXPECT_EQ(std::count(got.begin(), got.end(), -1), std::max<int64_t>(rows - columns, 0));
      EXPECT_EQ(taken.size(), static_cast<size_t>(std::min(rows, columns)));
      EXPECT_NEAR(cost_of(cost, got), least_by_force(cost), 1e-9) << rows << "×" << columns;
    }
  }
  EXPECT_EQ(least_cost_assignment(at::empty({2, 0}, at::kDouble)), (std::vector<int64_t>{-1, -1}));
  EXPECT_TRUE(least_cost_assignment(at::empty({0, 2}, at::kDouble)).empty());
  EXPECT_THROW(least_cost_assignment(at::full({2, 2}, std::nan(""), at::kDouble)),
               std::invalid_argument);
}

// Greedy would give the first original the picture that the second one needs.
TEST(ImageMetrics, BatchesAreMatchedBeforeTheyAreCompared) {
  const auto flat = [](double value) { return at::full({1, 8, 8}, value, at::kDouble); };
  const auto originals = at::stack({flat(0.5), flat(0.6)});
  const auto others = at::stack({flat(0.0), flat(0.55), flat(0.35)});
  // 0.5 → 0.55 and 0.6 → 0.35 cost .0025 + .0625; 0.5 → 0.35 and 0.6 → 0.55 cost .0225 + .0025.
  const auto got = compare_batches(originals, others, {7, 1.5});
  ASSERT_EQ(got.matches.size(), 2u);
  EXPECT_EQ(got.matches[0].reconstruction, 2);
  EXPECT_EQ(got.matches[1].reconstruction, 1);
  EXPECT_NEAR(got.mean.mse, 0.0125, 1e-12);
  EXPECT_NEAR(got.best.mse, 0.0025, 1e-12);
  EXPECT_NEAR(got.mean.psnr, 5 * (std::log10(1 / 0.0225) + std::log10(1 / 0.0025)), 1e-9);
  EXPECT_EQ(got.recall(4), 0.25);  // 26 dB and 16.5 dB, of four
  EXPECT_EQ(got.recall(4, 16), 0.5);
  const auto none = compare_batches(originals, at::empty({0, 1, 8, 8}, at::kDouble), {7, 1.5});
  EXPECT_TRUE(none.matches.empty());
  EXPECT_TRUE(std::isnan(none.mean.psnr));
  EXPECT_EQ(none.recall(2), 0);
}

TEST(ImageMetrics, TheRandomGuessIsTheMeanPicture) {
  const auto flat = [](double value) { return at::full({1, 8, 8}, value, at::kDouble); };
  const auto originals = at::stack({flat(0.2), flat(0.6)});
  const auto mean = mean_image(originals);
  EXPECT_TRUE(at::allclose(mean, flat(0.4)));
  const auto guess = random_guess(originals, mean, {7, 1.5});
  ASSERT_EQ(guess.matches.size(), 2u);
  EXPECT_NEAR(guess.mean.psnr, -10 * std::log10(0.04), 1e-9);
  auto attack = guess;
  attack.mean.psnr += 0.99;
  EXPECT_TRUE(defence_effective(attack, guess));
  attack.mean.psnr += 0.02;
  EXPECT_FALSE(defence_effective(attack, guess));
}

TEST(Pixels, ScaleThereAndBack) {
  const PixelScale scale{{0.5, 0.25}, {0.5, 2}};
  const auto x = picture({0, 1, 0.25, 4.25}, {1, 2, 1, 2});
  EXPECT_TRUE(at::allclose(scale.to_inputs(x), picture({-1, 1, 0, 2}, {1, 2, 1, 2})));
  EXPECT_TRUE(at::allclose(scale.to_pixels(scale.to_inputs(x)), x));
  EXPECT_TRUE(at::equal(PixelScale{}.to_inputs(x), x));
}

TEST(Pixels, VariationAndBlurByHand) {
  // Rows 0 1 3 and 2 2 2: horizontal |1|, |2|, 0, 0; vertical 2, 1, 1.
  EXPECT_NEAR(total_variation(picture({0, 1, 3, 2, 2, 2}, {1, 1, 2, 3})).item<double>(),
              3.0 / 4 + 4.0 / 3, 1e-12);
  EXPECT_EQ(total_variation(picture({0, 1, 3}, {1, 3})).item<double>(), 0);
  auto point = at::zeros({1, 2, 9, 9}, at::kDouble);
  point[0][1][4][4] = 1;
  const auto soft = blurred(point, 1.0);
  EXPECT_NEAR(soft.sum().item<double>(), 1, 1e-12);
  EXPECT_EQ(soft[0][0].abs().max().item<double>(), 0);  // channels stay apart
  EXPECT_NEAR((soft[0][1][4][5] / soft[0][1][4][4]).item<double>(), std::exp(-0.5), 1e-12);
  EXPECT_TRUE(at::allclose(blurred(at::ones({2, 1, 4, 4}), 2.0), at::ones({2, 1, 4, 4})));
}

}  // namespace
}  // namespace tessera
