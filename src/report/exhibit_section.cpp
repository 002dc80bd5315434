#include "report/exhibit_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.hpp"
#include "report/pca.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxPoints = 500;
constexpr size_t kMaxPictureRows = 16, kMaxPictureColumns = 12;

// Coordinates of the points that have any, along the axes of `pca`.
std::vector<double> point_of(const ExhibitRow& points, size_t row) {
  std::vector<double> out;
  for (size_t c = 0; c < points.width(); ++c) out.push_back(points.at(row, c));
  return out;
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

svg::Scatter scatter_of(const Cast& cast, const ExhibitRow& points, const Pca& pca) {
  svg::Scatter chart;
  chart.label = fmt::format("{}, round {}", points.title, points.round);
  chart.groups = cast.legend;
  chart.x.title = fmt::format("First component ({:.0f} % of the variance)", pca.share[0] * 100);
  chart.y.title = fmt::format("Second component ({:.0f} %)", pca.share[1] * 100);
  for (size_t i = 0; i < std::min(points.height(), kMaxPoints); ++i) {
    const auto point = point_of(points, i);
    if (!all_finite(point)) continue;
    const auto place = pca.project(point);
    chart.points.push_back(
        {place[0], place[1], {cast.names[i], cast.described(i), cast.colours[i]}});
  }
  return chart;
}

// Both charts span what either holds.
void share_range(svg::Scatter& a, svg::Scatter& b) {
  for (auto* chart : {&a, &b}) {
    for (const auto* from : {&a, &b}) {
      for (const auto& p : from->points) {
        chart->low_x = std::fmin(chart->low_x, p.x), chart->high_x = std::fmax(chart->high_x, p.x);
        chart->low_y = std::fmin(chart->low_y, p.y), chart->high_y = std::fmax(chart->high_y, p.y);
      }
    }
  }
}

}  // namespace

std::string points_figure(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  const auto cast = cast_of(run, last);
  std::vector<std::vector<double>> known;
  for (size_t i = 0; i < std::min(last.height(), kMaxPoints); ++i)
    if (auto point = point_of(last, i); all_finite(point)) known.push_back(std::move(point));
  if (known.empty())
    return figure(last.title, svg::scatter({.label = last.title}), "No client has all numbers.");
  const auto pca = principal_components(known, 2);
  auto now = scatter_of(cast, last, pca);
  std::vector<Panel> all;
  const auto& first = *series.front();
  if (series.size() > 1 && first.shape == last.shape) {
    auto then = scatter_of(cast, first, pca);
    share_range(then, now);
    if (!then.points.empty())
      all.push_back({fmt::format("Round {}", first.round), svg::scatter(then)});
  }
  all.push_back({fmt::format("Round {}", last.round), svg::scatter(now)});
  auto caption = fmt::format(
      "The first two principal components of {} dimensions, those of round "
      "{}.{}",
      last.width(), last.round,
      now.groups.empty() ? "" : " Colour: the class a client has most samples of.");
  if (last.height() > kMaxPoints)
    caption += fmt::format(" The first {} of {} clients.{}", kMaxPoints, last.height(), kCsvHasAll);
  return figure(last.title, panels(all), caption);
}

std::string images_figure(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  svg::PictureGrid grid;
  grid.label = fmt::format("{}, round {}", last.title, last.round);
  grid.rows = exhibit_axis(run, last, 0).names, grid.columns = exhibit_axis(run, last, 1).names;
  grid.height = static_cast<size_t>(last.shape[2]), grid.width = static_cast<size_t>(last.shape[3]);
  const bool whole =
      grid.rows.size() <= kMaxPictureRows && grid.columns.size() <= kMaxPictureColumns;
  grid.rows.resize(std::min(grid.rows.size(), kMaxPictureRows));
  grid.columns.resize(std::min(grid.columns.size(), kMaxPictureColumns));
  const size_t cells = grid.height * grid.width;
  for (size_t r = 0; r < grid.rows.size(); ++r)
    for (size_t c = 0; c < grid.columns.size(); ++c) {
      const auto begin = last.values.begin() + static_cast<long>((r * last.width() + c) * cells);
      grid.pixels.emplace_back(begin, begin + static_cast<long>(cells));
    }
  auto caption = fmt::format("After round {}; black is 0, white is 1.", last.round);
  if (!whole)
    caption += fmt::format(" The first {} × {} of {} × {} pictures.{}", grid.rows.size(),
                           grid.columns.size(), last.height(), last.width(), kCsvHasAll);
  return figure(last.title, svg::picture_grid(grid), caption);
}

std::string exhibit_section(const RunHistory& run) {
  std::string figures;
  for (const auto& series : exhibit_series(run)) {
    switch (series.back()->kind) {
      case ExhibitRow::Kind::kMatrix:
        figures += matrix_figures(run, series);
        break;
      case ExhibitRow::Kind::kGraph:
        figures += graph_figures(run, series);
        break;
      case ExhibitRow::Kind::kPoints:
        figures += points_figure(run, series);
        break;
      case ExhibitRow::Kind::kImages:
        figures += images_figure(run, series);
        break;
    }
  }
  return figures.empty() ? ""
                         : "<section>\n<h2>Inside the method</h2>\n" + figures + "</section>\n";
}

}  // namespace tessera
