// Every model's first and second derivatives against finite differences in float64.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::kPhotos;
using torch::autograd::grad;

struct DerivativeCase {
  std::string name;
  Shape shape;
  int64_t batch;
  int64_t coordinates;  // at least so many, and one of every slice
  Loss loss = Loss::kCrossEntropy;
  bool train = true;
};

std::string name_of(const ::testing::TestParamInfo<DerivativeCase>& info) {
  std::string name = info.param.name + (info.param.train ? "" : "_eval");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Networks that are not in the table: every activation, with norm and dropout.
ModelOptions options_of(const std::string& name) {
  ModelOptions out;
  out.name = name;
  if (name != "own-tanh" && name != "own-gelu") return out;
  out.name = "cnn", out.activation = name.substr(4);
  out.layers = {"conv 3 3 pad 1", "norm", "pool 3 2", "conv 4 3",   "dropout 0.2",
                "linear 9",       "norm", "linear 7", "dropout 0.4"};
  return out;
}

/// One problem: a model, weights, a batch.
class Derivative : public ::testing::TestWithParam<DerivativeCase> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const DerivativeCase& c = GetParam();
    model_ = *make_model(options_of(c.name), c.shape);
    at_ = testing::moved(*model_, 11);
    x_ = testing::batch(c.shape, c.batch, 12);
    y_ = testing::labels(c.batch, c.shape.classes, 13);
  }

  Tensor loss(const Tensor& w, const Tensor& x) const {
    const auto out = model_->forward({w, at_.b}, x, {GetParam().train, 99});
    return loss_value(GetParam().loss, out.logits, y_);
  }
  double value(const Tensor& w) const {
    const at::NoGradGuard no_grad;
    return loss(w, x_).item<double>();
  }
  Tensor gradient(const Tensor& w, const Tensor& x, bool graph = false) const {
    const Tensor leaf = w.requires_grad() ? w : w.detach().clone().requires_grad_();
    return grad({loss(leaf, x)}, {leaf}, {}, graph, graph)[0];
  }
  /// Central difference of the loss along coordinate i.
  double slope(int64_t i, double step) const {
    Tensor w = at_.w.clone();
    double& entry = w.data_ptr<double>()[i];
    const double centre = entry;
    entry = centre + step;
    const double above = value(w);
    entry = centre - step;
    return (above - value(w)) / (2 * step);
  }
  Tensor unit(int64_t n, uint64_t key) const {
    const Tensor direction = testing::normal({n}, key);
    return direction / direction.norm();
  }

  std::unique_ptr<Model> model_;
  Weights at_;
  Tensor x_, y_;
};

TEST_P(Derivative, FirstMatchesDifferences) {
  const Layout& layout = model_->layout();
  const auto slices = static_cast<int64_t>(layout.slices().size());
  const int64_t per_slice = (GetParam().coordinates + slices - 1) / slices;
  const Tensor exact = gradient(at_.w, x_);
  ASSERT_EQ(exact.numel(), layout.numel());
  Rng rng(5);
  int checked = 0;
  int skipped = 0;
  int moving = 0;
  for (size_t s = 0; s < layout.slices().size(); ++s) {
    for (int64_t k = 0; k < per_slice; ++k) {
      const auto size = static_cast<uint64_t>(layout.slices()[s].numel());
      const int64_t i = layout.offset(s) + static_cast<int64_t>(rng.below(size));
      const double wide = slope(i, 1e-5);
      const double narrow = slope(i, 1e-6);
      const double tolerance = 1e-8 + 1e-6 * std::abs(narrow);
      if (std::abs(wide - narrow) > tolerance) {  // a kink of ReLU or max-pool lies between
        ++skipped;
        continue;
      }
      ++checked;
      if (std::abs(wide) > 1e-6) ++moving;
      EXPECT_NEAR(exact[i].item<double>(), wide, tolerance) << layout.slices()[s].name;
    }
  }
  EXPECT_GE(checked + skipped, GetParam().coordinates);
  EXPECT_LE(skipped * 20, checked);
  EXPECT_GE(moving * 3, checked);  // dead units and biases before batch norm have slope 0
}

TEST_P(Derivative, SecondMatchesDifferences) {
  const Tensor v = unit(at_.w.numel(), 21);
  const Tensor leaf = at_.w.clone().requires_grad_();
  const Tensor exact = grad({gradient(leaf, x_, true).dot(v)}, {leaf})[0];
  constexpr double kStep = 1e-7;
  const Tensor above = gradient(at_.w + kStep * v, x_);
  const Tensor below = gradient(at_.w - kStep * v, x_);
  const Tensor difference = (above - below) / (2 * kStep);
  const double size = difference.norm().item<double>();
  EXPECT_GT(size, 1e-3);
  EXPECT_LT((exact - difference).norm().item<double>(), 1e-5 * size);
}

/// What gradient inversion needs: how the weights' gradient moves with the input.
TEST_P(Derivative, MixedWithInputMatchesDifferences) {
  const Tensor v = unit(at_.w.numel(), 31);
  const Tensor u = unit(x_.numel(), 32).view(x_.sizes());
  const Tensor leaf = at_.w.clone().requires_grad_();
  const Tensor input = x_.clone().requires_grad_();
  const Tensor along = gradient(leaf, input, true).dot(v);
  const double exact = (grad({along}, {input})[0] * u).sum().item<double>();
  constexpr double kStep = 1e-6;
  const double above = gradient(at_.w, x_ + kStep * u).dot(v).item<double>();
  const double below = gradient(at_.w, x_ - kStep * u).dot(v).item<double>();
  EXPECT_NEAR(exact, (above - below) / (2 * kStep), 1e-8 + 1e-5 * std::abs(exact));
}

const Shape kTiny{{3, 8, 8}, 10};
const Shape kShortAir{{6, 22}, 5};

INSTANTIATE_TEST_SUITE_P(
    Models, Derivative,
    ::testing::Values(
        DerivativeCase{"mlp100", kDigits, 3, 60}, DerivativeCase{"lenet", kPhotos, 3, 60},
        DerivativeCase{"lenet16", kDigits, 3, 60}, DerivativeCase{"lenet16-bn", kDigits, 4, 60},
        DerivativeCase{"lenet16-bn", kPhotos, 3, 20, Loss::kCrossEntropy, false},
        DerivativeCase{"facnn", kDigits, 2, 60}, DerivativeCase{"cnn32-s", kPhotos, 2, 60},
        DerivativeCase{"cnn128", kPhotos, 2, 10}, DerivativeCase{"alex28", kDigits, 2, 16},
        DerivativeCase{"alex28-s", kDigits, 2, 64}, DerivativeCase{"lenet-smooth", kPhotos, 3, 60},
        DerivativeCase{"gru64", kShortAir, 3, 60, Loss::kMultiLabel},
        DerivativeCase{"gru128", kShortAir, 2, 60}, DerivativeCase{"vit-s", kPhotos, 3, 80},
        DerivativeCase{"vit-s28", kDigits, 2, 80, Loss::kMultiLabel},
        DerivativeCase{"vit-p", kTiny, 2, 74}, DerivativeCase{"own-tanh", kTiny, 5, 60},
        DerivativeCase{"own-gelu", kTiny, 5, 60},
        DerivativeCase{"own-gelu", kTiny, 5, 40, Loss::kMultiLabel, false}),
    name_of);

}  // namespace
}  // namespace tessera
