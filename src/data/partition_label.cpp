#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data/dealing.hpp"

namespace tessera {
namespace {

constexpr int64_t kMinTrain = 10;  // of every client, by dirichlet
constexpr int64_t kMinTest = 5;

Status too_few_classes(const DataOptions& options, int64_t classes) {
  return fail(Error::kInvalid, "classes = {} is more than the {} classes of set '{}'",
              options.classes, classes, options.set);
}

// Cut points in a class of n samples. Rounding errors must not move a cut that is whole.
std::vector<int64_t> cut(const std::vector<double>& shares, int64_t n) {
  std::vector<int64_t> counts(shares.size());
  double sum = 0.0;
  int64_t last = 0;
  for (size_t k = 0; k < shares.size(); ++k) {
    sum += shares[k];
    const auto end = std::clamp(static_cast<int64_t>(sum * static_cast<double>(n) + 1e-6), last, n);
    counts[k] = end - last;
    last = end;
  }
  return counts;
}

// Clients' parts of each class, [class][client], before anybody has too much; columns need not add
// up to anything. With superclasses, clients share those, and each spreads its share of one over
// the classes in it by a Dirichlet of its own, which is nearly even.
Shares draw_shares(const RowsByClass& rows, double alpha, int64_t n, bool superclasses, Rng& rng) {
  constexpr double kInside = 10.0;
  Shares out(idx(rows.classes()));
  if (!superclasses) {
    for (auto& shares : out) shares = rng.dirichlet(n, alpha);
    return out;
  }
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t c = 0; c < out.size(); ++c) groups[rows.superclass[c]].push_back(c);
  for (const auto& [superclass, members] : groups) {
    for (const size_t c : members) out[c].resize(idx(n));
    const auto of_group = rng.dirichlet(n, alpha);
    for (size_t k = 0; k < of_group.size(); ++k) {
      const auto inside = rng.dirichlet(static_cast<int64_t>(members.size()), kInside);
      for (size_t i = 0; i < members.size(); ++i) out[members[i]][k] = of_group[k] * inside[i];
    }
  }
  return out;
}

// One class's shares, none to clients that already hold their part of all samples; they sum to 1.
std::vector<double> limited(std::vector<double> shares, const std::vector<int64_t>& held,
                            double limit) {
  double sum = 0.0;
  for (size_t k = 0; k < shares.size(); ++k) {
    if (static_cast<double>(held[k]) >= limit) shares[k] = 0.0;
    sum += shares[k];
  }
  if (sum <= 0.0) {  // tiny alpha: whoever has room drew an exact zero
    for (size_t k = 0; k < shares.size(); ++k)
      sum += shares[k] = static_cast<double>(held[k]) < limit ? 1.0 : 0.0;
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// The last cut of a class is its end: rounding must not lose a sample.
void add_class(const std::vector<double>& shares, int64_t n, int64_t c, Counts& counts) {
  const auto column = cut(shares, n);
  for (size_t k = 0; k < column.size(); ++k) counts[k][idx(c)] = column[k];
}

int64_t smallest_row(const Counts& counts) {
  int64_t least = total(counts.front());
  for (const auto& row : counts) least = std::min(least, total(row));
  return least;
}

// counts[k][c] = m · weights[k][c], with the largest m that every class can pay for.
Counts by_weight(const Shares& weights, const std::vector<int64_t>& class_sizes) {
  double m = HUGE_VAL;
  for (size_t c = 0; c < class_sizes.size(); ++c) {
    double wanted = 0.0;
    for (const auto& row : weights) wanted += row[c];
    if (wanted > 0.0) m = std::min(m, static_cast<double>(class_sizes[c]) / wanted);
  }
  Counts counts(weights.size(), std::vector<int64_t>(class_sizes.size()));
  for (size_t k = 0; k < weights.size(); ++k)
    for (size_t c = 0; c < class_sizes.size(); ++c)
      counts[k][c] = static_cast<int64_t>(m * weights[k][c] + 1e-6);
  return counts;
}

Shares no_shares(int64_t n, int64_t classes) {
  return Shares(idx(n), std::vector<double>(idx(classes), 0.0));
}

}  // namespace

std::vector<int64_t> sizes(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> out;
  for (const auto& list : rows) out.push_back(static_cast<int64_t>(list.size()));
  return out;
}

int64_t total(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

Counts counts_of(const Shares& shares, const std::vector<int64_t>& class_sizes) {
  Counts counts(shares.size(), std::vector<int64_t>(class_sizes.size()));
  for (size_t c = 0; c < class_sizes.size(); ++c) {
    std::vector<double> column;
    for (const auto& row : shares) column.push_back(row[c]);
    add_class(column, class_sizes[c], static_cast<int64_t>(c), counts);
  }
  return counts;
}

std::vector<ClientRows> hand_out(const RowsByClass& rows, const Counts& train, const Counts& test) {
  std::vector<ClientRows> holders(train.size());
  for (size_t c = 0; c < rows.train.size(); ++c) {
    auto next_train = rows.train[c].begin(), next_test = rows.test[c].begin();
    for (size_t k = 0; k < holders.size(); ++k) {
      holders[k].train.insert(holders[k].train.end(), next_train, next_train + train[k][c]);
      holders[k].test.insert(holders[k].test.end(), next_test, next_test + test[k][c]);
      next_train += train[k][c], next_test += test[k][c];
    }
  }
  return holders;
}

std::vector<std::vector<int64_t>> draw_classes(int64_t n, int64_t classes, int64_t c, Rng& rng) {
  std::vector<int64_t> uses(idx(classes));
  std::vector<std::vector<int64_t>> out;
  for (int64_t k = 0; k < n; ++k) {
    auto order = rng.permutation(classes);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return uses[idx(a)] < uses[idx(b)]; });
    order.resize(idx(c));
    for (const int64_t chosen : order) ++uses[idx(chosen)];
    out.push_back(std::move(order));
  }
  return out;
}

Result<std::vector<ClientRows>> deal_pathological(const RowsByClass& rows,
                                                  const DataOptions& options, int64_t n,
                                                  uint64_t key) {
  if (options.classes > rows.classes()) return too_few_classes(options, rows.classes());
  Rng rng(key);
  const auto chosen = draw_classes(n, rows.classes(), options.classes, rng);
  auto shares = no_shares(n, rows.classes());
  std::vector<double> sums(idx(rows.classes()));
  for (int64_t k = 0; k < n; ++k)
    for (const int64_t c : chosen[idx(k)])
      sums[idx(c)] += shares[idx(k)][idx(c)] = rng.uniform(0.4, 0.6);
  for (auto& row : shares)
    for (size_t c = 0; c < row.size(); ++c)
      if (sums[c] > 0.0) row[c] /= sums[c];
  return hand_out(rows, counts_of(shares, sizes(rows.train)), counts_of(shares, sizes(rows.test)));
}

Result<std::vector<ClientRows>> deal_dirichlet(const RowsByClass& rows, const DataOptions& options,
                                               int64_t n, uint64_t key) {
  const auto train_sizes = sizes(rows.train), test_sizes = sizes(rows.test);
  const double limit = static_cast<double>(total(train_sizes)) / static_cast<double>(n);
  const int64_t draws = std::clamp<int64_t>(5'000'000 / (n * rows.classes()), 500, 10'000);
  Counts train(idx(n), std::vector<int64_t>(idx(rows.classes()))), test = train;
  if (options.superclasses && rows.superclass.empty())
    return fail(Error::kInvalid,
                "superclasses = true: the files of set '{}' do not give every class one superclass",
                options.set);
  const bool enough = total(train_sizes) >= kMinTrain * n && total(test_sizes) >= kMinTest * n;
  for (int64_t draw = 0; enough && draw < draws; ++draw) {
    Rng rng(derive(key, draw));
    std::vector<int64_t> held(idx(n));
    auto drawn = draw_shares(rows, options.alpha, n, options.superclasses, rng);
    for (int64_t c = 0; c < rows.classes(); ++c) {
      const auto shares = limited(std::move(drawn[idx(c)]), held, limit);
      add_class(shares, train_sizes[idx(c)], c, train);
      add_class(shares, test_sizes[idx(c)], c, test);
      for (size_t k = 0; k < held.size(); ++k) held[k] += train[k][idx(c)];
    }
    if (smallest_row(train) >= kMinTrain && smallest_row(test) >= kMinTest)
      return hand_out(rows, train, test);
  }
  return fail(Error::kInvalid,
              "partition '{}' with alpha = {} cannot give each of {} clients {} training and {} "
              "test samples out of {} and {} ({} draws); use a larger alpha, fewer clients or more "
              "samples",
              options.partition, options.alpha, n, kMinTrain, kMinTest, total(train_sizes),
              total(test_sizes), enough ? draws : 0);
}

Result<std::vector<ClientRows>> deal_quantity(const RowsByClass& rows, const DataOptions& options,
                                              int64_t n, uint64_t key) {
  if (options.classes > rows.classes()) return too_few_classes(options, rows.classes());
  Rng rng(key);
  const auto chosen = draw_classes(n, rows.classes(), options.classes, rng);
  auto weights = no_shares(n, rows.classes());
  for (int64_t k = 0; k < n; ++k)
    for (const int64_t c : chosen[idx(k)]) weights[idx(k)][idx(c)] = 1.0;
  return hand_out(rows, by_weight(weights, sizes(rows.train)),
                  by_weight(weights, sizes(rows.test)));
}

Result<std::vector<ClientRows>> deal_pfht70(const RowsByClass& rows, const DataOptions&, int64_t n,
                                            uint64_t key) {
  const int64_t major = (rows.classes() * 7 + 5) / 10;
  Rng rng(key);
  const auto chosen = draw_classes(n, rows.classes(), major, rng);
  const double minor_weight = 0.1 / static_cast<double>(rows.classes() - major);
  Shares weights(idx(n), std::vector<double>(idx(rows.classes()), minor_weight));
  for (int64_t k = 0; k < n; ++k)
    for (const int64_t c : chosen[idx(k)])
      weights[idx(k)][idx(c)] = 0.9 / static_cast<double>(major);
  return hand_out(rows, by_weight(weights, sizes(rows.train)),
                  by_weight(weights, sizes(rows.test)));
}

Result<std::vector<ClientRows>> deal_cbam(const RowsByClass& rows, const DataOptions& options,
                                          int64_t n, uint64_t) {
  if (rows.classes() != 10)
    return fail(Error::kInvalid, "partition 'cbam' needs a set of 10 classes; '{}' has {}",
                options.set, rows.classes());
  const double published = 0.6 - 0.05 * static_cast<double>(options.split);
  const double own = options.fraction > 0.0 ? options.fraction : published;
  auto shares = no_shares(n, rows.classes());
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t c = 0; c < 9; ++c) shares[idx(k)][idx(c)] = c / 3 == k ? own : (1.0 - own) / 2.0;
    shares[idx(k)][9] = 1.0 / 3.0;
  }
  return hand_out(rows, counts_of(shares, sizes(rows.train)), counts_of(shares, sizes(rows.test)));
}

}  // namespace tessera
