#include "report/exhibit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/style.hpp"

namespace tessera {
namespace {

constexpr int kRestColour = 6;                        // grey
constexpr size_t kDistinct = 2 * kSeriesColours - 2;  // discs and rings, but the grey ones

size_t trained(const RunHistory& run) {
  return static_cast<size_t>(std::count_if(run.clients.begin(), run.clients.end(),
                                           [](const ClientRow& c) { return !c.newcomer; }));
}

// The classes that get a colour of their own: those that dominate most clients.
std::set<int64_t> common_classes(const RunHistory& run, size_t clients) {
  std::map<int64_t, size_t> count;
  for (size_t i = 0; i < clients; ++i)
    if (const auto label = dominant_class(run.clients[i])) ++count[*label];
  const auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
  while (count.size() > kDistinct) count.erase(std::min_element(count.begin(), count.end(), rarer));
  std::set<int64_t> out;
  for (const auto& [label, n] : count) out.insert(label);
  return out;
}

}  // namespace

ExhibitAxis exhibit_axis(const RunHistory& run, const ExhibitRow& exhibit, int axis) {
  const auto& given = axis == 0 ? exhibit.rows : exhibit.columns;
  if (!given.empty()) return {false, given};
  const auto size = static_cast<size_t>(exhibit.shape[static_cast<size_t>(axis)]);
  const bool may = axis == 0 || (exhibit.kind != ExhibitRow::Kind::kPoints &&
                                 exhibit.kind != ExhibitRow::Kind::kImages);
  ExhibitAxis out;
  out.clients = may && (size == trained(run) || size == run.clients.size());
  for (size_t i = 0; i < size; ++i)
    out.names.push_back(out.clients ? client_name(run.clients[i])
                        : size > 1  ? fmt::format("{}", i + 1)
                                    : "");
  return out;
}

std::optional<int64_t> dominant_class(const ClientRow& client) {
  const auto part = client.labels.find("train");
  if (part == client.labels.end() || part->second.empty()) return std::nullopt;
  return std::max_element(part->second.begin(), part->second.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::string Cast::described(size_t i) const {
  return classes[i].empty() ? names[i] : fmt::format("{}, mostly {}", names[i], classes[i]);
}

Cast cast_of(const RunHistory& run, const ExhibitRow& exhibit) {
  const auto axis = exhibit_axis(run, exhibit, 0);
  Cast out{axis.names, {}, {}, {}};
  out.classes.resize(axis.names.size()), out.colours.resize(axis.names.size(), 0);
  if (!axis.clients) return out;
  int next = 0;
  std::map<int64_t, int> colour;
  for (const int64_t label : common_classes(run, axis.names.size())) {
    if (next % kSeriesColours == kRestColour) ++next;
    colour[label] = next++;
    out.legend.push_back({class_name(run.meta, label), colour[label]});
  }
  bool rest = false;
  for (size_t i = 0; i < axis.names.size(); ++i) {
    const auto label = dominant_class(run.clients[i]);
    if (!label) continue;
    out.classes[i] = class_name(run.meta, *label);
    out.colours[i] = colour.contains(*label) ? colour[*label] : kRestColour;
    rest = rest || !colour.contains(*label);
  }
  if (rest) out.legend.push_back({"other classes", kRestColour});
  return out;
}

std::vector<size_t> class_order(const RunHistory& run, const ExhibitRow& exhibit, size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) order.push_back(i);
  if (!exhibit_axis(run, exhibit, 0).clients) return order;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return dominant_class(run.clients[a]) < dominant_class(run.clients[b]);
  });
  return order;
}

std::vector<ExhibitSeries> exhibit_series(const RunHistory& run) {
  std::vector<ExhibitSeries> out;
  std::map<std::string, size_t> place;
  for (const auto& row : run.exhibits) {
    const auto [found, added] = place.emplace(row.name, out.size());
    if (added) out.emplace_back();
    out[found->second].push_back(&row);
  }
  return out;
}

ExhibitSeries with_values(const ExhibitSeries& series) {
  ExhibitSeries out;
  for (const auto* one : series)
    if (std::any_of(one->values.begin(), one->values.end(),
                    [](double v) { return std::isfinite(v); }))
      out.push_back(one);
  return out;
}

ExhibitSeries first_middle_last(const ExhibitSeries& series) {
  ExhibitSeries out{series.front()};
  if (series.size() > 2) out.push_back(series[(series.size() - 1) / 2]);
  if (series.size() > 1) out.push_back(series.back());
  return out;
}

}  // namespace tessera
