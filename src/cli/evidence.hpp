// What the records of an exhibit say: figures, and a verdict on every claim.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cell_record.hpp"
#include "cli/exhibit_plan.hpp"
#include "cli/metric_text.hpp"
#include "cli/significance.hpp"

namespace tessera {

using Records = std::map<std::string, CellRecord>;  // by digest

struct Figure {
  double value = 0;    // accuracies in per cent
  bool bound = false;  // the target was not reached: the value is what the whole run had
};

/// A claim in a column. PASS: the 95 % interval of the difference lies on the claimed side of 0,
/// FAIL: on the other; OPEN: there are no runs to judge by.
struct Verdict {
  enum class State { kPass, kFail, kInconclusive, kOpen };
  State state = State::kOpen;
  const PaperClaim* claim = nullptr;
  std::string column;  // empty: a trend over all
  std::string view, metric;
  std::string against;  // "all": the best of them
  PairedTest test;      // of left − right, or of the slope per column; in points
  int64_t pairs = 0;
  bool by_clients = false;  // one seed: the pairs are its clients
};
const char* name_of(Verdict::State state);

class Evidence {
 public:
  /// Both must outlive it.
  Evidence(const ExhibitPlan& plan, const Records& records) : plan_(plan), records_(records) {}

  const ExhibitPlan& plan() const { return plan_; }
  const Records& records() const { return records_; }
  /// The candidate that the records choose; the only one where there is one; null while the first
  /// seed's are not all there. One that failed is not chosen unless all did.
  const ExhibitCandidate* chosen(const ExhibitSlot& slot) const;
  /// The record of a cell, or null.
  const CellRecord* record(const ExhibitSlot& slot, size_t seed) const;
  /// None: not run, failed, or nothing of the kind was measured. `view` empty: the row's.
  std::optional<Figure> figure(const ExhibitSlot& slot, size_t seed, const MetricSpec& metric,
                               const std::string& view) const;
  /// By seed, those there are.
  std::vector<Figure> figures(const ExhibitSlot& slot, const MetricSpec& metric,
                              const std::string& view) const;

  /// On every claim whose rows and columns belong to the plan: some are of one size only.
  std::vector<Verdict> verdicts() const;

 private:
  std::optional<Figure> target_figure(const CellRecord& record, const ExhibitSlot& slot,
                                      size_t seed, const MetricSpec& metric,
                                      const std::string& view) const;
  /// A side of a claim on a seed; none if one of its terms is missing.
  std::optional<double> side(const std::vector<ClaimTerm>& terms, const PaperClaim& claim,
                             const PaperColumn& column, size_t seed) const;
  MetricSpec spec_of(const std::string& metric) const;
  /// Columns that a claim speaks of, and in which all of its rows are.
  std::vector<const PaperColumn*> columns_of(const PaperClaim& claim) const;
  Verdict judge_order(const PaperClaim& claim, const PaperColumn& column) const;
  Verdict judge_trend(const PaperClaim& claim,
                      const std::vector<const PaperColumn*>& columns) const;
  /// The row that a claim about "all" is judged against; null if there is none.
  const PaperRow* rival(const PaperClaim& claim, const PaperColumn& column) const;
  std::vector<double> client_pairs(const PaperClaim& claim, const PaperColumn& column) const;
  const PaperRow* row_here(const std::string& name) const;

  const ExhibitPlan& plan_;
  const Records& records_;
};

/// Cells that will have run when all is done: of rows with a choice the first seed's of all, then
/// those of what was chosen; rows that choose from the same runs count once until they have chosen.
size_t cells_needed(const ExhibitPlan& plan, const Records& records);
/// Of these, those whose record is there.
size_t cells_done(const ExhibitPlan& plan, const Records& records);
/// Wall time of their runs, on whatever machines they ran.
double seconds_spent(const ExhibitPlan& plan, const Records& records);

}  // namespace tessera
