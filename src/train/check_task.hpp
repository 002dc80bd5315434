// Whether a client's data can be cut in two.
#pragma once

#include "base/status.hpp"
#include "data/client_data.hpp"

namespace tessera {

/// One sentence if a client has too few training samples for a support and a query set.
Status check_task(const ClientData& data);

}  // namespace tessera
