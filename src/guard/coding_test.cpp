#include "guard/coding.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "base/key.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

Tensor row(std::vector<float> numbers) { return at::tensor(numbers); }

std::vector<float> numbers_of(const Tensor& tensor) {
  const auto dense = tensor.to(at::kFloat).contiguous();
  return {dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel()};
}

Tensor normals(int64_t n, uint64_t key, double scale = 1) {
  Rng rng(key);
  auto out = at::empty({n}, at::kFloat);
  for (int64_t i = 0; i < n; ++i)
    out.data_ptr<float>()[i] = static_cast<float>(scale * rng.normal());
  return out;
}

TEST(HalfCoding, RoundsToNearestAndEven) {
  const float ulp = std::ldexp(1.0F, -10);  // of fp16 at 1
  const auto half = to_half(row({0.5F, -3, 1 + ulp / 2, 1 + 3 * ulp / 2, 2049, 2051}));
  ASSERT_THAT(half, Succeeds());
  EXPECT_EQ(half->scalar_type(), at::kHalf);
  EXPECT_EQ(numbers_of(*half), (std::vector<float>{0.5F, -3, 1, 1 + 2 * ulp, 2048, 2052}));
}

TEST(HalfCoding, SmallNumbersAreOffByTheLastBitAtMost) {
  const auto x = row({std::ldexp(1.0F, -24), std::ldexp(1.5F, -26), std::ldexp(1.0F, -30)});
  EXPECT_EQ(numbers_of(*to_half(x)), (std::vector<float>{std::ldexp(1.0F, -24), 0, 0}));
}

TEST(HalfCoding, NumbersBeyondItsRangeAreRefused) {
  EXPECT_EQ(numbers_of(*to_half(row({65504, -65504, 65519}))),
            (std::vector<float>{65504, -65504, 65504}));
  EXPECT_THAT(to_half(row({1, 65520})), FailsWith(Error::kInvalid, "beyond the 65504"));
  EXPECT_THAT(to_half(row({-1e30F})), FailsWith(Error::kInvalid, "beyond the 65504"));
}

TEST(Int8Coding, MultiplesOfAStepAreExact) {
  // The largest is 127, so a step is 1 and nothing is left to chance.
  const auto x = row({127, -127, 0, 1, -64, 3});
  for (uint64_t key = 0; key < 50; ++key) {
    const auto coded = to_int8(x, key);
    EXPECT_EQ(numbers_of(coded.scale), (std::vector<float>{1}));
    EXPECT_EQ(numbers_of(coded.steps), numbers_of(x));
    EXPECT_EQ(numbers_of(*from_int8(coded)), numbers_of(x));
  }
}

TEST(Int8Coding, ANumberBetweenTwoStepsBecomesOneOfThem) {
  const auto x = row({254, 5, -5, 0.5F});  // a step is 2
  bool seen[2] = {false, false};
  for (uint64_t key = 0; key < 100; ++key) {
    const auto back = numbers_of(*from_int8(to_int8(x, key)));
    EXPECT_EQ(back[0], 254);
    EXPECT_TRUE(back[1] == 4 || back[1] == 6) << back[1];
    EXPECT_TRUE(back[2] == -4 || back[2] == -6) << back[2];
    EXPECT_TRUE(back[3] == 0 || back[3] == 2) << back[3];
    seen[back[1] == 6] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST(Int8Coding, TheExpectationIsTheNumber) {
  const auto x = row({127, 0.25F, -0.75F, 3.5F, 0.01F});
  constexpr int kKeys = 20'000;
  auto sum = at::zeros({5}, at::kDouble);
  for (uint64_t key = 0; key < kKeys; ++key) sum += *from_int8(to_int8(x, derive(3, key)));
  // Of a number with fraction f the variance is f (1 − f) steps; five standard errors.
  for (int64_t i = 0; i < 5; ++i) {
    const double exact = x[i].item<double>(), f = exact - std::floor(exact);
    EXPECT_NEAR(sum[i].item<double>() / kKeys, exact, 5 * std::sqrt(f * (1 - f) / kKeys) + 1e-9);
  }
}

TEST(Int8Coding, EveryBlockHasItsScaleAndNoNumberIsAStepOff) {
  const auto x =
      at::cat({normals(kInt8Block, 1), normals(kInt8Block, 2, 1e-6), normals(3, 3, 1e6)});
  const auto coded = to_int8(x, 7);
  ASSERT_EQ(coded.scale.numel(), 3);
  const auto back = *from_int8(coded);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double step = coded.scale[i / kInt8Block].item<double>();
    EXPECT_LE(std::abs(back[i].item<double>() - x[i].item<double>()), step * (1 + 1e-6)) << i;
  }
  for (int64_t b = 0; b < 3; ++b) {
    const auto block = x.slice(0, b * kInt8Block, std::min(x.numel(), (b + 1) * kInt8Block));
    EXPECT_NEAR(coded.scale[b].item<double>(), block.abs().max().item<double>() / 127,
                1e-6 * coded.scale[b].item<double>());
  }
}

TEST(Int8Coding, ExtremesStayFinite) {
  EXPECT_EQ(numbers_of(*from_int8(to_int8(at::zeros({300}), 1))), std::vector<float>(300, 0));
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(numbers_of(*from_int8(to_int8(row({tiny, -tiny}), 1))),
            (std::vector<float>{tiny, -tiny}));
  const auto large = numbers_of(*from_int8(to_int8(row({3e38F, -3e38F}), 1)));
  EXPECT_NEAR(large[0], 3e38F, 1e32F);
  EXPECT_NEAR(large[1], -3e38F, 1e32F);
}

TEST(Int8Coding, TheKeyAloneDecides) {
  const auto x = normals(1000, 5);
  EXPECT_TRUE(at::equal(to_int8(x, 1).steps, to_int8(x, 1).steps));
  EXPECT_FALSE(at::equal(to_int8(x, 1).steps, to_int8(x, 2).steps));
}

TEST(Int8Coding, ScalesAndStepsThatCannotBeAreRefused) {
  const auto steps = at::zeros({4}, at::kChar);
  for (const float scale : {-1.0F, NAN, INFINITY})
    EXPECT_THAT(from_int8({steps, row({scale})}), FailsWith(Error::kInvalid, "scale of block 0"));
  auto low = steps.clone();
  low[2] = -128;
  EXPECT_THAT(from_int8({low, row({1})}), FailsWith(Error::kInvalid, "number 2 has −128 steps"));
}

TEST(SparseCoding, TheLargestAreKeptWithTheirSigns) {
  const auto coded = largest(row({1, -5, 0, 4, -2}), 2);
  EXPECT_EQ(coded.index.scalar_type(), at::kInt);
  EXPECT_EQ(numbers_of(coded.index), (std::vector<float>{1, 3}));
  EXPECT_EQ(numbers_of(coded.value), (std::vector<float>{-5, 4}));
  EXPECT_EQ(numbers_of(*from_sparse(coded, 5)), (std::vector<float>{0, -5, 0, 4, 0}));
}

TEST(SparseCoding, OfEqualNumbersTheFirstAreTaken) {
  const auto coded = largest(row({2, 1, -2, 3, 2, -2}), 3);
  EXPECT_EQ(numbers_of(coded.index), (std::vector<float>{0, 2, 3}));
  EXPECT_EQ(numbers_of(largest(at::zeros({5}), 2).index), (std::vector<float>{0, 1}));
  EXPECT_EQ(numbers_of(largest(row({7, 8}), 2).value), (std::vector<float>{7, 8}));
}

TEST(SparseCoding, AgreesWithASortOfEverything) {
  const auto x = normals(5000, 11).mul(4).round();  // many ties
  for (const int64_t k : {1, 50, 2500, 5000}) {
    std::vector<std::pair<float, int64_t>> all;
    for (int64_t i = 0; i < 5000; ++i) all.emplace_back(-std::abs(x[i].item<float>()), i);
    std::sort(all.begin(), all.end());
    std::vector<float> index;
    for (int64_t i = 0; i < k; ++i)
      index.push_back(static_cast<float>(all[static_cast<size_t>(i)].second));
    std::sort(index.begin(), index.end());
    EXPECT_EQ(numbers_of(largest(x, k).index), index) << k;
  }
}

TEST(SparseCoding, CountsAreRoundedUp) {
  EXPECT_EQ(sparse_count(0.01, 300), 3);
  EXPECT_EQ(sparse_count(0.01, 301), 4);
  EXPECT_EQ(sparse_count(0.01, 16), 1);
  EXPECT_EQ(sparse_count(0.5, 17), 9);
}

TEST(SparseCoding, IndicesThatCannotBeAreRefused) {
  const auto coded = [](std::vector<int32_t> index) {
    return SparseNumbers{at::tensor(index, at::kInt), at::ones({std::ssize(index)})};
  };
  EXPECT_THAT(from_sparse(coded({0, 4}), 5), Succeeds());
  EXPECT_THAT(from_sparse(coded({0, 5}), 5), FailsWith(Error::kInvalid, "index 5 is not in 0 … 4"));
  EXPECT_THAT(from_sparse(coded({-1, 2}), 5), FailsWith(Error::kInvalid, "index -1 is not in"));
  EXPECT_THAT(from_sparse(coded({2, 2}), 5), FailsWith(Error::kInvalid, "must ascend"));
  EXPECT_THAT(from_sparse(coded({3, 2}), 5), FailsWith(Error::kInvalid, "must ascend"));
}

}  // namespace
}  // namespace tessera
