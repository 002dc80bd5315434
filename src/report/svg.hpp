// Charts as SVG text, drawn by plain functions: values in, markup out.
//
// All names are text and get escaped. Values that are not finite are left out. What a line can say
// (no values, one and the same value everywhere) is a note() in place of a chart. Colours are
// indices into style.hpp's palette (any integer >= 0) and follow the page's light or dark scheme.
// Dots, bars and cells carry a <title> as tooltip. Sizes are pixels of the viewBox; the page scales
// the whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/axis.hpp"

namespace tessera::svg {

/// In the units of the axes. Not finite in x or y: left out, and the line goes on with the next.
struct Point {
  double x, y;
  double low = std::numeric_limits<double>::quiet_NaN();  // band; both ends or none
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// A curve or a cloud of points with one colour and one name.
struct Series {
  std::string name;
  int colour = 0;
  std::vector<Point> points;  // in drawing order
  bool line = true;           // false: a scatter
  bool step = false;          // hold a value until the next x
  bool dashed = false;
  bool dots = true;  // draw the points themselves (left out when they would touch)
};

/// A vertical line at x with a word on top.
struct Mark {
  double x;
  std::string text;
};

/// Curves, steps or scatter with optional bands.
struct LineChart {
  std::string label;  // what a screen reader says
  Axis x, y;
  std::vector<Series> series;
  std::vector<Mark> marks;
  std::string empty = "no values yet";  // said in place of a chart without values
  bool direct_labels = true;  // names at the ends of the lines; false or too many: a legend on top
  double width = 1040, height = 380;
};
/// All charts: pure functions, thread-safe, and the result is one whole <svg> element for a page,
/// or a note.
std::string line_chart(const LineChart& chart);
/// What line_chart() says instead of drawing: "always 0.500 (round 1 to 9)" where every series
/// keeps its value, "most 3, fewest 2 (round 9)" where there is one x only. Empty: worth a chart.
std::string in_words(const LineChart& chart);

/// A value before and after, for each of many: rows with names up to 32, beyond that thin columns
/// with every so-many-th name.
struct Pair {
  std::string name;
  double before, after;  // either may be absent
};
/// Pairs without either end are left out. A link has the colour of `before` where the value fell.
struct DumbbellChart {
  std::string label;
  Axis value;
  std::string before_name, after_name, item_title;  // "before", "after", "Client"
  std::vector<Pair> pairs;                          // in drawing order
  int before_colour = 0, after_colour = 1;
  double width = 1040;
};
std::string dumbbell_chart(const DumbbellChart& chart);

/// Rows of single values (dots that avoid each other) with their centre and spread.
struct Sample {
  std::string name;
  double value;
};
struct StripRow {
  std::string name;
  int colour = 0;
  std::vector<Sample> samples;
  double centre = std::numeric_limits<double>::quiet_NaN();
  double spread = std::numeric_limits<double>::quiet_NaN();  // drawn as centre ± spread
};
/// Rows from top to bottom. Centre and spread are given, not computed: NaN draws none.
struct StripChart {
  std::string label;
  Axis value;
  std::vector<StripRow> rows;
  double width = 1040, row_height = 34;
};
std::string strip_chart(const StripChart& chart);

/// A bar for each column, made of parts. Parts are stacked in their order; a value that is missing,
/// not finite or not above 0 adds nothing.
struct StackedBars {
  std::string label;
  Axis value;
  std::string column_title;
  std::vector<std::string> columns;
  struct Part {
    std::string name;
    int colour = 0;
    std::vector<double> values;  // one a column, >= 0
  };
  std::vector<Part> parts;
  bool column_names = true;                     // false where a chart below has the same columns
  double width = 1040, height = 200, left = 0;  // left margin; 0 = as the ticks need
};
std::string stacked_bars(const StackedBars& chart);

/// Something with a place in a chart and a group that gives it its colour.
struct Dot {
  std::string name, tooltip;
  int colour = 0;  // beyond the palette: a ring in place of a disc
};
/// A line of the legend.
struct DotGroup {
  std::string name;
  int colour = 0;
};

/// Rows × columns; values[row][column], short rows are filled with "absent".
struct Matrix {
  std::string label;
  /// The first row is on top. `left` is the margin for row names; 0: as they need.
  std::string row_title, column_title;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;
  Quantity quantity = Quantity::kNumber;
  double width = 1040, left = 0;
  bool square = false;  // cells as high as wide
  bool short_rows =
      false;  // row names without the words they all begin with, as columns always are
  size_t tooltips = std::numeric_limits<size_t>::max();  // more cells are one picture without any
};
/// Discs whose area is the value (>= 0); the largest fills its cell.
std::string bubble_matrix(const Matrix& matrix);
/// The same as a file of its own: a heading, a legend of sizes and, where given, of colours.
struct BubbleDocument {
  Matrix matrix;
  std::string heading, unit;     // unit: "samples"
  std::vector<int> colours;      // one a column
  std::vector<DotGroup> groups;  // what the colours mean
  std::function<std::string(size_t row, size_t column)> tooltip;
};
/// `tooltip` must not be empty. Has its own colours and size, so that it opens in any viewer.
std::string bubble_document(const BubbleDocument& chart);
/// Cells from `low` (the page's colour) to `high` (full colour), NaN = from the data, with a scale.
struct HeatRange {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  double power = 1;  // strength = share of the range to this power; 0.5 brings out small counts
};
/// Cells without a value stay empty. A range without length is a note.
std::string heat_map(const Matrix& matrix, HeatRange range = {});

/// Points in the plane with the same scale on both axes; few enough (40) get their names.
struct Scatter {
  std::string label;
  Axis x, y;
  struct Place {
    double x, y;
    Dot dot;
  };
  std::vector<Place> points;
  std::vector<DotGroup> groups;  // the legend
  /// What the axes must hold beside the points, to compare charts; NaN = nothing.
  double low_x = std::numeric_limits<double>::quiet_NaN(), high_x = low_x;
  double low_y = low_x, high_y = low_x;
  double width = 500, height = 440;
};
std::string scatter(const Scatter& chart);

/// Nodes on a circle, clockwise from the top, and who is joined to whom.
struct Graph {
  std::string label;
  std::vector<Dot> nodes;
  /// Indices must be those of nodes; direction is not drawn.
  struct Edge {
    size_t from, to;  // nodes
    double strength;  // 0 … 1: width and opacity
  };
  std::vector<Edge> edges;
  std::vector<DotGroup> groups;
  double width = 520;
};
std::string circle_graph(const Graph& graph);

/// Grey pictures in rows and columns: pixels[row · columns + column], each of height · width
/// values.
struct PictureGrid {
  std::string label;
  std::vector<std::string> rows, columns;
  size_t height = 0, width = 0;             // of each picture, in pixels
  std::vector<std::vector<double>> pixels;  // a picture each, row by row; 0 black … 1 white
  double chart_width = 1040;
};
std::string picture_grid(const PictureGrid& grid);

/// The left margin in pixels for the row names of a chart `width` wide, to line up charts one above
/// the other: what they need, and at most a quarter of the width. Longer names are cut.
double name_margin(const std::vector<std::string>& names, double width);

}  // namespace tessera::svg
