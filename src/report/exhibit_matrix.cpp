// Matrices: maps of the first, middle and last round; curves of what is few.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/exhibit_section.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

constexpr size_t kFewColumns = 8;   // named columns that get a curve each
constexpr size_t kFewCells = 12;    // a matrix of so few numbers is curves alone
constexpr size_t kTooltips = 1024;  // cells of a map with a tooltip each
constexpr size_t kMaxPixels = 400;  // of a map along one axis
constexpr double kPanel = 330;

// Mean ± standard deviation, within what there is: shares have no band below 0.
struct Moments {
  double mean = kAbsent, low = kAbsent, high = kAbsent;
};

Moments column_moments(const ExhibitRow& exhibit, size_t column) {
  double sum = 0, squares = 0, n = 0, least = kAbsent, most = kAbsent;
  for (size_t row = 0; row < exhibit.height(); ++row)
    if (const double v = exhibit.at(row, column); std::isfinite(v)) {
      sum += v, ++n;
      least = std::fmin(least, v), most = std::fmax(most, v);
    }
  if (n == 0) return {};
  for (size_t row = 0; row < exhibit.height(); ++row)
    if (const double v = exhibit.at(row, column); std::isfinite(v))
      squares += (v - sum / n) * (v - sum / n);
  const double mean = sum / n, std = std::sqrt(squares / n);
  return {mean, std::max(mean - std, least), std::min(mean + std, most)};
}

svg::LineChart over_rounds(const std::string& label) {
  svg::LineChart chart;
  chart.label = label + " over rounds";
  chart.x = {"Round", svg::Quantity::kCount};
  chart.x.tight = true;
  chart.height = 300;
  return chart;
}

// Every number a curve; every row a chart, for they need not be of one kind. Rows that never change
// are a line of text.
std::string curves(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  const auto rows = exhibit_axis(run, last, 0).names, columns = exhibit_axis(run, last, 1).names;
  std::vector<Panel> all;
  std::string constants;
  for (size_t r = 0; r < rows.size(); ++r) {
    auto chart = over_rounds(rows[r].empty() ? last.title : rows[r]);
    chart.height = 230;
    if (rows.size() > 1) chart.width = kPanel;
    for (size_t c = 0; c < columns.size(); ++c) {
      svg::Series curve{columns[c].empty() ? "value" : columns[c], static_cast<int>(c), {}};
      for (const auto* one : series)
        if (r < one->height() && c < one->width())
          curve.points.push_back({static_cast<double>(one->round), one->at(r, c)});
      chart.series.push_back(std::move(curve));
    }
    if (const auto words = svg::in_words(chart); !words.empty())
      constants += note(rows[r].empty() ? words : rows[r] + ": " + words);
    else
      all.push_back({rows[r], svg::line_chart(chart)});
  }
  return figure(last.title, (all.empty() ? "" : panels(all)) + constants,
                "After every evaluation.");
}

// The mean over rows of every column, with its spread.
std::string column_curves(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  const auto columns = exhibit_axis(run, last, 1).names;
  auto chart = over_rounds(last.title);
  for (size_t c = 0; c < columns.size(); ++c) {
    svg::Series curve{columns[c], static_cast<int>(c), {}};
    for (const auto* one : series) {
      if (c >= one->width()) continue;
      const auto [mean, low, high] = column_moments(*one, c);
      curve.points.push_back({static_cast<double>(one->round), mean, low, high});
    }
    chart.series.push_back(std::move(curve));
  }
  const char* who = exhibit_axis(run, last, 0).clients ? "clients" : "rows";
  return figure(last.title + ", over rounds", svg::line_chart(chart),
                fmt::format("Mean over {0}; the band is ± one standard deviation over {0}, within "
                            "their values.",
                            who));
}

// One range for all maps. Of client × client the diagonal stays out: what a client is to itself
// would often leave no contrast for the rest.
svg::HeatRange common_range(const ExhibitSeries& shown, bool square) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const bool diagonal : {false, true}) {
    if (low <= high && !svg::negligible(high - low, low, high)) break;  // else the diagonal is all
    for (const auto* one : shown)
      for (size_t r = 0; r < one->height(); ++r)
        for (size_t c = 0; c < one->width(); ++c)
          if (const double v = one->at(r, c); std::isfinite(v) && (diagonal || !square || r != c))
            low = std::min(low, v), high = std::max(high, v);
  }
  return {low, high};
}

size_t block_of(size_t size) { return (size + kMaxPixels - 1) / kMaxPixels; }

// Large maps: names and values joined in blocks, each the mean of its values.
svg::Matrix pooled(const svg::Matrix& matrix) {
  const size_t rows = block_of(matrix.rows.size()), columns = block_of(matrix.columns.size());
  svg::Matrix out = matrix;
  out.rows.clear(), out.columns.clear(), out.values.clear();
  for (size_t c = 0; c < matrix.columns.size(); c += columns)
    out.columns.push_back(matrix.columns[c]);
  for (size_t r = 0; r < matrix.rows.size(); r += rows) {
    out.rows.push_back(matrix.rows[r]);
    out.values.emplace_back();
    for (size_t c = 0; c < matrix.columns.size(); c += columns) {
      double sum = 0, n = 0;
      for (size_t i = r; i < std::min(r + rows, matrix.rows.size()); ++i)
        for (size_t j = c; j < std::min(c + columns, matrix.columns.size()); ++j)
          if (const double v = matrix.values[i][j]; std::isfinite(v)) sum += v, ++n;
      out.values.back().push_back(n > 0 ? sum / n : kAbsent);
    }
  }
  return out;
}

bool is_square(const RunHistory& run, const ExhibitRow& exhibit) {
  return exhibit.height() == exhibit.width() && exhibit_axis(run, exhibit, 0).clients &&
         exhibit_axis(run, exhibit, 1).clients;
}

// Client × client.
svg::Matrix square_map(const RunHistory& run, const ExhibitRow& exhibit) {
  const auto names = exhibit_axis(run, exhibit, 0).names;
  const auto order = class_order(run, exhibit, names.size());
  svg::Matrix out;
  out.square = out.short_rows = true;
  out.row_title = "Client", out.column_title = "Other client";
  for (const size_t i : order) {
    out.rows.push_back(names[i]);
    out.values.emplace_back();
    for (const size_t j : order) out.values.back().push_back(exhibit.at(i, j));
  }
  out.columns = out.rows;
  return out;
}

// `turned`: the exhibit's rows are the map's columns, because there are few columns.
svg::Matrix plain_map(const RunHistory& run, const ExhibitRow& exhibit, bool turned) {
  const auto rows = exhibit_axis(run, exhibit, 0), columns = exhibit_axis(run, exhibit, 1);
  svg::Matrix out;
  out.rows = turned ? columns.names : rows.names;
  out.columns = turned ? rows.names : columns.names;
  out.short_rows = (turned ? columns : rows).clients;
  out.row_title = out.short_rows ? "Client" : "";
  out.column_title = (turned ? rows : columns).clients ? "Client" : "";
  for (size_t r = 0; r < out.rows.size(); ++r) {
    out.values.emplace_back();
    for (size_t c = 0; c < out.columns.size(); ++c)
      out.values.back().push_back(turned ? exhibit.at(c, r) : exhibit.at(r, c));
  }
  return out;
}

// What a caption of maps has to add.
std::string map_caption(const RunHistory& run, const ExhibitSeries& series,
                        const ExhibitSeries& shown) {
  const auto& last = *shown.back();
  const bool square = is_square(run, last);
  std::vector<std::string> say;
  if (const auto first = shown.front()->round; first != series.front()->round)
    say.push_back(fmt::format("No values before round {}.", first));
  if (shown.size() > 1) say.emplace_back("The same scale in all rounds.");
  if (square && !cast_of(run, last).legend.empty())
    say.emplace_back("Clients are in the order of the class they have most samples of.");
  if (square && last.height() > 1)
    say.emplace_back("The scale spans what lies off the diagonal; the diagonal may exceed it.");
  if (const size_t block = std::max(block_of(last.height()), block_of(last.width())); block > 1)
    say.push_back(fmt::format("A pixel is the mean of up to {} neighbours along an axis.{}", block,
                              kCsvHasAll));
  return say.empty() ? fmt::format("After round {}.", last.round) : join(say, " ");
}

std::string maps(const RunHistory& run, const ExhibitSeries& series, bool turned) {
  const auto known = with_values(series);
  if (known.empty())
    return figure(series.back()->title, note("no values yet"),
                  fmt::format("Up to round {}.", series.back()->round));
  const auto shown = first_middle_last(known);
  const bool square = is_square(run, *shown.back());
  const auto range = common_range(shown, square);
  if (svg::negligible(range.high - range.low, range.low, range.high))
    return figure(shown.back()->title,
                  note(fmt::format("{} in every cell (round {} to {})",
                                   svg::value_text(svg::Quantity::kNumber, range.low),
                                   shown.front()->round, shown.back()->round)),
                  map_caption(run, series, shown));
  std::vector<Panel> all;
  for (const auto* one : shown) {
    auto map = is_square(run, *one) ? square_map(run, *one) : plain_map(run, *one, turned);
    map.label = fmt::format("{}, round {}", one->title, one->round);
    map.tooltips = kTooltips;
    map.width = shown.size() > 1 ? kPanel : 520;
    all.push_back({fmt::format("Round {}", one->round), svg::heat_map(pooled(map), range)});
  }
  return figure(shown.back()->title, panels(all), map_caption(run, series, shown));
}

}  // namespace

std::string matrix_figures(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  const bool rows_are_clients = exhibit_axis(run, last, 0).clients;
  const bool columns_are_clients = exhibit_axis(run, last, 1).clients;
  if (!rows_are_clients && !columns_are_clients && last.values.size() <= kFewCells)
    return curves(run, series);
  const bool few =
      !columns_are_clients && last.width() <= kFewColumns && last.width() < last.height();
  return maps(run, series, few) + (few && series.size() > 1 ? column_curves(run, series) : "");
}

}  // namespace tessera
