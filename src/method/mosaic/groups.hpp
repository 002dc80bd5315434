// Which clients see the world alike: groups by how far a client's features lie from everybody's,
// class by class (docs/methods.md §12.3).
#pragma once

#include <vector>

#include "method/mosaic/moments.hpp"

namespace tessera {

/// How far a client's features lie from the federation's class means on average over its samples:
/// float64 [p]. Which classes it has makes no difference.
Tensor feature_shift(const ClassSums& own, const FeatureMoments& all);

/// Squared distances [n, n] between shifts [n, p] in units of the mean squared distance between two
/// classes, measured by the covariance within classes; what chance makes of clients with so many
/// samples ([n]) is taken off. What is not finite (a client may tell anything) is 0: nobody is
/// split by it.
Tensor shift_distances(const Tensor& shifts, const Tensor& samples, const FeatureMoments& all);

/// The group of each: the two groups whose members are nearest on average are joined as long as
/// that is below `apart`. A group of fewer than `least` then joins the one that is nearest to it:
/// from the mean of two models each could compute the other's. Groups are numbered by their first
/// member.
std::vector<int64_t> groups_by_distance(const Tensor& distances, double apart, int64_t least);

}  // namespace tessera
