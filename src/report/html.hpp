// The page around the charts: escaping, style, tiles, figures, tables. No network; a page needs no
// script to be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Safe as HTML or SVG text and inside quoted attributes: markup characters become entities;
/// control characters (tab and newline excepted) and invalid UTF-8 become U+FFFD.
std::string escape(std::string_view text);

/// At most `columns` code points, the last an ellipsis when something was cut off. Not escaped.
std::string shorten(std::string_view text, size_t columns);
/// The same with the ellipsis in the middle: names that begin alike stay told apart by their ends.
std::string shorten_middle(std::string_view text, size_t columns);
/// Code points of a UTF-8 text.
size_t columns_of(std::string_view text);

/// A whole document. `body` is markup; `title` is text.
std::string html_page(std::string_view title, const std::string& body);

/// A figure that stands alone: what is asked, the number, and a line that explains it. All text.
struct Tile {
  std::string label, value, note;
  bool main = false;  // the one to look at first
};
std::string tile_row(const std::vector<Tile>& tiles);

/// A line in place of a chart (text).
std::string note(std::string_view words);
/// <figure> with a heading (text), charts or notes (markup) and a caption (text). Wide charts
/// scroll sideways on small screens, and the page says so.
std::string figure(std::string_view heading, const std::string& svg, std::string_view caption);
/// Charts inside one figure, each under its title (text): small ones side by side, else one below
/// the other.
struct Panel {
  std::string title, svg;
};
std::string panels(const std::vector<Panel>& panels);
/// Two pictures (addresses or data URIs), the one above the other, with words (text) below. `high`:
/// their height over their width.
std::string picture_pair(std::string_view above, std::string_view below, double high,
                         std::string_view words);
/// Figures side by side where the window is wide enough.
std::string side_by_side(const std::vector<std::string>& figures);

/// A table of text cells under a line that explains it.
struct HtmlTable {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  size_t left = 1;  // how many leading columns are words, aligned left; the rest are numbers
  std::vector<size_t> bold;  // rows that stand out
};
std::string html_table(const HtmlTable& table);
/// The card around a <table> (markup) that scrolls where it is too wide; `caption` is text.
std::string table_card(const std::string& table, std::string_view caption);

}  // namespace tessera
