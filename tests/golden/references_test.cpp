// Rules without training (docs/methods.md §1.7).

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>

#include "data/federation.hpp"
#include "data/testing.hpp"
#include "support/napkin.hpp"

namespace tessera::test {
namespace {

Tensor predicted(const Toy& toy, ClientId id, const Tensor& x, View view) {
  const auto down = toy.download(toy.server(), id, Why::kEvaluate);
  return toy.personal(toy.fresh(id), down, toy.local(id), view).predict(x);
}

// Client B has labels 1, 0, 0. With one more of each: 3 and 2 of 5.
TEST(Majority, PredictsTheTrainingSharesWhateverIsAsked) {
  const auto toy = napkin_toy({.method = "majority"});
  const auto x = at::tensor({-5.0F, 7.0F}).view({2, 1});
  for (const View view : {View::kPre, View::kPost}) {
    const auto shares = predicted(toy, 1, x, view).softmax(1);
    EXPECT_TRUE(at::allclose(shares, at::tensor({0.6F, 0.4F}).expand({2, 2}))) << shares;
  }
}

// The class is the number of limits below the value; a value at a limit belongs to the class below.
TEST(Persistence, ReadsTheLastClassOffTheSample) {
  auto data = toy_federation(2, 0, 20);
  for (auto& client : data.clients)
    client.last_label = std::make_shared<const LastLabel>(LastLabel{4, {-1.0F, 2.0F}});
  auto net = *make_model("mlp100", {data.sample_shape, data.classes});
  const Toy toy(std::move(data), std::move(net), {.method = "persistence"});
  auto x = at::zeros({5, 6});
  x.select(1, 4).copy_(at::tensor({-3.0F, -1.0F, -0.5F, 2.0F, 2.1F}));
  EXPECT_TRUE(
      predicted(toy, 0, x, View::kPre).argmax(1).equal(at::tensor({0, 0, 1, 1, 2}, at::kLong)));
}

TEST(Persistence, NeedsDataThatShowTheLastClass) {
  const auto method = find_method("persistence")->draft()->build({});
  const auto status = method->check(napkin_client({1}, {0}));
  EXPECT_EQ(error_of(status), Error::kInvalid);
  EXPECT_THAT(message(status), ::testing::HasSubstr("use majority here"));
}

// Of real data. Row r of a station's pool is the window that starts in hour r, so the level in its
// last hour is the label of row r − 1, if that hour was measured (feature 21 is 0).
TEST(Persistence, IsTheLabelOfTheWindowBefore) {
  TESSERA_NEED_SET("air-bj");
  auto options = natural("air-bj", test_data_dir());
  options.clients = 3, options.stride = 6;
  const auto loaded = load_federation(options, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto clients = loaded->clients;
  auto net = *make_model("gru64", {loaded->sample_shape, loaded->classes});
  const Toy toy(*loaded, std::move(net), {.method = "persistence"});
  // Aotizhongxin, Changping and Dingling, counted by a program of a few lines in another language.
  const std::array right{0.84375, 0.874764595, 0.874872838};
  for (size_t id = 0; id < clients.size(); ++id) {
    const auto& data = clients[id];
    const auto test = data.range(Part::kTest, 0, data.size(Part::kTest));
    const auto guess = predicted(toy, static_cast<ClientId>(id), test.x, View::kPre).argmax(1);
    const auto before = data.pool->y.index_select(0, at::tensor(data.test) - 1);
    const auto measured = test.x.select(1, options.window - 1).select(1, 21).eq(0);
    EXPECT_TRUE(guess.masked_select(measured).equal(before.masked_select(measured)));
    EXPECT_NEAR(guess.eq(test.y).to(at::kDouble).mean().item<double>(), right[id], 1e-8);
  }
}

}  // namespace
}  // namespace tessera::test
