// Things with a place: a scatter, a graph on a circle, a grid of pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "io/png.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"
#include "report/svg_canvas.hpp"

namespace tessera::svg {
namespace {

constexpr size_t kNamedPoints = 40;
constexpr double kMaxPicture = 112;  // pixels of the page for one picture

void draw_dot(Canvas& canvas, double x, double y, double radius, const Dot& dot) {
  if (second_turn(dot.colour))
    canvas.circle(x, y, radius - 0.9, "hole", "stroke:" + colour(dot.colour), dot.tooltip);
  else
    canvas.circle(x, y, radius, "dot", "fill:" + colour(dot.colour), dot.tooltip);
}

double draw_groups(Canvas& canvas, const std::vector<DotGroup>& groups) {
  std::vector<LegendItem> items;
  for (const auto& group : groups)
    items.push_back({group.name, group.colour,
                     second_turn(group.colour) ? LegendItem::Kind::kRing : LegendItem::Kind::kDot});
  return draw_legend(canvas, items, 0, 0, canvas.width());
}

// An axis whose middle and length are given: both directions of a scatter get the same scale.
Axis fixed(Axis axis, double middle, double length) {
  axis.low = middle - length / 2, axis.high = middle + length / 2;
  return axis;
}

std::vector<std::string> names_of(const std::vector<Dot>& dots) {
  std::vector<std::string> out;
  for (const auto& dot : dots) out.push_back(dot.name);
  return short_names(out);
}

// Names around a circle: along the radius, upright on both halves, thinned out to fit.
void draw_names_around(Canvas& canvas, const std::vector<Dot>& nodes, double middle_x,
                       double middle_y, double radius) {
  const auto names = names_of(nodes);
  const double turn = 2 * std::numbers::pi / static_cast<double>(nodes.size());
  const auto every = static_cast<size_t>(std::ceil(12.5 / (turn * radius)));
  for (size_t i = 0; i < names.size(); i += every) {
    const double angle = turn * static_cast<double>(i) - std::numbers::pi / 2;
    const bool left = std::cos(angle) < -1e-9;
    const double degrees = angle * 180 / std::numbers::pi + (left ? 180 : 0);
    // Four pixels down in the direction of reading: the middle of the letters, not their foot.
    const double down = left ? -4 : 4;
    canvas.turned_text(middle_x + radius * std::cos(angle) - down * std::sin(angle),
                       middle_y + radius * std::sin(angle) + down * std::cos(angle), degrees,
                       left ? Anchor::kEnd : Anchor::kStart, shorten_middle(names[i], 12), "soft");
  }
}

Picture grey(const PictureGrid& grid, const std::vector<double>& pixels) {
  Picture out{static_cast<uint32_t>(grid.width), static_cast<uint32_t>(grid.height), 1, {}};
  for (const double value : pixels)
    out.pixels.push_back(static_cast<uint8_t>(
        std::lround(255 * (std::isfinite(value) ? std::clamp(value, 0.0, 1.0) : 0.0))));
  return out;
}

}  // namespace

std::string scatter(const Scatter& chart) {
  auto points = chart.points;
  std::erase_if(points, [](const auto& p) { return !std::isfinite(p.x) || !std::isfinite(p.y); });
  if (points.empty()) return note(kNoValues);
  Range xs, ys;
  for (const auto& p : points) xs.add(p.x), ys.add(p.y);
  xs.add(chart.low_x), xs.add(chart.high_x), ys.add(chart.low_y), ys.add(chart.high_y);

  Canvas canvas(chart.width, chart.height);
  const double legend = draw_groups(canvas, chart.groups);
  canvas.set_height(chart.height + legend);
  Box box{52, legend + 26, chart.width - 8, chart.height + legend - 44};
  const double wide = box.right - box.left, high = box.bottom - box.top;
  double unit = 1.14 * std::max(xs.length() / wide, ys.length() / high);  // value per pixel
  if (!(unit > 0)) unit = 2 / wide;
  const AxisMap x(fixed(chart.x, xs.middle(), unit * wide), xs.low, xs.high, box.left, box.right,
                  static_cast<int>(wide / 80));
  const AxisMap y(fixed(chart.y, ys.middle(), unit * high), ys.low, ys.high, box.bottom, box.top,
                  static_cast<int>(high / 60));
  draw_y_axis(canvas, y, box);
  draw_x_axis(canvas, x, box);
  std::vector<Dot> dots;
  for (const auto& p : points) dots.push_back(p.dot);
  const auto names = names_of(dots);
  const double radius = points.size() > 200 ? 3.4 : 5;
  for (size_t i = 0; i < points.size() && points.size() <= kNamedPoints; ++i)
    canvas.text(x(points[i].x) + radius + 3, y(points[i].y) - 5, Anchor::kStart,
                shorten_middle(names[i], 12), "soft", "font-size:10px");
  for (const auto& p : points) draw_dot(canvas, x(p.x), y(p.y), radius, p.dot);
  return canvas.finish(chart.label);
}

std::string circle_graph(const Graph& graph) {
  if (graph.nodes.empty()) return note(kNoValues);
  double margin = 14;
  for (const auto& name : names_of(graph.nodes))
    margin = std::max(margin, text_width(shorten_middle(name, 12)) + 16);
  Canvas canvas(graph.width, 0);
  const double top = draw_groups(canvas, graph.groups) + 4;
  const double radius = graph.width / 2 - margin, x0 = graph.width / 2, y0 = top + x0;
  canvas.set_height(top + graph.width);
  const double turn = 2 * std::numbers::pi / static_cast<double>(graph.nodes.size());
  const auto place = [&](size_t i) {
    const double angle = turn * static_cast<double>(i) - std::numbers::pi / 2;
    return std::pair{x0 + radius * std::cos(angle), y0 + radius * std::sin(angle)};
  };
  // Many edges are each drawn fainter, or their sum would be a black disc.
  const double ink = std::clamp(250 / (1.0 + static_cast<double>(graph.edges.size())), 0.2, 1.0);
  for (const auto& edge : graph.edges) {
    const auto [ax, ay] = place(edge.from);
    const auto [bx, by] = place(edge.to);
    const auto bend = [](double a, double b, double middle) { return ((a + b) / 2 + middle) / 2; };
    canvas.path(fmt::format("M{} {}Q{} {} {} {}", px(ax), px(ay), px(bend(ax, bx, x0)),
                            px(bend(ay, by, y0)), px(bx), px(by)),
                "edge",
                fmt::format("stroke-width:{:.1f};stroke-opacity:{:.2f}", 0.8 + 2.2 * edge.strength,
                            std::max(0.05, (0.12 + 0.68 * edge.strength) * ink)));
  }
  const double dot = std::clamp(turn * radius * 0.42, 2.0, 7.0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto [x, y] = place(i);
    draw_dot(canvas, x, y, dot, graph.nodes[i]);
  }
  draw_names_around(canvas, graph.nodes, x0, y0, radius + dot + 4);
  return canvas.finish(graph.label);
}

std::string picture_grid(const PictureGrid& grid) {
  if (grid.pixels.empty() || grid.columns.empty()) return note(kNoValues);
  const double left = name_margin(grid.rows, grid.chart_width), gap = 6;
  const double room = (grid.chart_width - left) / static_cast<double>(grid.columns.size()) - gap;
  const double width = std::min(room, kMaxPicture);
  const double height = width * static_cast<double>(grid.height) / static_cast<double>(grid.width);
  const auto letters = static_cast<size_t>(std::max(3.0, (width + gap) / 6.7));
  const auto x = [&](size_t column) { return left + static_cast<double>(column) * (width + gap); };
  const auto y = [&](size_t row) { return 22 + static_cast<double>(row) * (height + gap); };
  Canvas canvas(grid.chart_width, y(grid.rows.size()));
  for (size_t c = 0; c < grid.columns.size(); ++c)
    canvas.text(x(c) + width / 2, 13, Anchor::kMiddle, shorten_middle(grid.columns[c], letters),
                "soft");
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    canvas.text(left - 10, y(r) + height / 2 + 4, Anchor::kEnd, fit_name(grid.rows[r], left),
                "soft");
    for (size_t c = 0; c < grid.columns.size(); ++c) {
      const Box box{x(c), y(r), x(c) + width, y(r) + height};
      canvas.image(box, png_data_uri(grey(grid, grid.pixels[r * grid.columns.size() + c])),
                   fmt::format("{}, {}", grid.rows[r], grid.columns[c]));
      canvas.rect(box, "frame", "");
    }
  }
  return canvas.finish(grid.label);
}

}  // namespace tessera::svg
