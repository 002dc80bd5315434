// What the charts are drawn with; not for use outside report/svg_*.cpp and their tests.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.hpp"

namespace tessera::svg {

/// Which end of a text stands at its x.
enum class Anchor { kStart, kMiddle, kEnd };

/// A pixel coordinate with at most one decimal; never "nan", "inf" or "-0": what is not finite is
/// "0".
std::string px(double value);
/// "var(--s3)"; colours beyond the palette start again.
std::string colour(int index);
/// True for series that share their colour with an earlier one and are told apart by dashes.
bool second_turn(int index);
/// Width of a text at 12 px, estimated from above.
double text_width(std::string_view text);

/// Pixels; y grows downwards.
struct Box {
  double left, top, right, bottom;
};

/// Collects elements in drawing order; coordinates are made finite, texts and tooltips escaped.
/// `css` (classes of style.hpp) and `style` are written as they are: only for constants and colours
/// of ours. An empty tooltip is none. Not thread-safe.
class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  void line(double x1, double y1, double x2, double y2, std::string_view css,
            const std::string& style = "");
  /// (x, y) is the foot of the text. Empty content draws nothing.
  void text(double x, double y, Anchor anchor, std::string_view content, std::string_view css = "",
            const std::string& style = "");
  /// Ends at (x, y), rising from the lower left.
  void slanted_text(double x, double y, std::string_view content, std::string_view css = "");
  /// Turned by `degrees` (clockwise) about its anchor.
  void turned_text(double x, double y, double degrees, Anchor anchor, std::string_view content,
                   std::string_view css = "");
  /// `uri`: a picture as a data URI, stretched to the box.
  void image(const Box& box, const std::string& uri, std::string_view tooltip = "");
  void circle(double x, double y, double radius, std::string_view css, const std::string& style,
              std::string_view tooltip = "");
  void rect(const Box& box, std::string_view css, const std::string& style,
            std::string_view tooltip = "");
  /// `d` in SVG's path language, made of px() coordinates.
  void path(const std::string& d, std::string_view css, const std::string& style);

  double width() const { return width_; }
  double height() const { return height_; }
  /// For charts whose height is known only after drawing.
  void set_height(double height) { height_ = height; }
  /// The whole <svg> for a page, with `label` for screen readers. May be called again.
  std::string finish(std::string_view label) const;
  /// The same as a file of its own: with a heading above and the colours of the page.
  std::string document(std::string_view heading) const;

 private:
  double width_, height_;
  std::string out_;
};

/// A sample of how something is drawn, and its name (shortened to 40 columns).
struct LegendItem {
  enum class Kind { kLine, kDashed, kDot, kRing, kBar };
  std::string name;
  int colour = 0;
  Kind kind = Kind::kLine;
};
/// Draws from (left, top) rightwards, wrapping at `right`; returns the height used, 0 without
/// items.
double draw_legend(Canvas& canvas, const std::vector<LegendItem>& items, double left, double top,
                   double right);

/// Grid, ticks and title of an axis around a box. The title of y stands above the box; that of x
/// and the ticks need some 40 pixels below it. Tick texts that would touch are left out.
void draw_x_axis(Canvas& canvas, const AxisMap& map, const Box& box);
void draw_y_axis(Canvas& canvas, const AxisMap& map, const Box& box);
/// The left margin that an axis' tick texts need.
double tick_margin(const AxisMap& map);

/// Moves positions apart to at least `gap`, each as little as possible (least squares), keeping
/// their order and staying in [low, high] as far as they fit. Results stand where the inputs stood.
std::vector<double> spread(std::vector<double> positions, double gap, double low, double high);

/// Names under columns: shortened, thinned out and slanted as the room demands.
struct ColumnNames {
  std::vector<std::string> texts;
  bool slanted = false;
  size_t every = 1;  // only each every-th is drawn
  double height = 0;
};
/// `step`: pixels from one column to the next, above 0; `left`: where the first column begins, for
/// slanted names reach to the left. `height` is what the names will need below.
ColumnNames plan_columns(const std::vector<std::string>& names, double left, double step);
/// Column i has its centre at left + (i + 0.5) · step.
void draw_columns(Canvas& canvas, const ColumnNames& names, double left, double step, double top);
/// Names without the words they all begin with: "client 7" → "7" where all are "client …".
std::vector<std::string> short_names(const std::vector<std::string>& names);

/// A name cut to the room that name_margin() left for it.
std::string fit_name(std::string_view name, double margin);
/// From the smallest to the largest of some values; low > high without any.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value);  // what is not finite is left out
  double length() const { return high - low; }
  double middle() const { return low + length() / 2; }
  /// One value, but for rounding.
  bool constant() const { return low <= high && negligible(length(), low, high); }
};

inline constexpr std::string_view kNoValues = "no values yet";

}  // namespace tessera::svg
