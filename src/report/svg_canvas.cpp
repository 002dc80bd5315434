#include "report/svg_canvas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <regex>

#include "report/html.hpp"
#include "report/style.hpp"

namespace tessera::svg {
namespace {

constexpr double kCharWidth = 6.7;  // of a wide sans serif at 12 px, on average
constexpr double kNameWidth = 1.08 * kCharWidth, kNameRoom = 16;  // of row names, and beside them
constexpr size_t kRowLetters = 24, kColumnLetters = 18;
constexpr double kSlant = 0.72;  // of a text's width is what it takes to the left and below at 45°
constexpr double kLegendRow = 20;

std::string attributes(std::string_view css, const std::string& style) {
  std::string out;
  if (!css.empty()) out += fmt::format(" class=\"{}\"", css);
  if (!style.empty()) out += fmt::format(" style=\"{}\"", style);
  return out;
}

std::string close_with(std::string_view tag, std::string_view tooltip) {
  if (tooltip.empty()) return "/>";
  return fmt::format("><title>{}</title></{}>", escape(tooltip), tag);
}

const char* anchor_name(Anchor anchor) {
  return anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
}

// "fill:var(--ink)" → "fill:#1a2230;fill:var(--ink)": programs that know no variables of CSS drop
// the second and draw with the light page's colours.
std::string with_plain_colours(std::string_view text) {
  static const std::regex use(R"re(([a-z-]+):var\((--\w+)\))re");
  std::string out;
  std::cregex_iterator it(text.data(), text.data() + text.size(), use), end;
  const char* from = text.data();
  for (; it != end; ++it) {
    const auto& found = *it;
    const auto name = found.str(2) + ":";
    const auto at = kPalette.find(name) + name.size();  // the light page comes first
    const auto value = kPalette.substr(at, kPalette.find_first_of(";}", at) - at);
    out.append(from, found[0].first);
    out += fmt::format("{}:{};{}", found.str(1), value, found.str(0));
    from = found[0].second;
  }
  return out.append(from, text.data() + text.size());
}

bool ends_word(char c) { return c == ' ' || c == '-' || c == '_' || c == '/' || c == '.'; }

}  // namespace

std::string px(double value) {
  if (!std::isfinite(value)) return "0";
  const double rounded = std::round(value * 10) / 10;
  return fmt::format("{:g}", std::abs(rounded) < 0.05 ? 0.0 : std::clamp(rounded, -1e5, 1e5));
}

std::string colour(int index) { return fmt::format("var(--s{})", index % kSeriesColours); }
bool second_turn(int index) { return index / kSeriesColours % 2 == 1; }

double text_width(std::string_view text) {
  return static_cast<double>(columns_of(text)) * kCharWidth;
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view css,
                  const std::string& style) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", px(x1), px(y1), px(x2),
                      px(y2), attributes(css, style));
}

void Canvas::text(double x, double y, Anchor anchor, std::string_view content, std::string_view css,
                  const std::string& style) {
  if (content.empty()) return;
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", px(x), px(y),
                      anchor_name(anchor), attributes(css, style), escape(content));
}

void Canvas::slanted_text(double x, double y, std::string_view content, std::string_view css) {
  out_ += fmt::format(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"end\" transform=\"rotate(-45 {0} {1})\"{2}>{3}"
      "</text>\n",
      px(x), px(y), attributes(css, ""), escape(content));
}

void Canvas::turned_text(double x, double y, double degrees, Anchor anchor,
                         std::string_view content, std::string_view css) {
  out_ += fmt::format(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"{2}\" transform=\"rotate({3} {0} {1})\"{4}>{5}"
      "</text>\n",
      px(x), px(y), anchor_name(anchor), px(degrees), attributes(css, ""), escape(content));
}

void Canvas::image(const Box& box, const std::string& uri, std::string_view tooltip) {
  out_ += fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
      "href=\"{}\"{}\n",
      px(box.left), px(box.top), px(box.right - box.left), px(box.bottom - box.top), uri,
      close_with("image", tooltip));
}

void Canvas::circle(double x, double y, double radius, std::string_view css,
                    const std::string& style, std::string_view tooltip) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}{}\n", px(x), px(y), px(radius),
                      attributes(css, style), close_with("circle", tooltip));
}

void Canvas::rect(const Box& box, std::string_view css, const std::string& style,
                  std::string_view tooltip) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}\n", px(box.left),
                      px(box.top), px(std::max(0.0, box.right - box.left)),
                      px(std::max(0.0, box.bottom - box.top)), attributes(css, style),
                      close_with("rect", tooltip));
}

void Canvas::path(const std::string& d, std::string_view css, const std::string& style) {
  out_ += fmt::format("<path d=\"{}\"{}/>\n", d, attributes(css, style));
}

std::string Canvas::finish(std::string_view label) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\"{}>\n{}</svg>\n",
      px(width_), px(height_), escape(label), width_ > 600 ? " class=\"wide\"" : "", out_);
}

std::string Canvas::document(std::string_view heading) const {
  constexpr double kMargin = 16, kHeading = 44, kBold = 1.1;
  const double width = std::max(width_, kBold * text_width(heading));
  const auto text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{0} {1} {2} {3}\" width=\"{2}\" "
      "height=\"{3}\" role=\"img\" aria-label=\"{4}\">\n<style>{5}{6}svg{{font-family:system-ui,"
      "sans-serif}}svg .paper{{fill:var(--card)}}</style>\n"
      "<rect class=\"paper\" x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\"/>\n"
      "<text x=\"0\" y=\"-18\" class=\"strong\">{4}</text>\n{7}</svg>\n",
      px(-kMargin), px(-kHeading), px(width + 2 * kMargin), px(height_ + kHeading + kMargin),
      escape(heading), kPalette, kChartStyle, out_);
  return with_plain_colours(text);
}

double draw_legend(Canvas& canvas, const std::vector<LegendItem>& items, double left, double top,
                   double right) {
  if (items.empty()) return 0;
  double x = left, y = top + 12;
  for (const auto& item : items) {
    const auto name = shorten(item.name, 40);
    const double width = 26 + text_width(name) + 16;
    if (x > left && x + width - 16 > right) x = left, y += kLegendRow;
    const auto fill = "fill:" + colour(item.colour);
    const auto stroke = "stroke:" + colour(item.colour);
    switch (item.kind) {
      case LegendItem::Kind::kDashed:
        canvas.line(x, y - 4, x + 20, y - 4, "curve", stroke + ";stroke-dasharray:6 4");
        break;
      case LegendItem::Kind::kLine:
        canvas.line(x, y - 4, x + 20, y - 4, "curve", stroke);
        break;
      case LegendItem::Kind::kDot:
        canvas.circle(x + 12, y - 4, 5, "dot", fill);
        break;
      case LegendItem::Kind::kRing:
        canvas.circle(x + 12, y - 4, 4.5, "hole", stroke);
        break;
      case LegendItem::Kind::kBar:
        canvas.rect({x + 6, y - 10, x + 18, y + 2}, "", fill);
        break;
    }
    canvas.text(x + 26, y, Anchor::kStart, name);
    x += width;
  }
  return y - top + kLegendRow - 12 + 4;
}

void draw_x_axis(Canvas& canvas, const AxisMap& map, const Box& box) {
  double last_right = -1e9;
  for (const auto& tick : map.ticks()) {
    const double x = map(tick.value);
    canvas.line(x, box.top, x, box.bottom, "grid");
    const double half = text_width(tick.text) / 2;
    if (x - half < last_right + 6) continue;
    canvas.text(x, box.bottom + 17, Anchor::kMiddle, tick.text, "soft");
    last_right = x + half;
  }
  canvas.line(box.left, box.bottom, box.right, box.bottom, "axis");
  canvas.text((box.left + box.right) / 2, box.bottom + 36, Anchor::kMiddle, map.title(), "title");
}

void draw_y_axis(Canvas& canvas, const AxisMap& map, const Box& box) {
  for (const auto& tick : map.ticks()) {
    const double y = map(tick.value);
    canvas.line(box.left, y, box.right, y, "grid");
    canvas.text(box.left - 8, y + 4, Anchor::kEnd, tick.text, "soft");
  }
  canvas.text(0, box.top - 12, Anchor::kStart, map.title(), "title");
}

double tick_margin(const AxisMap& map) {
  double widest = 0;
  for (const auto& tick : map.ticks()) widest = std::max(widest, text_width(tick.text));
  return widest + 12;
}

std::vector<double> spread(std::vector<double> positions, double gap, double low, double high) {
  std::vector<size_t> order(positions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return positions[a] < positions[b]; });
  // Less i·gap, the task is isotonic regression: neighbours out of order merge at their mean.
  struct Block {
    double sum, count;
    double mean() const { return sum / count; }
  };
  std::vector<Block> blocks;
  for (size_t i = 0; i < order.size(); ++i) {
    blocks.push_back({positions[order[i]] - static_cast<double>(i) * gap, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const auto last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum, blocks.back().count += last.count;
    }
  }
  const double room = std::max(low, high - gap * (static_cast<double>(order.size()) - 1));
  size_t i = 0;
  for (const auto& block : blocks)
    for (double k = 0; k < block.count; ++k, ++i)
      positions[order[i]] = std::clamp(block.mean(), low, room) + static_cast<double>(i) * gap;
  return positions;
}

std::vector<std::string> short_names(const std::vector<std::string>& names) {
  if (names.size() < 2) return names;
  size_t common = names[0].size();
  for (const auto& name : names) {
    size_t same = 0;
    while (same < std::min(common, name.size()) && name[same] == names[0][same]) ++same;
    common = same;
  }
  while (common > 0 && !ends_word(names[0][common - 1])) --common;
  std::vector<std::string> out;
  for (const auto& name : names) {
    if (name.size() == common) return names;
    out.push_back(name.substr(common));
  }
  return out;
}

void Range::add(double value) {
  if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
}

double name_margin(const std::vector<std::string>& names, double width) {
  size_t longest = 0;
  for (const auto& name : names) longest = std::max(longest, columns_of(name));
  const double needed =
      static_cast<double>(std::min(longest, kRowLetters)) * kNameWidth + kNameRoom;
  return std::min(needed, std::max(60.0, width / 4));
}

std::string fit_name(std::string_view name, double margin) {
  const double letters = std::floor((margin - kNameRoom) / kNameWidth + 1e-6);
  return shorten_middle(name, std::min(kRowLetters, static_cast<size_t>(std::max(1.0, letters))));
}

ColumnNames plan_columns(const std::vector<std::string>& names, double left, double step) {
  ColumnNames plan;
  double widest = 0;
  const auto letters =
      static_cast<size_t>(std::max(0.0, (left + step / 2) / (kSlant * kNameWidth)));
  for (const auto& name : short_names(names)) {
    plan.texts.push_back(shorten_middle(name, std::clamp<size_t>(letters, 3, kColumnLetters)));
    widest = std::max(widest, text_width(plan.texts.back()));
  }
  const auto fits = [&](double room) { return static_cast<size_t>(std::ceil(room / step)); };
  plan.slanted = widest > 30 && widest + 6 > step;
  plan.every = std::max<size_t>(1, plan.slanted ? fits(15) : fits(widest + 8));
  plan.height = plan.slanted ? widest * kSlant + 14 : 18;
  return plan;
}

void draw_columns(Canvas& canvas, const ColumnNames& names, double left, double step, double top) {
  for (size_t i = 0; i < names.texts.size(); i += names.every) {
    const double x = left + (static_cast<double>(i) + 0.5) * step;
    if (names.slanted)
      canvas.slanted_text(x + 4, top + 12, names.texts[i], "soft");
    else
      canvas.text(x, top + 15, Anchor::kMiddle, names.texts[i], "soft");
  }
}

}  // namespace tessera::svg
