// train.class_weights: every method follows it or says that it cannot; none ignores it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/testing.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

TEST(ClassWeights, ByHand) {
  // Six of class 0, two of class 1, none of class 2.
  auto pool = std::make_shared<Pool>();
  pool->x = at::zeros({8, 1});
  pool->y = at::tensor({0, 0, 1, 0, 0, 1, 0, 0}, at::kLong);
  pool->classes = 3;
  ClientData data;
  data.pool = pool, data.train = {0, 1, 2, 3, 4, 5, 6, 7};
  TrainOptions train{.loss = "ce"};
  EXPECT_EQ(train.loss_on(data), Loss::kCrossEntropy);
  train.class_weights = "balanced";
  const auto loss = train.loss_on(data);
  EXPECT_EQ(loss.kind, Loss::Kind::kCrossEntropy);
  EXPECT_FLOAT_EQ(loss.weight(0), 8.0F / (2 * 6));
  EXPECT_FLOAT_EQ(loss.weight(1), 8.0F / (2 * 2));
  EXPECT_EQ(loss.weight(2), 1.0F);
  data.train.clear();
  EXPECT_EQ(train.loss_on(data).weight(0), 1.0F) << "nothing to count";
}

// One step by hand on the napkin: logits (w0 x, w1 x), samples x = 1 of class 0 (three) and x = 2
// of class 1 (one). Weights 4/(2·3) = 2/3 and 4/2 = 2; the sum is divided by 4.
TEST(ClassWeights, OneStepOnTheNapkin) {
  const auto data = napkin_client({1, 1, 1, 2}, {0, 0, 0, 1});
  const NapkinModel model;
  const TrainOptions train{.batch = 4, .lr = 1, .loss = "ce", .class_weights = "balanced"};
  const auto trained = local_sgd(model.init(0), {model, data, 1, 5}, train);
  const double w0 = 0.5, w1 = -0.25;
  const auto share = [&](double x) { return 1 / (1 + std::exp((w1 - w0) * x)); };  // of class 0
  // d/dw0 of −log p(class 0) is −(1 − p) x, of −log p(class 1) it is p x; w1 has the opposite sign.
  const double slope = (3 * (2.0 / 3) * -(1 - share(1)) * 1 + 2 * share(2) * 2) / 4;
  EXPECT_NEAR(trained.weights.w[0].item<double>(), w0 - slope, 1e-6);
  EXPECT_NEAR(trained.weights.w[1].item<double>(), w1 + slope, 1e-6);
  EXPECT_NEAR(trained.loss, (3 * (2.0 / 3) * -std::log(share(1)) + 2 * -std::log(1 - share(2))) / 4,
              1e-6);
}

ToyOptions with_weights(const std::string& method, const std::string& weights) {
  auto options = noisy(method);
  options.train.class_weights = weights;
  // Newcomers need the banks, where there are any; without p fedham is still FedAvg.
  options.numbers = {{"head_bank", 1}, {"base_bank", 1}};
  if (method == "fedham" || method == "aml1" || method == "aml2")
    options.numbers.emplace_back("p", 1);
  return options;
}

/// Of clients in each of which one class is rare.
std::string trained(const std::string& method, const std::string& weights) {
  auto toy = make_toy(with_weights(method, weights));
  for (auto& client : toy.federation.clients) {
    const auto* y = client.pool->y.data_ptr<int64_t>();
    bool kept = false;
    std::erase_if(client.train,
                  [&](int64_t row) { return y[row] == 0 && std::exchange(kept, true); });
  }
  toy.play(1, 2);
  std::string out = fingerprint(toy);
  // What only personalizes by training shows it here.
  for (const auto& client : toy.evaluate(2).clients)
    out += fmt::format("{:a} {:a}\n", client.pre_test.loss, client.post_test.loss);
  return out;
}

class EveryMethod : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryMethod, FollowsClassWeightsOrRefusesThem) {
  const auto& name = GetParam();
  if (!find_method(name)->learns) return;  // a rule without training
  const auto plain = trained(name, "none");
  EXPECT_EQ(trained(name, "none"), plain);
  const auto refused = find_method(name)
                           ->draft()
                           ->build(with_weights(name, "balanced").train)
                           ->check(make_toy(with_weights(name, "none")).setup(0));
  if (!refused.ok() && message(refused).find("class_weights") != std::string::npos) {
    EXPECT_THAT(refused, testing::FailsWith(Error::kInvalid, "set train.class_weights = \"none\""));
    EXPECT_THAT(refused, testing::FailsWith(Error::kInvalid, name));
    return;
  }
  EXPECT_NE(trained(name, "balanced"), plain);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& info : methods()) out.push_back(info.name);
  return out;
}
std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  auto out = info.param;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}
INSTANTIATE_TEST_SUITE_P(ClassWeights, EveryMethod, ::testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace tessera::test
