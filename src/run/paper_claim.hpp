// What a paper claims, as a line of text that can be judged: "FedHAM > FedAvg", "A < all",
// "A > 2 * B", "A[unb] - A[b] < B[unb] - B[b]", "A falls", "A - B rises".
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "run/toml_entries.hpp"

namespace tessera {

/// factor · the figure of a row.
struct ClaimTerm {
  double factor = 1;
  std::string row;
  std::string column;  // empty: the column that the claim is judged in
  std::string metric;  // empty: the claim's
};

/// The view of a claim that is about different ones: each row in its own.
inline const std::string kOwnView = "own";

struct PaperClaim {
  enum class Kind { kOrder, kTrend };
  Kind kind = Kind::kOrder;
  std::string text;  // as people read it
  std::vector<ClaimTerm> left, right;
  /// Right is every other row of the paper; of all rows where left is a reference itself.
  bool all = false;
  int sign = 1;        // 1: left is above right, or left rises; -1: below, or falls
  std::string metric;  // empty: the exhibit's first
  std::string view;    // pre, post, global, own; empty: that of the rows, which must be one
  std::vector<std::string> columns;  // where it is claimed; empty: in all
  std::string source;                // "C1"
  bool ours = false;                 // asked by us: the paper does not claim it
  /// For a lookup: empty where each row is to be seen in its own.
  std::string common_view() const { return view == kOwnView ? "" : view; }
  Place place;
};

/// One or more claims: "A > B > C" is two, "A > B, C" also. `rows` and `columns` are the names that
/// may occur. kInvalid says what is wrong, without a place.
Result<std::vector<PaperClaim>> parse_claim(const std::string& text,
                                            const std::vector<std::string>& rows,
                                            const std::vector<std::string>& columns);

}  // namespace tessera
