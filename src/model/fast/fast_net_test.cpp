#include "model/fast/fast_net.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::batch;
using testing::distance;
using testing::labels;
using testing::made;

/// Initial weights with every bias away from 0; small, so that logits stay of order 1 and float32
/// can answer to 1e-5.
Tensor weights_of(const Model& model, uint64_t key) {
  const Tensor noise = testing::normal({model.layout().numel()}, derive(key, 1)).to(at::kFloat);
  return model.init(key).w + 0.01 * noise;
}

struct Answer {
  Tensor grad, logits;
  double value;
};

/// What autograd says of Model::forward in float64, in evaluation mode (dropout off).
Answer reference(const Model& model, const Tensor& w, const Tensor& x, const Tensor& y, Loss loss) {
  const Tensor at = w.to(at::kDouble).detach().requires_grad_(true);
  const Tensor logits =
      model.forward({at, at::empty({0}, at::kDouble)}, x.to(at::kDouble), {}).logits;
  const Tensor value = loss_value(loss, logits, y);
  const auto grads = torch::autograd::grad({value}, {at});
  return {grads[0], logits.detach(), value.item<double>()};
}

const SequentialSpec& spec_of(const Model& model) {
  return dynamic_cast<const Sequential&>(model).spec();
}

/// Loss, logits and the gradient of every layer apart: a small layer cannot hide behind a large
/// one.
void expect_autograd(const FastNet& net, const Model& model, int64_t n, Loss loss, uint64_t key) {
  const Shape shape{spec_of(model).sample, net.classes()};
  const Tensor w = weights_of(model, key);
  const Tensor x = batch(shape, n, derive(key, 2)).to(at::kFloat);
  const Tensor y = labels(n, net.classes(), derive(key, 3));
  const auto want = reference(model, w, x, y, loss);

  Tensor grad = at::full({net.parameters()}, std::nan(""), at::kFloat);
  double value = 0;
  ASSERT_TRUE(net.value_and_grad(w.data_ptr<float>(), x, y, loss, grad.data_ptr<float>(), value));
  EXPECT_NEAR(value, want.value, 1e-5 * std::abs(want.value));
  const auto got = model.layout().views(grad), truth = model.layout().views(want.grad);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(distance(got[i], truth[i]), 1e-5) << model.layout().slices()[i].name << ", batch "
                                                << n << ", loss " << static_cast<int>(loss.kind);
  }
  Tensor logits = at::full({n, net.classes()}, std::nan(""), at::kFloat);
  net.predict(w.data_ptr<float>(), x, logits.data_ptr<float>());
  EXPECT_LT(distance(logits, want.logits), 1e-5) << "predict, batch " << n;
}

struct FastCase {
  const char* model;
  std::vector<int64_t> sample;
};

class EveryModel : public ::testing::TestWithParam<FastCase> {};

TEST_P(EveryModel, GradientLossAndLogitsAreAutograds) {
  const auto model = made(GetParam().model, {GetParam().sample, 10});
  const FastNet net(spec_of(*model));
  EXPECT_EQ(net.parameters(), model->layout().numel());
  for (const int64_t n : {1, 7, 10, 32}) {
    expect_autograd(net, *model, n, Loss::kCrossEntropy, 11);
    expect_autograd(net, *model, n, Loss::kMultiLabel, 12);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Small, EveryModel,
    ::testing::Values(FastCase{"mlp100", {1, 28, 28}}, FastCase{"mlp100", {3, 32, 32}},
                      FastCase{"lenet", {1, 28, 28}}, FastCase{"lenet", {3, 32, 32}},
                      FastCase{"lenet16", {1, 28, 28}}, FastCase{"lenet16", {3, 32, 32}},
                      FastCase{"facnn", {1, 28, 28}}, FastCase{"facnn", {3, 32, 32}},
                      FastCase{"cnn32-s", {1, 28, 28}}, FastCase{"cnn32-s", {3, 32, 32}},
                      FastCase{"alex28-s", {1, 28, 28}}, FastCase{"alex28-s", {3, 32, 32}}),
    [](const auto& item) {
      std::string name = item.param.model;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + "_" + std::to_string(item.param.sample[0]) + "x" +
             std::to_string(item.param.sample[1]);
    });

TEST(FastNet, LargeNetworksAgreeToo) {
  for (const char* name : {"cnn128", "alex28"}) {
    const auto model = made(name, {{1, 28, 28}, 10});
    expect_autograd(FastNet(spec_of(*model)), *model, 3, Loss::kCrossEntropy, 21);
  }
}

/// Sizes that fill no vector: odd images, 5, 13, 19 and 41 channels, gaps and overlaps of pools,
/// a linear layer without ReLU, as few as 3 inputs.
SequentialSpec odd_spec() {
  return {{2, 17, 23},
          {{.in = 2, .out = 5, .kernel = 3, .pad = 1, .pool = 2, .pool_stride = 2},
           {.in = 5, .out = 13, .kernel = 2, .pad = 0, .pool = 2, .pool_stride = 1},
           {.in = 13, .out = 41, .kernel = 3, .pad = 2, .pool = 3, .pool_stride = 2},
           {.in = 41, .out = 19, .kernel = 1, .pad = 0, .pool = 2, .pool_stride = 3}},
          {{.in = 38, .out = 11, .relu = false},
           {.in = 11, .out = 3},
           {.in = 3, .out = 7, .relu = false}}};
}

TEST(FastNet, OddSizesAgreeWithEverySetOfKernels) {
  const auto sets = testing::tested_kernels();
  const Sequential odd(odd_spec(), Init::kTorch);
  const auto lenet = made("lenet", {{3, 32, 32}, 10});
  for (const auto* set : sets) {
    SCOPED_TRACE(set->name);
    for (const int64_t n : {1, 7, 70}) {
      expect_autograd(FastNet(odd_spec(), *set), odd, n, Loss::kCrossEntropy, 31);
    }
    expect_autograd(FastNet(spec_of(*lenet), *set), *lenet, 9, Loss::kMultiLabel, 32);
  }
}

/// Layers so narrow that evaluation puts samples side by side: borders, every size of pool, gaps.
SequentialSpec narrow_spec() {
  return {{3, 13, 17},
          {{.in = 3, .out = 5, .kernel = 3, .pad = 1, .pool = 2, .pool_stride = 3},
           {.in = 5, .out = 7, .kernel = 2, .pad = 2},
           {.in = 7, .out = 3, .kernel = 1, .pool = 3, .pool_stride = 3}},
          {{.in = 18, .out = 9}, {.in = 9, .out = 4, .relu = false}}};
}

TEST(FastNet, NarrowLayersAgreeWithEverySetOfKernels) {
  const Sequential narrow(narrow_spec(), Init::kTorch);
  for (const auto* set : testing::tested_kernels()) {
    SCOPED_TRACE(set->name);
    const FastNet net(narrow_spec(), *set);
    for (const int64_t n : {1, 9, 70}) expect_autograd(net, narrow, n, Loss::kCrossEntropy, 33);
    // What a sample gets does not depend on its neighbours, down to the last bit.
    const Tensor w = weights_of(narrow, 34), x = batch({{3, 13, 17}, 4}, 70, 35).to(at::kFloat);
    Tensor all = at::empty({70, 4}), one = at::empty({1, 4}), maps = at::empty({70, 18});
    net.predict(w.data_ptr<float>(), x, all.data_ptr<float>());
    for (const int64_t i : {0, 13, 69}) {
      net.predict(w.data_ptr<float>(), x.slice(0, i, i + 1), one.data_ptr<float>());
      EXPECT_TRUE(at::equal(one[0], all[i])) << i;
    }
    net.maps(w.data_ptr<float>(), x, maps.data_ptr<float>());
    EXPECT_LT(
        distance(maps.view({70, 3, 2, 3}), narrow.maps({w.to(at::kDouble), at::empty({0})}, x)),
        1e-6);
  }
}

/// Weights 0 and bias 1: all nine outputs of the convolution tie in the one pool window.
TEST(FastNet, TiesInAPoolGoToTheFirstAsInTorch) {
  const SequentialSpec spec{{1, 4, 4},
                            {{.in = 1, .out = 1, .kernel = 2, .pool = 3, .pool_stride = 3}},
                            {{.in = 1, .out = 2, .relu = false}}};
  // conv weight, bias; linear weight, bias. The gradient of the convolution's weight is the window
  // of x at the chosen output, so it tells which one was chosen.
  const Tensor w = at::tensor({0.f, 0.f, 0.f, 0.f, 1.f, 1.f, -1.f, 0.f, 0.f});
  const Tensor x = at::arange(16, at::kFloat).reshape({1, 1, 4, 4});
  const Tensor y = at::zeros({1}, at::kLong);
  Tensor grad = at::empty({9}, at::kFloat);
  double value = 0;
  ASSERT_TRUE(FastNet(spec).value_and_grad(w.data_ptr<float>(), x, y, Loss::kCrossEntropy,
                                           grad.data_ptr<float>(), value));
  const auto want = reference(Sequential(spec, Init::kHe0), w, x, y, Loss::kCrossEntropy);
  EXPECT_LT(distance(grad, want.grad), 1e-6);
  // Logits 1 and −1, so d loss / d pooled = 2 (p0 − 1), with p0 = 1 / (1 + e^−2); window 0 1 4 5.
  const double slope = 2 * (1 / (1 + std::exp(-2.0)) - 1);
  EXPECT_NEAR(grad[1].item<double>(), slope * 1, 1e-6);
  EXPECT_NEAR(grad[3].item<double>(), slope * 5, 1e-6);
}

TEST(FastNet, NotANumberIsNotHidden) {
  const auto model = made("lenet", {{1, 28, 28}, 10});
  const FastNet net(spec_of(*model));
  Tensor w = model->init(1).w;
  w[0] = std::nan("");
  const Tensor x = batch({{1, 28, 28}, 10}, 2, 5).to(at::kFloat);
  Tensor grad = at::empty_like(w);
  double value = 0;
  ASSERT_TRUE(net.value_and_grad(w.data_ptr<float>(), x, labels(2, 10, 6), Loss::kCrossEntropy,
                                 grad.data_ptr<float>(), value));
  EXPECT_TRUE(std::isnan(value));
}

TEST(FastNet, ThreadsGiveTheSameBitsAndBuffersDoNotGrow) {
  const auto model = made("facnn", {{1, 28, 28}, 10});
  const FastNet net(spec_of(*model));
  const Tensor w = model->init(3).w;
  const Tensor x = batch({{1, 28, 28}, 10}, 10, 7).to(at::kFloat), y = labels(10, 10, 8);
  const auto gradient = [&](double& value) {
    Tensor grad = at::empty_like(w);
    net.value_and_grad(w.data_ptr<float>(), x, y, Loss::kCrossEntropy, grad.data_ptr<float>(),
                       value);
    return grad;
  };
  double first_value = 0;
  const Tensor first = gradient(first_value);
  const size_t size = FastNet::arena_size();
  EXPECT_GT(size, 0u);
  std::vector<Tensor> grads(12);
  std::vector<double> values(12);
  std::vector<size_t> sizes(12);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < 12; i += 4)
        grads[i] = gradient(values[i]), sizes[i] = FastNet::arena_size();
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_TRUE(at::equal(grads[i], first)) << i;
    EXPECT_EQ(values[i], first_value);
    EXPECT_EQ(sizes[i], sizes[i % 4]);
  }
  gradient(first_value);
  EXPECT_EQ(FastNet::arena_size(), size);
}

TEST(FastNet, ModelsUseItWhereItIsRight) {
  const Shape shape{{1, 28, 28}, 10};
  const Tensor x = batch(shape, 4, 9).to(at::kFloat), y = labels(4, 10, 10);
  const auto answers = [&](const char* name, at::ScalarType dtype) {
    const auto model = made(name, shape);
    const Tensor w = model->init(1).w.to(dtype);
    Tensor grad = at::empty_like(w);
    double value = 0;
    return model->value_and_grad({w, at::empty({0})}, x.to(dtype), y, Loss::kCrossEntropy, grad,
                                 value);
  };
  EXPECT_TRUE(answers("lenet", at::kFloat));
  EXPECT_FALSE(answers("lenet", at::kDouble));
  // Training is another function than evaluation there: fast_training_test.cpp.
  EXPECT_FALSE(answers("lenet16-bn", at::kFloat));
  EXPECT_FALSE(answers("alex28", at::kFloat));

  const auto alex = made("alex28", shape);
  const Weights at = alex->init(2);
  EXPECT_LT(distance(alex->predict(at, x), alex->Model::predict(at, x)), 1e-5);
  EXPECT_EQ(alex->predict(at, x.slice(0, 0, 0)).sizes(), (std::vector<int64_t>{0, 10}));
}

TEST(FastNet, BatchNormFoldsIntoTheLayerBefore) {
  const Shape shape{{3, 32, 32}, 10};
  const auto model = made("lenet16-bn", shape);
  // Weights, running means and variances all away from 0 and 1; some scales negative.
  const Weights at{testing::normal({model->layout().numel()}, 41).to(at::kFloat) * 0.3,
                   testing::normal({model->buffers().numel()}, 42).to(at::kFloat).abs() + 0.5};
  const Tensor x = batch(shape, 70, 43).to(at::kFloat);
  const Tensor want = model->forward({at.w.to(at::kDouble), at.b.to(at::kDouble)}, x, {}).logits;
  EXPECT_LT(distance(model->predict(at, x), want), 1e-5);
}

TEST(FastNet, RefusesWhatItCannotDo) {
  SequentialSpec spec{
      {4},
      {},
      {{.in = 4, .out = 3, .relu = true, .dropout = 0.5}, {.in = 3, .out = 2, .relu = false}}};
  EXPECT_TRUE(FastNet::supports(spec));
  spec.linears[1].dropout = 0.5;
  EXPECT_FALSE(FastNet::supports(spec));
  spec.linears[1].dropout = 0, spec.linears[1].batch_norm = true;
  EXPECT_FALSE(FastNet::supports(spec));
  EXPECT_THROW(FastNet{spec}, std::invalid_argument);
  spec.linears[1].batch_norm = false, spec.linears[0].batch_norm = true;
  ASSERT_TRUE(FastNet::supports(spec));
  const FastNet normed(spec);
  const Tensor many = at::ones({normed.parameters()}), sample = at::ones({1, 4});
  EXPECT_THROW(normed.predict(many.data_ptr<float>(), sample, many.data_ptr<float>()),
               std::invalid_argument);

  spec.linears[0] = {.in = 4, .out = 3};
  const FastNet net(spec);
  const Tensor w = at::ones({net.parameters()}), x = at::ones({2, 4});
  Tensor grad = at::zeros_like(w);
  double value = 0;
  const auto run = [&](const Tensor& samples, const Tensor& y) {
    return net.value_and_grad(w.data_ptr<float>(), samples, y, Loss::kCrossEntropy,
                              grad.data_ptr<float>(), value);
  };
  const Tensor y = at::ones({2}, at::kLong);
  EXPECT_TRUE(run(x, y));
  EXPECT_FALSE(run(x.to(at::kDouble), y));
  EXPECT_FALSE(run(at::ones({2, 5}), y));
  EXPECT_FALSE(run(at::ones({0, 4}), at::ones({0}, at::kLong)));
  EXPECT_FALSE(run(x, at::ones({3}, at::kLong)));
  EXPECT_FALSE(run(x, at::ones({2})));
  EXPECT_THROW(run(x, 2 * y), std::out_of_range);
  EXPECT_THROW(net.predict(w.data_ptr<float>(), at::ones({2, 5}), grad.data_ptr<float>()),
               std::invalid_argument);
}

}  // namespace
}  // namespace tessera
