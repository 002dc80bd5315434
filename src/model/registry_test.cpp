#include <set>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::kPhotos;
using testing::made;

const Shape kAir{{48, 22}, 5};

/// Small samples that the model takes.
Shape fitting(const std::string& name) {
  if (name.starts_with("gru")) return {{4, 22}, 5};
  return name == "vit-s28" ? kDigits : kPhotos;
}

std::string error_of(const std::string& name, const Shape& shape) {
  const auto model = make_model(name, shape);
  return model.ok() ? "" : message(model.status());
}

TEST(Models, CountsOfTheSpecification) {
  const auto count = [](const std::string& name, const Shape& shape) {
    return made(name, shape)->layout().numel();
  };
  EXPECT_EQ(count("mlp100", kDigits), 79510);
  EXPECT_EQ(count("mlp100", {{784}, 10}), 79510);
  EXPECT_EQ(count("lenet", kPhotos), 62006);
  EXPECT_EQ(count("lenet16", kPhotos), 121182);
  EXPECT_EQ(count("lenet16-bn", kPhotos), 121182 + 2 * (16 + 32 + 120 + 84));
  EXPECT_EQ(count("facnn", kDigits), 582026);
  EXPECT_EQ(count("facnn", kPhotos), 878538);
  EXPECT_EQ(count("cnn32-s", kPhotos), 236202);
  EXPECT_EQ(count("cnn128", kPhotos), 3752586);
  EXPECT_EQ(count("alex28", kDigits), 3868170);
  EXPECT_EQ(count("alex28-s", kDigits), 109570);
  // Strides of 2 leave as much of these as pools: the same numbers as lenet's.
  EXPECT_EQ(count("lenet-smooth", kPhotos), 62006);
  EXPECT_EQ(count("lenet-smooth", kDigits), 44426);
  EXPECT_EQ(count("gru64", kAir), 42181);
  EXPECT_EQ(count("gru128", kAir), 158085);
  EXPECT_EQ(count("vit-p", kPhotos), 1988490);
  EXPECT_EQ(count("vit-s", kPhotos), 114122);
  EXPECT_EQ(count("vit-s28", kDigits), 104970);
}

TEST(Models, EveryOneHasAHeadThatReadsTheFeatures) {
  for (const auto& info : models()) {
    const Shape shape = fitting(info.name);
    const auto model = made(info.name, shape);
    const auto& slices = model->layout().slices();
    const auto& weight = slices[slices.size() - 2];
    EXPECT_EQ(weight.name, "head.weight");
    EXPECT_EQ(weight.role, Role::kHead);
    EXPECT_EQ(slices.back().role, Role::kHead);
    const int64_t head = weight.numel() + slices.back().numel();
    EXPECT_EQ(model->layout().mask(Role::kHead).sum().item<int64_t>(), head) << info.name;

    const Weights at = testing::moved(*model, 3);
    const auto out = model->forward(at, testing::batch(shape, 2, 4), {});
    const auto views = model->layout().views(at.w);
    const Tensor again =
        at::linear(out.features, views[slices.size() - 2], views[slices.size() - 1]);
    EXPECT_TRUE(at::allclose(again, out.logits, 1e-12, 1e-12)) << info.name;
    EXPECT_EQ(out.logits.size(1), shape.classes);
  }
}

TEST(Models, RolesAndFeatureLayers) {
  std::set<std::string> norms, features;
  const auto bn = made("lenet16-bn", kDigits);
  for (const auto& slice : bn->layout().slices()) {
    if (slice.role == Role::kNorm) norms.insert(slice.block());
    if (slice.features) features.insert(slice.block());
  }
  EXPECT_EQ(norms, (std::set<std::string>{"bn1", "bn2", "bn3", "bn4"}));
  EXPECT_EQ(features, (std::set<std::string>{"bn1", "bn2", "conv1", "conv2"}));
  EXPECT_EQ(bn->buffers().slices()[7].name, "bn4.running_var");
  EXPECT_EQ(bn->buffers().numel(), 2 * (16 + 32 + 120 + 84));

  features.clear();
  const auto gru = made("gru64", kAir);
  for (const auto& slice : gru->layout().slices()) {
    if (slice.features) features.insert(slice.block());
  }
  EXPECT_EQ(features, std::set<std::string>{"gru1"});
}

TEST(Models, OrderIsPyTorchs) {
  std::vector<std::string> names;
  const auto lenet = made("lenet", kPhotos);
  for (const auto& slice : lenet->layout().slices()) names.push_back(slice.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight",
                                             "conv2.bias", "fc1.weight", "fc1.bias", "fc2.weight",
                                             "fc2.bias", "head.weight", "head.bias"}));
  const auto gru = made("gru64", kAir);
  const auto& first = gru->layout().slices();
  EXPECT_EQ(first[0].shape, (std::vector<int64_t>{192, 22}));
  EXPECT_EQ(first[1].name, "gru1.weight_hh_l0");
  EXPECT_EQ(first[4].shape, (std::vector<int64_t>{192, 64}));
}

TEST(Models, ShapesThatDoNotFitAreRefusedWithASentence) {
  EXPECT_EQ(error_of("lenet", kAir),
            "Model 'lenet' takes images of shape [channels, height, width], but these samples have "
            "shape [48, 22]; models that fit: mlp100, gru64, gru128, mlp, gru.");
  EXPECT_EQ(error_of("gru64", kDigits),
            "Model 'gru64' takes sequences of shape [steps, features], but these samples have "
            "shape [1, 28, 28]; models that fit: mlp100, lenet, lenet16, lenet16-bn, facnn, "
            "cnn32-s and others (`tessera models`).");
  // 28×13 images: two halvings after 5×5 leave nothing of 13, three 3×3 with a border leave 1.
  EXPECT_EQ(error_of("lenet", {{1, 28, 13}, 10}),
            "Model 'lenet' cannot take images of shape [1, 28, 13]: nothing would be left after "
            "its convolutions; models that fit: mlp100, alex28, alex28-s, lenet-smooth, mlp.");
  EXPECT_EQ(error_of("lenet", {{1, 28, 16}, 10}), "");   // 16 → 12 → 6 → 2 → 1
  EXPECT_NE(error_of("alex28", {{1, 11, 28}, 10}), "");  // 11 → 5 → 2, less than the window of 3
  EXPECT_EQ(error_of("alex28", {{1, 12, 28}, 10}), "");
  EXPECT_EQ(error_of("vit-s", kAir),
            "Model 'vit-s' takes images of shape [channels, height, width], but these samples have "
            "shape [48, 22]; models that fit: mlp100, gru64, gru128, mlp, gru.");
  EXPECT_EQ(
      error_of("vit-s", kDigits),
      "Model 'vit-s' cuts images into patches of 8×8 pixels, which do not divide images of "
      "shape [1, 28, 28]; models that fit: mlp100, lenet, lenet16, lenet16-bn, facnn, cnn32-s "
      "and others (`tessera models`).");
  EXPECT_EQ(error_of("vit-s", {{3, 16, 40}, 10}), "");
  EXPECT_NE(error_of("vit-s", {{3, 32, 36}, 10}), "");
  EXPECT_EQ(error_of("vit-p", {{1, 128, 128}, 10}), "");
  EXPECT_EQ(error_of("vit-p", {{1, 128, 132}, 10}),
            "Model 'vit-p' would cut images of shape [1, 128, 132] into 1056 patches, more than "
            "the 1024 it can attend to; models that fit: mlp100, lenet, lenet16, lenet16-bn, "
            "facnn, cnn32-s and others (`tessera models`).");
  EXPECT_EQ(error_of("mlp100", {{784}, 1}),
            "Model 'mlp100' needs at least 2 classes, but the data have 1.");
  EXPECT_NE(error_of("mlp100", {{28, 0}, 10}), "");
  EXPECT_NE(error_of("mlp100", {{INT64_MAX, 2}, 10}), "");
  EXPECT_NE(error_of("gru64", {{1 << 13, 1 << 13}, 10}), "");
}

TEST(Models, UnknownNameSuggestsTheNearest) {
  const auto model = make_model("lenett", kDigits);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(message(model.status()), "There is no model 'lenett' (did you mean 'lenet'?).");
}

/// What is said to fit is made, whatever was refused.
TEST(Models, OnlyModelsThatFitAreRecommended) {
  for (const Shape& shape :
       {kDigits, kPhotos, kAir, Shape{{784}, 10}, Shape{{1, 28, 13}, 10}, Shape{{2, 3, 4, 5}, 3}}) {
    for (const auto& info : models()) {
      const auto error = error_of(info.name, shape);
      if (error.empty()) continue;
      const auto list = error.substr(error.find("models that fit: ") + 17);
      EXPECT_FALSE(list.starts_with(info.name + ",")) << error;
      EXPECT_EQ(list.find(" " + info.name + ","), std::string::npos) << error;
      EXPECT_EQ(error_of(list.substr(0, list.find_first_of(",. ")), shape), "") << error;
    }
  }
}

ModelOptions own(const std::string& name) {
  ModelOptions out;
  out.name = name;
  return out;
}

/// The same slices in the same order and the same first numbers.
void expect_same(const ModelOptions& options, const std::string& name, const Shape& shape) {
  const auto one = make_model(options, shape);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto other = made(name, shape);
  EXPECT_EQ((*one)->layout().fingerprint(), other->layout().fingerprint()) << name;
  EXPECT_EQ((*one)->buffers().fingerprint(), other->buffers().fingerprint()) << name;
  EXPECT_TRUE(at::equal((*one)->init(3).w, other->init(3).w)) << name;
  const auto x = testing::batch(shape, 3, 2).to(at::kFloat);
  const Weights at = other->init(3);
  EXPECT_TRUE(
      at::equal((*one)->forward(at, x, {true, 5}).logits, other->forward(at, x, {true, 5}).logits))
      << name;
}

TEST(Models, TheTablesNetworksAreListsUnderAName) {
  auto mlp = own("mlp");
  mlp.hidden = {100};
  expect_same(mlp, "mlp100", kDigits);
  expect_same(own("cnn"), "facnn", kDigits);
  auto bn = own("cnn");
  bn.layers = {"conv 16 5", "norm",       "pool 2", "conv 32 5", "norm",
               "pool 2",    "linear 120", "norm",   "linear 84", "norm"};
  expect_same(bn, "lenet16-bn", kPhotos);
  bn.layers = {"conv 16 5", "pool 2", "conv 32 5", "pool 2", "linear 120", "linear 84"};
  bn.norm = "batch";
  expect_same(bn, "lenet16-bn", kPhotos);
  auto alex = own("cnn");
  alex.layers = {"conv 16 3 pad 1", "pool 2",          "conv 24 3 pad 1", "pool 2",
                 "conv 32 3 pad 1", "conv 48 3 pad 1", "conv 48 3 pad 1", "pool 3 2",
                 "linear 128",      "linear 64"};
  expect_same(alex, "alex28-s", kDigits);
  auto smooth = own("cnn");
  smooth.layers = {"conv 6 5 stride 2", "conv 16 5 stride 2", "linear 120", "linear 84"};
  smooth.activation = "sigmoid";
  expect_same(smooth, "lenet-smooth", kDigits);
  auto vit = own("vit");
  vit.patch = 8, vit.depth = 3;
  expect_same(vit, "vit-s", kPhotos);
  vit.patch = 4, vit.width = 128, vit.depth = 6, vit.heads = 8, vit.head_width = 64;
  vit.dropout = 0.1;
  expect_same(vit, "vit-p", kPhotos);
  expect_same(own("gru"), "gru64", kAir);
}

TEST(Models, OwnSizesAreCountedByHand) {
  const auto count = [](const ModelOptions& options, const Shape& shape) {
    const auto model = make_model(options, shape);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? (*model)->layout().numel() : 0;
  };
  auto mlp = own("mlp");
  mlp.hidden = {};
  EXPECT_EQ(count(mlp, {{7}, 3}), 7 * 3 + 3);
  mlp.hidden = {5, 4}, mlp.norm = "batch";
  EXPECT_EQ(count(mlp, {{7}, 3}), (7 * 5 + 5 + 10) + (5 * 4 + 4 + 8) + (4 * 3 + 3));
  auto cnn = own("cnn");
  // 9×9, bordered 11×11, after 3×3 again 9×9; windows of 3 at every second place: 4×4.
  cnn.layers = {"conv 2 3 pad 1", "pool 3 2", "linear 6"};
  EXPECT_EQ(count(cnn, {{1, 9, 9}, 3}), (9 * 2 + 2) + (2 * 16 * 6 + 6) + (6 * 3 + 3));
  // Every third of the 9×9 places: 3×3.
  cnn.layers = {"conv 2 3 pad 1 stride 3", "linear 6"};
  EXPECT_EQ(count(cnn, {{1, 9, 9}, 3}), (9 * 2 + 2) + (2 * 9 * 6 + 6) + (6 * 3 + 3));
  auto gru = own("gru");
  gru.units = 5, gru.depth = 3;
  EXPECT_EQ(count(gru, {{4, 2}, 3}), 3 * 5 * (2 + 5 + 2) + 2 * (3 * 5 * (5 + 5 + 2)) + (5 * 3 + 3));
}

TEST(Models, ANetworkThatFitsNoMemoryIsRefused) {
  auto mlp = own("mlp");
  mlp.hidden = {100000, 100000};
  const auto model = make_model(mlp, kDigits);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(message(model.status()).find("Model 'mlp' would have about 10"), std::string::npos)
      << model.status();
}

/// Hand-written gradients are for ReLU; the others go through autograd.
TEST(Models, WhichOwnNetworksHaveGradientsByHand) {
  const auto by_hand = [](const ModelOptions& options, const Shape& shape) {
    const auto model = *make_model(options, shape);
    auto at = model->init(1);
    auto grad = at::empty_like(at.w);
    double value = 0;
    return model->training_gradient(at, testing::batch(shape, 4, 1).to(at::kFloat),
                                    testing::labels(4, shape.classes, 2), Loss::kCrossEntropy, 3,
                                    grad, value);
  };
  auto cnn = own("cnn");
  EXPECT_TRUE(by_hand(cnn, kDigits));
  cnn.activation = "tanh";
  EXPECT_FALSE(by_hand(cnn, kDigits));
  cnn = own("cnn"), cnn.layers = {"conv 4 3 stride 2", "linear 8"};
  EXPECT_FALSE(by_hand(cnn, kDigits));
  cnn = own("cnn"), cnn.layers = {"conv 4 3", "norm", "dropout 0.5", "linear 8"};
  EXPECT_TRUE(by_hand(cnn, kDigits));
  EXPECT_TRUE(by_hand(own("mlp"), kDigits));
  EXPECT_TRUE(by_hand(own("gru"), kAir));
  EXPECT_TRUE(by_hand(own("vit"), kDigits));
}

/// The bits of a call depend on its arguments alone.
TEST(Models, RepeatedCallsGiveTheSameBits) {
  for (const auto& info : models()) {
    const Shape shape = fitting(info.name);
    const auto model = made(info.name, shape);
    const Weights at = model->init(8);
    EXPECT_TRUE(at::equal(at.w, model->init(8).w)) << info.name;
    EXPECT_FALSE(at::equal(at.w, model->init(9).w)) << info.name;
    const Tensor x = testing::batch(shape, 3, 2).to(at::kFloat);
    const auto once = model->forward(at, x, {true, 5});
    const auto again = model->forward(at, x, {true, 5});
    EXPECT_TRUE(at::equal(once.logits, again.logits)) << info.name;
    EXPECT_TRUE(at::equal(once.buffers, again.buffers)) << info.name;
    const Tensor predicted = model->predict(at, x);
    EXPECT_TRUE(at::allclose(predicted, model->forward(at, x, {}).logits, 1e-4, 1e-5));
    EXPECT_FALSE(predicted.requires_grad());
    EXPECT_EQ(predicted.scalar_type(), at::kFloat);
  }
}

}  // namespace
}  // namespace tessera
