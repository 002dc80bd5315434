#include "model/script_model.hpp"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "model/script_testing.hpp"
#include "model/sequential.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::batch;
using ::testing::HasSubstr;
using testing::ScriptFile;
using ::testing::StartsWith;
using testing::two_layers;
using torch::autograd::grad;

const Shape kShape{{2, 3}, 3};

std::unique_ptr<Model> loaded(const testing::jit::Module& module, const std::string& head = "",
                              const Shape& shape = kShape) {
  const ScriptFile file(module);
  auto model = load_script_model(file.path(), head, shape);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? std::move(*model) : nullptr;
}

/// What is wrong with it, without the path in front.
std::string error_of(const testing::jit::Module& module, const std::string& head = "",
                     const Shape& shape = kShape) {
  const ScriptFile file(module);
  const auto model = load_script_model(file.path(), head, shape);
  if (model.ok()) return "";
  EXPECT_THAT(message(model.status()), StartsWith(file.path() + ": "));
  EXPECT_EQ(message(model.status()).find('\n'), std::string::npos) << model.status();
  return message(model.status()).substr(file.path().size() + 2);
}

std::vector<std::string> names(const Layout& layout) {
  std::vector<std::string> out;
  for (const auto& slice : layout.slices()) out.push_back(slice.name);
  return out;
}

TEST(ScriptModel, TheHeadComesLastAndTheWeightsAreTheFiles) {
  const auto module = two_layers();
  const auto model = loaded(module);
  EXPECT_THAT(names(model->layout()),
              ::testing::ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_EQ(model->layout().slices()[3].role, Role::kHead);
  EXPECT_EQ(model->layout().slices()[1].role, Role::kBody);
  EXPECT_TRUE(model->has_features());
  const auto views = model->layout().views(model->init(1).w);
  EXPECT_TRUE(at::equal(views[0], module.attr("fc1").toModule().attr("weight").toTensor()));
  EXPECT_TRUE(at::equal(views[3], module.attr("fc2").toModule().attr("bias").toTensor()));
  EXPECT_TRUE(at::equal(model->init(1).w, model->init(2).w));

  const auto other = loaded(module, "fc1");
  EXPECT_EQ(names(other->layout()).back(), "fc1.bias");
  EXPECT_EQ(other->layout().slices()[3].role, Role::kBody);  // what fc2 sees is not its business
  EXPECT_FALSE(other->has_features());
  EXPECT_FALSE(other->forward(other->init(1), batch(kShape, 2, 1), {}).features.defined());
}

/// The same network from our own layers: scores, features, first and second derivatives.
TEST(ScriptModel, AgreesWithOurOwnLayers) {
  const auto model = loaded(two_layers());
  const Sequential ours({{6}, {}, {{6, 5}, {5, 3, false}}, Activation::kTanh}, Init::kHe0);
  const auto at = testing::moved(*model, 3);
  const auto x = batch(kShape, 7, 4);
  const auto y = testing::labels(7, 3, 5);
  const auto pass = [&](const Model& net) {
    const auto w = at.w.clone().requires_grad_(true);
    const auto out = net.forward({w, at.b}, x, {true, 1});
    const auto slope =
        grad({loss_value(Loss::kCrossEntropy, out.logits, y)}, {w}, {}, true, true)[0];
    const auto curve = grad({slope.dot(testing::normal({w.numel()}, 6))}, {w})[0];
    return std::tuple(out.logits.detach(), out.features.detach(), slope.detach(), curve);
  };
  const auto [scores, features, slope, curve] = pass(*model);
  const auto [scores2, features2, slope2, curve2] = pass(ours);
  EXPECT_TRUE(at::allclose(scores, scores2, 0, 1e-12));
  EXPECT_TRUE(at::allclose(features, features2, 0, 1e-12));
  EXPECT_TRUE(at::allclose(slope, slope2, 0, 1e-12));
  EXPECT_TRUE(at::allclose(curve, curve2, 0, 1e-12));
  EXPECT_GT(curve.norm().item<double>(), 1e-3);
  EXPECT_FALSE(model->predict(at, x).requires_grad());
}

TEST(ScriptModel, BatchNormsMoveTheirStatistics) {
  const auto model = loaded(two_layers("", true));
  ASSERT_THAT(names(model->buffers()), ::testing::ElementsAre("bn.running_mean", "bn.running_var"));
  int norms = 0;
  for (const auto& slice : model->layout().slices()) norms += slice.role == Role::kNorm;
  EXPECT_EQ(norms, 2);
  const auto at = testing::moved(*model, 3);
  const auto x = batch(kShape, 9, 4);
  const auto views = model->layout().views(at.w);  // fc1, bn, fc2
  ASSERT_EQ(names(model->layout())[2], "bn.weight");
  const auto hidden = at::linear(x.flatten(1), views[0], views[1]);
  const auto after = model->forward(at, x, {true, 1}).buffers;
  const auto mean = 0.1 * hidden.mean(0), variance = 0.9 + 0.1 * hidden.var(0, true);
  EXPECT_TRUE(at::allclose(after, at::cat({mean, variance}), 0, 1e-12));
  EXPECT_TRUE(at::equal(at.b, testing::moved(*model, 3).b)) << "what was given is as it was";
  // Evaluation uses what it is given and leaves it.
  const Weights later{at.w, after};
  const auto normal = (hidden - mean) / (variance + 1e-5).sqrt() * views[2] + views[3];
  const auto out = model->forward(later, x, {});
  EXPECT_TRUE(at::allclose(out.logits, at::linear(at::tanh(normal), views[4], views[5]), 0, 1e-12));
  EXPECT_TRUE(at::equal(out.buffers, after));
  // One sample has no variance: as in evaluation.
  const auto single = model->forward(later, x.slice(0, 0, 1), {true, 1});
  EXPECT_TRUE(at::allclose(single.logits, out.logits.slice(0, 0, 1), 0, 1e-12));
  EXPECT_TRUE(at::equal(single.buffers, after));
}

TEST(ScriptModel, DropoutIsDrawnFromTheKey) {
  const auto model =
      loaded(two_layers("h = torch.dropout(h, 0.4, self.training)"), "", Shape{{6}, 3});
  const auto at = model->init(1);
  const auto x = batch({{6}, 3}, 500, 2).to(at::kFloat);
  const auto plain = model->forward(at, x, {false, 5}).features;
  const auto dropped = model->forward(at, x, {true, 5}).features;
  const auto gone = dropped.eq(0);
  EXPECT_NEAR(gone.to(at::kFloat).mean().item<double>(), 0.4, 0.04);
  EXPECT_TRUE(at::allclose(dropped, at::where(gone, at::zeros_like(plain), plain / 0.6)));
  EXPECT_TRUE(at::equal(dropped, model->forward(at, x, {true, 5}).features));
  EXPECT_FALSE(at::equal(dropped, model->forward(at, x, {true, 6}).features));
}

TEST(ScriptModel, ManyThreadsGiveTheSameBits) {
  const auto model = loaded(two_layers("h = torch.dropout(h, 0.4, self.training)", true));
  const auto step = [&](uint64_t key) {
    auto at = model->init(0);
    for (int i = 0; i < 20; ++i) {
      const auto w = at.w.detach().requires_grad_(true);
      const auto x = batch(kShape, 8, derive(key, i)).to(at::kFloat);
      const auto out = model->forward({w, at.b}, x, {true, derive(key, i)});
      const auto loss = loss_value(Loss::kCrossEntropy, out.logits, testing::labels(8, 3, key));
      at = {w.detach() - 0.1 * grad({loss}, {w})[0], out.buffers};
    }
    return at::cat({at.w, at.b});
  };
  std::vector<Tensor> alone, together(8);
  for (uint64_t key = 0; key < 8; ++key) alone.push_back(step(key));
  std::vector<std::thread> threads;
  for (uint64_t key = 0; key < 8; ++key)
    threads.emplace_back([&, key] { together[key] = step(key); });
  for (auto& thread : threads) thread.join();
  for (size_t key = 0; key < 8; ++key) EXPECT_TRUE(at::equal(alone[key], together[key])) << key;
}

TEST(ScriptModel, TiedAndFrozenParameters) {
  testing::jit::Module net("Tied");
  const auto both = at::randn({4, 4}).requires_grad_(true);
  net.register_parameter("up", both, false);
  net.register_parameter("again", both, false);
  net.register_parameter("fixed", at::full({4}, 2.0), false);  // needs no gradient
  net.register_buffer("shift", at::full({4}, 0.5));
  net.define(
      "def forward(self, x):\n  return torch.matmul(torch.matmul(x, self.up) * self.fixed + "
      "self.shift, self.again)\n");
  const auto model = loaded(net, "", {{4}, 4});
  EXPECT_THAT(names(model->layout()), ::testing::ElementsAre("up"));
  EXPECT_EQ(model->buffers().numel(), 0);
  const auto w = testing::normal({16}, 3), x = testing::normal({2, 4}, 4);
  const auto m = w.view({4, 4});
  EXPECT_TRUE(at::allclose(model->forward({w, at::empty({0}, at::kDouble)}, x, {}).logits,
                           (x.matmul(m) * 2.0 + 0.5).matmul(m), 0, 1e-12));
}

TEST(ScriptModel, WhatCannotWorkIsSaid) {
  EXPECT_THAT(error_of(two_layers(), "", {{2, 4}, 3}),
              HasSubstr("the network cannot take 2 samples of shape [2, 4]: mat1 and mat2"));
  EXPECT_THAT(error_of(two_layers(), "", {{2, 3}, 4}),
              HasSubstr("scores of shape [2, 3] for 2 samples of shape [2, 3], and the data have 4 "
                        "classes: it must return [samples, 4]"));
  EXPECT_THAT(error_of(two_layers(), "fc3"),
              HasSubstr("head = \"fc3\" is no module with parameters (did you mean 'fc2'?)"));
  EXPECT_THAT(error_of(two_layers("h = h + torch.rand_like(h)")),
              HasSubstr("calls aten::rand_like"));
  EXPECT_THAT(error_of(two_layers("h = torch.feature_dropout(h, 0.5, self.training)")),
              HasSubstr("calls aten::feature_dropout"));
  EXPECT_THAT(error_of(two_layers("h = torch.dropout(h, 0.5, True)")),
              HasSubstr("dropout that does not know training from evaluation"));
  EXPECT_THAT(error_of(two_layers("h = h.view(2, 5)")),
              HasSubstr("cannot take 3 samples of shape [2, 3]"));
  EXPECT_THAT(error_of(two_layers("h = x.add_(1).flatten(1)[:, :5]")),
              HasSubstr("changes the samples that it is given"));
  EXPECT_THAT(error_of(two_layers("self.fc1.bias.detach().add_(1)")),
              HasSubstr("changes a parameter or buffer in place"));
  EXPECT_THAT(error_of(two_layers("return torch.softmax(self.fc2.forward(h), 1)")),
              HasSubstr("ends in softmax"));
  EXPECT_THAT(error_of(two_layers("h = torch.batch_norm(h, None, None, self.fc2.bias, "
                                  "self.fc2.bias, False, 0.1, 1e-05, True)")),
              HasSubstr("batch norms that do not know training from evaluation"));
  auto doubles = two_layers();
  doubles.to(at::kDouble);
  EXPECT_THAT(error_of(doubles), HasSubstr("is of type Double on cpu"));
  testing::jit::Module none("Empty");
  none.define("def forward(self, x):\n  return x\n");
  EXPECT_THAT(error_of(none), HasSubstr("has no parameters to train"));
  testing::jit::Module two("Two");
  two.register_module("fc", testing::linear(6, 3, 1));
  two.define("def forward(self, x, y):\n  return self.fc.forward(x + y)\n");
  EXPECT_THAT(error_of(two), HasSubstr("a forward of 2 arguments besides self"));
  testing::jit::Module outer("Outer");
  outer.register_module("net", two_layers());
  outer.define("def forward(self, x):\n  return self.net.forward(x)\n");
  EXPECT_THAT(error_of(outer, "net"), HasSubstr("holds 2 layers (net.fc2, net.fc1)"));
  EXPECT_EQ(error_of(outer, "net.fc2"), "");
}

TEST(ScriptModel, FilesThatAreNone) {
  EXPECT_EQ(tessera::error_of(load_script_model("/nonexistent/net.pt", "", kShape).status()),
            Error::kNotFound);
  const auto path = ::testing::TempDir() + "/not-a-net.pt";
  std::ofstream(path) << "not a network";
  const auto model = load_script_model(path, "", kShape);
  EXPECT_THAT(message(model.status()), HasSubstr("not-a-net.pt: is not a network in TorchScript"));
  EXPECT_THAT(message(model.status()), HasSubstr("torch.jit.script(net).save"));
  EXPECT_EQ(message(model.status()).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tessera
