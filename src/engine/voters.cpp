#include "engine/voters.hpp"

#include <stdexcept>

#include "base/key.hpp"
#include "base/text.hpp"
#include "data/disjoint_parts.hpp"

namespace tessera {
namespace {

// No upload has round 0, so nothing else draws from this key.
uint64_t vote_key(const Session& session, ClientId client) {
  return derive(session.seed(), Purpose::kGuard, 0, client);
}

}  // namespace

Voters make_voters(const Session& session, const TensorDict& state, const TensorDict& down,
                   const Local& local) {
  const auto key = vote_key(session, local.client);
  Voters out{disjoint_parts(local.data, session.voters(), key), {}};
  for (size_t part = 0; part < out.data.size(); ++part) {
    Local one{{local.model, out.data[part], local.round, derive(key, local.round, part)},
              local.setup,
              local.client,
              local.newcomer,
              Why::kEvaluate};
    if (auto own = session.method().personalize(state, down, one, View::kPost)) {
      out.models.push_back(*std::move(own));
      continue;
    }
    if (!local.newcomer) one.why = Why::kTrain;
    const auto step = session.method().local_update(state, down, one);
    out.models.push_back(plain(local.model, step.after.value()));
  }
  return out;
}

Status check_voters(const Session& session, ClientId client, const ClientData& data) {
  const int64_t parts = session.voters();
  if (parts == 0) return ok();
  for (const auto part : {Part::kTrain, Part::kSupport}) {
    const int64_t n = data.size(part);
    if (n < parts && (n > 0 || part == Part::kTrain))
      return fail(Error::kInvalid,
                  "guard 'vote' needs a {} sample for each of its {} parts, and there are {}; "
                  "lower guard.vote.parts",
                  part == Part::kTrain ? "training" : "support", parts, n);
  }
  if (!session.method().checks_data()) return ok();
  for (const auto& part : disjoint_parts(data, parts, vote_key(session, client)))
    TESSERA_RETURN_IF_ERROR(at_place(session.method().check(part), "guard 'vote', " + part.name));
  return ok();
}

}  // namespace tessera
