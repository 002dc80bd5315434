// Text for people: nearest names, sizes, durations, tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The known name closest to a mistyped one, case ignored; the first of equals. Empty when nothing
/// is close enough to suggest: about one letter in three may be wrong.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
/// " (did you mean 'x'?)", or " (known: a, b, c)" when nothing is close. Empty if nothing is known.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

/// Rounded for reading, never for computing with.
std::string human_bytes(double bytes);      // 1.2 MB (powers of 1000)
std::string human_seconds(double seconds);  // 850 ms, 12 s, 3 min 20 s, 2 h 05 min
/// No separator at the ends; empty for no items.
std::string join(const std::vector<std::string>& items, std::string_view separator);
/// ASCII letters only; other bytes stay.
std::string lower(std::string_view text);
/// Up to the first line break: what an exception says, without the stack that torch adds to it.
std::string first_line(std::string_view text);
/// The number if all of the text is decimal digits and fits; none for signs and spaces.
std::optional<int64_t> whole_number(std::string_view text);
/// The order in which people list names: runs of digits count as numbers ("a2" before "a10"), all
/// else byte by byte. A strict total order: names that count alike ("2", "02") go by their text.
bool natural_less(std::string_view a, std::string_view b);
/// The character of valid UTF-8 that starts at text[at] (at < size); `at` moves behind it. None,
/// and `at` stays, if there is no such character: cut off, needlessly long, a surrogate, beyond
/// Unicode.
std::optional<uint32_t> next_character(std::string_view text, size_t& at);
/// Bytes of the longest beginning that is valid UTF-8: all of a valid text.
size_t utf8_length(std::string_view text);
/// The pieces between commas, without blanks around them; empty text has none. A piece in double
/// quotes is taken as it is, commas and blanks too, with "" for a quote.
std::vector<std::string> comma_list(std::string_view text);
/// The text of which comma_list makes these names again.
std::string comma_text(const std::vector<std::string>& names);
/// The same as a value in a TOML file, for messages: "a,b", or ["a, b", "c"] where commas are part
/// of a name.
std::string toml_names(const std::vector<std::string>& names);
/// Fit for a key and for a file on any system: 1 to 64 of a-z, 0-9, - and _.
bool is_plain_name(std::string_view name);
/// A cell of a CSV file, quoted where RFC 4180 demands it. Text that looks like a formula is not
/// changed.
std::string csv_cell(std::string_view text);

/// Columns aligned for a terminal (display width of UTF-8 counted); numbers to the right.
class Table {
 public:
  /// At least one column.
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  /// As many cells as the header has.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// For a terminal: a rule under the header, no blanks at line ends, a line break after every row.
  std::string text() const;
  /// Bars in cells are escaped.
  std::string markdown() const;
  /// The header is the first line; lines end in "\n".
  std::string csv() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera
