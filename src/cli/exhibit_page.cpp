#include "cli/exhibit_page.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

using Kind = MetricSpec::Kind;
using svg::Quantity;

struct MeanSpread {
  double mean = kAbsent, spread = kAbsent;  // the spread over seeds, n − 1
};
MeanSpread over_seeds(const std::vector<double>& values) {
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return {sum / n, values.size() > 1 ? std::sqrt(squares / (n - 1)) : kAbsent};
}

std::vector<double> values_of(const std::vector<Figure>& figures) {
  std::vector<double> out;
  for (const auto& one : figures) out.push_back(one.value);
  return out;
}

/// Records are files of whoever made them: nothing but a picture goes into a page.
bool is_png_uri(const std::string& text) { return text.starts_with("data:image/png;base64,"); }

bool is_per_cent(const MetricSpec& metric) {
  return metric.kind == Kind::kCurve || metric.kind == Kind::kRatio;
}

int decimals_of(const Evidence& evidence, const MetricSpec& metric) {
  if (is_per_cent(metric)) return static_cast<int>(evidence.plan().exhibit->decimals);
  const bool whole = metric.name == "clients" || metric.name == "samples" ||
                     metric.name == "samples_min" || metric.name == "samples_max";
  if (metric.kind == Kind::kShown || metric.kind == Kind::kWithin || metric.kind == Kind::kAttack)
    return metric.figure.starts_with("AUC") || metric.figure.starts_with("TPR") ? 3 : 2;
  return whole || (metric.kind == Kind::kData && metric.name != "samples_std") ? 0 : 1;
}

/// "81.2 ± 0.4 (2 of 3)", "failed", or nothing where nothing ran.
std::string our_text(const Evidence& evidence, const ExhibitSlot& slot, const MetricSpec& metric) {
  const auto& seeds = evidence.plan().seeds;
  for (size_t i = 0; i < seeds.size(); ++i)
    if (const auto* cell = evidence.record(slot, i); cell && !cell->failed.empty()) return "failed";
  const auto found = evidence.figures(slot, metric, "");
  if (found.empty()) return "";
  const auto [mean, spread] = over_seeds(values_of(found));
  const int digits = decimals_of(evidence, metric);
  const bool bound = std::any_of(found.begin(), found.end(), [](auto& f) { return f.bound; });
  auto out = fmt::format("{}{:.{}f}", bound ? "> " : "", mean, digits);
  // Data hardly differ between seeds, and what is counted not at all.
  if (std::isfinite(spread) && (metric.kind != Kind::kData || spread > 0))
    out += fmt::format(" ± {:.{}f}", spread, digits);
  if (found.size() < seeds.size()) out += fmt::format(" ({} of {})", found.size(), seeds.size());
  return out;
}

size_t index_of(const PaperExhibit& exhibit, const PaperColumn& column) {
  return static_cast<size_t>(&column - exhibit.columns.data());
}

std::string published_text(const PaperExhibit& exhibit, const PaperRow& row,
                           const PaperColumn& column, const std::string& metric) {
  const auto found = row.published.find(metric);
  const auto at = index_of(exhibit, column);
  return found == row.published.end() || at >= found->second.size() ? "" : found->second[at];
}

std::string row_label(const ExhibitSlot& slot) {
  const auto view = slot.view == "global" ? std::string("global model") : slot.view;
  return slot.row->method.empty() ? slot.row->name : fmt::format("{} ({})", slot.row->name, view);
}

/// The sets of the plan's columns, in their order; none where only one column has runs.
std::vector<std::string> sets_of(const ExhibitPlan& plan) {
  std::vector<std::string> out;
  for (const auto& slot : plan.slots)
    if (!slot.candidates.empty())
      if (const auto& set = slot.candidates.front().by_seed.front().data.set;
          std::find(out.begin(), out.end(), set) == out.end())
        out.push_back(set);
  return plan.columns.size() > 1 ? out : std::vector<std::string>();
}

/// Of ratios also their mean over the columns of a set (MRTA), seed by seed.
std::string mean_ratio_text(const Evidence& evidence, const PaperRow& row, const std::string& set,
                            const MetricSpec& metric) {
  const auto& plan = evidence.plan();
  std::vector<double> means;
  for (size_t seed = 0; seed < plan.seeds.size(); ++seed) {
    double sum = 0, columns = 0;
    bool whole = true;
    for (const auto* column : plan.columns) {
      const auto& slot = plan.slot(row, *column);
      if (slot.candidates.empty() || slot.candidates.front().by_seed.front().data.set != set)
        continue;
      const auto one = evidence.figure(slot, seed, metric, "");
      whole = whole && one;
      if (one) sum += one->value, columns += 1;
    }
    if (whole && columns > 0) means.push_back(sum / columns);
  }
  if (means.empty()) return "";
  const auto [mean, spread] = over_seeds(means);
  const int digits = decimals_of(evidence, metric);
  return std::isfinite(spread) ? fmt::format("{:.{}f} ± {:.{}f}", mean, digits, spread, digits)
                               : fmt::format("{:.{}f}", mean, digits);
}

ReproducedTable table_of(const Evidence& evidence, const std::string& metric,
                         const MetricSpec& spec) {
  const auto& plan = evidence.plan();
  ReproducedTable out{spec.title() + (is_per_cent(spec) ? ", %" : ""), {}, {}};
  for (const auto* column : plan.columns) out.columns.push_back(column->name);
  const auto sets = spec.kind == Kind::kRatio ? sets_of(plan) : std::vector<std::string>();
  for (const auto& set : sets) out.columns.push_back("mean over " + set);
  for (const auto* row : plan.rows) {
    ReproducedTable::Row line{row_label(plan.slot(*row, *plan.columns.front())), {}};
    for (const auto* column : plan.columns)
      line.cells.push_back({our_text(evidence, plan.slot(*row, *column), spec),
                            published_text(*plan.exhibit, *row, *column, metric)});
    for (const auto& set : sets)
      line.cells.push_back({mean_ratio_text(evidence, *row, set, spec), ""});
    out.rows.push_back(std::move(line));
  }
  return out;
}

bool has_nothing(const ReproducedTable::Row& row) {
  return std::all_of(row.cells.begin(), row.cells.end(), [](const ReproducedCell& cell) {
    return cell.ours.empty() && cell.published.empty();
  });
}

/// A row that has run (`first` shows it) and still has no figure of another kind will never have
/// one: of the mean size of groups only FedACS has.
void leave_out_rows(const ReproducedTable& first, ReproducedTable& other) {
  std::vector<ReproducedTable::Row> kept;
  for (size_t i = 0; i < other.rows.size(); ++i)
    if (has_nothing(first.rows[i]) || !has_nothing(other.rows[i]))
      kept.push_back(std::move(other.rows[i]));
  other.rows = std::move(kept);
}

/// Tables of one column each, as one table with a column for each of them.
ReproducedTable side_by_side(const std::string& title, const std::vector<ReproducedTable>& tables) {
  ReproducedTable out{title, {}, {}};
  for (const auto& row : tables.front().rows) out.rows.push_back({row.name, {}});
  for (const auto& table : tables) {
    out.columns.push_back(table.title);
    for (size_t i = 0; i < out.rows.size(); ++i)
      out.rows[i].cells.push_back(table.rows[i].cells.front());
  }
  return out;
}

/// A row over the evaluated rounds, mean and deviation over seeds.
svg::Series curve_series(const Evidence& evidence, const ExhibitSlot& slot,
                         const MetricSpec& metric, int colour) {
  std::map<double, std::vector<double>> by_round;
  const auto& who = slot.column->who;
  for (size_t i = 0; i < evidence.plan().seeds.size(); ++i) {
    const auto* cell = evidence.record(slot, i);
    if (!cell) continue;
    const auto found = cell->curves.find(who + " " + slot.view);
    if (found == cell->curves.end() || !found->second.series.contains(metric.name)) continue;
    const auto& values = found->second.series.at(metric.name);
    for (size_t k = 0; k < values.size() && k < found->second.rounds.size(); ++k)
      if (std::isfinite(values[k])) by_round[found->second.rounds[k]].push_back(values[k]);
  }
  svg::Series out{row_label(slot), colour, {}};
  out.dots = false;
  for (const auto& [round, values] : by_round) {
    const auto [mean, spread] = over_seeds(values);
    out.points.push_back({round, mean, mean - spread, mean + spread});
  }
  return out;
}

ReproducedFigure curves_figure(const Evidence& evidence, const MetricSpec& metric) {
  const auto& plan = evidence.plan();
  const auto word = MetricSpec{.name = metric.name}.title();
  ReproducedFigure out{
      "Over rounds", "Mean over seeds; the band is ± one standard deviation over seeds.", {}};
  if (!plan.exhibit->curves_file.empty()) out.caption += " Dashed: the authors' own curves.";
  for (const auto* column : plan.columns) {
    svg::LineChart chart;
    chart.label = fmt::format("{} over rounds, {}", word, column->name);
    chart.x = {"Round", Quantity::kCount};
    chart.x.tight = true;
    chart.y = {word, Quantity::kFraction};
    int colour = 0;
    for (const auto* row : plan.rows) {
      if (const auto curve = row->curves.find(column->name); curve != row->curves.end()) {
        svg::Series published{row->name + " (published)", colour, {}};
        published.dots = false, published.dashed = true;
        for (const auto& [round, value] : curve->second) published.points.push_back({round, value});
        chart.series.push_back(std::move(published));
      }
      chart.series.push_back(curve_series(evidence, plan.slot(*row, *column), metric, colour++));
    }
    out.panels.push_back({column->name, std::move(chart)});
  }
  return out;
}

std::optional<double> leading_number(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return std::nullopt;
  return out;
}

/// Rows over the columns that have an x; a dashed line is what was published.
ReproducedFigure sweep_figure(const Evidence& evidence, const std::string& name,
                              const MetricSpec& metric) {
  const auto& plan = evidence.plan();
  svg::LineChart chart;
  chart.label = metric.title() + " over the columns";
  chart.x = {plan.exhibit->title, Quantity::kNumber};
  chart.x.title = "setting";
  chart.y = {metric.title() + (is_per_cent(metric) ? ", %" : ""), Quantity::kNumber};
  int colour = 0;
  for (const auto* row : plan.rows) {
    svg::Series ours{row_label(plan.slot(*row, *plan.columns.front())), colour, {}};
    svg::Series theirs{row->name + ", published", colour++, {}};
    theirs.dashed = true;
    for (const auto* column : plan.columns) {
      if (!column->x) continue;
      const auto [mean, spread] =
          over_seeds(values_of(evidence.figures(plan.slot(*row, *column), metric, "")));
      ours.points.push_back({*column->x, mean, mean - spread, mean + spread});
      if (const auto number = leading_number(published_text(*plan.exhibit, *row, *column, name)))
        theirs.points.push_back({*column->x, *number});
    }
    chart.series.push_back(std::move(ours));
    if (!theirs.points.empty()) chart.series.push_back(std::move(theirs));
  }
  ReproducedFigure out{
      "Over the settings", "Mean over seeds; the band is ± one standard deviation over seeds.", {}};
  out.panels.push_back({"", std::move(chart)});
  return out;
}

ReproducedFigure bars_figure(const Evidence& evidence, const MetricSpec& metric) {
  const auto& plan = evidence.plan();
  ReproducedFigure out{"Side by side", "A dot is a seed, the bar their mean.", {}};
  for (const auto* column : plan.columns) {
    svg::StripChart chart;
    chart.label = fmt::format("{}, {}", metric.title(), column->name);
    chart.value = {metric.title() + (is_per_cent(metric) ? ", %" : ""), Quantity::kNumber};
    int colour = 0;
    for (const auto* row : plan.rows) {
      const auto& slot = plan.slot(*row, *column);
      svg::StripRow strip{row_label(slot), colour++, {}};
      for (size_t i = 0; i < plan.seeds.size(); ++i)
        if (const auto one = evidence.figure(slot, i, metric, ""))
          strip.samples.push_back({fmt::format("seed {}", plan.seeds[i]), one->value});
      const auto [mean, spread] = over_seeds(values_of(evidence.figures(slot, metric, "")));
      strip.centre = mean, strip.spread = spread;
      chart.rows.push_back(std::move(strip));
    }
    out.panels.push_back({column->name, std::move(chart)});
  }
  return out;
}

/// What the methods showed on the first seed, first and last round.
ReproducedFigure attention_figure(const Evidence& evidence) {
  const auto& plan = evidence.plan();
  ReproducedFigure out{"Attention", "First seed; the first and the last evaluated round.", {}};
  for (const auto& slot : plan.slots) {
    const auto* cell = evidence.record(slot, 0);
    if (!cell) continue;
    for (const auto& matrix : cell->matrices) {
      svg::Matrix chart;
      chart.label = fmt::format("{}, round {}", matrix.title, matrix.round);
      chart.row_title = "client", chart.column_title = "of";
      chart.rows = matrix.rows, chart.columns = matrix.columns, chart.values = matrix.values;
      out.panels.push_back({fmt::format("{}, {}: {}, round {}", slot.row->name, slot.column->name,
                                        matrix.title, matrix.round),
                            std::move(chart)});
    }
  }
  return out;
}

/// What a defence costs and what it is good for: a dot a row, of the first metric and another.
ReproducedFigure tradeoff_figure(const Evidence& evidence, const MetricSpec& cost,
                                 const MetricSpec& gain) {
  const auto& plan = evidence.plan();
  ReproducedFigure out{gain.title(), "A dot is a row: the mean over seeds.", {}};
  for (const auto* column : plan.columns) {
    svg::LineChart chart;
    chart.label = fmt::format("{} against {}, {}", gain.title(), cost.title(), column->name);
    chart.x = {cost.title() + (is_per_cent(cost) ? ", %" : ""), Quantity::kNumber};
    chart.y = {gain.title(), Quantity::kNumber};
    int colour = 0;
    for (const auto* row : plan.rows) {
      const auto& slot = plan.slot(*row, *column);
      const auto x = over_seeds(values_of(evidence.figures(slot, cost, ""))).mean;
      const auto y = over_seeds(values_of(evidence.figures(slot, gain, ""))).mean;
      svg::Series dot{row->name, colour++, {}};
      if (std::isfinite(x) && std::isfinite(y)) dot.points.push_back({x, y});
      if (!dot.points.empty()) chart.series.push_back(std::move(dot));
    }
    if (!chart.series.empty()) out.panels.push_back({column->name, std::move(chart)});
  }
  return out;
}

/// What attacks made of pictures on the first seed.
ReproducedFigure pictures_figure(const Evidence& evidence) {
  ReproducedFigure out{
      "Pictures", "First seed. Above the original, below what the attack made of it.", {}};
  for (const auto& slot : evidence.plan().slots) {
    const auto* cell = evidence.record(slot, 0);
    if (!cell) continue;
    for (const auto& [name, attack] : cell->attacks) {
      std::vector<ReproducedPicture> pictures;
      for (const auto& pair : attack.pictures)
        if (is_png_uri(pair.original) && is_png_uri(pair.made))
          pictures.push_back({pair.original, pair.made, pair.caption});
      if (!pictures.empty())
        out.panels.push_back({fmt::format("{}, {}: {}", slot.row->name, slot.column->name, name),
                              std::move(pictures)});
    }
  }
  return out;
}

std::vector<ReproducedFigure> figures_of(const Evidence& evidence) {
  const auto& exhibit = *evidence.plan().exhibit;
  std::vector<ReproducedFigure> out;
  const auto spec = [&](const std::string& metric) {
    const auto found = metric_spec(metric, exhibit, "");
    return found.ok() ? *found : MetricSpec{.name = "accuracy"};
  };
  if (exhibit.figure == "curves") out.push_back(curves_figure(evidence, spec(exhibit.metrics[0])));
  if (exhibit.figure == "attention") out.push_back(attention_figure(evidence));
  if (exhibit.figure == "sweep")
    for (const auto& metric : exhibit.metrics)
      out.push_back(sweep_figure(evidence, metric, spec(metric)));
  if (exhibit.figure == "bars")
    for (const auto& metric : exhibit.metrics) out.push_back(bars_figure(evidence, spec(metric)));
  if (exhibit.figure == "tradeoff")
    for (size_t i = 1; i < exhibit.metrics.size(); ++i)
      if (exhibit.metrics[i].starts_with("got@"))
        out.push_back(
            tradeoff_figure(evidence, spec(exhibit.metrics[0]), spec(exhibit.metrics[i])));
  if (!exhibit.attacks.empty()) out.push_back(pictures_figure(evidence));
  std::erase_if(out, [](const ReproducedFigure& figure) { return figure.panels.empty(); });
  return out;
}

ReproducedClaim claim_line(const Verdict& verdict, int digits) {
  ReproducedClaim out;
  out.claim = verdict.claim->text;
  if (!verdict.against.empty()) out.claim += fmt::format(" (best of them: {})", verdict.against);
  if (!verdict.claim->metric.empty()) out.claim += fmt::format(", {}", verdict.metric);
  if (!verdict.claim->source.empty()) out.claim += fmt::format(" [{}]", verdict.claim->source);
  out.ours = verdict.claim->ours;
  out.where = verdict.column, out.view = verdict.view, out.verdict = name_of(verdict.state);
  const auto& test = verdict.test;
  if (std::isfinite(test.difference) && verdict.pairs > 0)
    out.difference = fmt::format("{:+.{}f}", test.difference, digits);
  if (std::isfinite(test.low) && verdict.pairs > 1)
    out.interval = fmt::format("{:+.{}f} … {:+.{}f}", test.low, digits, test.high, digits);
  if (verdict.pairs > 0)
    out.pairs = fmt::format("{} {}", verdict.pairs,
                            verdict.by_clients   ? "clients, one seed"
                            : verdict.pairs == 1 ? "seed"
                                                 : "seeds");
  if (verdict.pairs > 1 && !verdict.by_clients)
    out.decided_by = test.needed > 0 ? fmt::format("{} seeds", test.needed)
                                     : fmt::format("> {} seeds", kMostPairs);
  return out;
}

/// Accuracies of a run, by whose they are.
std::map<std::string, std::vector<double>> accuracies(const CellRecord& record) {
  std::map<std::string, std::vector<double>> out;
  for (const auto& [who, curve] : record.curves)
    for (const char* name : {"accuracy", "val"})
      if (const auto found = curve.series.find(name); found != curve.series.end())
        out[who + " " + name] = found->second;
  return out;
}

/// Whether all candidates of a slot came to the same: nothing was there to choose.
bool all_alike(const Evidence& evidence, const ExhibitSlot& slot) {
  const auto first = evidence.records().find(slot.candidates.front().digests.front());
  return std::all_of(slot.candidates.begin(), slot.candidates.end(), [&](const auto& candidate) {
    const auto found = evidence.records().find(candidate.digests.front());
    return found != evidence.records().end() && found->second.failed.empty() &&
           accuracies(found->second) == accuracies(first->second);
  });
}

/// What was chosen on validation data, at an edge or not.
std::vector<std::string> choice_remarks(const Evidence& evidence) {
  std::vector<std::string> out;
  for (const auto& slot : evidence.plan().slots) {
    const auto* chosen = evidence.chosen(slot);
    if (slot.candidates.size() < 2 || !chosen) continue;
    std::vector<Variant> all;
    for (const auto& candidate : slot.candidates) all.push_back(candidate.variant);
    out.push_back(fmt::format("{}, {}: {} ({})", slot.row->name, slot.column->name,
                              note_of_choice(chosen->variant, all).text,
                              all_alike(evidence, slot)
                                  ? "nothing was chosen: all of them give the same figures"
                                  : "chosen on validation data"));
  }
  return out;
}

std::vector<std::string> failure_remarks(const Evidence& evidence) {
  std::vector<std::string> out;
  std::set<std::string> processors;
  for (const auto& slot : evidence.plan().slots) {
    for (size_t i = 0; i < evidence.plan().seeds.size(); ++i) {
      const auto* cell = evidence.record(slot, i);
      if (!cell) continue;
      processors.insert(cell->processor);
      if (!cell->failed.empty())
        out.push_back(fmt::format("{}, {}, seed {} failed: {}", slot.row->name, slot.column->name,
                                  evidence.plan().seeds[i], cell->failed));
    }
  }
  if (!processors.empty())
    out.push_back(fmt::format("{} of run time on {}",
                              human_seconds(seconds_spent(evidence.plan(), evidence.records())),
                              join({processors.begin(), processors.end()}, " and ")));
  return out;
}

/// Attacks that did not apply or were cut, by their reason.
std::vector<std::string> attack_remarks(const Evidence& evidence) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& slot : evidence.plan().slots) {
    const auto* cell = evidence.record(slot, 0);
    if (!cell) continue;
    for (const auto& [name, attack] : cell->attacks) {
      const auto where = fmt::format("{}, {}", slot.row->name, slot.column->name);
      if (!attack.skipped.empty())
        by_reason[fmt::format("{} not tried: {}", name, attack.skipped)].push_back(where);
      else if (attack.remark.find("cut") != std::string::npos)
        by_reason[fmt::format("{}: {}", name, attack.remark)].push_back(where);
    }
  }
  std::vector<std::string> out;
  for (const auto& [reason, where] : by_reason)
    out.push_back(fmt::format("{} ({})", reason, join(where, "; ")));
  return out;
}

/// Lines that the settings of all cells share.
std::vector<std::string> common_settings(const Evidence& evidence) {
  std::vector<std::string> out;
  bool first = true;
  for (const auto& slot : evidence.plan().slots) {
    if (slot.candidates.empty()) continue;
    const auto lines = settings_of(slot.candidates.front().by_seed.front());
    if (first) out = lines;
    first = false;
    std::erase_if(out, [&](const std::string& line) {
      return std::find(lines.begin(), lines.end(), line) == lines.end();
    });
  }
  return out;
}

/// Said first where it is so: what was learned is worth less than the simplest forecast.
std::string below_persistence(const Evidence& evidence) {
  const auto& plan = evidence.plan();
  const auto mean = [&](const PaperRow& row, const PaperColumn& column) {
    const auto values =
        values_of(evidence.figures(plan.slot(row, column), {.name = "accuracy"}, ""));
    return values.empty() ? std::nan("") : over_seeds(values).mean;
  };
  std::string out;
  for (const auto* column : plan.columns) {
    double rule = std::nan(""), best = -INFINITY;
    std::string name;
    for (const auto* row : plan.rows) {
      const double value = mean(*row, *column);
      if (row->method == "persistence") rule = value;
      if (!row->reference && value > best) best = value, name = row->name;
    }
    if (rule > best && !name.empty())
      out += fmt::format(
          "{}: every learned model stays below persistence ({:.1f} %; the best, {}, has {:.1f} "
          "%). ",
          column->name, rule, name, best);
  }
  return out;
}

}  // namespace

ReproducedExhibit reproduced(const Evidence& evidence, const std::vector<std::string>& remarks) {
  const auto& plan = evidence.plan();
  const auto& exhibit = *plan.exhibit;
  ReproducedExhibit out;
  out.id = exhibit.id, out.title = exhibit.title, out.paper = exhibit.paper, out.size = plan.size;
  out.note = exhibit.note;
  if (plan.size != "tiny") out.reading = below_persistence(evidence) + exhibit.reading;
  out.command = fmt::format("tessera reproduce {} --size {} --seeds {}", exhibit.id, plan.size,
                            plan.seeds.size());
  for (const auto& metric : exhibit.metrics)
    if (const auto spec = metric_spec(metric, exhibit, ""); spec.ok())
      out.tables.push_back(table_of(evidence, metric, *spec));
  if (plan.columns.size() == 1 && out.tables.size() > 1)
    out.tables = {side_by_side(plan.columns.front()->name, out.tables)};
  for (size_t i = 1; i < out.tables.size(); ++i) leave_out_rows(out.tables[0], out.tables[i]);
  out.figures = figures_of(evidence);
  // Differences have a digit more than the figures.
  for (const auto& verdict : evidence.verdicts())
    out.claims.push_back(claim_line(verdict, static_cast<int>(exhibit.decimals) + 1));
  out.remarks = remarks;
  for (auto& more : {choice_remarks(evidence), attack_remarks(evidence), failure_remarks(evidence)})
    out.remarks.insert(out.remarks.end(), more.begin(), more.end());
  out.settings = common_settings(evidence);
  return out;
}

}  // namespace tessera
