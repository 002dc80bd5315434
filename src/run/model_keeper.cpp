#include "run/model_keeper.hpp"

#include "eval/metrics.hpp"
#include "run/config_text.hpp"
#include "run/simulation.hpp"

namespace tessera {

ModelKeeper::ModelKeeper(const Experiment& experiment, const Federation& federation,
                         const Model& model, std::string dir)
    : ModelKeeper(experiment, federation, model, [dir = std::move(dir)](const SavedModel& saved) {
        return save_model(dir, saved);
      }) {}

ModelKeeper::ModelKeeper(const Experiment& experiment, const Federation& federation,
                         const Model& model, Save save)
    : experiment_(experiment),
      federation_(federation),
      model_(model),
      save_(std::move(save)),
      digest_(config_digest(experiment.toml())) {}

SavedModel ModelKeeper::described(const std::string& client, const std::string& view,
                                  int64_t round) const {
  SavedModel out{.client = client,
                 .method = experiment_.method.name,
                 .view = view,
                 .round = round,
                 .options = experiment_.model,
                 .shape = {federation_.sample_shape, federation_.classes},
                 .class_names = federation_.class_names,
                 .inputs = federation_.input,
                 .loss = resolved_train(experiment_, federation_).loss_kind().kind,
                 .config_digest = digest_,
                 .answers = experiment_.guard.answers};
  // The run's model outlives everything here, so nobody has to own it.
  out.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), &model_);
  return out;
}

Status ModelKeeper::keep(const ClientData& client, int64_t round, const ShownModel& shown) {
  const auto& personal = shown.personal;
  const View view = shown.view;
  const bool votes = experiment_.guard.answers.vote.has_value();
  if (votes && view == View::kPre) return ok();
  std::optional<SavedModel> offered;
  if (personal.weights) {
    offered = described(client.name, view == View::kPre ? "pre" : "post", round);
    if (personal.model) offered->model = personal.model;
    if (client.scaling) offered->scaling = *client.scaling;
    offered->weights = *personal.weights, offered->val = shown.val, offered->test = shown.test;
    if (votes) {
      const auto voters = shown.voters();
      for (const auto& voter : voters.models) offered->voters.push_back(voter.weights.value());
    }
  }
  std::optional<SavedModel> before;
  {
    const std::scoped_lock guard(mutex_);
    if (view == View::kPre) {
      if (offered) waiting_.insert_or_assign(client.name, *std::move(offered));
      return ok();
    }
    if (auto node = waiting_.extract(client.name); !node.empty()) before = std::move(node.mapped());
  }
  const auto* best = votes ? (offered ? &*offered : nullptr) : chosen(before, offered);
  if (!best) return ok();
  auto status = save_(*best);
  const std::scoped_lock guard(mutex_);
  failed_.Update(status);
  return status;
}

// What [output] model says. A view that is no single network cannot be saved.
const SavedModel* ModelKeeper::chosen(const std::optional<SavedModel>& pre,
                                      const std::optional<SavedModel>& post) const {
  const auto& wanted = experiment_.output.model;
  const auto pointer = [](const std::optional<SavedModel>& m) { return m ? &*m : nullptr; };
  const bool pre_leads = experiment_.headline() == View::kPre;
  const auto *leads = pointer(pre_leads ? pre : post), *other = pointer(pre_leads ? post : pre);
  if (wanted == "pre") return pointer(pre);
  if (wanted == "post") return pointer(post);
  if (wanted == "headline" || !other) return leads;
  if (!leads) return other;
  const auto& metric = metric_of(experiment_.eval.metric);
  const bool better =
      metric.better(value_of(other->val, metric.name), value_of(leads->val, metric.name));
  return other->val.n > 0 && better ? other : leads;
}

std::optional<SavedModel> ModelKeeper::global_model(int64_t round, Weights weights) const {
  const auto scaling = common_scaling(federation_);
  if (!scaling) return std::nullopt;
  auto out = described(kGlobal, kGlobal, round);
  out.scaling = *scaling, out.weights = std::move(weights);
  // Models of a client's data vote: nobody's are in this one alone.
  out.answers.vote.reset();
  return out;
}

Status ModelKeeper::failed() const {
  const std::scoped_lock guard(mutex_);
  return failed_;
}

}  // namespace tessera
