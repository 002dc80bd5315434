#include "model/gru.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::sigmoid;

using Rows = std::vector<std::vector<double>>;

struct NaiveLayer {
  const double *ih, *hh, *bias_ih, *bias_hh;
  size_t inputs, hidden;

  double from(const double* w, const double* bias, size_t row, const std::vector<double>& x) const {
    double sum = bias[row];
    for (size_t i = 0; i < x.size(); ++i) sum += w[row * x.size() + i] * x[i];
    return sum;
  }
  /// States after each step, by the definition of PyTorch's documentation.
  Rows run(const Rows& x) const {
    Rows states;
    std::vector<double> h(hidden, 0.0);
    for (const auto& now : x) {
      std::vector<double> next(hidden);
      for (size_t k = 0; k < hidden; ++k) {
        const auto input = [&](size_t gate) { return from(ih, bias_ih, gate * hidden + k, now); };
        const auto state = [&](size_t gate) { return from(hh, bias_hh, gate * hidden + k, h); };
        const double r = sigmoid(input(0) + state(0));
        const double z = sigmoid(input(1) + state(1));
        const double n = std::tanh(input(2) + r * state(2));
        next[k] = (1 - z) * n + z * h[k];
      }
      h = next;
      states.push_back(h);
    }
    return states;
  }
};

TEST(Gru, ForwardMatchesLoops) {
  const Shape shape{{7, 5}, 3};
  const auto model = testing::made("gru64", shape);
  const Weights at = testing::moved(*model, 1);
  const Tensor x = testing::batch(shape, 2, 2);
  const auto out = model->forward(at, x, {true, 3});
  const double* w = at.w.data_ptr<double>();
  const auto layer = [&](size_t first, size_t inputs) {
    const auto part = [&](size_t i) { return w + model->layout().offset(first + i); };
    return NaiveLayer{part(0), part(1), part(2), part(3), inputs, 64};
  };
  for (int64_t n = 0; n < 2; ++n) {
    Rows steps;
    for (int64_t t = 0; t < 7; ++t) {
      const Tensor row = x[n][t].contiguous();
      steps.emplace_back(row.data_ptr<double>(), row.data_ptr<double>() + 5);
    }
    const auto last = layer(4, 64).run(layer(0, 5).run(steps)).back();
    const Tensor features = out.features[n].contiguous();
    for (size_t k = 0; k < 64; ++k) EXPECT_NEAR(features.data_ptr<double>()[k], last[k], 1e-12);
    for (int64_t c = 0; c < 3; ++c) {
      double sum = w[model->layout().offset(9) + c];
      for (int64_t k = 0; k < 64; ++k) {
        sum += w[model->layout().offset(8) + c * 64 + k] * last[static_cast<size_t>(k)];
      }
      EXPECT_NEAR(out.logits[n][c].item<double>(), sum, 1e-12);
    }
  }
}

TEST(Gru, TakesSequencesOfAnyLengthButNotOtherFeatures) {
  const auto model = testing::made("gru64", {{7, 5}, 3});
  const Weights at = model->init(1);
  EXPECT_EQ(model->forward(at, testing::normal({2, 1, 5}, 1), {}).logits.size(1), 3);
  EXPECT_THROW(model->forward(at, testing::normal({2, 7, 6}, 1), {}), std::invalid_argument);
  EXPECT_THROW(model->forward(at, testing::normal({2, 0, 5}, 1), {}), std::invalid_argument);
  EXPECT_THROW(model->forward(at, testing::normal({2, 35}, 1), {}), std::invalid_argument);
}

void expect_hand_written(const std::string& name, const Shape& shape, int64_t n, Loss loss) {
  const auto model = testing::made(name, shape);
  const Weights exact = testing::moved(*model, 1);
  const Weights at{exact.w.to(at::kFloat), exact.b.to(at::kFloat)};
  const Tensor x = testing::batch(shape, n, 2);
  const Tensor y = testing::labels(n, shape.classes, 3);
  Tensor grad = at::full_like(at.w, NAN);
  double value = 0;
  ASSERT_TRUE(model->value_and_grad(at, x.to(at::kFloat), y, loss, grad, value));

  const Tensor leaf = exact.w.clone().requires_grad_();
  const Tensor by_graph = loss_value(loss, model->forward({leaf, exact.b}, x, {true, 0}).logits, y);
  const Tensor expected = torch::autograd::grad({by_graph}, {leaf})[0];
  EXPECT_NEAR(value, by_graph.item<double>(), 1e-5);
  const auto got = model->layout().views(grad);
  const auto want = model->layout().views(expected);
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = (got[i] - want[i]).norm().item<double>();
    EXPECT_LE(error, 1e-5 * want[i].norm().item<double>()) << model->layout().slices()[i].name;
  }
  Tensor again = at::empty_like(grad);
  ASSERT_TRUE(model->value_and_grad(at, x.to(at::kFloat), y, loss, again, value));
  EXPECT_TRUE(at::equal(again, grad));
}

TEST(Gru, HandWrittenGradientMatchesTheGraph) {
  expect_hand_written("gru64", {{48, 22}, 5}, 9, Loss::kMultiLabel);
  expect_hand_written("gru64", {{1, 3}, 2}, 1, Loss::kCrossEntropy);
  expect_hand_written("gru128", {{11, 22}, 5}, 4, Loss::kCrossEntropy);
}

/// Loss, gradient of every layer and logits by every set of kernels, also of units that fill no
/// vector and of more samples than are evaluated at a time.
TEST(Gru, EverySetOfKernelsMatchesTheGraph) {
  for (const auto* set : testing::tested_kernels()) {
    const fast::KernelScope scope(*set);
    for (const int64_t units : {5, 24, 32}) {
      SCOPED_TRACE(fmt::format("{} units by {}", units, set->name));
      const Gru model({.inputs = 6, .hidden = units, .layers = 3, .classes = 4}, Init::kTorch);
      const Weights at{model.init(1).w.to(at::kDouble), at::empty({0}, at::kDouble)};
      const Weights single{at.w.to(at::kFloat), at::empty({0}, at::kFloat)};
      const Tensor x = testing::normal({37, 9, 6}, 2), y = testing::labels(37, 4, 3);
      const Tensor w = at.w.detach().requires_grad_(true);
      const Tensor logits = model.forward({w, at.b}, x, {}).logits;
      const Tensor loss = loss_value(Loss::kMultiLabel, logits, y);
      const Tensor want = torch::autograd::grad({loss}, {w})[0];
      Tensor grad = at::full_like(single.w, std::nan(""));
      double value = 0;
      ASSERT_TRUE(model.value_and_grad(single, x, y, Loss::kMultiLabel, grad, value));
      EXPECT_NEAR(value, loss.item<double>(), 1e-6);
      const auto got = model.layout().views(grad), truth = model.layout().views(want);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(testing::distance(got[i], truth[i]), 2e-5) << model.layout().slices()[i].name;
      EXPECT_LT(testing::distance(model.predict(single, x), logits.detach()), 1e-5);
    }
  }
}

TEST(Gru, HandWrittenGradientIsForFloat32Alone) {
  const auto model = testing::made("gru64", {{7, 5}, 3});
  const Weights at = testing::moved(*model, 1);
  Tensor grad = at::zeros_like(at.w);
  double value = 0;
  EXPECT_FALSE(model->value_and_grad(at, testing::normal({2, 7, 5}, 1), testing::labels(2, 3, 1),
                                     Loss::kCrossEntropy, grad, value));
}

}  // namespace
}  // namespace tessera
