// The models that vote for a client (guard 'vote'): its personalization once for each of disjoint
// parts of its data.
#pragma once

#include <vector>

#include "engine/session.hpp"

namespace tessera {

struct Voters {
  std::vector<ClientData> data;  // a part each; the models may look at it
  std::vector<Personal> models;
};

/// Post views, each as an evaluation makes it from this state and download, but of one part alone.
/// session.voters() of them; `local` is that of the evaluation, its data are here. Throws what the
/// method throws.
Voters make_voters(const Session& session, const TensorDict& state, const TensorDict& down,
                   const Local& local);

/// Whether a client's data suffice: a sample for each part, and what the method asks for where the
/// data are here. kInvalid in one sentence; nothing to check without voters.
Status check_voters(const Session& session, ClientId client, const ClientData& data);

}  // namespace tessera
