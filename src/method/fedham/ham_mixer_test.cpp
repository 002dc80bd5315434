#include "method/fedham/ham_mixer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/key.hpp"
#include "method/fedham/ham_test_net.hpp"
#include "method/fedham/sketch.hpp"

namespace tessera {
namespace {

using testing::normal;
using testing::SmallNet;

struct MixerScene {
  SmallNet net;
  Weights own;
  std::vector<Weights> others;
  Weights global;
  Examples batch;

  explicit MixerScene(int64_t count) {
    own = net.moved(1), global = net.moved(2);
    for (int64_t i = 0; i < count; ++i) others.push_back(net.moved(10 + static_cast<uint64_t>(i)));
    batch = net.batch(12, 3);
  }
  HamMixer mixer(const HamShape& shape) const {
    const bool first = shape.layers == HamLayers::kFirst;
    const bool second = shape.layers == HamLayers::kSecond;
    return HamMixer(net, shape, own, second ? std::span<const Weights>() : others,
                    first ? std::nullopt : std::optional(global));
  }
  // Away from the start, where V = 0 hides half of the derivatives.
  Tensor theta(const HamShape& shape) const {
    const auto start = ham_start(net.layout(), shape, 5);
    return start + 0.3 * normal(start.sizes().vec(), 6);
  }
  void shift(double size) {
    const auto common = size * normal({own.w.numel()}, 9);
    own.w = own.w + common, global.w = global.w + common;
    for (auto& other : others) other.w = other.w + common;
  }
  double loss(const HamMixer& mixer, const Tensor& theta) const {
    const auto mixed = mixer.mix(mixer.scores(theta));
    return loss_value(Loss::kCrossEntropy, net.forward(mixed, batch.x, {}).logits, batch.y)
        .item<double>();
  }
};

const std::vector<HamLayers> kAll{HamLayers::kBoth, HamLayers::kFirst, HamLayers::kSecond};

HamShape shape_of(HamLayers layers, bool by_block) {
  HamShape shape;
  shape.layers = layers, shape.by_block = by_block, shape.width = 6, shape.rank = 2;
  return shape;
}

TEST(HamMixer, GradientIsThatOfTheLossAtTheMixture) {
  const MixerScene scene(4);
  for (const auto layers : kAll)
    for (const bool by_block : {false, true}) {
      const auto shape = shape_of(layers, by_block);
      const auto mixer = scene.mixer(shape);
      const auto theta = scene.theta(shape).requires_grad_(true);
      const auto scores = mixer.scores(theta);
      auto mixed = mixer.mix(scores);
      auto v = at::empty_like(mixed.w);
      batch_gradient(scene.net, mixed, scene.batch, Loss::kCrossEntropy, 0, v);
      const auto gradient = mixer.gradient(scores, theta, v);
      // Every number of theta, one at a time.
      const auto flat = gradient.flatten();
      ASSERT_GT(flat.abs().max().item<double>(), 1e-3);
      for (int64_t i = 0; i < flat.numel(); ++i) {
        constexpr double kStep = 1e-5;
        auto up = theta.detach().clone(), down = theta.detach().clone();
        up.view(-1)[i] += kStep, down.view(-1)[i] -= kStep;
        const double slope = (scene.loss(mixer, up) - scene.loss(mixer, down)) / (2 * kStep);
        EXPECT_NEAR(flat[i].item<double>(), slope, 1e-8)
            << "layers " << static_cast<int>(layers) << " by_block " << by_block << " at " << i;
      }
    }
}

std::vector<double> softmax(std::vector<double> e) {
  double total = 0;
  for (double& x : e) total += x = std::exp(x);
  for (double& x : e) x /= total;
  return e;
}

// §5.3.3 again, with dense matrices and no linearity put to use; whole models only.
struct ByHand {
  Tensor a, b;
  ByHand(const MixerScene& scene, const HamShape& shape, const Tensor& theta) {
    const auto row = theta[0];
    const int64_t blocks = 3, size = blocks * shape.width;
    const auto matrix = [&](int64_t i) {
      const auto at = [&](int64_t j) {
        return row.narrow(0, 5 + j * size * shape.rank, size * shape.rank).view({size, shape.rank});
      };
      return at::eye(size, at::kDouble) + at(2 * i).mm(at(2 * i + 1).t());
    };
    const auto sketched = [&](const Tensor& w) {
      return sketch(w.unsqueeze(0), scene.net.layout(), shape.width, shape.basis)[0];
    };
    std::vector<Weights> cluster{scene.own};
    cluster.insert(cluster.end(), scene.others.begin(), scene.others.end());
    auto centre = at::zeros_like(scene.own.w);
    for (const auto& w : cluster) centre += w.w / static_cast<double>(cluster.size());
    auto spread = at::zeros({blocks}, at::kDouble), raw = spread.clone();
    for (const auto& w : cluster) {
      spread += sketched(w.w - centre).square().sum(1);
      raw += sketched(w.w).square().sum(1);
    }
    raw += sketched(scene.global.w).square().sum(1);
    spread = (spread / static_cast<double>(cluster.size())).sqrt();
    raw = (raw / static_cast<double>(cluster.size() + 1)).sqrt();
    const auto phi = [&](const Tensor& w, const Tensor& scale) {
      const auto psi = (sketched(w) / scale.unsqueeze(1)).flatten();
      return psi / psi.norm();
    };
    std::vector<double> e;
    const auto query = matrix(0).mv(phi(scene.own.w - centre, spread));
    for (const auto& w : scene.others)
      e.push_back((row[0] * query.dot(matrix(1).mv(phi(w.w - centre, spread)))).item<double>());
    a = at::tensor(softmax(e), at::kDouble);
    auto attended = at::zeros_like(scene.own.w);
    for (size_t j = 0; j < scene.others.size(); ++j)
      attended += a[static_cast<int64_t>(j)] * scene.others[j].w;
    const auto query2 = matrix(2).mv(phi(scene.own.w, raw));
    e.clear();
    for (const auto& w : {scene.own.w, attended, scene.global.w})
      e.push_back(
          (row[1] * query2.dot(matrix(3).mv(phi(w, raw))) + row[2 + static_cast<int64_t>(e.size())])
              .item<double>());
    b = at::tensor(softmax(e), at::kDouble);
  }
};

TEST(HamMixer, ScoresAndMixtureAreTheFormulas) {
  const MixerScene scene(4);
  const auto shape = shape_of(HamLayers::kBoth, false);
  const auto theta = scene.theta(shape);
  const auto mixer = scene.mixer(shape);
  const auto scores = mixer.scores(theta);
  const ByHand expected(scene, shape, theta);
  EXPECT_TRUE(scores.a[0].allclose(expected.a, 1e-9, 1e-12)) << scores.a << expected.a;
  EXPECT_TRUE(scores.b[0].allclose(expected.b, 1e-9, 1e-12)) << scores.b << expected.b;
  auto x = expected.b[0] * scene.own.w + expected.b[2] * scene.global.w;
  for (int64_t j = 0; j < 4; ++j)
    x += expected.b[1] * expected.a[j] * scene.others[static_cast<size_t>(j)].w;
  EXPECT_TRUE(mixer.mix(scores).w.allclose(x, 1e-12, 1e-12));
}

TEST(HamMixer, OrderOfTheModelsChangesOnlyTheOrder) {
  const MixerScene scene(4);
  MixerScene turned(4);
  std::swap(turned.others[0], turned.others[3]);
  std::swap(turned.others[1], turned.others[3]);  // 3, 0, 2, 1
  const auto order = at::tensor({3, 0, 2, 1}, at::kLong);
  for (const bool by_block : {false, true}) {
    const auto shape = shape_of(HamLayers::kBoth, by_block);
    const auto theta = scene.theta(shape);
    const auto one = scene.mixer(shape), two = turned.mixer(shape);
    const auto before = one.scores(theta), after = two.scores(theta);
    EXPECT_TRUE(before.a.index_select(1, order).allclose(after.a, 1e-12, 1e-14));
    EXPECT_TRUE(before.b.allclose(after.b, 1e-12, 1e-14));
    EXPECT_TRUE(one.mix(before).w.allclose(two.mix(after).w, 1e-12, 1e-14));
  }
}

TEST(HamMixer, WeightsSumToOneAndAbsentSlotsGetNone) {
  const auto one = [](const Tensor& rows) {
    return rows.sum(1).allclose(at::ones({rows.size(0)}, at::kDouble), 0, 1e-14);
  };
  for (const auto layers : kAll)
    for (const bool by_block : {false, true})
      for (const int64_t others : {0, 1, 5}) {
        const MixerScene scene(others);
        const auto shape = shape_of(layers, by_block);
        const auto mixer = scene.mixer(shape);
        const auto scores = mixer.scores(scene.theta(shape));
        EXPECT_TRUE(one(scores.b));
        if (scores.a.size(1) > 0) {
          EXPECT_TRUE(one(scores.a));
        }
        const bool attends = others > 0 && layers != HamLayers::kSecond;
        EXPECT_EQ(scores.b.select(1, 1).max().item<double>() > 0, attends);
        EXPECT_EQ(scores.b.select(1, 2).max().item<double>() > 0, layers != HamLayers::kFirst);
        if (layers == HamLayers::kFirst) {
          EXPECT_EQ(scores.b.select(1, 0).max().item<double>(), attends ? 0 : 1);
        }
        EXPECT_TRUE(mixer.mix(scores).w.isfinite().all().item<bool>());
      }
}

TEST(HamMixer, MixtureOfEqualModelsIsThatModelBitForBit) {
  MixerScene scene(3);
  scene.global = scene.own;
  for (auto& other : scene.others) other = scene.own;
  for (const auto layers : kAll) {
    const auto shape = shape_of(layers, false);
    const auto mixer = scene.mixer(shape);
    EXPECT_TRUE(mixer.mix(mixer.scores(scene.theta(shape))).w.equal(scene.own.w));
  }
}

TEST(HamMixer, StartsTiltedToSimilarModelsAndUndecidedBetweenSlots) {
  MixerScene scene(5);
  scene.others[2].w = scene.own.w + 0.02 * normal({scene.own.w.numel()}, 8);
  scene.shift(5);  // trained models share most of what they are
  const HamShape shape;
  const auto scores = scene.mixer(shape).scores(ham_start(scene.net.layout(), shape, 5));
  EXPECT_EQ(scores.a[0].argmax().item<int64_t>(), 2);
  EXPECT_GT((scores.a[0][2] / scores.a[0].min()).item<double>(), 2);
  EXPECT_LE((scores.a[0][2] / scores.a[0].min()).item<double>(), std::exp(2.0));
  EXPECT_LT((scores.b - 1.0 / 3).abs().max().item<double>(), 0.05);
}

// Without centring, models that share most of their numbers all look alike.
TEST(HamMixer, LayerOneSeesDifferencesNotWhatAllShare) {
  MixerScene scene(5);
  scene.others[2].w = scene.own.w + 0.02 * normal({scene.own.w.numel()}, 8);
  const HamShape shape;
  const auto theta = ham_start(scene.net.layout(), shape, 5);
  const auto before = scene.mixer(shape).scores(theta).a;
  scene.shift(100);
  EXPECT_TRUE(scene.mixer(shape).scores(theta).a.allclose(before, 1e-6, 1e-9));
}

TEST(HamMixer, SlotBiasCanBeLeftOut) {
  const MixerScene scene(2);
  auto shape = shape_of(HamLayers::kBoth, false);
  auto theta = scene.theta(shape);
  const auto with = scene.mixer(shape).scores(theta).b;
  shape.slot_bias = false;
  const auto without = scene.mixer(shape).scores(theta).b;
  EXPECT_FALSE(with.allclose(without));
  theta.narrow(1, 2, 3).zero_();
  shape.slot_bias = true;
  EXPECT_TRUE(scene.mixer(shape).scores(theta).b.equal(without));
}

TEST(HamMixer, RunningStatisticsAreMixedAndVariancesStayPositive) {
  const auto made = make_model("lenet16-bn", {{3, 32, 32}, 10});
  ASSERT_TRUE(made.ok());
  const Model& model = **made;
  const auto with = [&](double statistic) {
    auto out = model.init(1);
    out.b = at::full_like(out.b, statistic);
    return out;
  };
  const auto own = with(4);
  const std::vector<Weights> others{with(1), with(3)};
  for (const bool by_block : {false, true}) {
    HamShape shape;
    shape.by_block = by_block;
    const HamMixer mixer(model, shape, own, others, with(-100));
    const auto scores = mixer.scores(ham_start(model.layout(), shape, 5));
    const auto mixed = mixer.mix(scores);
    const auto expected =
        (scores.b.select(1, 0) * 4 - scores.b.select(1, 2) * 100 +
         scores.b.select(1, 1) * (scores.a.select(1, 0) + 3 * scores.a.select(1, 1)))
            .to(at::kFloat);
    const auto views = model.buffers().views(mixed.b);
    const auto blocks = model.layout().blocks();
    for (size_t i = 0; i < views.size(); ++i) {
      const auto& slice = model.buffers().slices()[i];
      int64_t group = 0;
      while (by_block && blocks[static_cast<size_t>(group)].name != slice.block()) ++group;
      if (slice.name.ends_with("running_var")) {
        EXPECT_TRUE(views[i].equal(at::full_like(views[i], 1e-5))) << slice.name;
      } else
        EXPECT_TRUE(views[i].allclose(expected[group].expand_as(views[i]), 1e-4)) << slice.name;
    }
    EXPECT_TRUE(own.b.equal(at::full_like(own.b, 4)));
  }
}

}  // namespace
}  // namespace tessera
