#include "train/ensemble.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Ensemble, IsTheLogarithmOfTheMeanSoftmax) {
  const auto model = *make_model("mlp100", {{4}, 3});
  const std::vector<Weights> members{model->init(1), model->init(2), model->init(3)};
  const auto x = at::arange(8, at::kFloat).view({2, 4}) / 4;
  auto mean = at::zeros({2, 3});
  for (const auto& member : members) mean += at::softmax(model->predict(member, x), 1) / 3;
  EXPECT_TRUE(at::allclose(ensemble_logits(*model, members, x).exp(), mean, 1e-5, 1e-7));
}

TEST(Ensemble, StaysFiniteWhereProbabilitiesUnderflow) {
  const auto model = *make_model("mlp100", {{4}, 3});
  auto sure = model->init(1);
  sure.w.slice(0, -3).copy_(at::tensor({0.0F, 500.0F, 0.0F}));
  const std::vector<Weights> members{sure, sure};
  const auto logits = ensemble_logits(*model, members, at::zeros({1, 4}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  EXPECT_NEAR(logits[0][0].item<double>(), -500, 1e-3);
}

}  // namespace
}  // namespace tessera
