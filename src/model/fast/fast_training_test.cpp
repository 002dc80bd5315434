// Batch norm and dropout by hand against autograd of the same pass.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/fast/kernels_testing.hpp"
#include "model/sequential.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::batch;
using testing::distance;
using testing::labels;
using testing::made;

/// A model near its start, its running values away from 0 and 1, and a batch.
struct TrainingProblem {
  const Model& model;
  int64_t classes;
  Weights at;
  Tensor x, y;
  Loss loss;
  uint64_t key = 17;

  TrainingProblem(const Sequential& net, int64_t n, Loss wanted, uint64_t seed)
      : model(net), classes(net.spec().linears.back().out), loss(std::move(wanted)) {
    const auto moved = testing::moved(net, seed);
    const Tensor shift = testing::normal({net.buffers().numel()}, derive(seed, 4)).abs();
    at = {moved.w.to(at::kFloat), (moved.b + 0.3 * shift).to(at::kFloat)};
    x = batch({net.spec().sample, classes}, n, derive(seed, 2)).to(at::kFloat);
    y = labels(n, classes, derive(seed, 3));
  }
};

struct TrainingStep {
  Tensor grad, running;
  double value = 0;
};

/// In float64.
TrainingStep step_by_autograd(const TrainingProblem& p) {
  const Tensor w = p.at.w.to(at::kDouble).requires_grad_(true);
  const auto out = p.model.forward({w, p.at.b.to(at::kDouble)}, p.x.to(at::kDouble), {true, p.key});
  const Tensor value = loss_value(p.loss, out.logits, p.y);
  return {torch::autograd::grad({value}, {w})[0], out.buffers, value.item<double>()};
}

TrainingStep step_by_hand(const TrainingProblem& p) {
  Weights at = p.at;
  TrainingStep step{at::full_like(at.w, std::nan("")), {}, 0};
  EXPECT_TRUE(p.model.training_gradient(at, p.x, p.y, p.loss, p.key, step.grad, step.value));
  step.running = at.b;
  return step;
}

/// Every layer apart. A bias before a norm that goes by the batch has no gradient: 0 or a rounding
/// error.
void expect_training(const TrainingProblem& p) {
  const auto want = step_by_autograd(p), got = step_by_hand(p);
  EXPECT_NEAR(got.value, want.value, 1e-5 * std::abs(want.value));
  const auto& layout = p.model.layout();
  const auto grads = layout.views(got.grad), truth = layout.views(want.grad);
  for (size_t i = 0; i < grads.size(); ++i) {
    const auto& name = layout.slices()[i].name;
    if (truth[i].norm().item<double>() < 1e-12) {
      EXPECT_LT(grads[i].abs().max().item<float>(), 1e-7) << name;
    } else {
      EXPECT_LT(distance(grads[i], truth[i]), 1e-5) << name << ", batch " << p.x.size(0);
    }
  }
  if (want.running.numel() > 0) {
    EXPECT_LT(distance(got.running, want.running), 1e-6);
  }
}

const Sequential& as_sequential(const std::unique_ptr<Model>& model) {
  return dynamic_cast<const Sequential&>(*model);
}

TEST(FastTraining, BatchNormIsAutograds) {
  const auto model = made("lenet16-bn", testing::kPhotos);
  for (const int64_t n : {1, 10, 32}) {
    expect_training(TrainingProblem(as_sequential(model), n, Loss::kCrossEntropy, 51));
  }
  expect_training(TrainingProblem(as_sequential(model), 9, Loss::kMultiLabel, 52));
}

TEST(FastTraining, DropoutIsAutogradsWithTheSameMasks) {
  const auto model = made("alex28", testing::kDigits);
  expect_training(TrainingProblem(as_sequential(model), 3, Loss::kCrossEntropy, 53));
}

/// Norms and dropout behind everything that may have them, where nothing fills a vector: behind
/// pools that overlap or not or are none, before borders, with and without ReLU.
SequentialSpec normed_spec() {
  return {{2, 9, 11},
          {{.in = 2,
            .out = 5,
            .kernel = 3,
            .pad = 1,
            .pool = 2,
            .pool_stride = 2,
            .batch_norm = true,
            .dropout = 0.25},
           {.in = 5, .out = 13, .kernel = 2, .pool = 2, .pool_stride = 1, .batch_norm = true},
           {.in = 13, .out = 17, .kernel = 2, .pad = 1, .dropout = 0.1},
           {.in = 17, .out = 9, .kernel = 3, .batch_norm = true, .dropout = 0.5}},
          {{.in = 18, .out = 11, .relu = false, .dropout = 0.3, .batch_norm = true},
           {.in = 11, .out = 19, .batch_norm = true},
           {.in = 19, .out = 6, .relu = false, .dropout = 0.2},
           {.in = 6, .out = 4, .relu = false}}};
}

TEST(FastTraining, EverySetOfKernelsAgreesOnOddSizes) {
  for (const auto* set : testing::tested_kernels()) {
    SCOPED_TRACE(set->name);
    const fast::KernelScope scope(*set);
    const Sequential model(normed_spec(), Init::kTorch);
    for (const int64_t n : {7, 24, 70})
      expect_training(TrainingProblem(model, n, Loss::kCrossEntropy, 54));
  }
}

/// One sample, one pixel: every norm goes by its running values and leaves them, and a bias before
/// one has a gradient.
TEST(FastTraining, ASingleValueGoesByTheRunningOnes) {
  const SequentialSpec spec{
      {3, 2, 2},
      {{.in = 3, .out = 9, .kernel = 2, .batch_norm = true}},
      {{.in = 9, .out = 7, .batch_norm = true}, {.in = 7, .out = 3, .relu = false}}};
  const Sequential model(spec, Init::kTorch);
  const TrainingProblem one(model, 1, Loss::kCrossEntropy, 55);
  expect_training(one);
  const auto step = step_by_hand(one);
  EXPECT_TRUE(at::equal(step.running, one.at.b));
  EXPECT_GT(model.layout().views(step.grad)[1].abs().max().item<float>(), 0.0F);
}

TEST(FastTraining, IsAFunctionOfTheKey) {
  const Sequential model(normed_spec(), Init::kTorch);
  TrainingProblem p(model, 8, Loss::kCrossEntropy, 56);
  const auto first = step_by_hand(p), again = step_by_hand(p);
  EXPECT_TRUE(at::equal(first.grad, again.grad));
  EXPECT_TRUE(at::equal(first.running, again.running));
  p.key = 18;
  EXPECT_FALSE(at::equal(first.grad, step_by_hand(p).grad));
}

TEST(FastTraining, WhatIsRefusedChangesNothing) {
  const Sequential model(normed_spec(), Init::kTorch);
  const TrainingProblem p(model, 4, Loss::kCrossEntropy, 57);
  Weights at{p.at.w.to(at::kDouble), p.at.b};
  Tensor grad = at::zeros_like(at.w);
  double value = -1;
  EXPECT_FALSE(model.training_gradient(at, p.x, p.y, p.loss, 1, grad, value));
  at.w = p.at.w, grad = at::zeros_like(at.w);
  EXPECT_FALSE(model.training_gradient(at, p.x.slice(1, 1), p.y, p.loss, 1, grad, value));
  EXPECT_THROW(model.training_gradient(at, p.x, p.y + 4, p.loss, 1, grad, value),
               std::out_of_range);
  EXPECT_EQ(value, -1);
  EXPECT_TRUE(at::equal(at.b, p.at.b));
}

}  // namespace
}  // namespace tessera
