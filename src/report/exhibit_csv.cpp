#include "report/exhibit_csv.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/text.hpp"

namespace tessera {
namespace {

std::vector<std::string> quoted(std::vector<std::string> names) {
  for (auto& name : names) name = csv_cell(name);
  return names;
}

}  // namespace

std::string csv_header(const RunHistory& run, const ExhibitRow& exhibit) {
  const bool rows = exhibit_axis(run, exhibit, 0).clients;
  const bool columns = exhibit_axis(run, exhibit, 1).clients;
  const bool points = exhibit.kind == ExhibitRow::Kind::kPoints;
  return fmt::format("round,{},{},{}value\n", rows ? "client" : "row",
                     columns && rows ? "other"
                     : columns       ? "client"
                     : points        ? "dimension"
                                     : "column",
                     exhibit.kind == ExhibitRow::Kind::kImages ? "y,x," : "");
}

std::string csv_lines(const RunHistory& run, const ExhibitRow& exhibit) {
  const auto rows = quoted(exhibit_axis(run, exhibit, 0).names);
  const auto columns = quoted(exhibit_axis(run, exhibit, 1).names);
  const bool images = exhibit.kind == ExhibitRow::Kind::kImages;
  const bool graph = exhibit.kind == ExhibitRow::Kind::kGraph;
  const size_t width = images ? static_cast<size_t>(exhibit.shape[3]) : 1;
  const size_t cells = images ? width * static_cast<size_t>(exhibit.shape[2]) : 1;
  std::string out;
  for (size_t i = 0; i < exhibit.values.size(); ++i) {
    const double value = exhibit.values[i];
    if (graph && (std::isnan(value) || value == 0)) continue;
    const size_t place = i / cells;
    fmt::format_to(std::back_inserter(out), "{},{},{},", exhibit.round,
                   rows[place / exhibit.width()], columns[place % exhibit.width()]);
    if (images)
      fmt::format_to(std::back_inserter(out), "{},{},", i % cells / width, i % cells % width);
    if (!std::isnan(value)) fmt::format_to(std::back_inserter(out), "{}", value);
    out += '\n';
  }
  return out;
}

}  // namespace tessera
