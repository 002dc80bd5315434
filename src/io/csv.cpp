#include "io/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.hpp"

namespace tessera {
namespace {

// from_chars knows no '+', and takes "inf" and "nan", which are no measurements.
bool to_number(std::string_view text, double& out) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

bool to_number(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

// One pass over the text, a field at a time; keeps the line for messages.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string name) : rest_(text) { out_.name_ = std::move(name); }

  Result<Csv> read() {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    if (rest_.empty()) return fail(Error::kInvalid, "{}: the file is empty", out_.name_);
    TESSERA_RETURN_IF_ERROR(read_header());
    while (!rest_.empty()) TESSERA_RETURN_IF_ERROR(read_row());
    return std::move(out_);
  }

 private:
  struct Field {
    bool quoted = false, last_of_row = false;
  };

  Status read_header() {
    for (bool last = false; !last;) {
      std::string cell;
      TESSERA_ASSIGN(const auto field, read_field(cell));
      last = field.last_of_row;
      if (std::find(out_.header_.begin(), out_.header_.end(), cell) != out_.header_.end())
        return fail(Error::kInvalid, "{}, line 1: two columns are named '{}'", out_.name_,
                    printable(cell));
      if (out_.header_.size() == kMostColumns)
        return fail(Error::kInvalid, "{}, line 1: more than {} columns", out_.name_, kMostColumns);
      out_.header_.push_back(std::move(cell));
    }
    return ok();
  }

  Status read_row() {
    const size_t columns = out_.header_.size();
    const size_t row_line = line_;
    out_.lines_.push_back(static_cast<uint32_t>(row_line));
    size_t fields = 0;
    for (bool last = false; !last; ++fields) {
      if (fields == columns)
        return fail(Error::kInvalid, "{}, line {}: more fields than the {} of the header",
                    out_.name_, row_line, columns);
      TESSERA_ASSIGN(const auto field, read_field(out_.text_));
      last = field.last_of_row;
      out_.ends_.push_back(out_.text_.size());
      out_.quoted_.push_back(field.quoted);
    }
    if (fields != columns)
      return fail(Error::kInvalid, "{}, line {}: {} field{} where the header has {}", out_.name_,
                  row_line, fields, fields == 1 ? "" : "s", columns);
    ++out_.rows_;
    return ok();
  }

  // Appends the next field to `to` and moves past its comma or line end.
  Result<Field> read_field(std::string& to) {
    Field field;
    if (rest_.starts_with('"')) {
      field.quoted = true;
      TESSERA_RETURN_IF_ERROR(read_quoted(to));
    } else {
      const size_t end = std::min(rest_.find_first_of(",\"\r\n"), rest_.size());
      if (rest_.substr(0, end).find('\0') != std::string_view::npos)
        return fail(Error::kInvalid, "{}, line {}: a NUL byte; is this a text file?", out_.name_,
                    line_);
      to += rest_.substr(0, end);
      rest_.remove_prefix(end);
    }
    field.last_of_row = true;
    if (rest_.empty()) return field;
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
      field.last_of_row = false;
      return field;
    }
    const size_t line_end = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
    if (line_end == 0)
      return fail(Error::kInvalid, "{}, line {}: a stray {} in a field", out_.name_, line_,
                  rest_[0] == '"'    ? "quote"
                  : rest_[0] == '\r' ? "carriage return"
                                     : "character after the closing quote");
    rest_.remove_prefix(line_end);
    ++line_;
    return field;
  }

  Status read_quoted(std::string& to) {
    const size_t opened = line_;
    rest_.remove_prefix(1);
    while (true) {
      const size_t quote = rest_.find('"');
      if (quote == std::string_view::npos)
        return fail(Error::kInvalid, "{}, line {}: a quote is opened here and never closed",
                    out_.name_, opened);
      const auto piece = rest_.substr(0, quote);
      if (piece.find('\0') != std::string_view::npos)
        return fail(Error::kInvalid, "{}, line {}: a NUL byte; is this a text file?", out_.name_,
                    opened);
      line_ += static_cast<size_t>(std::count(piece.begin(), piece.end(), '\n'));
      to += piece;
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) return ok();
      to += '"';
      rest_.remove_prefix(1);
    }
  }

  static constexpr size_t kMostColumns = 10000;  // header names are compared pairwise
  std::string_view rest_;
  size_t line_ = 1;
  Csv out_;
};

Result<size_t> Csv::column(std::string_view name) const {
  const auto found = std::find(header_.begin(), header_.end(), name);
  if (found == header_.end())
    return fail(Error::kNotFound, "{}: no column '{}'{}", name_, printable(name),
                suggestion(name, header_));
  return static_cast<size_t>(found - header_.begin());
}

std::string_view Csv::cell(size_t row, size_t column) const {
  const size_t index = row * header_.size() + column;
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(text_).substr(begin, ends_[index] - begin);
}

bool Csv::missing(size_t row, size_t column) const {
  const auto text = cell(row, column);
  return text.empty() || (text == "NA" && !quoted_[row * header_.size() + column]);
}

Status Csv::bad_cell(size_t row, size_t column, std::string_view wanted) const {
  return fail(Error::kInvalid, "{}: '{}' is not {}", place(row, column),
              printable(cell(row, column)), wanted);
}

std::string Csv::place(size_t row, size_t column) const {
  return fmt::format("{}, line {}, column '{}'", name_, lines_[row], printable(header_[column]));
}

std::optional<double> Csv::number(size_t row, size_t column) const {
  double value = 0;
  if (missing(row, column) || !to_number(cell(row, column), value)) return std::nullopt;
  return value;
}

Result<std::vector<double>> Csv::numbers(std::string_view name) const {
  TESSERA_ASSIGN(const size_t at, column(name));
  std::vector<double> out(rows_, std::numeric_limits<double>::quiet_NaN());
  for (size_t row = 0; row < rows_; ++row)
    if (!missing(row, at) && !to_number(cell(row, at), out[row]))
      return bad_cell(row, at, "a number");
  return out;
}

Result<std::vector<int64_t>> Csv::integers(std::string_view name) const {
  TESSERA_ASSIGN(const size_t at, column(name));
  std::vector<int64_t> out(rows_);
  for (size_t row = 0; row < rows_; ++row)
    if (!to_number(cell(row, at), out[row])) return bad_cell(row, at, "a whole number");
  return out;
}

Result<std::vector<std::string>> Csv::texts(std::string_view name) const {
  TESSERA_ASSIGN(const size_t at, column(name));
  std::vector<std::string> out;
  for (size_t row = 0; row < rows_; ++row) out.emplace_back(cell(row, at));
  return out;
}

Result<Csv> parse_csv(ByteSpan file, const std::string& name) {
  return CsvReader(text_of(file), name).read();
}

}  // namespace tessera
