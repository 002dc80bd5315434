// Charts over named columns: stacked bars, bubbles, heat maps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "io/png.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"
#include "report/svg_canvas.hpp"

namespace tessera::svg {
namespace {

constexpr double kLargestSquare = 46;
// A picture cannot follow the page's scheme: a colour that is legible on both.
constexpr uint8_t kPicture[] = {0x2b, 0x7f, 0xc9};

double at(const std::vector<double>& values, size_t i) {
  return i < values.size() ? values[i] : std::numeric_limits<double>::quiet_NaN();
}

double cell_value(const Matrix& matrix, size_t row, size_t column) {
  if (row >= matrix.values.size()) return std::numeric_limits<double>::quiet_NaN();
  return at(matrix.values[row], column);
}

std::string cell_tooltip(const Matrix& matrix, size_t row, size_t column) {
  const auto& [first, second] = matrix.square ? std::tie(matrix.rows[row], matrix.columns[column])
                                              : std::tie(matrix.columns[column], matrix.rows[row]);
  return fmt::format("{}, {}: {}", first, second,
                     value_text(matrix.quantity, cell_value(matrix, row, column)));
}

// Where the cells of a matrix are.
struct Grid {
  Box box;
  double step_x, step_y;
  ColumnNames names;
  std::vector<std::string> rows;

  double x(size_t column) const { return box.left + (static_cast<double>(column) + 0.5) * step_x; }
  double y(size_t row) const { return box.top + (static_cast<double>(row) + 0.5) * step_y; }
};

// Square cells where they fit: at most `tallest` high; many rows get thin, never below 4 px.
Grid plan_grid(const Matrix& matrix, double top, double tallest) {
  Grid grid;
  const double columns = static_cast<double>(matrix.columns.size());
  const double rows = static_cast<double>(matrix.rows.size());
  grid.rows = matrix.short_rows ? short_names(matrix.rows) : matrix.rows;
  const double left = matrix.left > 0 ? matrix.left : name_margin(grid.rows, matrix.width);
  grid.step_x = (matrix.width - left - 4) / columns;
  grid.step_y = std::clamp(std::min(grid.step_x, 900 / rows), std::min(14.0, 900 / rows), tallest);
  grid.step_y = std::max(4.0, grid.step_y);
  if (matrix.square) grid.step_x = grid.step_y = std::min(grid.step_x, kLargestSquare);
  grid.box = {left, top, left + grid.step_x * columns, top + grid.step_y * rows};
  grid.names = plan_columns(matrix.columns, left, grid.step_x);
  return grid;
}

// Names on both sides and titles; returns the height of the whole.
double draw_grid_names(Canvas& canvas, const Matrix& matrix, const Grid& grid) {
  const size_t every = static_cast<size_t>(std::ceil(13 / grid.step_y));
  for (size_t row = 0; row < matrix.rows.size(); row += every)
    canvas.text(grid.box.left - 10, grid.y(row) + 4, Anchor::kEnd,
                fit_name(grid.rows[row], grid.box.left), "soft");
  canvas.text(0, grid.box.top - 10, Anchor::kStart, matrix.row_title, "title");
  draw_columns(canvas, grid.names, grid.box.left, grid.step_x, grid.box.bottom);
  const double title = grid.box.bottom + grid.names.height + 18;
  canvas.text((grid.box.left + grid.box.right) / 2, title, Anchor::kMiddle, matrix.column_title,
              "title");
  return title + 8;
}

bool has_value(const Matrix& matrix) {
  for (size_t r = 0; r < matrix.rows.size(); ++r)
    for (size_t c = 0; c < matrix.columns.size(); ++c)
      if (std::isfinite(cell_value(matrix, r, c))) return true;
  return false;
}

bool is_full(const Matrix& matrix) {
  for (size_t r = 0; r < matrix.rows.size(); ++r)
    for (size_t c = 0; c < matrix.columns.size(); ++c)
      if (!std::isfinite(cell_value(matrix, r, c))) return false;
  return true;
}

void range_of(const Matrix& matrix, double& low, double& high) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (size_t r = 0; r < matrix.rows.size(); ++r) {
    for (size_t c = 0; c < matrix.columns.size(); ++c) {
      const double value = cell_value(matrix, r, c);
      if (std::isfinite(value)) least = std::min(least, value), most = std::max(most, value);
    }
  }
  if (!std::isfinite(low)) low = least;
  if (!std::isfinite(high)) high = most;
}

double share_of(const HeatRange& range, double value) {
  const double length = range.high > range.low ? range.high - range.low : 1;
  return std::pow(std::clamp((value - range.low) / length, 0.0, 1.0), range.power);
}

double opacity(double part) { return 0.04 + 0.96 * part; }

// Many cells: one pixel each.
void draw_heat_picture(Canvas& canvas, const Matrix& matrix, const Grid& grid,
                       const HeatRange& range) {
  Picture picture{static_cast<uint32_t>(matrix.columns.size()),
                  static_cast<uint32_t>(matrix.rows.size()),
                  4,
                  {}};
  for (size_t row = 0; row < matrix.rows.size(); ++row) {
    for (size_t column = 0; column < matrix.columns.size(); ++column) {
      const double value = cell_value(matrix, row, column);
      const double alpha = std::isfinite(value) ? opacity(share_of(range, value)) : 0;
      picture.pixels.insert(picture.pixels.end(), {kPicture[0], kPicture[1], kPicture[2],
                                                   static_cast<uint8_t>(std::lround(alpha * 255))});
    }
  }
  canvas.image(grid.box, png_data_uri(picture));
}

std::string strength(double part) { return fmt::format("fill-opacity:{:.2f}", opacity(part)); }

bool is_picture(const Matrix& matrix) {
  return matrix.rows.size() * matrix.columns.size() > matrix.tooltips;
}

// The two ends of a scale in words that differ: similarities may all lie between 0.9998 and 1. An
// end that is nothing beside the other is 0: nobody sees the 1.96×10⁻²⁴ of a scale up to 1.
std::pair<std::string, std::string> ends_text(Quantity quantity, const HeatRange& range) {
  const double most = std::max(std::abs(range.low), std::abs(range.high));
  const double length = range.high - range.low;
  const auto text = [&](double value) {
    return value_text(quantity, std::abs(value) < 0.001 * most ? 0 : value);
  };
  if (!(length > 0) || length > 0.01 * most) return {text(range.low), text(range.high)};
  const int digits = 1 + static_cast<int>(std::ceil(std::log10(most / length)));
  const auto fine = [&](double value) {
    return most < 1e-4 || most >= 1e7 ? power_text(value, digits - 1)
                                      : fmt::format("{:.{}g}", value, digits);
  };
  return {fine(range.low), fine(range.high)};
}

void draw_heat_scale(Canvas& canvas, const Matrix& matrix, const HeatRange& range) {
  const auto [low, high] = ends_text(matrix.quantity, range);
  const double right = matrix.width - 4 - text_width(high) - 8;
  constexpr int kSteps = 24;
  const double step = std::clamp((right - text_width(low) - 12) / kSteps, 2.0, 8.0);
  const auto fill =
      is_picture(matrix) ? fmt::format("fill:rgb({});", fmt::join(kPicture, ",")) : std::string();
  for (int i = 0; i < kSteps; ++i) {
    const double x = right - (kSteps - i) * step;
    canvas.rect({x, 2, x + step + 0.2, 14}, "cell",
                fill + strength(std::pow(i / (kSteps - 1.0), range.power)));
  }
  canvas.text(right - kSteps * step - 8, 12, Anchor::kEnd, low, "soft");
  canvas.text(right + 8, 12, Anchor::kStart, high, "soft");
}

// Inside a cell only digits fit; the scale and the tooltip carry the unit.
std::string cell_text(Quantity quantity, double value, double most) {
  if (quantity == Quantity::kFraction) return fmt::format("{:.0f}", value * 100);
  if (quantity == Quantity::kCount) return fmt::format("{:.0f}", value);
  if (std::abs(value) < 0.005 * most) return "0";
  const bool fits = most >= 0.001 && most < 1000;
  return !fits ? "" : most >= 10 ? fmt::format("{:.0f}", value) : fmt::format("{:.2g}", value);
}

void draw_heat_cells(Canvas& canvas, const Matrix& matrix, const Grid& grid,
                     const HeatRange& range) {
  const bool readable = grid.step_x >= 30 && grid.step_y >= 16;
  const double gap = std::min(grid.step_x, grid.step_y) > 8 ? 0.75 : 0;
  const double most = std::max(std::abs(range.low), std::abs(range.high));
  for (size_t row = 0; row < matrix.rows.size(); ++row) {
    for (size_t column = 0; column < matrix.columns.size(); ++column) {
      const double value = cell_value(matrix, row, column);
      if (!std::isfinite(value)) continue;
      const double part = share_of(range, value);
      const double x = grid.x(column), y = grid.y(row);
      const double half_x = grid.step_x / 2 - gap, half_y = grid.step_y / 2 - gap;
      canvas.rect({x - half_x, y - half_y, x + half_x, y + half_y}, "cell", strength(part),
                  cell_tooltip(matrix, row, column));
      if (readable)
        canvas.text(x, y + 4, Anchor::kMiddle, cell_text(matrix.quantity, value, most),
                    part > 0.68 ? "on" : "", "pointer-events:none");
    }
  }
}

// Discs by area.
struct DiscScale {
  double largest, high;  // radius and value
  double radius(double value) const {
    return std::max(0.8, largest * std::sqrt(value / std::max(high, 1e-300)));
  }
};

DiscScale draw_bubbles(Canvas& canvas, const BubbleDocument& chart) {
  const auto& matrix = chart.matrix;
  double low = 0, high = std::numeric_limits<double>::quiet_NaN();
  range_of(matrix, low, high);
  const auto grid = plan_grid(matrix, 30, 30);
  for (size_t row = 0; row < matrix.rows.size(); ++row)
    canvas.line(grid.box.left, grid.y(row), grid.box.right, grid.y(row), "grid");
  const DiscScale scale{0.48 * std::min(grid.step_x, grid.step_y), high};
  for (size_t row = 0; row < matrix.rows.size(); ++row) {
    for (size_t column = 0; column < matrix.columns.size(); ++column) {
      const double value = cell_value(matrix, row, column);
      if (!std::isfinite(value) || value <= 0) continue;
      canvas.circle(grid.x(column), grid.y(row), scale.radius(value), "bubble",
                    column < chart.colours.size() ? "fill:" + colour(chart.colours[column]) : "",
                    chart.tooltip(row, column));
    }
  }
  canvas.set_height(draw_grid_names(canvas, matrix, grid));
  return scale;
}

// Below the chart: the largest disc, one of a quarter of its value, and the groups.
void draw_size_legend(Canvas& canvas, const BubbleDocument& chart, const DiscScale& scale) {
  const double y = canvas.height() + 16, room = 2 * scale.largest + 6;
  double x = 0;
  for (const double value : {scale.high, std::max(1.0, std::floor(scale.high / 4))}) {
    const auto text = fmt::format("{} {}", value_text(chart.matrix.quantity, value), chart.unit);
    canvas.circle(x + scale.largest, y, scale.radius(value), "bubble", "fill:" + colour(0));
    canvas.text(x + room, y + 4, Anchor::kStart, text, "soft");
    x += room + text_width(text) + 16;
  }
  std::vector<LegendItem> items;
  for (const auto& group : chart.groups)
    items.push_back({group.name, group.colour, LegendItem::Kind::kDot});
  const double groups = draw_legend(canvas, items, x, y - 8, canvas.width());
  canvas.set_height(y + std::max(scale.largest, groups) + 4);
}

}  // namespace

std::string stacked_bars(const StackedBars& chart) {
  std::vector<double> totals(chart.columns.size(), 0);
  for (const auto& part : chart.parts)
    for (size_t i = 0; i < totals.size(); ++i)
      if (const double v = at(part.values, i); std::isfinite(v) && v > 0) totals[i] += v;
  if (totals.empty() || chart.parts.empty()) return note(kNoValues);

  Canvas canvas(chart.width, chart.height);
  std::vector<LegendItem> items;
  for (const auto& part : chart.parts)
    items.push_back({part.name, part.colour, LegendItem::Kind::kBar});
  const double legend = draw_legend(canvas, items, std::max(chart.left, 110.0), 0, chart.width);
  Box box{chart.left, legend + 8, chart.width - 4, chart.height};
  const double most = *std::max_element(totals.begin(), totals.end());
  const double step_guess = (box.right - box.left) / static_cast<double>(totals.size());
  const auto names = chart.column_names
                         ? plan_columns(chart.columns, std::max(box.left, 30.0), step_guess)
                         : ColumnNames{};
  box.bottom -= names.height + (chart.column_title.empty() ? 4 : 26);
  const AxisMap y(chart.value, 0, most, box.bottom, box.top,
                  std::max(2, static_cast<int>((box.bottom - box.top) / 40)));
  if (box.left <= 0) box.left = tick_margin(y);
  const double step = (box.right - box.left) / static_cast<double>(totals.size());
  for (const auto& tick : y.ticks()) {
    canvas.line(box.left, y(tick.value), box.right, y(tick.value), "grid");
    canvas.text(box.left - 8, y(tick.value) + 4, Anchor::kEnd, tick.text, "soft");
  }
  canvas.text(0, 12, Anchor::kStart, y.title(), "title");
  std::vector<double> base(totals.size(), 0);
  const double half = std::min(step * 0.4, 26.0);
  for (const auto& part : chart.parts) {
    for (size_t i = 0; i < totals.size(); ++i) {
      const double value = at(part.values, i);
      if (!std::isfinite(value) || value <= 0) continue;
      const double x = box.left + (static_cast<double>(i) + 0.5) * step;
      canvas.rect({x - half, y(base[i] + value), x + half, y(base[i])}, "",
                  "fill:" + colour(part.colour),
                  fmt::format("{}, {}: {}", chart.columns[i], part.name,
                              value_text(chart.value.quantity, value)));
      base[i] += value;
    }
  }
  draw_columns(canvas, names, box.left, step, box.bottom);
  canvas.text((box.left + box.right) / 2, box.bottom + names.height + 18, Anchor::kMiddle,
              chart.column_title, "title");
  return canvas.finish(chart.label);
}

std::string bubble_matrix(const Matrix& matrix) {
  if (!has_value(matrix)) return note(kNoValues);
  Canvas canvas(matrix.width, 0);
  draw_bubbles(canvas, {.matrix = matrix, .tooltip = [&](size_t row, size_t column) {
                          return cell_tooltip(matrix, row, column);
                        }});
  return canvas.finish(matrix.label);
}

std::string bubble_document(const BubbleDocument& chart) {
  Canvas canvas(chart.matrix.width, 60);
  if (has_value(chart.matrix))
    draw_size_legend(canvas, chart, draw_bubbles(canvas, chart));
  else
    canvas.text(canvas.width() / 2, 30, Anchor::kMiddle, "no samples", "soft");
  return canvas.document(chart.heading);
}

std::string heat_map(const Matrix& matrix, HeatRange range) {
  if (!has_value(matrix)) return note(kNoValues);
  range_of(matrix, range.low, range.high);
  if (negligible(range.high - range.low, range.low, range.high))
    return note(value_text(matrix.quantity, range.low) +
                (is_full(matrix) ? " in every cell" : " in every cell that has a value"));
  Canvas canvas(matrix.width, 0);
  const auto grid = plan_grid(matrix, 34, 34);
  draw_heat_scale(canvas, matrix, range);
  if (is_picture(matrix))
    draw_heat_picture(canvas, matrix, grid, range);
  else
    draw_heat_cells(canvas, matrix, grid, range);
  canvas.set_height(draw_grid_names(canvas, matrix, grid));
  return canvas.finish(matrix.label);
}

}  // namespace tessera::svg
