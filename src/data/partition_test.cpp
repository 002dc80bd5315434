#include "data/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Classes of unequal sizes, in a fixed jumbled order.
PoolLabels jumbled(int64_t train, int64_t test, int64_t classes = 10) {
  PoolLabels out{{}, {}, classes};
  for (int64_t i = 0; i < train; ++i) out.train.push_back((i * 7 + i / 13) % classes);
  for (int64_t i = 0; i < test; ++i) out.test.push_back((i * 3 + i / 11) % classes);
  return out;
}

// As many of each class as the numbers allow.
PoolLabels even(int64_t train, int64_t test) {
  PoolLabels out{{}, {}, 10};
  for (int64_t i = 0; i < train; ++i) out.train.push_back(i * 7 % 10);
  for (int64_t i = 0; i < test; ++i) out.test.push_back(i * 3 % 10);
  return out;
}

DataOptions with(const std::string& partition, int64_t clients, auto change) {
  DataOptions options;
  options.partition = partition;
  options.clients = clients;
  change(options);
  return options;
}
DataOptions with(const std::string& partition, int64_t clients) {
  return with(partition, clients, [](DataOptions&) {});
}

std::vector<int64_t> counts(const PoolLabels& labels, const std::vector<int64_t>& rows) {
  std::vector<int64_t> out(static_cast<size_t>(labels.classes));
  for (const int64_t row : rows) ++out[static_cast<size_t>(labels.label(row))];
  return out;
}

std::vector<int64_t> train_and_val(const ClientRows& own) {
  auto rows = own.train;
  rows.insert(rows.end(), own.val.begin(), own.val.end());
  return rows;
}

// Every row at most once over all clients and parts, on its own side of the pool.
void expect_disjoint(const PoolLabels& labels, const Dealt& dealt) {
  std::set<int64_t> seen;
  const auto first_test = static_cast<int64_t>(labels.train.size());
  const auto end = first_test + static_cast<int64_t>(labels.test.size());
  for (const auto* holders : {&dealt.clients, &dealt.newcomers}) {
    for (const auto& own : *holders) {
      for (const int64_t row : train_and_val(own)) {
        EXPECT_TRUE(row >= 0 && row < first_test);
        EXPECT_TRUE(seen.insert(row).second) << row;
      }
      for (const int64_t row : own.test) {
        EXPECT_TRUE(row >= first_test && row < end);
        EXPECT_TRUE(seen.insert(row).second) << row;
      }
    }
  }
}

Dealt dealt(const PoolLabels& labels, const DataOptions& options, uint64_t key = 1) {
  auto result = deal(labels, options, key);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Dealt{};
}

std::string error_of(const PoolLabels& labels, const DataOptions& options) {
  const auto result = deal(labels, options, 1);
  EXPECT_FALSE(result.ok());
  return message(result.status());
}

TEST(Partition, IidDealsEverySampleInEqualParts) {
  const auto labels = jumbled(1003, 205);
  const auto out = dealt(labels, with("iid", 10, [](auto& o) { o.val = 0.2; }));
  expect_disjoint(labels, out);
  size_t train = 0, test = 0;
  for (const auto& own : out.clients) {
    EXPECT_EQ(own.val.size(), 20u);  // a fifth of 100 or 101
    EXPECT_NEAR(static_cast<double>(own.train.size()), 80.5, 0.5);
    EXPECT_NEAR(static_cast<double>(own.test.size()), 20.5, 0.5);
    train += own.train.size() + own.val.size(), test += own.test.size();
  }
  EXPECT_EQ(train, 1003u);
  EXPECT_EQ(test, 205u);
}

TEST(Partition, NewcomersAreDealtLikeTheOthersAndShareNothing) {
  const auto labels = jumbled(2000, 500);
  const auto out = dealt(labels, with("iid", 8, [](auto& o) { o.newcomers = 2; }));
  ASSERT_EQ(out.clients.size(), 8u);
  ASSERT_EQ(out.newcomers.size(), 2u);
  expect_disjoint(labels, out);
  for (const auto& own : out.newcomers) EXPECT_EQ(own.train.size() + own.val.size(), 200u);
}

TEST(Partition, PathologicalGivesEachClientItsClassesWithEqualSharesInTrainAndTest) {
  const auto labels = jumbled(6000, 3000);
  const auto out = dealt(labels, with("pathological", 20, [](auto& o) { o.classes = 2; }));
  expect_disjoint(labels, out);
  const auto all_train = counts(labels, [&] {
    std::vector<int64_t> rows(6000);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    return rows;
  }());
  std::vector<int64_t> holders(10), sum(10);
  for (const auto& own : out.clients) {
    const auto train = counts(labels, train_and_val(own)), test = counts(labels, own.test);
    EXPECT_EQ(std::count_if(train.begin(), train.end(), [](auto n) { return n > 0; }), 2);
    for (size_t c = 0; c < 10; ++c) {
      holders[c] += train[c] > 0;
      sum[c] += train[c];
      EXPECT_EQ(train[c] > 0, test[c] > 0);
      // A class has 600 and 300 samples give or take a few; shares are the same to a sample.
      EXPECT_NEAR(static_cast<double>(train[c]) / 2.0, static_cast<double>(test[c]), 4.0);
      if (train[c] > 0) {  // 4 holders, each U(0.4, 0.6) over the sum
        const double share = static_cast<double>(train[c]) / static_cast<double>(all_train[c]);
        EXPECT_GE(share, 0.4 / (0.4 + 3 * 0.6) - 0.01);
        EXPECT_LE(share, 0.6 / (0.6 + 3 * 0.4) + 0.01);
      }
    }
  }
  EXPECT_THAT(holders, ElementsAre(4, 4, 4, 4, 4, 4, 4, 4, 4, 4));  // 2 · 20 / 10
  EXPECT_EQ(sum, all_train);                                        // nothing is left over
}

TEST(Partition, DirichletKeepsMinimaAndShares) {
  const auto labels = jumbled(5000, 2500);
  const auto out = dealt(labels, with("dirichlet", 20, [](auto& o) { o.alpha = 0.5; }));
  expect_disjoint(labels, out);
  size_t train_total = 0, test_total = 0;
  for (const auto& own : out.clients) {
    const auto train = counts(labels, train_and_val(own)), test = counts(labels, own.test);
    train_total += train_and_val(own).size(), test_total += own.test.size();
    EXPECT_GE(train_and_val(own).size(), 10u);
    EXPECT_GE(own.test.size(), 5u);
    for (size_t c = 0; c < 10; ++c)
      EXPECT_NEAR(static_cast<double>(train[c]) / 2.0, static_cast<double>(test[c]), 3.0);
  }
  EXPECT_EQ(train_total, 5000u);
  EXPECT_EQ(test_total, 2500u);
}

// Mean over clients of the largest class share, which falls from 1 to 1/classes as alpha grows.
double skew(double alpha) {
  const auto labels = jumbled(20000, 5000);
  const auto out = dealt(labels, with("dirichlet", 10, [&](auto& o) { o.alpha = alpha; }));
  double sum = 0.0;
  for (const auto& own : out.clients) {
    const auto n = counts(labels, train_and_val(own));
    sum += static_cast<double>(*std::max_element(n.begin(), n.end())) /
           static_cast<double>(train_and_val(own).size());
  }
  return sum / 10.0;
}

TEST(Partition, DirichletAlphaGovernsTheSkew) {
  const double strong = skew(0.1), mild = skew(1.0), none = skew(1000.0);
  EXPECT_GT(strong, 0.4);
  EXPECT_GT(strong, mild + 0.1);
  EXPECT_GT(mild, none + 0.05);
  EXPECT_NEAR(none, 0.1, 0.02);
}

// How alike clients share two classes: the sum over clients of the smaller of their two shares.
double overlap(const PoolLabels& labels, const Dealt& out, size_t a, size_t b) {
  std::vector<std::array<double, 2>> shares;
  std::array<double, 2> sums{};
  for (const auto& own : out.clients) {
    const auto held = counts(labels, train_and_val(own));
    shares.push_back({static_cast<double>(held[a]), static_cast<double>(held[b])});
    sums[0] += shares.back()[0], sums[1] += shares.back()[1];
  }
  double sum = 0;
  for (const auto& share : shares) sum += std::min(share[0] / sums[0], share[1] / sums[1]);
  return sum;
}

// Dir(10) over five classes has deviation √(0.2 · 0.8 / 51) = 0.28 of its mean, so two classes of a
// superclass overlap by about 1 − ½ · 0.8 · 0.28 · √2.5 = 0.82, less what full clients pass on;
// classes of different superclasses are as alike as two draws of Dir(0.2).
TEST(Partition, DirichletOverSuperclassesKeepsTheirClassesTogether) {
  auto labels = jumbled(50000, 10000, 100);
  for (int64_t c = 0; c < 100; ++c) labels.superclass.push_back(c % 20);
  const auto change = [](auto& o) {
    o.set = "cifar100", o.alpha = 0.2, o.superclasses = true, o.val = 0;
  };
  const auto out = dealt(labels, with("dirichlet", 20, change));
  expect_disjoint(labels, out);
  double inside = 0, across = 0;
  for (size_t s = 0; s < 20; ++s) {
    inside += overlap(labels, out, s, s + 20) / 20;
    across += overlap(labels, out, s, (s + 1) % 20) / 20;
  }
  EXPECT_GT(inside, 0.7);
  EXPECT_LT(inside, 0.95) << "not the same shares for all classes of a superclass";
  EXPECT_LT(across, 0.45);
  labels.superclass.clear();
  EXPECT_THAT(error_of(labels, with("dirichlet", 20, change)),
              HasSubstr("do not give every class one superclass"));
}

TEST(Partition, DirichletThatCannotMeetItsMinimumSaysWhatToChange) {
  // 40 test samples for 10 clients: never 5 each.
  EXPECT_THAT(error_of(jumbled(1000, 40), with("dirichlet", 10)), HasSubstr("fewer clients"));
  // With alpha this small each of the two classes falls to one or two of 30 clients.
  const auto text =
      error_of(jumbled(1000, 500, 2), with("dirichlet", 30, [](auto& o) { o.alpha = 0.01; }));
  EXPECT_THAT(text, HasSubstr("alpha = 0.01"));
  EXPECT_THAT(text, HasSubstr("larger alpha"));
}

TEST(Partition, FewKeepsFiftyTrainingSamplesAndAllTestSamples) {
  const auto labels = jumbled(8000, 2000);
  const auto few = dealt(labels, with("few", 20));
  const auto all = dealt(labels, with("dirichlet", 20));
  for (size_t k = 0; k < 20; ++k) {
    EXPECT_EQ(few.clients[k].train.size(), std::min<size_t>(50, all.clients[k].train.size()));
    EXPECT_EQ(few.clients[k].test, all.clients[k].test);
    EXPECT_EQ(few.clients[k].val, all.clients[k].val);
  }
  const auto thirty = dealt(labels, with("few", 20, [](auto& o) { o.samples = 30; }));
  for (const auto& own : thirty.clients) EXPECT_LE(own.train.size(), 30u);
}

TEST(Partition, QuantityGivesExactlyCLabelsOfEqualCounts) {
  const auto labels = even(6007, 1009);
  const auto out = dealt(labels, with("quantity", 15, [](auto& o) { o.classes = 2, o.val = 0; }));
  expect_disjoint(labels, out);
  std::set<int64_t> train_counts, test_counts;
  for (const auto& own : out.clients) {
    int held = 0;
    const auto train = counts(labels, own.train), test = counts(labels, own.test);
    for (size_t c = 0; c < 10; ++c) {
      EXPECT_EQ(train[c] > 0, test[c] > 0);
      if (train[c] == 0) continue;
      ++held, train_counts.insert(train[c]), test_counts.insert(test[c]);
    }
    EXPECT_EQ(held, 2);
  }
  // 3 holders of each class; the smallest classes have 600 and 100 samples.
  EXPECT_THAT(train_counts, ElementsAre(200));
  EXPECT_THAT(test_counts, ElementsAre(33));
}

TEST(Partition, Pfht70TakesNineTenthsFromSevenClasses) {
  const auto labels = even(20000, 10000);
  const auto out = dealt(labels, with("pfht70", 20, [](auto& o) { o.val = 0; }));
  expect_disjoint(labels, out);
  for (const auto& own : out.clients) {
    auto n = counts(labels, own.train);
    std::sort(n.begin(), n.end());
    // 2000 of a class = m (14 · 0.9 / 7 + 6 · 0.1 / 3), so m = 1000: 128 of seven, 33 of three.
    EXPECT_THAT(std::vector<int64_t>(n.begin(), n.begin() + 3), testing::Each(33));
    EXPECT_THAT(std::vector<int64_t>(n.begin() + 3, n.end()), testing::Each(128));
  }
}

TEST(Partition, CbamGivesOwnersTheirFraction) {
  const auto labels = even(10000, 2000);  // 1000 and 200 of each class
  for (const auto& [split, own] : std::map<int64_t, double>{{1, 0.55}, {2, 0.5}, {3, 0.45}}) {
    const auto out = dealt(labels, with("cbam", 0, [&](auto& o) { o.split = split, o.val = 0; }));
    ASSERT_EQ(out.clients.size(), 3u);
    expect_disjoint(labels, out);
    for (size_t k = 0; k < 3; ++k) {
      const auto train = counts(labels, out.clients[k].train);
      const auto test = counts(labels, out.clients[k].test);
      for (size_t c = 0; c < 9; ++c) {
        const double share = c / 3 == k ? own : (1.0 - own) / 2.0;
        EXPECT_NEAR(static_cast<double>(train[c]), 1000.0 * share, 1.0) << split << k << c;
        EXPECT_NEAR(static_cast<double>(test[c]), 200.0 * share, 1.0);
      }
      EXPECT_NEAR(static_cast<double>(train[9]), 1000.0 / 3.0, 1.0);
    }
  }
  const auto own = dealt(labels, with("cbam", 3, [](auto& o) { o.fraction = 0.8, o.val = 0; }));
  EXPECT_EQ(counts(labels, own.clients[1].train)[4], 800);
}

TEST(Partition, SubsetsSamplesAndValidationAreTakenInThisOrder) {
  const auto labels = jumbled(5000, 1000);
  const auto out = dealt(labels, with("iid", 5, [](auto& o) {
                           o.train_samples = 1000, o.test_samples = 100;
                           o.val = 0.25, o.samples = 60;
                         }));
  expect_disjoint(labels, out);
  for (const auto& own : out.clients) {
    EXPECT_EQ(own.val.size(), 50u);  // a quarter of 1000 / 5, before samples
    EXPECT_EQ(own.train.size(), 60u);
    EXPECT_EQ(own.test.size(), 20u);
  }
}

TEST(Partition, SameKeySameDealOtherKeyOtherDeal) {
  const auto labels = jumbled(3000, 1000);
  for (const char* name :
       {"iid", "pathological", "dirichlet", "few", "quantity", "mper2", "cbam", "pfht70"}) {
    const auto options = with(name, std::string(name) == "cbam" ? 3 : 10);
    const auto a = dealt(labels, options, 7), b = dealt(labels, options, 7);
    const auto c = dealt(labels, options, 8);
    ASSERT_EQ(a.clients.size(), c.clients.size());
    bool differs = false;
    for (size_t k = 0; k < a.clients.size(); ++k) {
      EXPECT_EQ(a.clients[k].train, b.clients[k].train) << name;
      EXPECT_EQ(a.clients[k].test, b.clients[k].test) << name;
      differs = differs || a.clients[k].test != c.clients[k].test;
    }
    EXPECT_TRUE(differs) << name;
  }
}

TEST(Partition, RefusesWhatCannotBeDealt) {
  EXPECT_THAT(error_of(jumbled(10, 5), with("iid", 6)), HasSubstr("fewer clients"));
  EXPECT_THAT(
      error_of(jumbled(500, 200), with("pathological", 10, [](auto& o) { o.classes = 11; })),
      HasSubstr("classes = 11"));
  PoolLabels lopsided = jumbled(500, 200);
  for (auto& label : lopsided.test) label = 0;  // a client without class 0 has nothing to test
  EXPECT_THAT(error_of(lopsided, with("pathological", 10)), HasSubstr("no test samples"));
  EXPECT_THAT(error_of(jumbled(500, 200, 7), with("cbam", 3)), HasSubstr("10 classes"));
}

// mper2 -------------------------------------------------------------------------------------------

struct SizeFacts {
  double min, mean, std, max;
};
SizeFacts facts(const std::vector<double>& n) {
  double sum = 0, squares = 0;
  for (const double v : n) sum += v, squares += v * v;
  const double mean = sum / static_cast<double>(n.size());
  return {*std::min_element(n.begin(), n.end()), mean,
          std::sqrt(squares / static_cast<double>(n.size()) - mean * mean),
          *std::max_element(n.begin(), n.end())};
}

TEST(PartitionMper2, PairsSizesAndSplitsAreThePublishedOnes) {
  const auto labels = jumbled(60000, 10000);
  const auto out = dealt(
      labels, with("mper2", 50, [](auto& o) { o.set = "mnist", o.newcomers = 50, o.val = 0; }));
  std::set<int64_t> train_rows, test_rows;
  std::vector<double> n;
  for (size_t u = 0; u < 50; ++u) {
    const auto& own = out.clients[u];
    const auto a = u % 10, b = (u + 1) % 10;
    const auto train = counts(labels, own.train), test = counts(labels, own.test),
               support = counts(labels, own.support);
    for (size_t c = 0; c < 10; ++c) {
      const int64_t held = train[c] + test[c] + support[c];
      EXPECT_EQ(held > 0, c == a || c == b);
      if (held == 0) continue;
      EXPECT_GE(held, 10);
      EXPECT_NEAR(static_cast<double>(train[c]), 0.75 * static_cast<double>(held), 1.0);
      EXPECT_NEAR(static_cast<double>(support[c]),
                  std::max(1.0, 0.2 * static_cast<double>(test[c] + support[c])), 1.0);
      // The first fifth of the training rows, methods' support set, has the same shares.
      const auto head = static_cast<std::ptrdiff_t>(own.train.size() / 5);
      const auto prefix = counts(labels, {own.train.begin(), own.train.begin() + head});
      EXPECT_NEAR(static_cast<double>(prefix[c]), 0.2 * static_cast<double>(train[c]), 1.5);
    }
    n.push_back(static_cast<double>(own.train.size() + own.test.size() + own.support.size()));
    for (const int64_t row : own.train) EXPECT_TRUE(train_rows.insert(row).second);
    for (const auto* part : {&own.test, &own.support})
      for (const int64_t row : *part) EXPECT_TRUE(test_rows.insert(row).second);
  }
  const auto f = facts(n);  // published: 135 / 1398 / 1424 / 5201
  EXPECT_NEAR(f.mean, 1399, 2);
  EXPECT_NEAR(f.std, 1424, 400);
  EXPECT_NEAR(f.min, 135, 60);
  EXPECT_NEAR(f.max, 5201, 1500);

  std::set<int64_t> newcomer_rows;
  for (size_t u = 0; u < 50; ++u) {
    const auto& own = out.newcomers[u];
    EXPECT_EQ(std::set<int64_t>(own.train.begin(), own.train.end()),
              std::set<int64_t>(own.support.begin(), own.support.end()));
    std::set<int64_t> classes;
    for (const auto* part : {&own.test, &own.support})
      for (const int64_t row : *part) {
        EXPECT_TRUE(test_rows.contains(row) && !train_rows.contains(row));
        EXPECT_TRUE(newcomer_rows.insert(row).second);
        classes.insert(labels.label(row));
      }
    ASSERT_EQ(classes.size(), 2u);
    const int64_t gap = *classes.rbegin() - *classes.begin();
    EXPECT_TRUE(gap >= 2 && gap <= 8) << "a pair of neighbours was seen in training";
  }
}

TEST(PartitionMper2, CifarSizesAreNarrowAndScaleWithThePool) {
  const auto labels = jumbled(50000, 10000);
  const auto out = dealt(labels, with("mper2", 50, [](auto& o) { o.set = "cifar10", o.val = 0; }));
  std::vector<double> n;
  for (const auto& own : out.clients)
    n.push_back(static_cast<double>(own.train.size() + own.test.size() + own.support.size()));
  const auto f = facts(n);  // published: 506 / 1049 / 250 / 1986
  EXPECT_NEAR(f.mean, 1049, 10);
  EXPECT_NEAR(f.std, 250, 60);
  EXPECT_NEAR(f.max, 1986, 300);
  EXPECT_GT(f.min, 400);
}

TEST(PartitionMper2, SharesByClassDifferWithinAClient) {
  const auto labels = jumbled(60000, 10000);
  const auto ratio = [&](const char* share) {
    const auto out =
        dealt(labels, with("mper2", 50, [&](auto& o) { o.set = "mnist", o.share = share; }));
    double sum = 0.0;
    for (size_t u = 0; u < 50; ++u) {
      const auto n = counts(labels, out.clients[u].train);
      const auto a = static_cast<double>(n[u % 10]), b = static_cast<double>(n[(u + 1) % 10]);
      sum += std::max(a, b) / std::min(a, b);
    }
    return sum / 50.0;
  };
  EXPECT_LT(ratio("client"), 3.0);
  EXPECT_GT(ratio("class"), 4.0);
}

// The authors' newcomers: a ring over shuffled classes has ten pairs, every class in two of them.
// Two given classes are neighbours in it with chance 2/9: of the ten trained pairs 2.2 on average.
TEST(PartitionMper2, RingPairsAreTenOfWhichAboutTwoAreKnown) {
  const auto labels = jumbled(60000, 10000);
  const auto changed = with(
      "mper2", 50, [](auto& o) { o.set = "mnist", o.newcomers = 50, o.val = 0, o.pairs = "ring"; });
  double known = 0, uneven = 0;
  constexpr uint64_t kKeys = 30;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const auto out = deal(labels, changed, key);
    ASSERT_TRUE(out.ok());
    std::map<std::pair<size_t, size_t>, int64_t> pairs;
    for (const auto& own : out->newcomers) {
      const auto n = counts(labels, own.test);
      std::vector<size_t> held;
      for (size_t c = 0; c < 10; ++c)
        if (n[c] > 0) held.push_back(c);
      ASSERT_EQ(held.size(), 2U);
      ++pairs[{held[0], held[1]}];
      const auto a = static_cast<double>(n[held[0]]), b = static_cast<double>(n[held[1]]);
      uneven += std::max(a, b) / std::min(a, b) / (50.0 * kKeys);
    }
    EXPECT_EQ(pairs.size(), 10U);
    std::vector<int64_t> uses(10);
    for (const auto& [pair, times] : pairs) {
      EXPECT_EQ(times, 5);
      ++uses[pair.first], ++uses[pair.second];
      const auto gap = pair.second - pair.first;
      known += gap == 1 || gap == 9 ? 1.0 / kKeys : 0;
    }
    EXPECT_EQ(uses, std::vector<int64_t>(10, 2));
  }
  EXPECT_NEAR(known, 20.0 / 9, 0.8);  // four of its deviations, about 0.2
  EXPECT_GT(uneven, 4.0);
}

TEST(PartitionMper2, RefusesTooManyClients) {
  EXPECT_THAT(error_of(jumbled(1000, 200), with("mper2", 100)), HasSubstr("fewer clients"));
}

}  // namespace
}  // namespace tessera
