#include "data/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera {
namespace {

constexpr size_t kTerminalRows = 40, kNameColumns = 24;
constexpr size_t kSvgClients = 120, kSvgClasses = 100, kSvgName = 20;
constexpr std::array kBlocks{"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct Row {
  std::string name;
  bool newcomer;
  std::vector<int64_t> train, test;  // by class
  int64_t train_total, test_total;
};

// File and station names come from outside: no control characters on a terminal or in XML.
std::string printable(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string shortened(const std::string& text, size_t limit) {
  if (columns(text) <= limit) return text;
  std::string out;
  size_t used = 0;
  for (const char c : text) {
    if (starts_character(c) && ++used == limit) break;
    out += c;
  }
  return out + "…";
}

std::vector<Row> rows_of(const Federation& federation) {
  std::vector<Row> rows;
  for (const auto* group : {&federation.clients, &federation.newcomers})
    for (const auto& client : *group)
      rows.push_back({printable(client.name), group == &federation.newcomers,
                      client.class_counts(Part::kTrain), client.class_counts(Part::kTest),
                      client.train_size(), client.size(Part::kTest)});
  return rows;
}

// Shares of `group` neighbouring classes each, of the client's training samples.
std::vector<double> shares(const Row& row, size_t group) {
  std::vector<double> out((row.train.size() + group - 1) / group);
  for (size_t c = 0; c < row.train.size(); ++c)
    out[c / group] += static_cast<double>(row.train[c]) /
                      static_cast<double>(std::max<int64_t>(1, row.train_total));
  return out;
}

std::string blocks(const std::vector<double>& values, double full, size_t cell) {
  std::string out;
  for (const double value : values) {
    const auto height = std::clamp(static_cast<int>(std::ceil(8.0 * value / full - 1e-9)), 0, 8);
    for (size_t i = 0; i < std::max<size_t>(1, cell - 1); ++i)
      out += kBlocks[static_cast<size_t>(height)];
    if (cell > 1) out += ' ';
  }
  if (cell > 1 && !out.empty()) out.pop_back();
  return out;
}

}  // namespace

std::string draw_terminal(const Federation& federation, int width) {
  const auto rows = rows_of(federation);
  const size_t shown = std::min(rows.size(), kTerminalRows);
  size_t name_width = 6;
  for (size_t k = 0; k < shown; ++k)
    name_width = std::max(name_width, std::min(kNameColumns, columns(rows[k].name)));
  const size_t left = name_width + 18;
  const auto classes = static_cast<size_t>(federation.classes);
  const auto wide = static_cast<size_t>(std::max(0, width));
  const size_t room = std::max<size_t>(10, wide - std::min(left, wide));
  const size_t group = (classes + room - 1) / room;
  const size_t cell = std::clamp<size_t>(room / ((classes + group - 1) / group), 1, 4);
  double full = 1e-9;
  for (size_t k = 0; k < shown; ++k)
    for (const double share : shares(rows[k], group)) full = std::max(full, share);

  std::string out = fmt::format("{:<{}}{:>8}{:>7}  {}\n", "client", name_width, "train", "test",
                                group == 1 ? fmt::format("classes 0 … {}", classes - 1)
                                           : fmt::format("{} classes, {} a block", classes, group));
  for (size_t k = 0; k < shown; ++k) {
    const auto name = shortened(rows[k].name, kNameColumns);
    out += fmt::format("{}{}{:>8}{:>7}  {}{}\n", name, std::string(name_width - columns(name), ' '),
                       rows[k].train_total, rows[k].test_total,
                       blocks(shares(rows[k], group), full, cell),
                       rows[k].newcomer ? " newcomer" : "");
  }
  if (rows.size() > shown) out += fmt::format("… and {} more\n", rows.size() - shown);
  return out + fmt::format("█ = {:.0f} % of a client's training samples, · = none\n", 100 * full);
}

namespace {

constexpr std::string_view kSvgStyle =
    "<style>.t{fill:#1a2230;font:12px system-ui,sans-serif}.s{fill:#5a6475;font:11px "
    "system-ui,sans-serif}.g{stroke:#e3e7ee}.c{fill:#0072b2}.n{fill:#d55e00}.p{fill:#fff}"
    "@media(prefers-color-scheme:dark){.t{fill:#e9edf4}.s{fill:#a3adbd}.g{stroke:#2a3342}"
    ".c{fill:#56b4f0}.n{fill:#ff8a3d}.p{fill:#181e28}}</style>\n";

struct Frame {
  double left, top, step, row;  // pixels: of a client along, of a class up
  size_t clients, classes;
  int64_t most;   // samples of the largest bubble
  double labels;  // height of the clients' names below the plot

  double x(size_t client) const { return left + (static_cast<double>(client) + 0.5) * step; }
  double y(size_t c) const { return top + (static_cast<double>(classes - c) - 0.5) * row; }
  double right() const { return left + static_cast<double>(clients) * step; }
  double bottom() const { return top + static_cast<double>(classes) * row; }
  double radius(int64_t n) const {
    const double largest = 0.48 * std::min(step, row);
    return largest * std::sqrt(static_cast<double>(n) / static_cast<double>(most));
  }
};

std::string axes(const Federation& federation, const std::vector<Row>& rows, const Frame& frame) {
  std::string out;
  const size_t every_class = frame.row < 11 ? 5 : 1;
  for (size_t c = 0; c < frame.classes; ++c) {
    out +=
        fmt::format("<line class=\"g\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                    frame.left, frame.right(), frame.y(c), frame.y(c));
    if (c % every_class == 0)
      out += fmt::format(
          "<text class=\"s\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          frame.left - 6, frame.y(c) + 4, escaped(shortened(federation.class_names[c], 14)));
  }
  const size_t every_client = frame.step < 13 ? 5 : 1;
  for (size_t k = 0; k < frame.clients; k += every_client)
    out += fmt::format(
        "<text class=\"s\" text-anchor=\"end\" transform=\"translate({:.1f} {:.1f}) "
        "rotate(-60)\">{}</text>\n",
        frame.x(k) + 4, frame.bottom() + 12, escaped(shortened(rows[k].name, kSvgName)));
  return out;
}

std::string bubbles(const Federation& federation, const std::vector<Row>& rows,
                    const Frame& frame) {
  std::string out;
  for (size_t k = 0; k < frame.clients; ++k) {
    for (size_t c = 0; c < frame.classes; ++c) {
      if (rows[k].train[c] == 0) continue;
      out += fmt::format(
          "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.2f}\"><title>client "
          "{}, class {}: {} to train on, {} to test</title></circle>\n",
          rows[k].newcomer ? "n" : "c", frame.x(k), frame.y(c), frame.radius(rows[k].train[c]),
          escaped(rows[k].name), escaped(federation.class_names[c]), rows[k].train[c],
          rows[k].test[c]);
    }
  }
  return out;
}

std::string legend(const Federation& federation, const Frame& frame) {
  double x = frame.left + 10;
  const double y = frame.bottom() + frame.labels + 46;
  std::string out;
  const auto label = [&](const std::string& text) {
    out += fmt::format("<text class=\"s\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y + 4, text);
    x += 7.0 * static_cast<double>(columns(text)) + 14;
  };
  for (const int64_t n : {frame.most, std::max<int64_t>(1, frame.most / 4)}) {
    out += fmt::format("<circle class=\"c\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.2f}\"/>\n", x, y,
                       frame.radius(n));
    x += frame.radius(frame.most) + 6;
    label(fmt::format("{} samples", n));
  }
  if (federation.newcomers.empty()) return out;
  out += fmt::format("<circle class=\"n\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", x, y);
  x += 11;
  label("newcomer");
  return out;
}

}  // namespace

std::string draw_svg(const Federation& federation) {
  const auto rows = rows_of(federation);
  const auto classes = static_cast<size_t>(federation.classes);
  Frame frame{118, 44, 0, 0, std::min(rows.size(), kSvgClients), std::min(classes, kSvgClasses),
              1,   0};
  frame.step = frame.clients > 60 ? 10 : frame.clients > 30 ? 16 : 26;
  frame.row = frame.classes > 40 ? 10 : 26;
  for (size_t k = 0; k < frame.clients; ++k) {
    // Turned by 60 degrees, a character of about 6.5 pixels is 5.7 high.
    const auto name = static_cast<double>(std::min(kSvgName, columns(rows[k].name)));
    frame.labels = std::max(frame.labels, 16 + 5.7 * name);
  }
  for (size_t k = 0; k < frame.clients; ++k)
    for (size_t c = 0; c < frame.classes; ++c) frame.most = std::max(frame.most, rows[k].train[c]);

  const double width = std::max(420.0, frame.right() + 24),
               height = frame.bottom() + frame.labels + 70;
  std::string more;
  if (rows.size() > frame.clients) more = fmt::format(", the first {} shown", frame.clients);
  if (classes > frame.classes) more += fmt::format(", the first {} classes", frame.classes);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
             "width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\">\n",
             width, height, width, height) +
         std::string(kSvgStyle) + "<rect class=\"p\" width=\"100%\" height=\"100%\"/>\n" +
         fmt::format(
             "<text class=\"t\" x=\"{:.0f}\" y=\"24\">{}: training samples by client and "
             "class, {} clients{}</text>\n",
             frame.left, escaped(federation.set), rows.size(), more) +
         axes(federation, rows, frame) + bubbles(federation, rows, frame) +
         fmt::format(
             "<text class=\"t\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">client</text>\n",
             (frame.left + frame.right()) / 2, frame.bottom() + frame.labels + 20) +
         fmt::format(
             "<text class=\"t\" text-anchor=\"middle\" transform=\"translate(16 {:.1f}) "
             "rotate(-90)\">class</text>\n",
             (frame.top + frame.bottom()) / 2) +
         legend(federation, frame) + "</svg>\n";
}

}  // namespace tessera
