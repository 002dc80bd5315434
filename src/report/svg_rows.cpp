// Charts of named items along one value axis: dumbbells and strips.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.hpp"
#include "report/svg.hpp"
#include "report/svg_canvas.hpp"

namespace tessera::svg {
namespace {

constexpr size_t kNamedRows = 32;
constexpr double kRow = 20;

std::vector<Pair> drawable(const DumbbellChart& chart) {
  auto pairs = chart.pairs;
  std::erase_if(pairs,
                [](const Pair& p) { return !std::isfinite(p.before) && !std::isfinite(p.after); });
  return pairs;
}

void range_of(const std::vector<Pair>& pairs, double& low, double& high) {
  low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& pair : pairs)
    for (const double value : {pair.before, pair.after})
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
}

bool has(const std::vector<Pair>& pairs, double Pair::*end) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const Pair& p) { return std::isfinite(p.*end); });
}

double draw_pair_legend(Canvas& canvas, const DumbbellChart& chart, const std::vector<Pair>& pairs,
                        double left) {
  std::vector<LegendItem> items;
  if (has(pairs, &Pair::before))
    items.push_back({chart.before_name, chart.before_colour, LegendItem::Kind::kRing});
  if (has(pairs, &Pair::after))
    items.push_back({chart.after_name, chart.after_colour, LegendItem::Kind::kDot});
  return draw_legend(canvas, items, left, 0, canvas.width());
}

std::string pair_tooltip(const DumbbellChart& chart, const Pair& pair) {
  auto text = pair.name;
  if (std::isfinite(pair.before))
    text +=
        fmt::format(", {} {}", chart.before_name, value_text(chart.value.quantity, pair.before));
  if (std::isfinite(pair.after))
    text += fmt::format(", {} {}", chart.after_name, value_text(chart.value.quantity, pair.after));
  return text;
}

// The pair's two ends; a missing one falls on the other.
struct Ends {
  double before_x, before_y, after_x, after_y;
};

void draw_pair(Canvas& canvas, const DumbbellChart& chart, const Pair& pair, const Ends& ends,
               double radius) {
  const bool both = std::isfinite(pair.before) && std::isfinite(pair.after);
  // A client that got worse shows it: its link has the colour of what it lost.
  const bool worse = both && pair.after < pair.before;
  const auto tooltip = pair_tooltip(chart, pair);
  if (both)
    canvas.line(ends.before_x, ends.before_y, ends.after_x, ends.after_y, "link",
                fmt::format("stroke:{};stroke-width:{}",
                            colour(worse ? chart.before_colour : chart.after_colour),
                            px(std::min(4.0, radius))));
  if (std::isfinite(pair.before))
    canvas.circle(ends.before_x, ends.before_y, radius * 0.85, "hole",
                  "stroke:" + colour(chart.before_colour), tooltip);
  if (std::isfinite(pair.after))
    canvas.circle(ends.after_x, ends.after_y, radius, "dot", "fill:" + colour(chart.after_colour),
                  tooltip);
}

std::string dumbbell_rows(const DumbbellChart& chart, const std::vector<Pair>& pairs) {
  std::vector<std::string> names;
  for (const auto& pair : pairs) names.push_back(pair.name);
  double low, high;
  range_of(pairs, low, high);
  Canvas canvas(chart.width, 0);
  const double left = name_margin(names, chart.width), count = static_cast<double>(pairs.size());
  const double top = draw_pair_legend(canvas, chart, pairs, left) + 6;
  const Box box{left, top, chart.width - 62, top + kRow * count};
  const AxisMap x(chart.value, low, high, box.left, box.right,
                  static_cast<int>((box.right - box.left) / 90));
  canvas.set_height(box.bottom + 44);
  draw_x_axis(canvas, x, box);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double y = box.top + (static_cast<double>(i) + 0.5) * kRow;
    canvas.line(box.left, y, box.right, y, "grid");
    canvas.text(box.left - 10, y + 4, Anchor::kEnd, fit_name(names[i], left));
    draw_pair(canvas, chart, pairs[i], {x(pairs[i].before), y, x(pairs[i].after), y}, 5);
    const double shown = std::isfinite(pairs[i].after) ? pairs[i].after : pairs[i].before;
    canvas.text(chart.width, y + 4, Anchor::kEnd, value_text(chart.value.quantity, shown), "soft");
  }
  return canvas.finish(chart.label);
}

std::string dumbbell_columns(const DumbbellChart& chart, const std::vector<Pair>& pairs) {
  std::vector<std::string> names;
  for (const auto& pair : pairs) names.push_back(pair.name);
  double low, high;
  range_of(pairs, low, high);
  Canvas canvas(chart.width, 0);
  const double top = draw_pair_legend(canvas, chart, pairs, 0) + 30;
  Box box{0, top, chart.width - 4, top + 300};
  const AxisMap y(chart.value, low, high, box.bottom, box.top, 6);
  box.left = tick_margin(y);
  const double step = (box.right - box.left) / static_cast<double>(pairs.size());
  const auto plan = plan_columns(names, box.left, step);
  canvas.set_height(box.bottom + plan.height + 24);
  draw_y_axis(canvas, y, box);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double x = box.left + (static_cast<double>(i) + 0.5) * step;
    draw_pair(canvas, chart, pairs[i], {x, y(pairs[i].before), x, y(pairs[i].after)},
              std::clamp(step * 0.42, 1.2, 4.5));
  }
  draw_columns(canvas, plan, box.left, step, box.bottom);
  canvas.text((box.left + box.right) / 2, box.bottom + plan.height + 18, Anchor::kMiddle,
              chart.item_title, "title");
  return canvas.finish(chart.label);
}

// Dots in the order of their value, each as near to the middle as those already placed allow.
std::vector<double> swarm(const std::vector<double>& xs, double radius, double room) {
  std::vector<double> ys(xs.size(), 0);
  for (size_t i = 0; i < xs.size(); ++i) {
    const auto free = [&](double y) {
      for (size_t j = i; j-- > 0 && xs[i] - xs[j] < 2 * radius;)
        if (std::hypot(xs[i] - xs[j], y - ys[j]) < 1.9 * radius) return false;
      return true;
    };
    for (double offset = 0; offset <= room; offset += radius / 2) {
      if (free(offset) || free(-offset)) {
        ys[i] = free(offset) ? offset : -offset;
        break;
      }
    }
  }
  return ys;
}

void draw_strip(Canvas& canvas, const StripChart& chart, const StripRow& row, const AxisMap& x,
                double y) {
  auto samples = row.samples;
  std::erase_if(samples, [](const Sample& s) { return !std::isfinite(s.value); });
  std::stable_sort(samples.begin(), samples.end(),
                   [](const Sample& a, const Sample& b) { return a.value < b.value; });
  const double radius = samples.size() > 60 ? 2.6 : 3.6;
  std::vector<double> xs;
  for (const auto& sample : samples) xs.push_back(x(sample.value));
  const auto ys = swarm(xs, radius, chart.row_height / 2 - radius - 1);
  const auto tint = colour(row.colour);
  if (std::isfinite(row.centre) && std::isfinite(row.spread))
    canvas.line(x(row.centre - row.spread), y, x(row.centre + row.spread), y, "",
                fmt::format("stroke:{};stroke-width:3;stroke-opacity:.45", tint));
  for (size_t i = 0; i < samples.size(); ++i)
    canvas.circle(xs[i], y + ys[i], radius, "dot", fmt::format("fill:{};fill-opacity:.7", tint),
                  fmt::format("{}, {}: {}", row.name, samples[i].name,
                              value_text(chart.value.quantity, samples[i].value)));
  if (std::isfinite(row.centre))
    canvas.line(x(row.centre), y - 9, x(row.centre), y + 9, "",
                fmt::format("stroke:{};stroke-width:4;stroke-linecap:round", tint));
}

// "72.8 ± 1.1 %": the unit once, where there is one.
std::string centre_text(Quantity quantity, const StripRow& row) {
  const auto centre = value_text(quantity, row.centre);
  if (!std::isfinite(row.spread)) return centre;
  if (quantity == Quantity::kFraction)
    return fmt::format("{:.1f} ± {:.1f} %", row.centre * 100, row.spread * 100);
  return centre + " ± " + value_text(quantity, row.spread);
}

}  // namespace

std::string dumbbell_chart(const DumbbellChart& chart) {
  const auto pairs = drawable(chart);
  if (pairs.empty()) return note(kNoValues);
  return pairs.size() <= kNamedRows ? dumbbell_rows(chart, pairs) : dumbbell_columns(chart, pairs);
}

std::string strip_chart(const StripChart& chart) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto add = [&](double value) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  };
  std::vector<std::string> names;
  for (const auto& row : chart.rows) {
    names.push_back(row.name);
    add(row.centre), add(row.centre - row.spread), add(row.centre + row.spread);
    for (const auto& sample : row.samples) add(sample.value);
  }
  if (low > high) return note(kNoValues);
  if (chart.value.quantity == Quantity::kFraction)
    low = std::max(low, 0.0), high = std::min(high, 1.0);

  const double rows = static_cast<double>(chart.rows.size());
  const double margin = name_margin(names, chart.width);
  constexpr double kBold = 1.1;  // names are bold here, and so wider
  const Box box{kBold * margin, 6, chart.width - 118, 6 + rows * chart.row_height};
  Canvas canvas(chart.width, box.bottom + 44);
  const AxisMap x(chart.value, low, high, box.left, box.right,
                  static_cast<int>((box.right - box.left) / 90));
  draw_x_axis(canvas, x, box);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const auto& row = chart.rows[i];
    const double y = box.top + (static_cast<double>(i) + 0.5) * chart.row_height;
    canvas.line(box.left, y, box.right, y, "grid");
    canvas.text(box.left - 10, y + 4, Anchor::kEnd, fit_name(row.name, margin), "strong",
                "fill:" + colour(row.colour));
    draw_strip(canvas, chart, row, x, y);
    if (!std::isfinite(row.centre)) continue;
    canvas.text(chart.width, y + 4, Anchor::kEnd, centre_text(chart.value.quantity, row));
  }
  return canvas.finish(chart.label);
}

}  // namespace tessera::svg
