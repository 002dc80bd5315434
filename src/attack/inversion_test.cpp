#include "attack/inversion.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "attack/image_metrics.hpp"
#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::digits;
using testing::doubled;
using testing::gradient;
using testing::kDigits;
using testing::made;

const Shape kSmall{{1, 8, 8}, 10};

/// Smooth and small, so that a test takes a moment; float64.
std::unique_ptr<Model> small_model() {
  ModelOptions options;
  options.name = "cnn", options.activation = "sigmoid";
  options.layers = {"conv 8 3 pad 1", "linear 30"};
  return std::move(*make_model(options, kSmall));
}

/// Digits of 7×7 pixels with a border, in float64.
Examples small_digits(int64_t n, int64_t begin = 0) {
  const auto whole = digits(n, begin);
  const auto x = at::constant_pad_nd(at::avg_pool2d(whole.x, 4), {0, 1, 0, 1});
  return {x.to(at::kDouble), whole.y};
}

Observation seen_by(const Model& model, const Weights& at, const Tensor& seen, int64_t samples,
                    const Shape& shape) {
  return {model, at, seen, {}, samples, shape.sample, {}};
}

/// What a client really does: step by step, without autograd over the steps.
Tensor update_by_steps(const Model& model, const Weights& start, const Examples& batch,
                       const LocalSteps& steps) {
  auto now = start.clone();
  for (int64_t epoch = 0; epoch < steps.epochs; ++epoch) {
    for (int64_t begin = 0; begin < batch.size(); begin += steps.batch) {
      const int64_t end = std::min(begin + steps.batch, batch.size());
      const Examples part{batch.x.slice(0, begin, end), batch.y.slice(0, begin, end)};
      now.w = now.w - steps.lr * gradient(model, now, part);
    }
  }
  return start.w - now.w;
}

Examples noise(int64_t n) { return {testing::batch(kSmall, n, 5), testing::labels(n, 10, 6)}; }

TEST(Inversion, TheSimulationIsWhatAClientSends) {
  const auto model = small_model();
  const auto at = testing::moved(*model, 3);
  const auto batch = noise(5);
  auto seen = seen_by(*model, at, {}, 5, kSmall);
  EXPECT_LT(
      testing::distance(simulated_upload(seen, batch.x, batch.y), gradient(*model, at, batch)),
      1e-12);
  seen.steps = LocalSteps{2, 2, 0.3};  // batches of 2, 2 and 1, twice
  EXPECT_LT(testing::distance(simulated_upload(seen, batch.x, batch.y),
                              update_by_steps(*model, at, batch, *seen.steps)),
            1e-12);
  // Hard labels are shares of 1.
  const auto shares = at::one_hot(batch.y, 10).to(at::kDouble);
  EXPECT_LT(testing::distance(simulated_upload(seen, batch.x, shares),
                              simulated_upload(seen, batch.x, batch.y)),
            1e-12);
  seen.loss = Loss::kMultiLabel;
  EXPECT_THROW(simulated_upload(seen, batch.x, shares), std::invalid_argument);
}

// <v, upload(x)> moves with x and with the shares of classes as finite differences say.
TEST(Inversion, SlopesThroughStepsMatchDifferences) {
  const auto model = small_model();
  const auto at = testing::moved(*model, 3);
  const auto batch = noise(3);
  auto seen = seen_by(*model, at, {}, 3, kSmall);
  seen.steps = LocalSteps{2, 2, 0.5};
  const auto v = testing::normal({at.w.numel()}, 8);
  const auto value = [&](const Tensor& x, const Tensor& shares) {
    return simulated_upload(seen, x, at::softmax(shares, 1)).dot(v);
  };
  const auto x = batch.x.clone().requires_grad_(true);
  const auto shares = testing::normal({3, 10}, 9).requires_grad_(true);
  const auto slopes = torch::autograd::grad({value(x, shares)}, {x, shares});
  const auto u = testing::normal({3, 1, 8, 8}, 10), s = testing::normal({3, 10}, 11);
  constexpr double kStep = 1e-5;
  const auto difference = [&](const Tensor& dx, const Tensor& ds) {
    return (value(batch.x + kStep * dx, shares.detach() + kStep * ds) -
            value(batch.x - kStep * dx, shares.detach() - kStep * ds))
               .item<double>() /
           (2 * kStep);
  };
  EXPECT_NEAR((slopes[0] * u).sum().item<double>(), difference(u, at::zeros_like(s)), 1e-6);
  EXPECT_NEAR((slopes[1] * s).sum().item<double>(), difference(at::zeros_like(u), s), 1e-6);
}

TEST(Inversion, DistanceFindsPictureAndLabel) {
  TESSERA_NEED_SET("mnist");
  const auto model = small_model();
  const auto at = doubled(model->init(1));
  const auto batch = small_digits(1);
  const auto seen = seen_by(*model, at, gradient(*model, at, batch), 1, kSmall);
  const auto known = invert_by_distance(seen, batch.y, {}, 3);  // iDLG
  EXPECT_GT(psnr(known.pixels, batch.x), 40);
  const auto unknown = invert_by_distance(seen, {}, {}, 3);  // DLG
  EXPECT_EQ(unknown.labels.item<int64_t>(), batch.y.item<int64_t>());
  EXPECT_GT(psnr(unknown.pixels, batch.x), 40);
  EXPECT_LT(unknown.objective, 1e-8);
  RecordProperty("psnr", fmt::format("iDLG {:.1f}, DLG {:.1f}", psnr(known.pixels, batch.x),
                                     psnr(unknown.pixels, batch.x)));
  EXPECT_THROW(invert_by_distance(seen, at::zeros({2}, at::kLong), {}, 3), std::invalid_argument);
}

GeipingOptions quick(int64_t iterations, double tv) {
  GeipingOptions out;
  out.iterations = iterations, out.tv = tv;
  return out;
}

// The proof that attacks work: a real picture from a real gradient.
TEST(Inversion, AngleFindsDigitsOnLenetSmooth) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("lenet-smooth", kDigits);
  const auto at = model->init(1);
  for (const int64_t which : {0, 2}) {
    const auto batch = digits(1, which);
    const auto seen = seen_by(*model, at, gradient(*model, at, batch), 1, kDigits);
    const auto got = invert_by_angle(seen, batch.y, quick(600, 1e-4), 3);
    const double db = psnr(got.pixels, batch.x);
    EXPECT_GT(db, 20);
    EXPECT_GT(db, random_guess(batch.x, mean_image(digits(500).x)).mean.psnr + 1);
    // The network does not see the last three rows and columns: noise stays there.
    const auto in_view = [](const Tensor& x) { return x.slice(2, 0, 25).slice(3, 0, 25); };
    const double viewed = psnr(in_view(got.pixels), in_view(batch.x));
    EXPECT_GT(viewed, 25);
    RecordProperty(fmt::format("psnr_{}", which),
                   fmt::format("{:.1f}, in view {:.1f}", db, viewed));
  }
}

/// What a client with this one sample and guard dp-sgd (bound 1) sends of a single step.
Tensor private_gradient(const Model& model, const Weights& at, const Examples& one, double sigma,
                        uint64_t key) {
  ClientData data;
  data.pool = std::make_shared<Pool>(Pool{one.x, one.y, 10});
  data.train = {0};
  TrainOptions options;
  options.epochs = 1, options.batch = 1, options.lr = 1, options.loss = "ce";
  options.privacy = SamplePrivacy{1, sigma};
  return at.w - local_sgd(at, {model, data, 1, key}, options).weights.w;
}

// The same pictures as above under differential privacy. Of four priors the best result counts,
// which is more than an attacker could choose.
TEST(Inversion, AngleFindsNothingUnderDifferentialPrivacy) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("lenet-smooth", kDigits);
  const auto at = model->init(1);
  const auto mean = mean_image(digits(500).x);
  for (const int64_t which : {0, 2}) {
    const auto batch = digits(1, which);
    // Without noise it is the gradient, cut to length 1.
    const auto plain = gradient(*model, at, batch), cut = private_gradient(*model, at, batch, 0, 9);
    EXPECT_GT(at::cosine_similarity(plain, cut, 0).item<double>(), 0.9999);
    const auto seen = seen_by(*model, at, private_gradient(*model, at, batch, 2, 9), 1, kDigits);
    double best = 0;
    for (const double tv : {1e-4, 1e-3, 1e-2, 1e-1})
      best =
          std::max(best, psnr(invert_by_angle(seen, batch.y, quick(600, tv), 3).pixels, batch.x));
    const double reference = random_guess(batch.x, mean).mean.psnr;
    EXPECT_LT(best, reference + 1);
    RecordProperty(fmt::format("psnr_{}", which),
                   fmt::format("{:.2f}, reference {:.2f}", best, reference));
  }
}

TEST(Inversion, AngleThroughSeveralLocalSteps) {
  TESSERA_NEED_SET("mnist");
  const auto model = small_model();
  const auto at = doubled(model->init(1));
  const auto batch = small_digits(2, 4);
  const LocalSteps steps{2, 1, 0.5};
  auto seen = seen_by(*model, at, update_by_steps(*model, at, batch, steps), 2, kSmall);
  seen.steps = steps;
  const auto got = invert_by_angle(seen, batch.y, quick(400, 1e-5), 3);
  const double db = compare_batches(batch.x, got.pixels, {7, 1.5}).mean.psnr;
  EXPECT_GT(db, 25);
  // Who takes the update for one gradient sees less.
  seen.steps.reset();
  const auto naive = invert_by_angle(seen, batch.y, quick(400, 1e-5), 3);
  const double without = compare_batches(batch.x, naive.pixels, {7, 1.5}).mean.psnr;
  EXPECT_GT(db, without + 3);
  RecordProperty("psnr", fmt::format("{:.1f}, as one gradient {:.1f}", db, without));
}

TEST(Inversion, APartOfTheUploadIsEnough) {
  TESSERA_NEED_SET("mnist");
  const auto model = small_model();
  const auto at = doubled(model->init(1));
  const auto batch = small_digits(1, 7);
  auto seen = seen_by(*model, at, gradient(*model, at, batch), 1, kSmall);
  seen.uploaded = model->layout().mask(Role::kHead).logical_not();
  // Numbers that did not travel change nothing.
  seen.seen.masked_fill_(seen.uploaded.logical_not(), 1e6);
  const auto got = invert_by_angle(seen, batch.y, quick(300, 1e-5), 3);
  EXPECT_GT(psnr(got.pixels, batch.x), 25);
  // Without the head nothing says the label at once; it is searched along.
  const auto blind = invert_by_angle(seen, {}, quick(300, 1e-5), 3);
  EXPECT_EQ(blind.labels.numel(), 1);
  EXPECT_GT(psnr(blind.pixels, batch.x), 20);
  RecordProperty("psnr", fmt::format("{:.1f}, label unknown {:.1f}", psnr(got.pixels, batch.x),
                                     psnr(blind.pixels, batch.x)));
}

// Nothing is left in a gradient under noise of its own size ten times over.
TEST(Inversion, NoiseHidesThePicture) {
  TESSERA_NEED_SET("mnist");
  const auto model = small_model();
  const auto at = doubled(model->init(1));
  const auto batch = small_digits(1, 7);
  const auto plain = gradient(*model, at, batch);
  const auto noisy =
      plain + 10 * plain.square().mean().sqrt() * testing::normal({plain.numel()}, 4);
  const auto got =
      invert_by_angle(seen_by(*model, at, noisy, 1, kSmall), batch.y, quick(300, 1e-4), 3);
  EXPECT_LT(psnr(got.pixels, batch.x), 15);
}

TEST(Inversion, TheBestOfSeveralStartsIsKept) {
  const auto model = small_model();
  const auto at = doubled(model->init(1));
  const auto batch = noise(1);
  const auto seen = seen_by(*model, at, gradient(*model, at, batch), 1, kSmall);
  auto options = quick(20, 1e-4);
  const auto one = invert_by_angle(seen, batch.y, options, 3);
  options.restarts = 4, options.sign = true;
  const auto four = invert_by_angle(seen, batch.y, options, 3);
  options.restarts = 1;
  EXPECT_LE(four.objective, invert_by_angle(seen, batch.y, options, 3).objective);
  EXPECT_NE(four.objective, one.objective);
  EXPECT_GE(four.pixels.min().item<double>(), 0);
  EXPECT_LE(four.pixels.max().item<double>(), 1);
}

}  // namespace
}  // namespace tessera
