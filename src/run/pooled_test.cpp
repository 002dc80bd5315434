#include "run/pooled.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

std::shared_ptr<const Pool> pool_of(const Tensor& x, const Tensor& y) {
  return std::make_shared<const Pool>(Pool{x, y, 10});
}

// What the pooled client sees is what the clients see, one after the other.
void expect_same_samples(std::span<const ClientData> clients, const ClientData& all) {
  for (const Part part : {Part::kTrain, Part::kVal}) {
    int64_t at = 0;
    for (const auto& client : clients) {
      const int64_t n = client.size(part);
      const auto own = client.range(part, 0, n), there = all.range(part, at, at + n);
      EXPECT_TRUE(own.x.equal(there.x));
      EXPECT_TRUE(own.y.equal(there.y));
      at += n;
    }
    EXPECT_EQ(all.size(part), at);
  }
}

TEST(Pooled, OnePoolIsSharedNotCopied) {
  const auto pool = pool_of(at::arange(12, at::kFloat).view({6, 2}), at::arange(6));
  const std::vector<ClientData> clients{{"a", pool, {1, 0}, {2}, {}, {}},
                                        {"b", pool, {5, 4}, {}, {3}, {}}};
  const auto all = pooled(clients);
  EXPECT_EQ(all.pool, pool);
  EXPECT_EQ(all.train, (std::vector<int64_t>{1, 0, 5, 4}));
  EXPECT_EQ(all.val, (std::vector<int64_t>{2}));
  EXPECT_TRUE(all.test.empty());
}

TEST(Pooled, OwnPoolsAreJoined) {
  const std::vector<ClientData> clients{
      {"a",
       pool_of(at::arange(12, at::kFloat).view({3, 2, 2}), at::arange(3)),
       {2, 0},
       {1},
       {},
       {}},
      {"b",
       pool_of(at::arange(100, 108, at::kFloat).view({2, 2, 2}), at::arange(5, 7)),
       {0, 1},
       {},
       {},
       {}}};
  const auto all = pooled(clients);
  EXPECT_EQ(all.pool->y.size(0), 5);
  expect_same_samples(clients, all);
}

TEST(Pooled, OverlappingWindowsStaySo) {
  // Windows of 3 hours with 2 features, one hour apart.
  const auto windows = [](double first, int64_t hours) {
    return at::arange(first, first + 2.0 * static_cast<double>(hours), at::kFloat)
        .as_strided({hours - 2, 3, 2}, {2, 2, 1});
  };
  const std::vector<ClientData> clients{
      {"a", pool_of(windows(0, 5), at::arange(3)), {2, 1, 0}, {}, {}, {}},
      {"b", pool_of(windows(50, 4), at::arange(3, 5)), {1}, {0}, {}, {}},
      {"c", pool_of(windows(90, 3), at::arange(5, 6)), {0}, {}, {}, {}}};
  const auto all = pooled(clients);
  expect_same_samples(clients, all);
  EXPECT_EQ(all.pool->x.storage().nbytes(), (5 + 4 + 3) * 2 * sizeof(float));
}

TEST(Pooled, OtherShapesAreRefused) {
  const std::vector<ClientData> clients{
      {"a", pool_of(at::zeros({3, 2}), at::arange(3)), {0}, {}, {}, {}},
      {"b", pool_of(at::zeros({3, 4}), at::arange(3)), {0}, {}, {}, {}}};
  EXPECT_THROW(pooled(clients), std::exception);
}

}  // namespace
}  // namespace tessera
