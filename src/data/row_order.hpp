// Rows of a time series: what a cut has to know of them. Needs no torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// How a client's training rows stand. By default at random: any cut is fair, and the first k rows
/// are a random subset. Chronological: oldest first, and rows whose numbers differ by at most `gap`
/// share raw values (windows that overlap). Whoever cuts such rows takes the most recent ones and
/// leaves out the rows before the cut that share values with them.
struct RowOrder {
  bool chronological = false;
  int64_t gap = 0;
};

/// How many of the first `at` rows share nothing with row `at` and those after it: their numbers
/// are more than `gap` below. Rows ascend; 0 ≤ at ≤ rows.size(), and at the end all are clear.
inline int64_t clear_before(std::span<const int64_t> rows, int64_t at, int64_t gap) {
  if (at == static_cast<int64_t>(rows.size())) return at;
  const int64_t limit = rows[static_cast<size_t>(at)] - gap;
  return std::lower_bound(rows.begin(), rows.begin() + at, limit) - rows.begin();
}

/// At most `most` ≥ 1 of the positions 0 … n−1, evenly over all of them: every (n / most)-th.
inline std::vector<int64_t> evenly(int64_t n, int64_t most) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < std::min(n, most); ++i) out.push_back(i * n / std::min(n, most));
  return out;
}

/// The rows at these positions.
inline std::vector<int64_t> rows_at(std::span<const int64_t> rows,
                                    std::span<const int64_t> positions) {
  std::vector<int64_t> out;
  for (const int64_t position : positions) out.push_back(rows[static_cast<size_t>(position)]);
  return out;
}

}  // namespace tessera
