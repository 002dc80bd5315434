#include "run/servable.hpp"

#include "data/federation.hpp"

namespace tessera {
namespace {

// Noise from the seed is for simulations: every member is told the seed.
Status check_entropy(const char* name, const auto& guard) {
  if (!guard || guard->sigma == 0 || guard->entropy == "system") return ok();
  return fail(
      Error::kInvalid,
      "guard '{0}' draws its noise from the run's seed, which every member is told, so that "
      "any of them could subtract it; set entropy = \"system\" in its section",
      name);
}

}  // namespace

bool draws_in_secret(const Experiment& experiment) {
  const auto& dp = experiment.guard.dp;
  return dp && dp->sigma > 0 && experiment.federation.participation < 1;
}

Status check_servable(const Experiment& experiment) {
  if (experiment.method.pooled)
    return fail(Error::kInvalid,
                "method {} trains on everybody's data in one place; a real federation has no such "
                "place. Choose another method, or use `tessera run`",
                experiment.method.name);
  if (experiment.eval.predictions)
    return fail(Error::kInvalid,
                "eval.predictions: the samples are not here; remove it, or use `tessera run`");
  if (!experiment.debug.dump.empty())
    return fail(Error::kInvalid, "debug.dump: the data are not here; use `tessera run`");
  TESSERA_RETURN_IF_ERROR(check_member_data(experiment.data));
  TESSERA_RETURN_IF_ERROR(check_entropy("dp", experiment.guard.dp));
  TESSERA_RETURN_IF_ERROR(check_entropy("dp-sgd", experiment.guard.dp_sgd));
  // Pictures for the report are fine in a simulation, not where data are secret.
  for (const auto& option : experiment.draft->options()) {
    const auto* const* count = std::get_if<int64_t*>(&option.target);
    if (option.spec.shows_samples && count && **count > 0)
      return fail(Error::kInvalid,
                  "method.{0}.{1} = {2} would send test samples of {2} clients to the server; set "
                  "method.{0}.{1} = 0",
                  experiment.method.name, option.spec.key, **count);
  }
  return ok();
}

}  // namespace tessera
