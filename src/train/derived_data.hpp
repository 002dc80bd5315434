// A client's training samples as a frozen part of a network sees them.
#pragma once

#include <functional>

#include "data/client_data.hpp"

namespace tessera {

/// A client whose training samples are map(x) of `data`'s, in the same order, each of shape
/// `sample`; its other parts are empty. `map` gets some hundred samples at a time.
ClientData mapped_training(const ClientData& data, std::vector<int64_t> sample,
                           const std::function<Tensor(const Tensor& x)>& map);

}  // namespace tessera
