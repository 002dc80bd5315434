// Text for people: nearest names, sizes, durations, tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The known name closest to a mistyped one; empty when nothing is close enough to suggest.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
/// " (did you mean 'x'?)", or " (known: a, b, c)" when nothing is close.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

std::string human_bytes(double bytes);      // 1.2 MB (powers of 1000)
std::string human_seconds(double seconds);  // 850 ms, 12 s, 3 min 20 s, 2 h 05 min
std::string join(const std::vector<std::string>& items, std::string_view separator);
std::string lower(std::string_view text);
/// Up to the first line break: what an exception says, without the stack that torch adds to it.
std::string first_line(std::string_view text);
/// Fit for a key and for a file on any system: 1 to 64 of a-z, 0-9, - and _.
bool is_plain_name(std::string_view name);
/// A cell of a CSV file, quoted where RFC 4180 demands it.
std::string csv_cell(std::string_view text);

/// Columns aligned for a terminal (display width of UTF-8 counted); numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;
  std::string markdown() const;
  std::string csv() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera
