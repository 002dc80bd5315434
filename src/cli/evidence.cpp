#include "cli/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/text.hpp"

namespace tessera {
namespace {

using Kind = MetricSpec::Kind;

double average(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double population_deviation(const std::vector<double>& values) {
  const double mean = average(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<double> last_of(const std::vector<double>& values, size_t count) {
  const auto kept = static_cast<std::ptrdiff_t>(std::min(count, values.size()));
  return {values.end() - kept, values.end()};
}

/// The figure of a curve, as a fraction.
double curve_figure(const RecordCurve& curve, const MetricSpec& metric) {
  const auto found = curve.series.find(metric.name);
  if (found == curve.series.end() || found->second.empty()) return kAbsent;
  const auto& values = found->second;
  if (metric.how == "last5") return average(last_of(values, 5));
  if (metric.how == "peak") return *std::max_element(values.begin(), values.end());
  if (metric.how == "wobble") {
    std::vector<double> late;
    for (size_t i = 0; i < values.size() && i < curve.rounds.size(); ++i)
      if (curve.rounds[i] > curve.rounds.back() - metric.span) late.push_back(values[i]);
    return late.size() > 1 ? population_deviation(late) : kAbsent;
  }
  if (metric.how == "best") {
    const auto val = curve.series.find("val");
    if (val == curve.series.end() || val->second.size() != values.size()) return kAbsent;
    size_t best = values.size();
    for (size_t i = 0; i < values.size(); ++i)
      if (std::isfinite(val->second[i]) &&
          (best == values.size() || val->second[i] > val->second[best]))
        best = i;
    return best == values.size() ? kAbsent : values[best];
  }
  return values.back();
}

const RecordCurve* curve_in(const CellRecord& record, const std::string& who,
                            const std::string& view) {
  const auto found = record.curves.find(who + " " + view);
  return found == record.curves.end() ? nullptr : &found->second;
}

bool is_group(const std::string& who) { return who == "clients" || who == "newcomers"; }

/// Accuracy of one client at the last evaluation.
double client_figure(const CellRecord& record, const std::string& who, const std::string& view) {
  const auto values = record.per_client.find(view);
  const auto name = std::find(record.names.begin(), record.names.end(), who);
  if (values == record.per_client.end() || name == record.names.end()) return kAbsent;
  return values->second.at(static_cast<size_t>(name - record.names.begin()));
}

/// In transfers of the model there and back, per client.
double models_spent(const CellRecord& record, size_t at) {
  const auto down = record.spent.series.find("down"), up = record.spent.series.find("up");
  if (down == record.spent.series.end() || up == record.spent.series.end() ||
      record.parameters == 0 || record.clients == 0)
    return kAbsent;
  return (down->second.at(at) + up->second.at(at)) / 8 /
         static_cast<double>(record.parameters * record.clients);
}

/// Of the last evaluation that has one, or of the first.
const RecordMatrix* matrix_where(const CellRecord& record, bool first,
                                 const std::function<bool(const RecordMatrix&)>& fits) {
  const RecordMatrix* out = nullptr;
  for (const auto& matrix : record.matrices)
    if (fits(matrix) && (!out || (first ? matrix.round < out->round : matrix.round > out->round)))
      out = &matrix;
  return out;
}

double finite_mean(const std::vector<double>& values) {
  std::vector<double> finite;
  for (const double value : values)
    if (std::isfinite(value)) finite.push_back(value);
  return finite.empty() ? kAbsent : average(finite);
}

/// The mean of a row or column that a method showed.
double shown_figure(const CellRecord& record, const MetricSpec& metric) {
  const auto place = [&](const std::vector<std::string>& names) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), metric.row) - names.begin());
  };
  const auto* matrix = matrix_where(record, metric.first(), [&](const RecordMatrix& one) {
    return place(one.rows) < one.rows.size() || place(one.columns) < one.columns.size();
  });
  if (!matrix) return kAbsent;
  if (const auto row = place(matrix->rows); row < matrix->rows.size())
    return row < matrix->values.size() ? finite_mean(matrix->values[row]) : kAbsent;
  std::vector<double> values;
  for (const auto& row : matrix->values)
    if (const auto column = place(matrix->columns); column < row.size())
      values.push_back(row[column]);
  return finite_mean(values);
}

/// Mean attention between different clients of a group, over that between groups.
double within_figure(const CellRecord& record, const MetricSpec& metric) {
  const auto* matrix = matrix_where(
      record, metric.first(), [](const RecordMatrix& one) { return one.name == "attention"; });
  std::vector<size_t> group;
  for (size_t g = 0; g < metric.groups.size(); ++g)
    group.insert(group.end(), static_cast<size_t>(metric.groups[g]), g);
  if (!matrix || matrix->values.size() != group.size()) return kAbsent;
  std::vector<double> inside, between;
  for (size_t i = 0; i < group.size(); ++i)
    for (size_t k = 0; k < group.size() && k < matrix->values[i].size(); ++k)
      if (i != k) (group[i] == group[k] ? inside : between).push_back(matrix->values[i][k]);
  return finite_mean(inside) / finite_mean(between);
}

/// What an attack came to. "AUC": the largest of all that begin so, whichever signal has it.
double attack_figure(const CellRecord& record, const MetricSpec& metric) {
  const auto attack = record.attacks.find(metric.row);
  if (attack == record.attacks.end()) return kAbsent;
  double best = -INFINITY, guess = kAbsent;
  for (const auto& [name, figure] : attack->second.figures) {
    if (name == metric.figure) return metric.name == "guess" ? figure.guess : figure.got;
    if (metric.figure != "AUC" || !name.starts_with("AUC") || !(figure.got > best)) continue;
    best = figure.got, guess = figure.guess;
  }
  if (!std::isfinite(best)) return kAbsent;
  return metric.name == "guess" ? guess : best;
}

std::optional<Figure> if_finite(double value, bool bound = false) {
  if (!std::isfinite(value)) return std::nullopt;
  return Figure{value, bound};
}

/// The slope of a straight line through values one step apart.
double slope(const std::vector<double>& values) {
  const double middle = static_cast<double>(values.size() - 1) / 2;
  double above = 0, below = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    above += x * values[i], below += x * x;
  }
  return above / below;
}

/// From differences that are claimed to be above 0.
Verdict::State state_of(const PairedTest& test, int sign) {
  if (std::isnan(test.difference)) return Verdict::State::kOpen;
  if (std::isnan(test.low)) return Verdict::State::kInconclusive;
  const double low = sign > 0 ? test.low : -test.high, high = sign > 0 ? test.high : -test.low;
  return low > 0    ? Verdict::State::kPass
         : high < 0 ? Verdict::State::kFail
                    : Verdict::State::kInconclusive;
}

}  // namespace

const char* name_of(Verdict::State state) {
  static constexpr const char* kNames[] = {"PASS", "FAIL", "INCONCLUSIVE", "OPEN"};
  return kNames[static_cast<size_t>(state)];
}

const ExhibitCandidate* Evidence::chosen(const ExhibitSlot& slot) const {
  if (slot.candidates.empty()) return nullptr;
  if (slot.candidates.size() == 1) return &slot.candidates.front();
  const ExhibitCandidate* best = nullptr;
  double most = -INFINITY;
  for (const auto& candidate : slot.candidates) {
    const auto found = records_.find(candidate.digests.front());
    if (found == records_.end()) return nullptr;
    const auto& view = slot.view == "global" ? found->second.headline : slot.view;
    const auto* curve = curve_in(found->second, "clients", view);
    if (!curve || !found->second.failed.empty()) continue;
    const double value = curve_figure(*curve, {.name = "val"});
    if (value > most) most = value, best = &candidate;
  }
  return best ? best : &slot.candidates.front();
}

const CellRecord* Evidence::record(const ExhibitSlot& slot, size_t seed) const {
  const auto* candidate = chosen(slot);
  if (!candidate) return nullptr;
  const auto found = records_.find(candidate->digests.at(seed));
  return found == records_.end() ? nullptr : &found->second;
}

MetricSpec Evidence::spec_of(const std::string& metric) const {
  // Checked when the exhibit was planned.
  const auto spec =
      metric_spec(metric.empty() ? plan_.exhibit->metrics.front() : metric, *plan_.exhibit, "");
  return spec.ok() ? *spec : MetricSpec{.name = "accuracy"};
}

const PaperRow* Evidence::row_here(const std::string& name) const {
  for (const auto* row : plan_.rows)
    if (row->name == name) return row;
  return nullptr;
}

std::optional<Figure> Evidence::target_figure(const CellRecord& cell, const ExhibitSlot& slot,
                                              size_t seed, const MetricSpec& metric,
                                              const std::string& view) const {
  double target = metric.target;
  if (!metric.row.empty()) {
    const auto* row = row_here(metric.row);
    if (!row) return std::nullopt;
    const auto other =
        figure(plan_.slot(*row, *slot.column), seed, MetricSpec{.name = "accuracy"}, "");
    if (!other) return std::nullopt;
    target *= other->value;
  }
  const auto* curve = curve_in(cell, slot.column->who, view);
  const auto values = curve ? curve->series.find("accuracy") : decltype(curve->series.end()){};
  if (!curve || values == curve->series.end() || values->second.empty()) return std::nullopt;
  size_t at = 0;
  while (at < values->second.size() && !(values->second[at] * 100 >= target)) ++at;
  const bool bound = at == values->second.size();
  if (bound) --at;
  if (metric.name == "rounds_to") return if_finite(curve->rounds.at(at), bound);
  if (at >= cell.spent.rounds.size()) return std::nullopt;
  if (metric.name == "time_to") return if_finite(cell.spent.series.at("sim").at(at), bound);
  return if_finite(models_spent(cell, at), bound);
}

std::optional<Figure> Evidence::figure(const ExhibitSlot& slot, size_t seed,
                                       const MetricSpec& metric, const std::string& asked) const {
  const auto* cell = record(slot, seed);
  if (!cell || !cell->failed.empty()) return std::nullopt;
  const auto& view = asked.empty() ? slot.view : asked;
  if (metric.kind == Kind::kData) {
    const auto found = cell->data.find(metric.name);
    return found == cell->data.end() ? std::nullopt : if_finite(found->second);
  }
  if (metric.kind == Kind::kOverhead)
    return cell->spent.rounds.empty()
               ? std::nullopt
               : if_finite(models_spent(*cell, cell->spent.rounds.size() - 1));
  if (metric.kind == Kind::kShown) return if_finite(shown_figure(*cell, metric));
  if (metric.kind == Kind::kAttack) return if_finite(attack_figure(*cell, metric));
  if (metric.kind == Kind::kEpsilon) return if_finite(cell->epsilon);
  if (metric.kind == Kind::kWithin) return if_finite(within_figure(*cell, metric));
  if (metric.kind == Kind::kTarget) return target_figure(*cell, slot, seed, metric, view);
  if (metric.kind == Kind::kRatio) {
    const auto* row = row_here(metric.row);
    const MetricSpec plain{.name = "accuracy"};
    const auto ours = figure(slot, seed, plain, asked);
    const auto theirs =
        row ? figure(plan_.slot(*row, *slot.column), seed, plain, asked) : std::optional<Figure>();
    if (!ours || !theirs) return std::nullopt;
    return if_finite(100 * ours->value / theirs->value);
  }
  const auto& who = slot.column->who;
  if (!is_group(who))
    return metric.name == "accuracy" ? if_finite(100 * client_figure(*cell, who, view))
                                     : std::nullopt;
  const auto* curve = curve_in(*cell, who, view);
  return curve ? if_finite(100 * curve_figure(*curve, metric)) : std::nullopt;
}

std::vector<Figure> Evidence::figures(const ExhibitSlot& slot, const MetricSpec& metric,
                                      const std::string& view) const {
  std::vector<Figure> out;
  for (size_t seed = 0; seed < plan_.seeds.size(); ++seed)
    if (const auto one = figure(slot, seed, metric, view)) out.push_back(*one);
  return out;
}

std::optional<double> Evidence::side(const std::vector<ClaimTerm>& terms, const PaperClaim& claim,
                                     const PaperColumn& column, size_t seed) const {
  double sum = 0;
  for (const auto& term : terms) {
    const auto* here = term.column.empty() ? &column : plan_.exhibit->column(term.column);
    const auto one =
        figure(plan_.slot(*row_here(term.row), *here), seed,
               spec_of(term.metric.empty() ? claim.metric : term.metric), claim.common_view());
    if (!one) return std::nullopt;
    sum += term.factor * one->value;
  }
  return sum;
}

const PaperRow* Evidence::rival(const PaperClaim& claim, const PaperColumn& column) const {
  const auto spec = spec_of(claim.metric);
  const auto* own = row_here(claim.left.front().row);
  const bool everybody = own && own->reference;
  const PaperRow* best = nullptr;
  double most = -INFINITY;
  for (const auto* row : plan_.rows) {
    if ((row->reference && !everybody) || row == own) continue;
    std::vector<double> values;
    for (const auto& one : figures(plan_.slot(*row, column), spec, claim.common_view()))
      values.push_back(claim.sign * one.value);
    if (values.empty() || average(values) <= most) continue;
    most = average(values), best = row;
  }
  return best;
}

std::vector<double> Evidence::client_pairs(const PaperClaim& claim,
                                           const PaperColumn& column) const {
  std::vector<double> out;
  const auto spec = spec_of(claim.metric);
  const bool plain = claim.left.size() == 1 && claim.right.size() == 1 && column.who == "clients" &&
                     spec.kind == Kind::kCurve && spec.name == "accuracy" && spec.how.empty();
  if (!plain) return out;
  const CellRecord* cells[2] = {};
  std::string views[2];
  for (const int i : {0, 1}) {
    const auto& term = i == 0 ? claim.left.front() : claim.right.front();
    const auto* row = row_here(term.row);
    if (!row || !term.column.empty() || !term.metric.empty() || term.factor != 1) return out;
    const auto& slot = plan_.slot(*row, column);
    cells[i] = record(slot, 0);
    views[i] = claim.common_view().empty() ? slot.view : claim.view;
    if (!cells[i] || !cells[i]->failed.empty() || !cells[i]->per_client.contains(views[i]))
      return out;
  }
  const auto& a = cells[0]->per_client.at(views[0]);
  const auto& b = cells[1]->per_client.at(views[1]);
  if (a.size() != b.size() || cells[0]->names != cells[1]->names) return out;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i] - b[i])) out.push_back(100 * (a[i] - b[i]));
  return out;
}

Verdict Evidence::judge_order(const PaperClaim& given, const PaperColumn& column) const {
  Verdict out{.claim = &given, .column = column.name, .metric = spec_of(given.metric).title()};
  auto claim = given;
  if (claim.all) {
    const auto* best = rival(claim, column);
    if (!best) return out;
    out.against = best->name;
    claim.right = {{.row = best->name}};
  }
  if (const auto* row = row_here(claim.left.front().row))
    out.view = claim.view.empty() ? plan_.slot(*row, column).view : claim.view;
  std::vector<double> differences;
  for (size_t seed = 0; seed < plan_.seeds.size(); ++seed) {
    const auto left = side(claim.left, claim, column, seed);
    const auto right = side(claim.right, claim, column, seed);
    if (left && right) differences.push_back(*left - *right);
  }
  if (differences.size() == 1) {
    auto pairs = client_pairs(claim, column);
    if (pairs.size() > 1) differences = std::move(pairs), out.by_clients = true;
  }
  out.test = paired_test(differences);
  out.pairs = std::ssize(differences);
  out.state = state_of(out.test, claim.sign);
  return out;
}

Verdict Evidence::judge_trend(const PaperClaim& claim,
                              const std::vector<const PaperColumn*>& columns) const {
  Verdict out{.claim = &claim, .metric = spec_of(claim.metric).title()};
  if (!claim.columns.empty()) out.column = columns.front()->name + " … " + columns.back()->name;
  out.view = claim.view.empty()
                 ? plan_.slot(*row_here(claim.left.front().row), *columns.front()).view
                 : claim.view;
  std::vector<double> slopes;
  for (size_t seed = 0; seed < plan_.seeds.size(); ++seed) {
    std::vector<double> values;
    for (const auto* column : columns)
      if (const auto value = side(claim.left, claim, *column, seed)) values.push_back(*value);
    if (values.size() == columns.size()) slopes.push_back(slope(values));
  }
  out.test = paired_test(slopes);
  out.pairs = std::ssize(slopes);
  out.state = state_of(out.test, claim.sign);
  return out;
}

std::vector<const PaperColumn*> Evidence::columns_of(const PaperClaim& claim) const {
  std::vector<const PaperColumn*> out;
  for (const auto* column : plan_.columns) {
    const auto played = [&](const ClaimTerm& term) {
      const auto* row = row_here(term.row);
      const auto* here = term.column.empty() ? column : plan_.exhibit->column(term.column);
      return row &&
             std::find(plan_.columns.begin(), plan_.columns.end(), here) != plan_.columns.end() &&
             !plan_.slot(*row, *here).candidates.empty();
    };
    const bool named =
        claim.columns.empty() ||
        std::find(claim.columns.begin(), claim.columns.end(), column->name) != claim.columns.end();
    if (named && std::all_of(claim.left.begin(), claim.left.end(), played) &&
        std::all_of(claim.right.begin(), claim.right.end(), played))
      out.push_back(column);
  }
  return out;
}

std::vector<Verdict> Evidence::verdicts() const {
  std::vector<Verdict> out;
  for (const auto& claim : plan_.exhibit->claims) {
    const auto columns = columns_of(claim);
    if (claim.kind == PaperClaim::Kind::kTrend) {
      if (columns.size() > 1) out.push_back(judge_trend(claim, columns));
      continue;
    }
    // Where every term has its own column there is one verdict only.
    const auto fixed = [](const std::vector<ClaimTerm>& terms) {
      return std::all_of(terms.begin(), terms.end(),
                         [](const ClaimTerm& term) { return !term.column.empty(); });
    };
    const bool once = !claim.all && fixed(claim.left) && fixed(claim.right);
    for (const auto* column : columns) {
      out.push_back(judge_order(claim, *column));
      if (once) out.back().column.clear();
      if (once) break;
    }
  }
  return out;
}

size_t cells_needed(const ExhibitPlan& plan, const Records& records) {
  const Evidence evidence(plan, records);
  std::set<std::string> known;
  std::set<std::vector<std::string>> open;  // choices that are not made yet
  for (const auto& slot : plan.slots) {
    if (slot.candidates.empty()) continue;  // a row that is not in this column
    const auto* chosen = evidence.chosen(slot);
    std::vector<std::string> first;
    for (const auto& candidate : slot.candidates) {
      first.push_back(candidate.digests.front());
      if (&candidate == chosen) known.insert(candidate.digests.begin(), candidate.digests.end());
    }
    known.insert(first.begin(), first.end());
    if (!chosen) open.insert(first);
  }
  return known.size() + open.size() * (plan.seeds.size() - 1);
}

namespace {

/// Digests of the cells that count: rows and columns may share some.
std::set<std::string> done_cells(const ExhibitPlan& plan, const Records& records) {
  const Evidence evidence(plan, records);
  std::set<std::string> done;
  for (const auto& slot : plan.slots) {
    const auto* chosen = evidence.chosen(slot);
    for (const auto& candidate : slot.candidates)
      for (size_t i = 0; i < candidate.digests.size(); ++i)
        if ((i == 0 || &candidate == chosen) && records.contains(candidate.digests[i]))
          done.insert(candidate.digests[i]);
  }
  return done;
}

}  // namespace

size_t cells_done(const ExhibitPlan& plan, const Records& records) {
  return done_cells(plan, records).size();
}

double seconds_spent(const ExhibitPlan& plan, const Records& records) {
  double out = 0;
  for (const auto& digest : done_cells(plan, records)) out += records.at(digest).wall_seconds;
  return out;
}

}  // namespace tessera
