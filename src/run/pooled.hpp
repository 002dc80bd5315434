// Everybody's data as one client's, for references that train without a federation.
#pragma once

#include <span>

#include "data/client_data.hpp"

namespace tessera {

/// Training and validation rows of all clients, in order. Where clients have pools of their own,
/// the samples are copied into a new one; pools of one federation share sample shape and stride.
ClientData pooled(std::span<const ClientData> clients);

}  // namespace tessera
