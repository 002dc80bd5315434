#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tessera {
namespace {

// Optimal string alignment: a swap of neighbours, the commonest typo, counts once.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// Code points are close enough to columns for what we print (letters, ±, ×, block elements).
size_t width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool numeric(std::string_view cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1 &&
                            std::isdigit(static_cast<unsigned char>(cell[1]))));
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// A piece of a comma list that needs no quotes.
bool is_bare(const std::string& name) {
  return !name.empty() && name.front() != '"' && name.find(',') == std::string::npos &&
         trimmed(name) == name;
}

/// Where the first piece of a comma list ends: at a comma outside of quotes. A quote that is never
/// closed is a character like others.
size_t end_of_piece(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos || text[first] != '"') return text.find(',');
  bool inside = false;
  for (size_t at = first; at < text.size(); ++at) {
    if (text[at] == '"') inside = !inside;
    if (text[at] == ',' && !inside) return at;
  }
  return inside ? text.find(',') : std::string_view::npos;
}

/// The piece as it is if it is not in quotes, or if a quote in it stands alone.
std::string unquoted(std::string_view piece) {
  if (piece.size() < 2 || piece.front() != '"' || piece.back() != '"') return std::string(piece);
  std::string out;
  for (size_t at = 1; at + 1 < piece.size(); ++at) {
    out += piece[at];
    if (piece[at] != '"') continue;
    if (at + 2 == piece.size() || piece[at + 1] != '"') return std::string(piece);
    ++at;
  }
  return out;
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const auto& candidate : known) {
    const size_t d = distance(lower(name), lower(candidate));
    if (d < best_distance) best = candidate, best_distance = d;
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  if (const auto close = nearest(name, known); !close.empty())
    return fmt::format(" (did you mean '{}'?)", close);
  return known.empty() ? "" : fmt::format(" (known: {})", join(known, ", "));
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) bytes /= 1000.0, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.{}f} {}", bytes,
                                 bytes < 9.995   ? 2
                                 : bytes < 99.95 ? 1
                                                 : 0,
                                 kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

bool natural_less(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // The run of digits at `at` without leading zeros; `at` moves behind it.
  const auto take = [&](std::string_view text, size_t& at) {
    while (at < text.size() && text[at] == '0') ++at;
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return text.substr(begin, at - begin);
  };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto one = take(a, i), other = take(b, j);
      if (one.size() != other.size()) return one.size() < other.size();
      if (one != other) return one < other;
    } else {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
    }
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;
}

std::optional<uint32_t> next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80         ? 1
                        : (lead >> 5) == 6  ? 2
                        : (lead >> 4) == 14 ? 3
                        : (lead >> 3) == 30 ? 4
                                            : 0;
  if (length == 0 || length > text.size() - at) return std::nullopt;
  uint32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    c = (c << 6) | (byte(i) & 0x3Fu);
  }
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kLeast[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return std::nullopt;
  at += length;
  return c;
}

size_t utf8_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && next_character(text, at)) {
  }
  return at;
}

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> out;
  for (bool more = !text.empty(); more;) {
    const size_t comma = end_of_piece(text);
    out.push_back(unquoted(trimmed(text.substr(0, comma))));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return out;
}

std::string comma_text(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) out.push_back(is_bare(name) ? name : in_quotes(name));
  return join(out, ",");
}

std::string toml_names(const std::vector<std::string>& names) {
  if (std::all_of(names.begin(), names.end(), is_bare))
    return fmt::format("\"{}\"", join(names, ","));
  std::vector<std::string> out;
  for (const auto& name : names) {
    out.emplace_back("\"");
    for (const char c : name)
      out.back() += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    out.back() += '"';
  }
  return fmt::format("[{}]", join(out, ", "));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  return in_quotes(text);
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& cell : header_) widths.push_back(width(cell));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  const auto line = [&](const std::vector<std::string>& row) {
    std::string out;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width(row[i]), ' ');
      // A heading stands over its column: to the right where the column is numbers.
      const auto& sample = &row == &header_ && !rows_.empty() ? rows_.front()[i] : row[i];
      if (i) out += "  ";
      out += numeric(sample) ? pad + row[i] : row[i] + pad;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  };
  std::string out = line(header_);
  size_t total = 0;
  for (const size_t w : widths) total += w + 2;
  for (size_t i = 0; i + 2 < total; ++i) out += "─";
  out += "\n";
  for (const auto& row : rows_) out += line(row);
  return out;
}

std::string Table::markdown() const {
  const auto line = [](std::vector<std::string> row) {
    for (auto& cell : row)  // a bar inside a cell would begin a new one
      for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2)
        cell.insert(at, 1, '\\');
    return "| " + join(row, " | ") + " |\n";
  };
  std::string out = line(header_) + "|";
  for (size_t i = 0; i < header_.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& row : rows_) out += line(row);
  return out;
}

std::string Table::csv() const {
  const auto line = [](const std::vector<std::string>& row) {
    std::vector<std::string> cells;
    for (const auto& cell : row) cells.push_back(csv_cell(cell));
    return join(cells, ",") + "\n";
  };
  std::string out = line(header_);
  for (const auto& row : rows_) out += line(row);
  return out;
}

}  // namespace tessera
