#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "data/own.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxCategories = 1000;

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// How other programs write "no number".
bool means_missing(const Csv& csv, size_t row, size_t column) {
  const auto text = lower(csv.cell(row, column));
  return csv.missing(row, column) || text == "nan" || text == "n/a" || text == "null" ||
         text == "?";
}

Status missing_cell(const Csv& csv, size_t row, size_t column) {
  return fail(Error::kInvalid,
              "{}: the cell is missing; fill it in or remove the row (nothing is guessed here)",
              csv.place(row, column));
}

// The first cell of a column that is text; the number of rows if there is none.
size_t first_text(const Csv& csv, size_t column) {
  for (size_t row = 0; row < csv.rows(); ++row)
    if (!means_missing(csv, row, column) && !csv.number(row, column)) return row;
  return csv.rows();
}

// All columns of text that are not said to be categorical, in one sentence.
Status check_texts(const Csv& csv, const std::vector<size_t>& which,
                   const std::vector<std::string>& categorical) {
  std::vector<std::string> names;
  std::string first;
  for (const size_t column : which) {
    const auto& name = csv.header()[column];
    const size_t row = has(categorical, name) ? csv.rows() : first_text(csv, column);
    if (row == csv.rows()) continue;
    if (names.empty())
      first = fmt::format("{}: '{}' is not a number", csv.place(row, column),
                          printable(csv.cell(row, column)));
    names.push_back(printable(name));
  }
  if (names.empty()) return ok();
  return fail(Error::kInvalid,
              "{}; columns with text: {}; turn categories into numbers with categorical = {}, "
              "or leave columns out with ignore = \"…\"",
              first, join(names, ", "), toml_names(names));
}

// Whole numbers where all labels are such, else texts.
Result<OwnLabels> read_labels(const Csv& csv, size_t column) {
  OwnLabels out;
  std::vector<std::string> texts;
  for (size_t row = 0; row < csv.rows(); ++row) {
    if (csv.missing(row, column)) return missing_cell(csv, row, column);
    const auto value = csv.number(row, column);
    const bool whole = value && *value == std::floor(*value) && std::abs(*value) <= 1e15;
    if (whole) out.numbers.push_back(static_cast<int64_t>(*value));
    out.is_text = out.is_text || !whole;
    texts.push_back(whole ? std::to_string(out.numbers.back())
                          : std::string(csv.cell(row, column)));
  }
  if (!out.is_text) return out;
  out.numbers.clear();
  out.texts = std::move(texts);
  return out;
}

// A column that an option names; a file that looks like one cell a row gets a hint.
Result<size_t> named(const Csv& csv, const std::string& name, const char* key) {
  auto found = csv.column(name);
  if (found.ok()) return found;
  const bool one =
      csv.header().size() == 1 && csv.header()[0].find_first_of(";\t|") != std::string::npos;
  return Status(found.status().code(),
                fmt::format("{} (key {}){}", message(found.status()), key,
                            one ? "; fields must be separated by commas" : ""));
}

// Everything but names and parts of clients.
Result<OwnClient> read_rows(const Csv& csv, const std::string& path, const DataOptions& options) {
  TESSERA_ASSIGN(const size_t label, named(csv, options.label, "label"));
  const auto categorical = text_columns(options), ignore = comma_list(options.ignore);
  const auto declared = comma_list(options.columns);
  for (const auto& name : categorical)
    TESSERA_RETURN_IF_ERROR(named(csv, name, "categorical").status());
  OwnClient out;
  std::vector<size_t> inputs;
  for (const auto& name : declared) {
    TESSERA_ASSIGN(const size_t column, named(csv, name, "columns"));
    inputs.push_back(column);
  }
  for (size_t column = 0; column < csv.header().size(); ++column) {
    const auto& name = csv.header()[column];
    if (column == label || name == options.client || has(declared, name)) continue;
    if (has(ignore, name) || !declared.empty())
      out.unread.push_back(name);
    else
      inputs.push_back(column);
  }
  if (inputs.empty())
    return fail(Error::kInvalid, "{}: has no column left that could be an input", path);
  TESSERA_ASSIGN(out.columns, read_columns(csv, inputs, categorical));
  TESSERA_ASSIGN(out.labels, read_labels(csv, label));
  out.stretches.push_back({0, path + ", line"});
  for (size_t row = 0; row < csv.rows(); ++row) {
    out.parts.train.push_back(static_cast<int64_t>(row));
    out.numbers.push_back(static_cast<uint32_t>(csv.line(row)));
  }
  return out;
}

}  // namespace

Result<Csv> read_table(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_unpacked(path));
  const auto text = text_of(bytes);
  if (const size_t valid = utf8_length(text); valid != text.size())
    return fail(
        Error::kInvalid, "{}, line {}: is not UTF-8 text; save the file as UTF-8", path,
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n'));
  TESSERA_ASSIGN(auto csv, parse_csv(bytes, path));
  if (csv.rows() == 0) return fail(Error::kInvalid, "{}: has no rows below its header", path);
  return csv;
}

Result<std::vector<OwnColumn>> read_columns(const Csv& csv, const std::vector<size_t>& which,
                                            const std::vector<std::string>& categorical) {
  TESSERA_RETURN_IF_ERROR(check_texts(csv, which, categorical));
  std::vector<OwnColumn> out;
  for (const size_t column : which) {
    OwnColumn to{csv.header()[column], has(categorical, csv.header()[column]), {}, {}};
    for (size_t row = 0; row < csv.rows(); ++row) {
      if (csv.missing(row, column)) return missing_cell(csv, row, column);
      if (to.is_text) {
        to.texts.emplace_back(csv.cell(row, column));
        continue;
      }
      const auto value = csv.number(row, column);
      if (!value) return missing_cell(csv, row, column);
      to.numbers.push_back(static_cast<float>(*value));
      if (!std::isfinite(to.numbers.back()))
        return fail(Error::kInvalid, "{}: {} is too large", csv.place(row, column),
                    csv.cell(row, column));
    }
    out.push_back(std::move(to));
  }
  return out;
}

Result<InputSchema> schema_of(const std::vector<OwnClient>& clients, const Categories& declared) {
  InputSchema out;
  int64_t inputs = 0;
  for (size_t c = 0; c < clients.front().columns.size(); ++c) {
    const auto& first = clients.front().columns[c];
    TableColumn column{first.name, {}};
    if (const auto given = declared.find(first.name); given != declared.end()) {
      column.categories = given->second;
    } else if (first.is_text) {
      std::set<std::string> seen;
      for (const auto& client : clients)
        seen.insert(client.columns[c].texts.begin(), client.columns[c].texts.end());
      if (seen.size() > kMaxCategories)
        return fail(Error::kInvalid,
                    "column '{}' has {} different texts, too many for categories; if it names the "
                    "rows, leave it out with ignore = {}",
                    printable(first.name), seen.size(), toml_names({printable(first.name)}));
      column.categories.assign(seen.begin(), seen.end());
      std::sort(column.categories.begin(), column.categories.end(), natural_less);
    }
    inputs += first.is_text ? static_cast<int64_t>(column.categories.size()) : 1;
    out.columns.push_back(std::move(column));
  }
  out.sample_shape = {inputs};
  return out;
}

Result<std::vector<float>> encode(const InputSchema& schema, const std::vector<OwnColumn>& columns,
                                  const std::function<std::string(size_t, size_t)>& place) {
  const auto width = static_cast<size_t>(schema.sample_shape[0]);
  const size_t rows =
      columns.front().is_text ? columns.front().texts.size() : columns.front().numbers.size();
  std::vector<float> out(rows * width);
  size_t at = 0;  // the column's first input
  for (size_t c = 0; c < columns.size(); ++c) {
    const auto& known = schema.columns[c].categories;
    for (size_t row = 0; row < rows; ++row) {
      if (!columns[c].is_text) {
        out[row * width + at] = columns[c].numbers[row];
        continue;
      }
      const auto& text = columns[c].texts[row];
      const auto found = std::find(known.begin(), known.end(), text);
      if (found == known.end())
        return fail(Error::kInvalid, "{}: '{}' is not among the known categories ({})",
                    place(row, c), printable(text), printable(join(known, ", "), 200));
      out[row * width + at + static_cast<size_t>(found - known.begin())] = 1.0f;
    }
    at += columns[c].is_text ? known.size() : 1;
  }
  return out;
}

Result<OwnTable> read_own_csv(const std::string& path, const DataOptions& options) {
  TESSERA_ASSIGN(const auto csv, read_table(path));
  OwnTable out;
  if (!options.client.empty()) {
    TESSERA_ASSIGN(const size_t column, named(csv, options.client, "client"));
    for (size_t row = 0; row < csv.rows(); ++row) {
      if (csv.missing(row, column)) return missing_cell(csv, row, column);
      out.owners.emplace_back(csv.cell(row, column));
    }
  }
  TESSERA_ASSIGN(out.all, read_rows(csv, path, options));
  return out;
}

}  // namespace tessera
