#include "report/many_clients.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/compare_report.hpp"
#include "report/run_report.hpp"

namespace tessera {
namespace {

// Not a matcher: it would print megabytes.
bool holds(const Result<std::string>& page, const std::string& text) {
  return page.ok() && page->find(text) != std::string::npos;
}

// `evaluated` of them, evenly over the ids; client i has (i % 101) of 100 test samples right after
// personalization and half as many before.
RunHistory crowd(int64_t clients, int64_t evaluated) {
  RunHistory run;
  run.meta.name = "crowd", run.meta.method = "FedPer", run.meta.dataset = "synthetic";
  run.meta.model = "mlp100", run.meta.headline = "post", run.meta.state = "finished";
  run.meta.clients = clients, run.meta.rounds = 2;
  for (int64_t id = 0; id < clients; ++id)
    run.clients.push_back({id, std::to_string(id), false, 20 + id % 300, 4, 100, {}});
  for (int64_t round = 1; round <= 2; ++round) {
    run.rounds.push_back({round, 100, 0, 0, 1.0, 3000, 1000, 3100, 1100, 60, 2, 1});
    for (const char* view : {"pre", "post"}) {
      run.evals.push_back({round, "clients", view, "test", 0.5, 0.1});
      for (int64_t k = 0; k < evaluated; ++k) {
        const int64_t id = k * (clients / evaluated);
        const int64_t right = id % 101;
        run.client_evals.push_back(
            {round, id, view, "test", 100, view == std::string("pre") ? right / 2 : right});
      }
    }
  }
  return run;
}

TEST(ManyClients, QuantilesAreThoseOfNumpy) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{4, nan, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile_over(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_over(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile_over(values, 0.1), 1.3);
  EXPECT_DOUBLE_EQ(quantile_over(values, 1), 4);
  EXPECT_TRUE(std::isnan(quantile_over({nan}, 0.5)));
}

TEST(ManyClients, UpTo200EveryOneHasARow) {
  const auto page = run_report(crowd(200, 200));
  EXPECT_TRUE(holds(page, "<summary>200 clients</summary>"));
  EXPECT_TRUE(holds(page, "Accuracy of every client"));
  const auto more = run_report(crowd(201, 201));
  EXPECT_FALSE(holds(more, "<summary>201 clients</summary>"));
  EXPECT_TRUE(holds(more, "Accuracy over clients"));
  EXPECT_TRUE(holds(more, "Quantiles, each column by itself: sizes over all 201 clients"));
}

TEST(ManyClients, APageDoesNotGrowWithThem) {
  const auto some = run_report(crowd(1'000, 500)), many = run_report(crowd(100'000, 500)),
             all = run_report(crowd(30'000, 30'000));
  ASSERT_TRUE(some.ok() && many.ok() && all.ok());
  EXPECT_LT(all->size(), 200'000U);
  EXPECT_LT(many->size(), some->size() + 2'000);
  auto other = crowd(30'000, 30'000);
  other.label = "FedAvg";
  const auto table = nlohmann::json::array({{{"method", "FedPer"}}, {{"method", "FedAvg"}}});
  const auto compared = compare_report("t", {crowd(30'000, 30'000), other}, table);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_LT(compared->size(), 200'000U);
}

TEST(ManyClients, DistributionsSayWhatTheNumbersSay) {
  // Ids 0, 10, …, 1000 of 1010 clients: 101 different accuracies, 0 % to 100 %.
  const auto page = run_report(crowd(1'010, 101));
  EXPECT_TRUE(holds(page, "Of 101 evaluated clients"));
  // Those with 0 right gain nothing.
  EXPECT_TRUE(holds(page, "Personalization helps 100 of 101 clients."));
  EXPECT_TRUE(holds(page, ">median</td>"));
  EXPECT_TRUE(holds(page, "50.0\u00a0%")) << "the median of 0 … 100";
  EXPECT_TRUE(holds(page, "How many of 1010 clients hold so many training samples."));
  EXPECT_TRUE(holds(page, "The clients that fare worst"));
}

}  // namespace
}  // namespace tessera
