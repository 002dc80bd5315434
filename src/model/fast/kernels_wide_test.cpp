// The text of avx512 compiled for AVX2, and what every set promises about bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/processor.hpp"
#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace wide {
namespace {

constexpr int kWide = 16, kDotRows = 6;
constexpr int kMostRows[] = {0, 12, 12, 8, 6};  // as kernels_avx512.cpp
using fast::AttentionShape;
using fast::BatchScale;
using fast::ConvShape;
using fast::kEpsilon;
using fast::Kernels;
using fast::kVector;
using fast::lanes_of;
using fast::Plane;

#pragma GCC push_options
#pragma GCC optimize("O3")  // tests are compiled without
#pragma GCC target("avx2,fma")
// Each of these uses the one before.
// clang-format off
#include "model/fast/tiles.inl.hpp"
#include "model/fast/conv.inl.hpp"
#include "model/fast/side.inl.hpp"
#include "model/fast/linear.inl.hpp"
#include "model/fast/transformer.inl.hpp"
#include "model/fast/gru.inl.hpp"
// clang-format on
#pragma GCC pop_options
#include "model/fast/table.inl.hpp"

}  // namespace
}  // namespace wide

namespace testing {

const fast::Kernels& wide_kernels() {
  static const fast::Kernels table = wide::make_table("avx512 on AVX2");
  return table;
}

std::vector<const fast::Kernels*> tested_kernels() {
  auto out = fast::runnable_kernels();
  if (this_processor().avx2) out.push_back(&wide_kernels());
  return out;
}

}  // namespace testing

namespace {

/// Numbers from −1 to 1 that are the same everywhere: no function of the C library is in them.
Tensor exact(std::vector<int64_t> shape, uint64_t state, float scale) {
  Tensor out = at::empty(shape, at::kFloat);
  auto* p = out.data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    p[i] = scale * static_cast<float>(static_cast<int64_t>(state >> 44) - (1 << 19)) / (1 << 19);
  }
  return out;
}

/// FNV-1a over the bytes of a training step's loss, gradient and running values, and of logits.
uint64_t digest_of(const char* name, const std::vector<int64_t>& sample,
                   const fast::Kernels& kernels) {
  const fast::KernelScope scope(kernels);
  const auto model = testing::made(name, {sample, 10});
  std::vector<int64_t> shape{10};
  shape.insert(shape.end(), sample.begin(), sample.end());
  Weights at{exact({model->layout().numel()}, 1, 0.1F), model->init(1).b};
  const Tensor x = exact(shape, 2, 1.0F), y = at::arange(10, at::kLong);
  Tensor grad = at::empty_like(at.w);
  double value = 0;
  EXPECT_TRUE(model->training_gradient(at, x, y, Loss::kCrossEntropy, 3, grad, value));
  const Tensor logits = model->predict(at, x);
  uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](const void* data, size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 1099511628211ULL;
  };
  add(&value, sizeof value);
  add(grad.data_ptr(), 4 * static_cast<size_t>(grad.numel()));
  add(at.b.data_ptr(), 4 * static_cast<size_t>(at.b.numel()));
  add(logits.data_ptr(), 4 * static_cast<size_t>(logits.numel()));
  return hash;
}

struct Recorded {
  const char* model;
  std::vector<int64_t> sample;
  uint64_t avx2, wide, avx512;
};

/// Recorded on an AMD EPYC (family 25, model 1; AVX2, no AVX-512) with g++ 12.2 and glibc 2.36:
/// `avx2` by the version before there was a choice (but for lenet, whose samples lie side by side
/// in evaluation since then, and the last two), `wide` by the text of avx512 compiled for AVX2.
/// `avx512` on an Intel Xeon (family 6, model 207) with the same compiler, which for four networks
/// chooses other multiply-adds than for AVX2. Another compiler may do so, too, and then needs a
/// record of its own.
const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> all{
      {"mlp100", {1, 28, 28}, 0xccfb71c4c2928186, 0xcda90a35313a20ce, 0x304f34434f1dcb2d},
      {"lenet", {3, 32, 32}, 0x2410733d56162fe2, 0x4d61d5aa5b398d32, 0x38e977059779f4f7},
      {"lenet16", {3, 32, 32}, 0x911b8d474f8080f0, 0x10b732c8a0c14c22, 0x9cd98121cecfefde},
      {"facnn", {1, 28, 28}, 0xf5786cbad4a84a2a, 0x7bfd6175b794dbf5, 0x7bfd6175b794dbf5},
      {"alex28-s", {1, 28, 28}, 0x8c22cdee9709a86d, 0xba5a31e4367faaf8, 0xba5a31e4367faaf8},
      {"lenet16-bn", {3, 32, 32}, 0x8f964429b6febdf8, 0xe7f909e2557b596c, 0xc5e87db942c06dd0},
      {"gru64", {48, 22}, 0xbab75394bfd0f8f6, 0x6f2954d494ea80d9, 0x6f2954d494ea80d9},
  };
  return all;
}

TEST(Kernels, Avx2GivesTheRecordedBits) {
  if (!this_processor().avx2) GTEST_SKIP() << "this processor has no AVX2";
  for (const auto& r : recorded())
    EXPECT_EQ(digest_of(r.model, r.sample, fast::avx2_kernels()), r.avx2) << r.model;
}

TEST(Kernels, TheTextOfAvx512GivesTheRecordedBitsOnAvx2) {
  if (!this_processor().avx2) GTEST_SKIP() << "this processor has no AVX2";
  for (const auto& r : recorded())
    EXPECT_EQ(digest_of(r.model, r.sample, testing::wide_kernels()), r.wide) << r.model;
}

TEST(Kernels, Avx512GivesTheRecordedBits) {
  if (!this_processor().avx512) GTEST_SKIP() << "this processor has no AVX-512";
  for (const auto& r : recorded())
    EXPECT_EQ(digest_of(r.model, r.sample, fast::avx512_kernels()), r.avx512) << r.model;
}

TEST(Kernels, AreChosenByNameAndByScope) {
  const auto sets = fast::runnable_kernels();
  EXPECT_STREQ(sets.back()->name, "portable");
  EXPECT_EQ(*fast::kernels_named("auto"), sets.front());
  EXPECT_EQ(*fast::kernels_named("portable"), &fast::portable_kernels());
  EXPECT_EQ(&fast::kernels(), sets.front());
  {
    const fast::KernelScope scope(fast::portable_kernels());
    EXPECT_STREQ(fast::kernels().name, "portable");
    {
      const fast::KernelScope inner(*sets.front());
      EXPECT_EQ(&fast::kernels(), sets.front());
    }
    EXPECT_STREQ(fast::kernels().name, "portable");
  }
  EXPECT_EQ(&fast::kernels(), sets.front());
  const auto none = fast::kernels_named("avx4096");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(message(none.status()).find("cannot run the kernels avx4096 (it can run: "),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
