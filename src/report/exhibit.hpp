// What drawing and exporting exhibits share: who stands along an axis, and in which colour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/history.hpp"
#include "report/svg.hpp"

namespace tessera {

/// Ends a caption of something drawn in part.
inline constexpr const char* kCsvHasAll = " The CSV file of `tessera report` has all.";

struct ExhibitAxis {
  bool clients = false;  // the run's clients in order; names[i] is run.clients[i]
  std::vector<std::string> names;
};
/// Axis 0 (rows) or 1 (columns): the names it was given; else the clients, if there are as many;
/// else numbers from 1.
ExhibitAxis exhibit_axis(const RunHistory& run, const ExhibitRow& exhibit, int axis);

/// The class a client has most training samples of; none without labels.
std::optional<int64_t> dominant_class(const ClientRow& client);

/// Those along an exhibit's rows. Clients are coloured by their dominant class; the classes of the
/// fewest clients share one colour where there are more than can be told apart.
struct Cast {
  std::vector<std::string> names;
  std::vector<std::string> classes;   // dominant class of each; empty without labels
  std::vector<int> colours;           // of each
  std::vector<svg::DotGroup> legend;  // empty without labels

  /// "client 7, mostly cat"
  std::string described(size_t i) const;
};
Cast cast_of(const RunHistory& run, const ExhibitRow& exhibit);

/// The first `count` of an exhibit's rows, clients by their dominant class: groups that follow the
/// data stand together.
std::vector<size_t> class_order(const RunHistory& run, const ExhibitRow& exhibit, size_t count);

/// All rounds of one exhibit, by round.
using ExhibitSeries = std::vector<const ExhibitRow*>;
/// In the order in which the method gave them.
std::vector<ExhibitSeries> exhibit_series(const RunHistory& run);
/// Those with any number: a method that warms up has none at first.
ExhibitSeries with_values(const ExhibitSeries& series);
/// First, middle and last, without repeating one.
ExhibitSeries first_middle_last(const ExhibitSeries& series);

}  // namespace tessera
