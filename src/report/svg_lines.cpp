#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"
#include "report/svg_canvas.hpp"

namespace tessera::svg {
namespace {

constexpr double kLabelGap = 16;
constexpr size_t kNamesInWords = 12;
constexpr size_t kTooltips = 250;  // a series; more would only make the file large

bool usable(const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); }
bool banded(const Point& p) { return usable(p) && std::isfinite(p.low) && std::isfinite(p.high); }

std::vector<Series> without_gaps(const LineChart& chart) {
  std::vector<Series> out;
  for (const auto& series : chart.series) {
    out.push_back(series);
    auto& points = out.back().points;
    std::erase_if(points, [&](const Point& p) {
      return !usable(p) || (chart.y.scale == Scale::kLog && p.y <= 0) ||
             (chart.x.scale == Scale::kLog && p.x <= 0);
    });
    if (points.empty()) out.pop_back();
  }
  return out;
}

void draw_band(Canvas& canvas, const Series& series, const AxisMap& x, const AxisMap& y) {
  std::vector<Point> points;
  std::copy_if(series.points.begin(), series.points.end(), std::back_inserter(points), banded);
  if (points.size() < 2) return;
  std::string d;
  for (const auto& p : points)
    d += fmt::format("{}{} {}", d.empty() ? "M" : "L", px(x(p.x)), px(y(p.high)));
  std::reverse(points.begin(), points.end());
  for (const auto& p : points) d += fmt::format("L{} {}", px(x(p.x)), px(y(p.low)));
  canvas.path(d + "Z", "band", "fill:" + colour(series.colour));
}

void draw_line(Canvas& canvas, const Series& series, const AxisMap& x, const AxisMap& y) {
  if (!series.line || series.points.size() < 2) return;
  std::string d;
  for (const auto& p : series.points) {
    if (series.step && !d.empty()) d += fmt::format("H{}", px(x(p.x)));
    d += fmt::format("{}{} {}", d.empty() ? "M" : "L", px(x(p.x)), px(y(p.y)));
  }
  const bool dashed = series.dashed || second_turn(series.colour);
  canvas.path(d, "curve",
              "stroke:" + colour(series.colour) + (dashed ? ";stroke-dasharray:6 4" : ""));
}

void draw_points(Canvas& canvas, const LineChart& chart, const Series& series, const AxisMap& x,
                 const AxisMap& y) {
  const double room = chart.width / static_cast<double>(series.points.size());
  const bool visible = !series.line || series.points.size() == 1 || (series.dots && room > 14);
  const size_t every = series.points.size() / kTooltips + 1;
  for (size_t i = 0; i < series.points.size(); i += visible ? 1 : every) {
    const auto& p = series.points[i];
    const auto tooltip =
        fmt::format("{}: {} at {} {}", series.name, value_text(chart.y.quantity, p.y),
                    chart.x.title, value_text(chart.x.quantity, p.x));
    if (visible)
      canvas.circle(x(p.x), y(p.y), 3.2, "dot", "fill:" + colour(series.colour), tooltip);
    else
      canvas.circle(x(p.x), y(p.y), 6, "hit", "", tooltip);
  }
}

std::string end_label(const LineChart& chart, const Series& series) {
  return fmt::format("{}  {}", shorten(series.name, 26),
                     value_text(chart.y.quantity, series.points.back().y));
}

void draw_end_labels(Canvas& canvas, const LineChart& chart, const std::vector<Series>& all,
                     const AxisMap& x, const AxisMap& y, const Box& box) {
  std::vector<double> heights;
  for (const auto& series : all) heights.push_back(y(series.points.back().y));
  const auto placed = spread(heights, kLabelGap, box.top, box.bottom);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& series = all[i];
    const double end = x(series.points.back().x);
    const auto stroke = fmt::format("stroke:{};stroke-opacity:.5", colour(series.colour));
    if (std::abs(placed[i] - heights[i]) > 3 || end < box.right - 1)
      canvas.line(end + 4, heights[i], box.right + 10, placed[i], "", stroke);
    canvas.text(box.right + 13, placed[i] + 4, Anchor::kStart, end_label(chart, series), "strong",
                "fill:" + colour(series.colour));
  }
}

// Words stay clear of the title of y, which stands at the left of the same line.
void draw_marks(Canvas& canvas, const LineChart& chart, const AxisMap& x, double title,
                const Box& box) {
  for (const auto& mark : chart.marks) {
    if (!std::isfinite(mark.x) || mark.x < x.low() || mark.x > x.high()) continue;
    canvas.line(x(mark.x), box.top, x(mark.x), box.bottom, "mark");
    const double half = text_width(mark.text) / 2;
    const double middle = std::min(std::max(x(mark.x), title + 14 + half), chart.width - half);
    canvas.text(middle, box.top - 12, Anchor::kMiddle, mark.text, "soft");
  }
}

double draw_legend_of(Canvas& canvas, const std::vector<Series>& all) {
  std::vector<LegendItem> items;
  for (const auto& series : all) {
    using Kind = LegendItem::Kind;
    const bool dashed = series.dashed || second_turn(series.colour);
    items.push_back({series.name, series.colour,
                     !series.line ? Kind::kDot
                     : dashed     ? Kind::kDashed
                                  : Kind::kLine});
  }
  return draw_legend(canvas, items, 0, 0, canvas.width());
}

// A line that stays where it is, its band too.
bool flat(const Series& series) {
  Range ys, lows, highs;
  for (const auto& p : series.points) ys.add(p.y), lows.add(p.low), highs.add(p.high);
  const bool band = lows.low <= lows.high;
  return series.line && ys.constant() && (!band || (lows.constant() && highs.constant()));
}

std::string in_words(const LineChart& chart, const std::vector<Series>& all) {
  Range xs;
  for (const auto& series : all)
    for (const auto& p : series.points) xs.add(p.x);
  const bool once = xs.low == xs.high;
  if (all.empty() || !std::all_of(all.begin(), all.end(), flat)) return "";
  // Single points at several x are a chart; lines that do not move are not.
  const auto is_point = [](const Series& series) { return series.points.size() == 1; };
  if (!once && std::any_of(all.begin(), all.end(), is_point)) return "";
  std::vector<std::string> values;
  for (const auto& series : all) {
    const auto value = value_text(chart.y.quantity, series.points.back().y);
    values.push_back(all.size() == 1 ? value : series.name + " " + value);
  }
  if (values.size() > kNamesInWords) {
    const auto more = fmt::format("and {} more", values.size() - kNamesInWords);
    values.resize(kNamesInWords);
    values.push_back(more);
  }
  const auto when = lower(chart.x.title) + " " + value_text(chart.x.quantity, xs.low);
  if (once) return fmt::format("{} ({})", join(values, ", "), when);
  return fmt::format("always {} ({} to {})", join(values, ", "), when,
                     value_text(chart.x.quantity, xs.high));
}

}  // namespace

std::string in_words(const LineChart& chart) { return in_words(chart, without_gaps(chart)); }

std::string line_chart(const LineChart& chart) {
  const auto all = without_gaps(chart);
  if (all.empty()) return note(chart.empty);
  if (const auto words = in_words(chart, all); !words.empty()) return note(words);
  Range xs, ys;
  for (const auto& series : all) {
    for (const auto& p : series.points) {
      xs.add(p.x), ys.add(p.y);
      if (banded(p) && (chart.y.scale == Scale::kLinear || p.low > 0))
        ys.add(p.low), ys.add(p.high);
    }
  }

  Canvas canvas(chart.width, chart.height);
  const bool direct =
      chart.direct_labels && static_cast<double>(all.size()) * kLabelGap < chart.height - 90;
  double right = 14;
  if (direct)
    for (const auto& series : all)
      right = std::max(right, text_width(end_label(chart, series)) * 1.06 + 18);
  const double legend = direct ? 0 : draw_legend_of(canvas, all);
  Box box{0, legend + 30, chart.width - right, chart.height - 44};
  const AxisMap y(chart.y, ys.low, ys.high, box.bottom, box.top,
                  static_cast<int>((box.bottom - box.top) / 52));
  box.left = tick_margin(y);
  const AxisMap x(chart.x, xs.low, xs.high, box.left, box.right,
                  static_cast<int>((box.right - box.left) / 62));

  draw_y_axis(canvas, y, box);
  draw_x_axis(canvas, x, box);
  draw_marks(canvas, chart, x, text_width(y.title()), box);
  for (const auto& series : all) draw_band(canvas, series, x, y);
  for (const auto& series : all) draw_line(canvas, series, x, y);
  for (const auto& series : all) draw_points(canvas, chart, series, x, y);
  if (direct) draw_end_labels(canvas, chart, all, x, y, box);
  return canvas.finish(chart.label);
}

}  // namespace tessera::svg
