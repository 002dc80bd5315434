// Exhibits as CSV in long form: one value a line.
#pragma once

#include <string>

#include "report/exhibit.hpp"

namespace tessera {

/// "round,client,other,value" and the like: the two middle columns say what stands along the axes.
/// Images have two more, their pixels "y,x".
std::string csv_header(const RunHistory& run, const ExhibitRow& exhibit);
/// A line for every value, in row-major order; an absent value is an empty cell. Of a graph only
/// its edges. Numbers read back to the same bits.
std::string csv_lines(const RunHistory& run, const ExhibitRow& exhibit);

}  // namespace tessera
