#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/dealing.hpp"

namespace tessera {
namespace {

constexpr int64_t kBase = 10;  // samples of each class before the log-normal share
constexpr int64_t kDraws = 300;

// Published minimum, deviation and maximum of the clients' sizes, over their mean.
struct Spread {
  double min, std, max;
};
constexpr Spread kMnistSpread{135.0 / 1398, 1424.0 / 1398, 5201.0 / 1398};
constexpr Spread kCifarSpread{506.0 / 1049, 250.0 / 1049, 1986.0 / 1049};
constexpr double kCifarDealt = 52497.0 / 60000;  // the published CIFAR-10 clients hold no more
constexpr double kCifarPerClient = 1200.0;       // samples of the pool per published client

using Pair = std::array<int64_t, 2>;
using PairCounts = std::vector<Pair>;  // [client][which of its two classes]

struct Recipe {
  std::vector<Pair> pairs;
  std::vector<int64_t> class_sizes;
  bool per_class = false;  // independent factors for a client's two classes
  bool cifar = false;
};

Spread spread_of(const PairCounts& counts) {
  double sum = 0.0, squares = 0.0, least = HUGE_VAL, most = 0.0;
  for (const auto& [a, b] : counts) {
    const auto size = static_cast<double>(a + b);
    sum += size, squares += size * size;
    least = std::min(least, size), most = std::max(most, size);
  }
  const auto n = static_cast<double>(counts.size());
  const double mean = sum / n;
  return {least / mean, std::sqrt(std::max(0.0, squares / n - mean * mean)) / mean, most / mean};
}

double distance(const Spread& a, const Spread& b) {
  const auto ratio = [](double x, double y) { return std::abs(std::log((x + 0.01) / (y + 0.01))); };
  return ratio(a.min, b.min) + ratio(a.std, b.std) + ratio(a.max, b.max);
}

PairCounts draw_base(const Recipe& recipe, Rng& rng) {
  const auto n = recipe.pairs.size();
  PairCounts base(n, Pair{kBase, kBase});
  if (!recipe.cifar) return base;
  const double scale =
      static_cast<double>(total(recipe.class_sizes)) / (kCifarPerClient * static_cast<double>(n));
  for (auto& [a, b] : base) {
    const auto extra = [&] {
      return static_cast<int64_t>(scale * static_cast<double>(300 + rng.below(301)));
    };
    a += extra();
    b = recipe.per_class ? b + extra() : a;
  }
  return base;
}

// Empty if some class is too small for the samples that each of its holders must get.
PairCounts draw_counts(const Recipe& recipe, Rng& rng) {
  const double sigma = recipe.per_class ? 2.0 : 1.1;
  auto counts = draw_base(recipe, rng);
  std::vector<std::array<double, 2>> factors(counts.size());
  for (auto& [a, b] : factors) {
    a = std::exp(sigma * rng.normal());
    b = recipe.per_class ? std::exp(sigma * rng.normal()) : a;
  }
  std::vector<int64_t> rest = recipe.class_sizes;
  std::vector<double> sums(rest.size());
  for (size_t k = 0; k < counts.size(); ++k)
    for (size_t i = 0; i < 2; ++i) {
      rest[idx(recipe.pairs[k][i])] -= counts[k][i];
      sums[idx(recipe.pairs[k][i])] += factors[k][i];
    }
  if (*std::min_element(rest.begin(), rest.end()) < 0) return {};
  for (size_t c = 0; recipe.cifar && c < rest.size(); ++c) {
    const auto left_over = static_cast<double>(recipe.class_sizes[c]) * (1.0 - kCifarDealt);
    rest[c] = std::max<int64_t>(0, rest[c] - static_cast<int64_t>(left_over));
  }
  for (size_t k = 0; k < counts.size(); ++k)
    for (size_t i = 0; i < 2; ++i) {
      const auto c = idx(recipe.pairs[k][i]);
      counts[k][i] += static_cast<int64_t>(static_cast<double>(rest[c]) * factors[k][i] / sums[c]);
    }
  return counts;
}

// Of many draws the one whose sizes spread most like the published ones.
Result<PairCounts> choose_counts(const Recipe& recipe, uint64_t key) {
  PairCounts best;
  double best_distance = HUGE_VAL;
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    Rng rng(derive(key, draw));
    auto counts = draw_counts(recipe, rng);
    if (counts.empty()) continue;
    const double d = distance(spread_of(counts), recipe.cifar ? kCifarSpread : kMnistSpread);
    if (d < best_distance) best = std::move(counts), best_distance = d;
  }
  if (best.empty())
    return fail(Error::kInvalid,
                "partition 'mper2' cannot give {} clients {} samples of each of their two classes; "
                "use fewer clients or newcomers, or more samples",
                recipe.pairs.size(), kBase);
  return best;
}

// Rows of a client's classes in an order whose every prefix has about the client's class shares.
std::vector<int64_t> interleave(const std::array<std::vector<int64_t>, 2>& lists) {
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& list : lists)
    for (size_t i = 0; i < list.size(); ++i)
      order.emplace_back((static_cast<double>(i) + 0.5) / static_cast<double>(list.size()),
                         list[i]);
  std::sort(order.begin(), order.end());
  std::vector<int64_t> rows;
  for (const auto& [place, row] : order) rows.push_back(row);
  return rows;
}

// A fifth of a class, at least one sample, may be adapted on; the rest is tested on.
void split_test(const std::vector<int64_t>& rows, ClientRows& own) {
  const auto n = static_cast<int64_t>(rows.size());
  const auto support = rows.begin() + std::max<int64_t>(1, (n + 2) / 5);
  own.support.insert(own.support.end(), rows.begin(), support);
  own.test.insert(own.test.end(), support, rows.end());
}

Recipe recipe_of(const DataOptions& options, const std::vector<std::vector<int64_t>>& rows) {
  return {{}, sizes(rows), options.share == "class", options.set == "cifar10"};
}

// Takes the next `count` rows of a class.
std::vector<int64_t> next(std::vector<int64_t>& rows, int64_t count) {
  std::vector<int64_t> out(rows.end() - count, rows.end());
  rows.resize(rows.size() - idx(count));
  return out;
}

void finish(ClientRows& own, std::array<std::vector<int64_t>, 2> train,
            const DataOptions& options) {
  for (auto& list : train) {
    const auto val = static_cast<int64_t>(static_cast<double>(list.size()) * options.val);
    const auto taken = next(list, val);
    own.val.insert(own.val.end(), taken.begin(), taken.end());
  }
  own.train = interleave(train);
  if (options.samples > 0 && own.train.size() > idx(options.samples))
    own.train.resize(idx(options.samples));
  for (auto* part : {&own.val, &own.test, &own.support}) std::sort(part->begin(), part->end());
}

// Classes of newcomers. Unseen: u and u + 2 … u + 5, never neighbours. Ring: neighbours again, but
// in a shuffled order of the classes, so that of ten pairs about two are known by chance.
std::vector<Pair> newcomer_pairs(const DataOptions& options, int64_t classes, uint64_t key) {
  std::vector<int64_t> order(idx(classes));
  std::iota(order.begin(), order.end(), 0);
  const bool ring = options.pairs == "ring";
  if (ring) Rng(key).shuffle(std::span<int64_t>(order));
  std::vector<Pair> out;
  for (int64_t u = 0; u < options.newcomers; ++u) {
    const int64_t step = ring ? 1 : 2 + u / classes % 4;
    out.push_back({order[idx(u % classes)], order[idx((u + step) % classes)]});
  }
  return out;
}

// The test pool once more, to clients with other pairs of classes; those of a ring have a size
// factor of their own for each class.
Result<std::vector<ClientRows>> deal_newcomers(std::vector<std::vector<int64_t>> pool,
                                               const DataOptions& options, uint64_t key) {
  auto recipe = recipe_of(options, pool);
  recipe.cifar = false, recipe.per_class = options.pairs == "ring";
  recipe.pairs = newcomer_pairs(options, static_cast<int64_t>(pool.size()), derive(key, 2));
  TESSERA_ASSIGN(const auto counts, choose_counts(recipe, derive(key, 0)));
  for (size_t c = 0; c < pool.size(); ++c)
    Rng(derive(key, 1, c)).shuffle(std::span<int64_t>(pool[c]));
  std::vector<ClientRows> holders(idx(options.newcomers));
  for (size_t k = 0; k < holders.size(); ++k) {
    for (size_t i = 0; i < 2; ++i)
      split_test(next(pool[idx(recipe.pairs[k][i])], counts[k][i]), holders[k]);
    holders[k].train = holders[k].support;
    std::sort(holders[k].test.begin(), holders[k].test.end());
    std::sort(holders[k].support.begin(), holders[k].support.end());
  }
  return holders;
}

}  // namespace

Result<Dealt> deal_mper2(const RowsByClass& rows, const DataOptions& options, int64_t n,
                         uint64_t key) {
  auto pool = rows.train;  // the published clients draw from both pools merged
  for (size_t c = 0; c < pool.size(); ++c) {
    pool[c].insert(pool[c].end(), rows.test[c].begin(), rows.test[c].end());
    Rng(derive(key, 0, c)).shuffle(std::span<int64_t>(pool[c]));
  }
  auto recipe = recipe_of(options, pool);
  for (int64_t u = 0; u < n; ++u)
    recipe.pairs.push_back({u % rows.classes(), (u + 1) % rows.classes()});
  TESSERA_ASSIGN(const auto counts, choose_counts(recipe, derive(key, 1)));

  Dealt out;
  std::vector<std::vector<int64_t>> test_pool(pool.size());
  for (size_t k = 0; k < counts.size(); ++k) {
    ClientRows own;
    std::array<std::vector<int64_t>, 2> train;
    for (size_t i = 0; i < 2; ++i) {
      const auto c = idx(recipe.pairs[k][i]);
      train[i] = next(pool[c], counts[k][i]);
      const auto test = next(train[i], (counts[k][i] + 2) / 4);
      split_test(test, own);
      test_pool[c].insert(test_pool[c].end(), test.begin(), test.end());
    }
    finish(own, std::move(train), options);
    out.clients.push_back(std::move(own));
  }
  if (options.newcomers > 0) {
    TESSERA_ASSIGN(out.newcomers, deal_newcomers(std::move(test_pool), options, derive(key, 2)));
  }
  TESSERA_RETURN_IF_ERROR(check_rows(out.clients, "client"));
  TESSERA_RETURN_IF_ERROR(check_rows(out.newcomers, "newcomer"));
  return out;
}

}  // namespace tessera
