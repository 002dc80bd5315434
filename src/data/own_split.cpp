#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/key.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

// What the keys are for.
enum : uint64_t { kTestRows = 1, kValRows = 2, kTrainOrder = 3 };

// A little is added so that 0.3 of 10, which is 2.999… in binary, counts as 3.
int64_t rounded(double share, size_t n) {
  return static_cast<int64_t>(std::floor(share * static_cast<double>(n) + 0.5 + 1e-9));
}

using Rows = std::vector<int64_t>;

// Moves the last rows and leaves out those before them that share values; the first one stays.
Rows take_last(Rows& from, int64_t count, int64_t gap) {
  const auto n = static_cast<int64_t>(from.size());
  const int64_t at = n - std::clamp<int64_t>(count, 0, n - 1);
  Rows out(from.begin() + at, from.end());
  from.resize(static_cast<size_t>(std::max<int64_t>(1, clear_before(from, at, gap))));
  return out;
}

// Moves random rows of each class.
Rows take_stratified(Rows& from, const std::vector<int64_t>& y, double share, int64_t at_least,
                     uint64_t key) {
  int64_t classes = 1;
  for (const int64_t row : from) classes = std::max(classes, y[static_cast<size_t>(row)] + 1);
  std::vector<Rows> by_class(static_cast<size_t>(classes));
  for (const int64_t row : from)
    by_class[static_cast<size_t>(y[static_cast<size_t>(row)])].push_back(row);
  std::vector<int64_t> sizes;
  for (const auto& rows : by_class) sizes.push_back(static_cast<int64_t>(rows.size()));
  auto counts = stratified_counts(sizes, share);
  if (std::accumulate(counts.begin(), counts.end(), int64_t{0}) < at_least)
    counts[static_cast<size_t>(std::max_element(sizes.begin(), sizes.end()) - sizes.begin())] = 1;
  Rows out, rest;
  for (size_t c = 0; c < by_class.size(); ++c) {
    Rng(derive(key, c)).shuffle(std::span<int64_t>(by_class[c]));
    const auto at = by_class[c].begin() + counts[c];
    out.insert(out.end(), by_class[c].begin(), at);
    rest.insert(rest.end(), at, by_class[c].end());
  }
  std::sort(out.begin(), out.end());
  std::sort(rest.begin(), rest.end());
  from = std::move(rest);
  return out;
}

Rows take(Rows& from, const std::vector<int64_t>& y, double share, int64_t at_least, uint64_t key,
          const RowOrder& order) {
  if (order.chronological)
    return take_last(from, std::max(at_least, rounded(share, from.size())), order.gap);
  return take_stratified(from, y, share, at_least, key);
}

}  // namespace

std::vector<int64_t> stratified_counts(const std::vector<int64_t>& counts, double share) {
  const auto n = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  std::vector<int64_t> out;
  int64_t room = 0, given = 0;
  for (const int64_t count : counts) {
    const int64_t most = std::max<int64_t>(0, count - 1);
    const auto whole = static_cast<int64_t>(share * static_cast<double>(count) + 1e-9);
    out.push_back(std::min(most, whole));
    room += most, given += out.back();
  }
  // Those that lack most come first. In units of 1e-9: equal remainders must compare equal.
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t c = 0; c < counts.size(); ++c)
    order.emplace_back(
        -std::llround(1e9 * (share * static_cast<double>(counts[c]) - static_cast<double>(out[c]))),
        c);
  std::sort(order.begin(), order.end());
  for (const int64_t wanted = std::min(room, rounded(share, n)); given < wanted;)
    for (const auto& [lack, c] : order)
      if (given < wanted && out[c] + 1 < counts[c]) ++out[c], ++given;
  return out;
}

Status split_rows(ClientRows& rows, const std::vector<int64_t>& y, const SplitPlan& plan) {
  if (rows.test.empty()) {
    if (rows.train.size() < 2)
      return fail(Error::kInvalid,
                  "has one row for training and test, too few to split; each client needs at "
                  "least two");
    rows.test = take(rows.train, y, plan.test, 1, derive(plan.key, kTestRows), plan.order);
  }
  if (rows.val.empty() && plan.val > 0 && rows.train.size() > 1)
    rows.val = take(rows.train, y, plan.val, 0, derive(plan.key, kValRows), plan.order);
  if (plan.order.chronological) {
    if (plan.samples > 0)
      rows.train =
          rows_at(rows.train, evenly(static_cast<int64_t>(rows.train.size()), plan.samples));
    return ok();
  }
  Rng(derive(plan.key, kTrainOrder)).shuffle(std::span<int64_t>(rows.train));
  if (plan.samples > 0 && rows.train.size() > static_cast<size_t>(plan.samples))
    rows.train.resize(static_cast<size_t>(plan.samples));
  return ok();
}

}  // namespace tessera
