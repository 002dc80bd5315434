#include "report/many_clients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "report/html.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using svg::Quantity;

constexpr int kCurvePoints = 101, kMostBins = 24;
constexpr size_t kWorstShown = 10;
constexpr size_t kMostClassBars = 100;

std::vector<double> sorted_finite(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  std::sort(values.begin(), values.end());
  return values;
}

double quantile_of_sorted(const std::vector<double>& values, double q) {
  if (values.empty()) return kAbsent;
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

/// The share of clients up to each value, as a curve of so many points however many clients.
svg::Series share_curve(std::string name, int colour, const std::vector<double>& values) {
  svg::Series out{std::move(name), colour, {}};
  out.dots = false;
  const auto sorted = sorted_finite(values);
  for (int i = 0; i < kCurvePoints && !sorted.empty(); ++i) {
    const double q = static_cast<double>(i) / (kCurvePoints - 1);
    out.points.push_back({quantile_of_sorted(sorted, q), q});
  }
  return out;
}

std::string share_figure(const RunHistory& run, int64_t round, const Leading& lead) {
  const auto before = lead.clients(run, round, "pre"), after = lead.clients(run, round, "post");
  size_t measured = 0, both = 0, better = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const bool b = std::isfinite(before[i]), a = std::isfinite(after[i]);
    measured += a || b, both += a && b;
    better += a && b && lead.metric.better(after[i], before[i]);
  }
  auto caption = fmt::format(
      "Of {} evaluated clients, the share whose test {} is at most that of the axis, round {}.",
      measured, lead.word, round);
  if (both > 0) caption += fmt::format(" Personalization helps {} of {} clients.", better, both);
  return figure(lead.title + " over clients",
                share_chart(lead, {{"before personalization", 0, before},
                                   {"after personalization", 1, after}}),
                caption);
}

/// Clients' values of one view by round.
std::map<int64_t, std::vector<double>> values_by_round(const RunHistory& run, const Leading& lead) {
  std::vector<bool> newcomer;
  for (const auto& client : run.clients) {
    const auto id = static_cast<size_t>(std::max<int64_t>(client.id, 0));
    if (id >= newcomer.size()) newcomer.resize(id + 1);
    newcomer[id] = client.newcomer;
  }
  std::map<int64_t, std::vector<double>> out;
  for (const auto& row : run.client_evals) {
    const bool joined = row.client >= 0 && row.client < std::ssize(newcomer) &&
                        newcomer[static_cast<size_t>(row.client)];
    if (!joined && row.part == "test" && row.view == run.meta.headline)
      out[row.round].push_back(value_of(row, lead.metric.name));
  }
  return out;
}

std::string rounds_figure(const RunHistory& run, const Leading& lead) {
  svg::LineChart chart;
  chart.label = fmt::format("Test {} of the middle and of most clients over rounds", lead.word);
  chart.x = {"Round", Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Test " + lead.word, lead.quantity};
  chart.height = 300;
  svg::Series middle{"median, with 10 to 90 %", run.meta.headline == "pre" ? 0 : 1, {}};
  svg::Series quarter{"lower quarter", 6, {}};
  quarter.dashed = true, quarter.dots = false;
  for (auto& [round, values] : values_by_round(run, lead)) {
    const auto sorted = sorted_finite(std::move(values));
    const auto x = static_cast<double>(round);
    middle.points.push_back({x, quantile_of_sorted(sorted, 0.5), quantile_of_sorted(sorted, 0.1),
                             quantile_of_sorted(sorted, 0.9)});
    quarter.points.push_back({x, quantile_of_sorted(sorted, 0.25)});
  }
  chart.series = {std::move(middle), std::move(quarter)};
  if (!svg::in_words(chart).empty()) return "";
  return figure(fmt::format("Spread of {} over rounds", lead.word), svg::line_chart(chart),
                fmt::format("Quantiles over the evaluated clients, {} personalization. Every "
                            "evaluation asks the same clients.",
                            run.meta.headline == "pre" ? "before" : "after"));
}

/// Whole numbers from `least` to `most` in at most kMostBins steps, longer ones for larger numbers.
std::vector<int64_t> bin_starts(int64_t least, int64_t most) {
  std::vector<int64_t> out;
  const double factor = std::pow(static_cast<double>(most + 1) / static_cast<double>(least),
                                 1.0 / static_cast<double>(kMostBins));
  double next = static_cast<double>(least);
  while (next <= static_cast<double>(most)) {
    const auto start = static_cast<int64_t>(std::llround(next));
    if (out.empty() || start > out.back()) out.push_back(start);
    next *= std::max(factor, 1.0 + 1e-9);
    if (std::ssize(out) > kMostBins) break;
  }
  return out;
}

std::string size_bars(const RunHistory& run) {
  std::vector<int64_t> sizes;
  for (const auto& client : run.clients)
    if (!client.newcomer) sizes.push_back(std::max<int64_t>(1, client.train));
  if (sizes.empty()) return "";
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  if (*least == *most) return note(fmt::format("Every client trains on {} samples.", *least));
  const auto starts = bin_starts(*least, *most);
  svg::StackedBars bars;
  bars.label = "Clients by the number of their training samples";
  bars.value = {"Clients", Quantity::kCount};
  bars.column_title = "Training samples";
  bars.parts = {{"clients", 0, std::vector<double>(starts.size())}};
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t last = i + 1 < starts.size() ? starts[i + 1] - 1 : *most;
    bars.columns.push_back(starts[i] == last ? fmt::format("{}", last)
                                             : fmt::format("{}–{}", starts[i], last));
  }
  for (const int64_t size : sizes) {
    const auto bin = std::upper_bound(starts.begin(), starts.end(), size) - starts.begin() - 1;
    bars.parts[0].values[static_cast<size_t>(std::max<std::ptrdiff_t>(bin, 0))] += 1;
  }
  return figure("How the data are dealt", svg::stacked_bars(bars),
                fmt::format("How many of {} clients hold so many training samples.", sizes.size()));
}

std::string class_bars(const RunHistory& run) {
  std::map<int64_t, std::array<double, 3>> counts;
  constexpr std::array kParts{"train", "val", "test"};
  for (const auto& client : run.clients)
    for (size_t p = 0; p < kParts.size(); ++p)
      if (const auto part = client.labels.find(kParts[p]); part != client.labels.end())
        for (const auto& [label, n] : part->second) counts[label][p] += static_cast<double>(n);
  if (counts.empty() || counts.size() > kMostClassBars) return "";
  svg::StackedBars bars;
  bars.label = "Samples of every class, all clients together";
  bars.value = {"Samples", Quantity::kCount};
  bars.parts = {{"training", 0, {}}, {"validation", 4, {}}, {"test", 6, {}}};
  for (const auto& [label, n] : counts) {
    bars.columns.push_back(class_name(run.meta, label));
    for (size_t p = 0; p < kParts.size(); ++p) bars.parts[p].values.push_back(n[p]);
  }
  return figure("Classes", svg::stacked_bars(bars), "Samples of all clients together.");
}

}  // namespace

std::string share_chart(const Leading& lead, const std::vector<ClientValues>& all) {
  svg::LineChart chart;
  chart.label = fmt::format("Share of clients by test {}", lead.word);
  chart.x = {"Test " + lead.word, lead.quantity};
  chart.y = {"Share of clients up to it", Quantity::kFraction};
  chart.y.low = 0, chart.y.high = 1;
  chart.height = 300;
  for (const auto& one : all) chart.series.push_back(share_curve(one.name, one.colour, one.values));
  chart.direct_labels = false;
  return svg::line_chart(chart);
}

double quantile_over(std::vector<double> values, double q) {
  return quantile_of_sorted(sorted_finite(std::move(values)), q);
}

std::string spread_figures(const RunHistory& run, int64_t round) {
  const auto lead = leading_of(run.meta);
  return share_figure(run, round, lead) + rounds_figure(run, lead);
}

std::string sizes_figures(const RunHistory& run) { return size_bars(run) + class_bars(run); }

std::string spread_table(const RunHistory& run, int64_t round) {
  const auto lead = leading_of(run.meta);
  const auto before = lead.clients(run, round, "pre"), after = lead.clients(run, round, "post");
  std::vector<double> train, val, test, gain;
  for (size_t i = 0; i < run.clients.size(); ++i) {
    train.push_back(static_cast<double>(run.clients[i].train));
    val.push_back(static_cast<double>(run.clients[i].val));
    test.push_back(static_cast<double>(run.clients[i].test));
    gain.push_back(after[i] - before[i]);
  }
  HtmlTable table;
  table.header = {"Over clients", "Train", "Validation", "Test", "Before", "After", "Gain"};
  const std::array columns{sorted_finite(train),  sorted_finite(val),   sorted_finite(test),
                           sorted_finite(before), sorted_finite(after), sorted_finite(gain)};
  for (const auto& [name, q] : {std::pair{"least", 0.0},
                                {"10 %", 0.1},
                                {"25 %", 0.25},
                                {"median", 0.5},
                                {"75 %", 0.75},
                                {"90 %", 0.9},
                                {"most", 1.0}}) {
    const auto at = [&, share = q](size_t i) { return quantile_of_sorted(columns[i], share); };
    table.rows.push_back({name, fmt::format("{:.0f}", at(0)), fmt::format("{:.0f}", at(1)),
                          fmt::format("{:.0f}", at(2)), lead.text(at(3)), lead.text(at(4)),
                          lead.difference(at(5))});
  }
  table.caption = fmt::format(
      "Quantiles, each column by itself: sizes over all {} clients, test {} over those evaluated "
      "after round {}.",
      run.clients.size(), lead.word, round);
  const auto& leads = run.meta.headline == "pre" ? before : after;
  std::vector<size_t> order;
  for (size_t i = 0; i < leads.size(); ++i)
    if (std::isfinite(leads[i])) order.push_back(i);
  const size_t shown = std::min(order.size(), kWorstShown);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](size_t a, size_t b) {
                      if (leads[a] == leads[b]) return a < b;
                      return lead.metric.better(leads[b], leads[a]);
                    });
  HtmlTable worst;
  worst.header = {"Client", "Train", "Validation", "Test", "Before", "After", "Gain"};
  for (size_t i = 0; i < shown; ++i) {
    const auto& client = run.clients[order[i]];
    worst.rows.push_back({client_name(client), fmt::format("{}", client.train),
                          fmt::format("{}", client.val), fmt::format("{}", client.test),
                          lead.text(before[order[i]]), lead.text(after[order[i]]),
                          lead.difference(gain[order[i]])});
  }
  worst.caption = "The clients that fare worst; history.sqlite has all that were evaluated.";
  return html_table(table) + (shown > 0 ? html_table(worst) : "");
}

}  // namespace tessera
