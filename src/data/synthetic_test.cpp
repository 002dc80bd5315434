#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "data/federation.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using Data = std::shared_ptr<const ClientData>;

DataOptions synthetic(int64_t clients) {
  DataOptions options;
  options.set = "synthetic", options.partition = "natural", options.clients = clients;
  return options;
}

DataOptions fixed(int64_t clients, int64_t samples) {
  auto options = synthetic(clients);
  options.sizes = "fixed", options.least = samples;
  return options;
}

Federation loaded(const DataOptions& options, uint64_t key = 7) {
  auto out = load_federation(options, key);
  EXPECT_TRUE(out.ok()) << out.status();
  return *std::move(out);
}

Data opened(const ClientData& client) {
  auto out = client.open();
  EXPECT_TRUE(out.ok()) << out.status();
  return *out;
}

void expect_same(const ClientData& a, const ClientData& b) {
  EXPECT_TRUE(at::equal(a.pool->x, b.pool->x));
  EXPECT_TRUE(at::equal(a.pool->y, b.pool->y));
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.val, b.val);
  EXPECT_EQ(a.test, b.test);
}

TEST(Synthetic, AClientIsTheSameHoweverManyThereAre) {
  auto few = synthetic(10), many = synthetic(1'000'000);
  few.newcomers = many.newcomers = 2;
  const auto a = loaded(few), b = loaded(many);
  EXPECT_EQ(b.clients.size(), 1'000'000U);
  expect_same(*opened(a.clients[0]), *opened(b.clients[0]));
  expect_same(*opened(a.clients[9]), *opened(b.clients[9]));
  expect_same(*opened(a.newcomers[1]), *opened(b.newcomers[1]));
  EXPECT_EQ(b.newcomers[1].name, "1000001");
  EXPECT_FALSE(at::equal(opened(a.newcomers[0])->pool->x[0], opened(b.clients[10])->pool->x[0]));
}

TEST(Synthetic, TheSameBitsInWhateverOrderAndThread) {
  const auto federation = loaded(synthetic(40));
  std::vector<Data> forwards(40), backwards(40);
  for (size_t i = 0; i < 40; ++i) forwards[i] = opened(federation.clients[i]);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = 40; i-- > 0;)
          if (i % 4 == t) backwards[i] = opened(federation.clients[i]);
      });
  }
  for (size_t i = 0; i < 40; ++i) expect_same(*forwards[i], *backwards[i]);
}

TEST(Synthetic, NothingIsKept) {
  const auto federation = loaded(synthetic(3));
  const auto& client = federation.clients[1];
  EXPECT_FALSE(client.is_here());
  EXPECT_EQ(client.pool, nullptr);
  EXPECT_THROW(client.rows(Part::kTrain), std::exception);
  const auto whole = opened(client);
  for (const Part part : {Part::kTrain, Part::kVal, Part::kTest, Part::kSupport})
    EXPECT_EQ(client.size(part), whole->size(part));
  EXPECT_NE(whole, opened(client)) << "made anew";
}

TEST(Synthetic, PartsHaveTheSharesThatWereAskedFor) {
  auto options = fixed(2, 100);
  options.test = 0.2, options.val = 0.1;
  const auto all = opened(loaded(options).clients[0]);
  EXPECT_EQ(all->size(Part::kTest), 20);
  EXPECT_EQ(all->size(Part::kVal), 8);
  EXPECT_EQ(all->size(Part::kTrain), 72);
  options.samples = 10;
  const auto few = opened(loaded(options).clients[0]);
  EXPECT_EQ(few->size(Part::kTrain), 10);
  EXPECT_TRUE(at::equal(few->range(Part::kTest, 0, 20).x, all->range(Part::kTest, 0, 20).x));
  EXPECT_TRUE(at::equal(few->range(Part::kTrain, 0, 10).x, all->range(Part::kTrain, 0, 10).x));
}

// P(n >= s) = (least / s)^(power - 1) for whole s up to the cap, so E n = Σ_s P(n >= s).
TEST(Synthetic, SizesFollowThePowerLaw) {
  for (const double power : {2.0, 3.0}) {
    auto options = synthetic(20'000);
    options.power = power;
    double expected = 20;
    for (int s = 21; s <= 1000; ++s) expected += std::pow(20.0 / s, power - 1);
    double sum = 0, squares = 0, at_cap = 0, small = 0;
    for (const auto& client : loaded(options).clients) {
      const auto n = static_cast<double>(client.size(Part::kTrain) + client.size(Part::kVal) +
                                         client.size(Part::kTest));
      ASSERT_GE(n, 20);
      ASSERT_LE(n, 1000);
      sum += n, squares += n * n, at_cap += n == 1000, small += n < 40;
    }
    const double mean = sum / 2e4, error = std::sqrt((squares / 2e4 - mean * mean) / 2e4);
    EXPECT_NEAR(mean, expected, 5 * error);
    EXPECT_NEAR(at_cap / 2e4, std::pow(20.0 / 1000, power - 1), 0.006);
    EXPECT_NEAR(small / 2e4, 1 - std::pow(0.5, power - 1), 0.02);
  }
}

// Inputs: within a client feature j has the variance j^-1.2; a client's mean over all features has
// the variance beta² + 1/F (centres) and a little of its samples.
TEST(Synthetic, InputsHaveTheVariancesOfTheFormula) {
  auto options = fixed(2000, 50);
  options.beta = 3;
  const auto federation = loaded(options);
  auto within = at::zeros({60}, at::kDouble);
  std::vector<double> means;
  for (const auto& client : federation.clients) {
    const auto x = opened(client)->pool->x.to(at::kDouble);
    within += x.var(0, /*unbiased=*/true);
    means.push_back(x.mean().item<double>());
  }
  within /= 2000;
  for (const int64_t j : {1, 2, 10, 60})
    EXPECT_NEAR(within[j - 1].item<double>() / std::pow(static_cast<double>(j), -1.2), 1, 0.03);
  double sum = 0, squares = 0;
  for (const double m : means) sum += m, squares += m * m;
  const double variance = squares / 2000 - (sum / 2000) * (sum / 2000);
  EXPECT_NEAR(variance / (9 + 1.0 / 60), 1, 0.15);
}

// With a huge alpha the scores are u_c (1 + Σ_j x_j): the largest u wins where that is positive,
// the smallest where it is negative.
TEST(Synthetic, ALargeAlphaLeavesAClientTwoLabels) {
  auto options = fixed(50, 200);
  options.alpha = 1e6;
  std::set<int64_t> seen;
  for (const auto& client : loaded(options).clients) {
    const auto data = opened(client);
    const auto sums = data->pool->x.to(at::kDouble).sum(1) + 1;
    std::map<bool, std::set<int64_t>> labels;
    for (int64_t row = 0; row < 200; ++row) {
      if (std::abs(sums[row].item<double>()) < 0.01) continue;  // the small terms decide
      labels[sums[row].item<double>() > 0].insert(data->pool->y[row].item<int64_t>());
    }
    for (const auto& [sign, of] : labels) {
      EXPECT_EQ(of.size(), 1U);
      seen.insert(of.begin(), of.end());
    }
  }
  EXPECT_EQ(seen.size(), 10U) << "over clients every class wins somewhere";
}

TEST(Synthetic, DigestsTellOptionsAndKeys) {
  const auto first = loaded(synthetic(5));
  EXPECT_EQ(first.data_digest, loaded(synthetic(5)).data_digest);
  EXPECT_NE(first.data_digest, loaded(synthetic(5), 8).data_digest);
  for (const auto& change : std::vector<std::function<void(DataOptions&)>>{
           [](auto& o) { o.alpha = 1; }, [](auto& o) { o.beta = 1; },
           [](auto& o) { o.features = 61; }, [](auto& o) { o.labels = 11; },
           [](auto& o) { o.clients = 6; }, [](auto& o) { o.least = 21; },
           [](auto& o) { o.most = 999; }, [](auto& o) { o.power = 2.5; },
           [](auto& o) { o.test = 0.3; }, [](auto& o) { o.newcomers = 1; }}) {
    auto options = synthetic(5);
    change(options);
    EXPECT_NE(loaded(options).data_digest, first.data_digest);
  }
  auto options = synthetic(0);
  EXPECT_EQ(loaded(options).clients.size(), 20U);
}

TEST(Synthetic, PublicSamplesComeFromOpenedData) {
  auto options = fixed(3, 100);
  options.commons = 0.25;  // of 72 training rows each
  const auto federation = loaded(options);
  EXPECT_EQ(federation.commons.train_size(), 3 * 18);
  EXPECT_EQ(federation.clients[2].size(Part::kTrain), 54);
  const auto whole = opened(loaded(fixed(3, 100)).clients[0]);
  EXPECT_TRUE(at::equal(federation.commons.range(Part::kTrain, 0, 18).x,
                        whole->range(Part::kTrain, 54, 72).x));
}

TEST(Synthetic, RefusesWhatWouldDoNothing) {
  const auto problem = [](const DataOptions& options) {
    const auto problems = check_data(options);
    return problems.size() == 1 ? problems[0] : std::to_string(problems.size()) + " problems";
  };
  auto options = fixed(3, 10);
  options.most = 50;
  EXPECT_THAT(problem(options), HasSubstr("most = 50 does nothing"));
  options = synthetic(3), options.least = 2000;
  EXPECT_THAT(problem(options), HasSubstr("most = 1000 is less than least = 2000"));
  options = synthetic(3), options.scale = "unit";
  EXPECT_THAT(problem(options), HasSubstr("scale = \"unit\" does nothing"));
  options = synthetic(3), options.alpha = 0;
  EXPECT_TRUE(check_data(options).empty());
  options = DataOptions{}, options.alpha = 0;
  EXPECT_THAT(problem(options), HasSubstr("alpha = 0.0 must be a number > 0"));
  options = DataOptions{}, options.beta = 1;
  EXPECT_THAT(problem(options), HasSubstr("beta = 1.0 does nothing"));
}

}  // namespace
}  // namespace tessera
