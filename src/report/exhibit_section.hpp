// "Inside the method": the exhibits of a run, drawn.
#pragma once

#include <string>

#include "report/exhibit.hpp"

namespace tessera {

/// The whole section; empty without exhibits.
std::string exhibit_section(const RunHistory& run);

/// One exhibit each, as one or more figures. Large ones are drawn in part, and the caption says so.
std::string matrix_figures(const RunHistory& run, const ExhibitSeries& series);
std::string graph_figures(const RunHistory& run, const ExhibitSeries& series);
std::string points_figure(const RunHistory& run, const ExhibitSeries& series);
std::string images_figure(const RunHistory& run, const ExhibitSeries& series);

}  // namespace tessera
