// A client's data in parts that share no sample.
#pragma once

#include <vector>

#include "data/client_data.hpp"

namespace tessera {

/// `count` clients, each with a part of the training and of the support rows; validation and test
/// rows are everybody's. Every row is in one part, but for series.
///
/// Rows in random order are dealt class by class: of each class, and in all, two parts differ by a
/// row at most. Which rows go where follows from the key and the rows' classes, so that another
/// sample of the same class in a row's place changes that row's part alone. Rows in the order of
/// time are cut into stretches; those that share raw values with the next stretch are left out, as
/// long as one stays. The data are here.
std::vector<ClientData> disjoint_parts(const ClientData& data, int64_t count, uint64_t key);

}  // namespace tessera
