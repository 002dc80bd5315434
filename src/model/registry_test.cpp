#include <set>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::made;

const Shape kGrey{{1, 28, 28}, 10};
const Shape kColour{{3, 32, 32}, 10};
const Shape kAir{{48, 22}, 5};

/// Small samples that the model takes.
Shape fitting(const std::string& name) {
  if (name.starts_with("gru")) return {{4, 22}, 5};
  return name == "vit-s28" ? kGrey : kColour;
}

std::string error_of(const std::string& name, const Shape& shape) {
  const auto model = make_model(name, shape);
  return model.ok() ? "" : message(model.status());
}

TEST(Models, CountsOfTheSpecification) {
  const auto count = [](const std::string& name, const Shape& shape) {
    return made(name, shape)->layout().numel();
  };
  EXPECT_EQ(count("mlp100", kGrey), 79510);
  EXPECT_EQ(count("mlp100", {{784}, 10}), 79510);
  EXPECT_EQ(count("lenet", kColour), 62006);
  EXPECT_EQ(count("lenet16", kColour), 121182);
  EXPECT_EQ(count("lenet16-bn", kColour), 121182 + 2 * (16 + 32 + 120 + 84));
  EXPECT_EQ(count("facnn", kGrey), 582026);
  EXPECT_EQ(count("facnn", kColour), 878538);
  EXPECT_EQ(count("cnn32-s", kColour), 236202);
  EXPECT_EQ(count("cnn128", kColour), 3752586);
  EXPECT_EQ(count("alex28", kGrey), 3868170);
  EXPECT_EQ(count("alex28-s", kGrey), 109570);
  EXPECT_EQ(count("gru64", kAir), 42181);
  EXPECT_EQ(count("gru128", kAir), 158085);
  EXPECT_EQ(count("vit-p", kColour), 1988490);
  EXPECT_EQ(count("vit-s", kColour), 114122);
  EXPECT_EQ(count("vit-s28", kGrey), 104970);
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
  const auto bn = made("lenet16-bn", kGrey);
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
  const auto lenet = made("lenet", kColour);
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
            "shape [48, 22]; choose mlp100, or gru64 for sequences.");
  EXPECT_EQ(error_of("gru64", kGrey),
            "Model 'gru64' takes sequences of shape [steps, features], but these samples have "
            "shape [1, 28, 28]; choose mlp100, or lenet for images.");
  EXPECT_EQ(error_of("lenet", {{1, 28, 13}, 10}),
            "Model 'lenet' cannot take images of shape [1, 28, 13]: nothing would be left after "
            "its convolutions; use larger images or mlp100.");
  EXPECT_EQ(error_of("lenet", {{1, 28, 16}, 10}), "");   // 16 → 12 → 6 → 2 → 1
  EXPECT_NE(error_of("alex28", {{1, 11, 28}, 10}), "");  // 11 → 5 → 2, less than the window of 3
  EXPECT_EQ(error_of("alex28", {{1, 12, 28}, 10}), "");
  EXPECT_EQ(error_of("vit-s", kAir),
            "Model 'vit-s' takes images of shape [channels, height, width], but these samples have "
            "shape [48, 22]; choose mlp100, or gru64 for sequences.");
  EXPECT_EQ(error_of("vit-s", kGrey),
            "Model 'vit-s' cuts images into patches of 8×8 pixels, which do not divide images of "
            "shape [1, 28, 28]; choose one that fits: vit-p (4×4), vit-s28 (7×7), vit-s (8×8) or "
            "lenet.");
  EXPECT_EQ(error_of("vit-s", {{3, 16, 40}, 10}), "");
  EXPECT_NE(error_of("vit-s", {{3, 32, 36}, 10}), "");
  EXPECT_EQ(error_of("vit-p", {{1, 128, 128}, 10}), "");
  EXPECT_EQ(error_of("vit-p", {{1, 128, 132}, 10}),
            "Model 'vit-p' would cut images of shape [1, 128, 132] into 1056 patches, more than "
            "the 1024 it can attend to; use smaller images or a convolutional model.");
  EXPECT_EQ(error_of("mlp100", {{784}, 1}),
            "Model 'mlp100' needs at least 2 classes, but the data have 1.");
  EXPECT_NE(error_of("mlp100", {{28, 0}, 10}), "");
  EXPECT_NE(error_of("mlp100", {{INT64_MAX, 2}, 10}), "");
  EXPECT_NE(error_of("gru64", {{1 << 13, 1 << 13}, 10}), "");
}

TEST(Models, UnknownNameSuggestsTheNearest) {
  const auto model = make_model("lenett", kGrey);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(message(model.status()), "There is no model 'lenett' (did you mean 'lenet'?).");
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
