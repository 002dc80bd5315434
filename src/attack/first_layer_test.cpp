#include "attack/first_layer.hpp"

#include "attack/image_metrics.hpp"
#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::digits;
using testing::gradient;
using testing::kDigits;
using testing::made;

TEST(FirstLayer, IsFoundWhereTheInputMeetsIt) {
  const auto mlp = first_layer(made("mlp100", kDigits)->layout());
  ASSERT_TRUE(mlp);
  EXPECT_EQ(mlp->rows, 100);
  EXPECT_EQ(mlp->inputs, 784);
  EXPECT_EQ(mlp->bias, 78400);
  EXPECT_FALSE(first_layer(made("lenet", kDigits)->layout()));
  EXPECT_FALSE(first_layer(made("gru64", {{4, 22}, 5})->layout()));
  const auto patches = first_layer(made("vit-s28", kDigits)->layout());
  ASSERT_TRUE(patches);
  EXPECT_EQ(patches->inputs, 49);
}

// Two units, three inputs; delta is written down, so is what each row must give.
TEST(FirstLayer, QuotientsByHand) {
  const FirstLayer layer{0, 6, 2, 3};
  // One sample x = (1, 2, −4): delta = (0.5, −2).
  const auto one = at::tensor({0.5, 1.0, -2.0, -2.0, -4.0, 8.0, 0.5, -2.0}, at::kFloat);
  EXPECT_TRUE(at::allclose(*extract_sample(layer, one), at::tensor({1.0, 2.0, -4.0}, at::kFloat)));
  const auto none = at::cat({at::ones({6}), at::full({2}, 1e-13)});
  EXPECT_FALSE(extract_sample(layer, none));
  EXPECT_EQ(extract_rows(layer, none).size(0), 0);
  // Unit 0 felt x only; unit 1 felt x and y = (0, 0, 1) alike: their mean.
  const auto two = at::tensor({0.1, 0.2, 0.4, 0.5, 1.0, 2.5, 0.1, 1.0}, at::kFloat);
  const auto rows = extract_rows(layer, two);
  EXPECT_TRUE(
      at::allclose(rows, at::tensor({1.0, 2.0, 4.0, 0.5, 1.0, 2.5}, at::kFloat).view({2, 3})));
  // In pixels (input + 1) / 4 only the second lies in the box.
  const auto kept = extract_pictures(layer, two, {1, 1, 3}, {{0.25}, {0.25}});
  ASSERT_EQ(kept.size(0), 1);
  EXPECT_TRUE(at::allclose(kept.flatten(), at::tensor({0.375, 0.5, 0.875}, at::kFloat)));
}

TEST(FirstLayer, OneDigitIsExact) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("mlp100", kDigits);
  const auto layer = *first_layer(model->layout());
  const PixelScale scale{{0.1307}, {0.3081}};
  for (int64_t i = 0; i < 4; ++i) {
    const auto batch = digits(1, i);
    const auto at = model->init(static_cast<uint64_t>(i));
    const Examples seen{scale.to_inputs(batch.x), batch.y};
    const auto got = extract_sample(layer, gradient(*model, at, seen));
    ASSERT_TRUE(got);
    const double db = psnr(scale.to_pixels(got->view({1, 1, 28, 28})), batch.x);
    EXPECT_GT(db, 60);
    if (i == 0) RecordProperty("psnr", fmt::format("{:.1f}", db));
    // The same from an upload after one step of SGD, which rounds.
    const auto after = at.w - 0.1 * gradient(*model, at, seen);
    const auto step = extract_sample(layer, gradient_of_step(at.w, after, 0.1));
    EXPECT_GT(psnr(scale.to_pixels(step->view({1, 1, 28, 28})), batch.x), 40);
  }
}

/// Recall over a batch of m digits that a client with these first-layer weights sends.
double recall_of(const Model& model, const Weights& at, int64_t m) {
  const auto batch = digits(m, 100);
  const auto layer = *first_layer(model.layout());
  const auto found = extract_pictures(layer, gradient(model, at, batch), {1, 28, 28}, {});
  return compare_batches(batch.x, found).recall(m);
}

// Without a trap most units fire for half of the batch and show mixtures.
TEST(FirstLayer, ATrapCatchesMoreOfABatch) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("mlp100", kDigits);
  const auto layer = *first_layer(model->layout());
  const auto at = model->init(5);
  constexpr int64_t kBatch = 8;
  const auto other = digits(200, 1000);
  const double gamma = trap_gamma(layer, other.x, kBatch, 7);
  EXPECT_GT(gamma, 1.02);
  EXPECT_LT(gamma, 1.5);
  const Weights trapped{with_trap(layer, at.w, {0.1, gamma}, 7), at.b};
  const double plain = recall_of(*model, at, kBatch), caught = recall_of(*model, trapped, kBatch);
  EXPECT_GE(caught, plain + 0.25);
  EXPECT_GE(caught, 0.5);
  RecordProperty("recall", fmt::format("{} of {} with gamma {:.3f}", caught, plain, gamma));
}

TEST(FirstLayer, ATrapIsWhatItsDescriptionSays) {
  const auto model = made("mlp100", kDigits);
  const auto layer = *first_layer(model->layout());
  const auto at = testing::moved(*model, 3);
  const auto w = at.w.to(at::kFloat);
  const auto got = with_trap(layer, w, {0.2, 1.5}, 9);
  const auto rows = got.narrow(0, 0, 78400).view({100, 784});
  EXPECT_TRUE(((rows < 0).sum(1) == 392).all().item<bool>());
  EXPECT_EQ(got.narrow(0, 78400, 100).abs().max().item<float>(), 0);
  EXPECT_TRUE(at::equal(got.narrow(0, 78500, 1010), w.narrow(0, 78500, 1010)));
  // E|N(0, s²)| = s √(2/π), times gamma on the negative side.
  const double expected = 0.2 * std::sqrt(2 / M_PI);
  EXPECT_NEAR(rows.clamp_min(0).mean().item<double>() * 2, expected, 0.003);
  EXPECT_NEAR(rows.clamp_max(0).mean().item<double>() * -2, 1.5 * expected, 0.005);
}

}  // namespace
}  // namespace tessera
