#include "run/warm_start.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

class WarmStart : public ::testing::Test {
 protected:
  WarmStart() {
    ModelOptions options;
    options.name = "mlp", options.hidden = {4}, options.norm = "batch";
    model_ = *make_model(options, {{3}, 2});
  }
  Result<std::string> start(const TensorDict& tensors) {
    const auto path = dir_.path() + "/w.safetensors";
    EXPECT_THAT(save_tensors(path, tensors), Succeeds());
    return warm_start(*model_, path);
  }
  Tensor slice(const std::string& name) const {
    const auto at = model_->init(9);
    for (const auto& [layout, flat] :
         {std::pair{&model_->layout(), at.w}, {&model_->buffers(), at.b}})
      for (size_t i = 0; i < layout->slices().size(); ++i)
        if (layout->slices()[i].name == name) return layout->views(flat)[i];
    throw std::out_of_range(name);
  }

  testing::TempDir dir_;
  std::unique_ptr<Model> model_;
};

TEST_F(WarmStart, TakesWhatHasItsNameAndDrawsTheRest) {
  const auto drawn = model_->init(9).w;
  const auto weight = at::arange(12, at::kFloat).view({4, 3});
  const auto note = start({{"fc1.weight", weight},
                           {"fc1.bias", at::full({4}, 0.5, at::kDouble)},
                           {"bn1.running_var", at::full({4}, 3.0)},
                           {"fc7.weight", at::ones({2})}});
  ASSERT_THAT(note, Succeeds());
  EXPECT_EQ(*note,
            "start: 3 of 8 tensors of the model taken from w.safetensors; not in the file: "
            "bn1.weight, bn1.bias, head.weight, head.bias, bn1.running_mean; not in the model: "
            "fc7.weight");
  EXPECT_TRUE(at::equal(slice("fc1.weight"), weight));
  EXPECT_TRUE(at::equal(slice("fc1.bias"), at::full({4}, 0.5)));
  EXPECT_TRUE(at::equal(slice("bn1.running_var"), at::full({4}, 3.0)));
  EXPECT_TRUE(at::equal(slice("bn1.running_mean"), at::zeros({4})));
  EXPECT_TRUE(at::equal(slice("head.weight").flatten(), drawn.slice(0, 24, 32)));
}

TEST_F(WarmStart, WhatDoesNotFitIsAnError) {
  EXPECT_THAT(start({{"conv.weight", at::ones({2})}}),
              FailsWith(Error::kInvalid, "no tensor has a name of this model; it has conv.weight"));
  EXPECT_THAT(start({{"fc1.weight", at::ones({4, 5})}}),
              FailsWith(Error::kInvalid, "'fc1.weight' has shape [4, 5], in the model [4, 3]"));
  EXPECT_THAT(start({{"fc1.bias", at::ones({4}, at::kLong)}}),
              FailsWith(Error::kInvalid, "'fc1.bias' holds Long, not floating-point"));
  EXPECT_THAT(start({{"fc1.bias", at::full({4}, NAN)}}),
              FailsWith(Error::kInvalid, "'fc1.bias' holds values that are not finite"));
  EXPECT_THAT(warm_start(*model_, "/nonexistent/w.safetensors"),
              FailsWith(Error::kNotFound, "model.start: /nonexistent/w.safetensors"));
  testing::put(dir_.path() + "/x", "no safetensors");
  EXPECT_THAT(warm_start(*model_, dir_.path() + "/x"), FailsWith(Error::kInvalid, "model.start: "));
}

}  // namespace
}  // namespace tessera
