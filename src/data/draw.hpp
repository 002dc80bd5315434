// A federation as a picture: who holds how much of which class.
#pragma once

#include <string>

#include "data/federation.hpp"

namespace tessera {

/// A row per client: name, training and test samples, and a block per class whose height is the
/// class's share of the client's training samples. At most 40 rows; at most `width` columns where
/// that leaves room for the classes (neighbouring classes share a block if they are many).
std::string draw_terminal(const Federation& federation, int width);

/// A self-contained SVG document: clients along, classes up, the area of a bubble the number of
/// training samples. Readable on light and dark pages. At most 120 clients and 100 classes.
std::string draw_svg(const Federation& federation);

}  // namespace tessera
