// Comma-separated values with a header line: quoted fields, LF or CRLF, NA for missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// Cells are kept as text; every row has as many as the header. Errors say "NAME, line L, column C"
/// (lines from 1, as editors count them; columns by header name where known).
class Csv {
 public:
  size_t rows() const { return rows_; }
  const std::vector<std::string>& header() const { return header_; }
  /// kNotFound lists the columns there are.
  Result<size_t> column(std::string_view name) const;
  /// row < rows(), column < header().size().
  std::string_view cell(size_t row, size_t column) const;
  /// Empty or the unquoted text NA.
  bool missing(size_t row, size_t column) const;

  /// "NAME, line L, column 'C'", for messages about a cell.
  std::string place(size_t row, size_t column) const;
  /// The line a row starts on, from 1; the header's is usually 1.
  size_t line(size_t row) const { return lines_[row]; }
  /// The cell as a finite number (exponents allowed); none for any other text and where missing.
  std::optional<double> number(size_t row, size_t column) const;

  /// A column as numbers (exponents allowed); NaN where missing. kInvalid for other text and for
  /// inf and nan.
  Result<std::vector<double>> numbers(std::string_view column) const;
  /// A column as whole numbers; kInvalid where missing or not whole.
  Result<std::vector<int64_t>> integers(std::string_view column) const;
  /// A column as text.
  Result<std::vector<std::string>> texts(std::string_view column) const;

 private:
  friend class CsvReader;
  Status bad_cell(size_t row, size_t column, std::string_view wanted) const;

  std::string name_;
  std::vector<std::string> header_;
  size_t rows_ = 0;
  // All cells in one text, and where each ends: a file of millions of cells stays two allocations.
  std::string text_;
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> lines_;  // the line each row starts on
  std::vector<bool> quoted_;
};

/// kInvalid for an empty file, a row with too few or many fields, an unclosed quote, text after a
/// closing quote, a NUL byte, or a header name twice.
Result<Csv> parse_csv(ByteSpan file, const std::string& name);

}  // namespace tessera
