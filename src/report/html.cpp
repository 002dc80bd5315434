#include "report/html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/style.hpp"

namespace tessera {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the valid UTF-8 sequence at the start of text, 0 if there is none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

std::string_view safe_ascii(char c, std::string_view itself) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\t':
    case '\n':
      return itself;
    case '\r':
      return "";  // as HTML parsers do with the \r of \r\n
    default:
      break;
  }
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? kReplacement : itself;
}

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Whether a chart was drawn for the whole width of a page.
bool is_wide(std::string_view svg) { return svg.find(" class=\"wide\"") != std::string_view::npos; }

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    if (length == 0)
      out += kReplacement;
    else if (length == 1)
      out += safe_ascii(text[0], text.substr(0, 1));
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string shorten(std::string_view text, size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  size_t end = 0, seen = 0;
  for (; end < text.size(); ++end)
    if (starts_code_point(text[end]) && seen++ == (columns ? columns - 1 : 0)) break;
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string shorten_middle(std::string_view text, size_t columns) {
  const size_t length = columns_of(text);
  if (length <= columns || columns < 3) return shorten(text, columns);
  const size_t head = columns / 2, tail = columns - 1 - head;
  std::string out;
  size_t seen = 0;
  for (const char c : text) {
    seen += starts_code_point(c);
    if (seen == head + 1 && starts_code_point(c)) out += "…";
    if (seen <= head || seen > length - tail) out += c;
  }
  return out;
}

std::string html_page(std::string_view title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta name=\"generator\" content=\"Tessera\"/>\n<title>{}</title>\n<style>{}{}{}</style>\n"
      "</head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
      escape(title), kPalette, kPageStyle, kChartStyle, body);
}

std::string tile_row(const std::vector<Tile>& tiles) {
  std::string out = "<dl class=\"tiles\">\n";
  for (const auto& tile : tiles)
    out += fmt::format(
        "<div class=\"tile{}\"><dt>{}</dt><dd><span class=\"value\">{}</span>"
        "<span class=\"note\">{}</span></dd></div>\n",
        tile.main ? " main" : "", escape(tile.label), escape(tile.value), escape(tile.note));
  return out + "</dl>\n";
}

std::string note(std::string_view words) {
  return fmt::format("<p class=\"none\">{}</p>\n", escape(words));
}

std::string figure(std::string_view heading, const std::string& svg, std::string_view caption) {
  return fmt::format(
      "<figure>\n<h3>{}</h3>\n<div class=\"plot{}\">{}</div>\n<figcaption>{}</figcaption>\n"
      "</figure>\n",
      escape(heading), is_wide(svg) ? " wide" : "", svg, escape(caption));
}

std::string panels(const std::vector<Panel>& panels) {
  const bool wide =
      std::any_of(panels.begin(), panels.end(), [](const Panel& one) { return is_wide(one.svg); });
  std::string out = fmt::format("<div class=\"panels{}\">\n", wide ? " stacked" : "");
  for (const auto& panel : panels)
    out += fmt::format("<div><h4>{}</h4>\n{}</div>\n", escape(panel.title), panel.svg);
  return out + "</div>\n";
}

std::string picture_pair(std::string_view above, std::string_view below, double high,
                         std::string_view words) {
  constexpr int kWide = 84;  // pixels of the page
  const auto image = [&](std::string_view source, const char* what) {
    return fmt::format(
        "<img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{:.0f}\" "
        "style=\"image-rendering:pixelated;display:block\">",
        escape(source), what, kWide, kWide * high);
  };
  return fmt::format(
      "<div style=\"display:inline-block;margin:0 10px 10px 0;vertical-align:top\">{}"
      "<div style=\"height:4px\"></div>{}<span class=\"note\">{}</span></div>",
      image(above, "original"), image(below, "reconstruction"), escape(words));
}

std::string side_by_side(const std::vector<std::string>& figures) {
  std::string out = "<div class=\"row\">\n";
  for (const auto& one : figures) out += one;
  return out + "</div>\n";
}

std::string html_table(const HtmlTable& table) {
  const auto cell = [&](const char* tag, size_t column, const std::string& text) {
    return fmt::format("<{0}{1}>{2}</{0}>", tag, column < table.left ? "" : " class=\"number\"",
                       escape(text));
  };
  std::string out = "<table>\n<thead><tr>";
  for (size_t i = 0; i < table.header.size(); ++i) out += cell("th", i, table.header[i]);
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const bool bold = std::count(table.bold.begin(), table.bold.end(), r) > 0;
    out += bold ? "<tr class=\"bold\">" : "<tr>";
    for (size_t i = 0; i < table.rows[r].size(); ++i) out += cell("td", i, table.rows[r][i]);
    out += "</tr>\n";
  }
  return table_card(out + "</tbody>\n</table>", table.caption);
}

// The line stands beside the table, not in it: it must not scroll away with the columns.
std::string table_card(const std::string& table, std::string_view caption) {
  std::string out = "<div class=\"card\">\n";
  if (!caption.empty()) out += fmt::format("<p class=\"caption\">{}</p>\n", escape(caption));
  return out + "<div class=\"scroll\">" + table + "</div>\n</div>\n";
}

}  // namespace tessera
