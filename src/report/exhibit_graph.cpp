// Graphs: clients on a circle, and how many partners they have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/exhibit_section.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxNodes = 300, kMaxEdges = 2000;

bool joined(double weight) { return std::isfinite(weight) && weight != 0; }

size_t partners(const ExhibitRow& graph, size_t client) {
  size_t count = 0;
  for (size_t other = 0; other < graph.width(); ++other)
    count += other != client && joined(graph.at(client, other));
  return count;
}

// Undirected: the stronger of the two directions.
std::vector<svg::Graph::Edge> edges_of(const ExhibitRow& graph, const std::vector<size_t>& order) {
  std::vector<svg::Graph::Edge> out;
  double strongest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      double weight = 0;
      for (const double one : {graph.at(order[i], order[j]), graph.at(order[j], order[i])})
        if (joined(one)) weight = std::max(weight, std::abs(one));
      if (weight == 0) continue;
      out.push_back({i, j, weight});
      strongest = std::max(strongest, weight);
    }
  }
  for (auto& edge : out) edge.strength /= strongest;
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.strength < b.strength; });
  return out;  // the strongest last: drawn on top
}

svg::LineChart partner_chart(const ExhibitSeries& series) {
  svg::LineChart chart;
  chart.label = "Number of partners over rounds";
  chart.x = {"Round", svg::Quantity::kCount};
  chart.x.tight = true;
  chart.y = {"Partners of a client", svg::Quantity::kNumber};
  chart.width = 520, chart.height = 420;
  svg::Series most{"most", 6, {}}, mean{"mean", 0, {}}, least{"fewest", 6, {}};
  most.dashed = least.dashed = true, most.dots = least.dots = false;
  for (const auto* graph : series) {
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = 0;
    for (size_t i = 0; i < graph->height(); ++i) {
      const auto n = static_cast<double>(partners(*graph, i));
      sum += n, low = std::min(low, n), high = std::max(high, n);
    }
    const auto round = static_cast<double>(graph->round);
    most.points.push_back({round, high}), least.points.push_back({round, low});
    mean.points.push_back({round, sum / static_cast<double>(graph->height())});
  }
  chart.series = {most, mean, least};
  return chart;
}

}  // namespace

std::string graph_figures(const RunHistory& run, const ExhibitSeries& series) {
  const auto& last = *series.back();
  const auto cast = cast_of(run, last);
  const auto order = class_order(run, last, std::min(last.height(), kMaxNodes));
  svg::Graph graph;
  graph.label = fmt::format("{}, round {}", last.title, last.round);
  graph.groups = cast.legend;
  graph.edges = edges_of(last, order);
  const size_t all_edges = graph.edges.size();
  if (all_edges > kMaxEdges)
    graph.edges.erase(graph.edges.begin(), graph.edges.end() - static_cast<long>(kMaxEdges));
  for (const size_t i : order) {
    const size_t n = partners(last, i);
    graph.nodes.push_back({cast.names[i],
                           fmt::format("{}: {} partner{}", cast.described(i), n, n == 1 ? "" : "s"),
                           cast.colours[i]});
  }
  auto caption = fmt::format(
      "Who works with whom after round {}.{}", last.round,
      graph.groups.empty() ? "" : " Colour and order: the class a client has most samples of.");
  if (order.size() < last.height())
    caption +=
        fmt::format(" The first {} of {} clients.{}", order.size(), last.height(), kCsvHasAll);
  if (all_edges > kMaxEdges)
    caption += fmt::format(" The strongest {} of {} links.{}", kMaxEdges, all_edges, kCsvHasAll);
  const auto chart = partner_chart(series);
  const auto words = svg::in_words(chart);
  if (!words.empty()) caption += fmt::format(" Partners of a client: {}.", words);
  auto circle = figure(last.title, svg::circle_graph(graph), caption);
  if (!words.empty()) return circle;
  return side_by_side(
      {std::move(circle),
       figure("Number of partners", svg::line_chart(chart),
              "How many others a client works with: mean over clients, most and fewest.")});
}

}  // namespace tessera
