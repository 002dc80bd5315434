#include "run/guard_sections.hpp"

#include <functional>

#include "base/key.hpp"
#include "base/text.hpp"
#include "guard/answers.hpp"
#include "guard/guard.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {

std::vector<std::string> guard_names() {
  std::vector<std::string> out;
  GuardOptions guards;
  GuardOptions::each(guards, [&](const char* name, auto&) { out.emplace_back(name); });
  return out;
}

std::vector<BoundOption> guard_options(GuardOptions& guards, const std::string& name) {
  std::vector<BoundOption> out;
  GuardOptions::each(guards, [&](const char* known, auto& guard) {
    if (known != name) return;
    if (!guard) guard.emplace();
    out = bind_options(*guard);
  });
  return out;
}

std::string guards_text(GuardOptions guards) {
  std::string out;
  GuardOptions::each(guards, [&](const char* name, auto& guard) {
    if (!guard) return;
    out += fmt::format("\n[[guard]]\nname = \"{}\"\n", name);
    for (const auto& option : bind_options(*guard))
      out += fmt::format("{} = {}\n", option.spec.key, option_text(option));
  });
  return out;
}

namespace {

constexpr const char* kManyLosses =
    "one loss for each class (train.loss = \"multilabel\"): its probabilities do not sum to 1; "
    "remove it";

/// What does not go with uploads that nobody sees one by one: the first reason of each kind.
void secure_conflicts(const GuardOptions& guards, const MethodInfo& method, const std::string& each,
                      const std::function<void(const char*, const std::string&)>& refuse) {
  constexpr auto kName = "secure-aggregation";
  if (guards.reject)
    refuse("reject",
           "'secure-aggregation', which hides from the server how long a single change "
           "is; remove one of the two");
  if (guards.compress)
    refuse("compress",
           "'secure-aggregation', whose masked words cannot be made smaller; remove "
           "one of the two");
  if (method.pooled)
    refuse(kName, method.name + ", which trains on everybody's data at once; remove it");
  else if (method.up == "0")
    refuse(kName, method.name + ", which uploads nothing; remove it");
  else if (!each.empty())
    refuse(kName, fmt::format("{}: its server needs each client's upload, of which '{}' is in no "
                              "sum; remove it, or choose another method",
                              method.name, each));
}

std::string no_vote_text(const MethodInfo& method) {
  return fmt::format("{}, which {}; remove it, or choose another method", method.name,
                     method.no_vote);
}

/// What nobody would notice behind another one, or what is no probability.
void answer_conflicts(AnswerGuards guards, const MethodInfo& method, const TrainOptions& train,
                      const std::function<void(const char*, const std::string&)>& refuse) {
  const bool class_alone = guards.topk && guards.topk->k == 1;
  AnswerGuards::each(guards, [&](const char* name, const auto& guard) {
    if (!guard) return;
    if (train.loss == "multilabel") refuse(name, kManyLosses);
    const bool says_class = name == std::string("topk") || name == std::string("vote");
    if (class_alone && !says_class)
      refuse(name,
             "'topk' with k = 1, which tells the class and no probability; remove one of the two, "
             "or raise k");
  });
  if (guards.vote && !method.no_vote.empty()) refuse("vote", no_vote_text(method));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> guard_conflicts(const GuardOptions& guards,
                                                                 const MethodInfo& method,
                                                                 const TrainOptions& train) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto refuse = [&](const char* guard, const std::string& why) {
    out.emplace_back(guard, fmt::format("guard '{}' does not go with {}", guard, why));
  };
  answer_conflicts(guards.answers, method, train, refuse);
  // An unknown method is somebody else's sentence.
  const auto parts =
      method.draft ? method.draft()->build({})->parts() : std::make_shared<const MessageParts>();
  const auto bare = first_uncovered(*parts);
  if (guards.secure) secure_conflicts(guards, method, parts->each(), refuse);
  if (guards.dp_sgd && method.beyond_sgd.empty() && !bare.empty())
    refuse("dp-sgd", uncovered(method.name, bare));
  if (guards.dp_sgd && !method.beyond_sgd.empty())
    refuse("dp-sgd", fmt::format("{}, which {}; remove it, or choose another method", method.name,
                                 method.beyond_sgd));
  if (guards.dp_sgd && guards.dp_sgd->sigma > 0 && train.class_weights != "none")
    refuse("dp-sgd",
           fmt::format("train.class_weights = \"{}\", which tells how many samples of each class a "
                       "client has; set it to \"none\"",
                       train.class_weights));
  if (guards.transform && !method.beyond_sgd.empty() && !method.all_virtual)
    refuse("transform", fmt::format("{}, which {}; remove it, or choose another method",
                                    method.name, method.beyond_sgd));
  if (guards.transform && guards.dp_sgd)
    refuse("transform",
           "'dp-sgd', whose bound is on single samples: a virtual one holds something of all of "
           "its batch; remove one of the two");
  if (guards.transform && (train.class_weights != "none" || train.loss == "multilabel"))
    refuse("transform",
           "train.class_weights or train.loss = \"multilabel\": its labels are shares of classes; "
           "remove them");
  if (guards.transform && guards.transform->when == "step" && train.batch < 4)
    refuse("transform", fmt::format("train.batch = {} where it is when = \"step\": take at least 4",
                                    train.batch));
  if (!guards.dp) return out;
  if (guards.clip) refuse("clip", "'dp', which has a bound of its own; remove it");
  if (guards.dp->sigma == 0) return out;  // without noise it is a clip
  if (guards.reject) refuse("reject", "'dp', whose bound holds for everybody; remove it");
  if (guards.perturb) refuse("perturb", "'dp', which adds noise of its own; remove it");
  if (guards.prune) refuse("prune", "'dp', whose noise would fill what was pruned; remove it");
  if (guards.compress && guards.compress->to == "topk")
    refuse("compress",
           "'dp' where it is to \"topk\": what that sends later is beyond the bound; choose "
           "\"fp16\" or \"int8\"");
  if (!bare.empty()) refuse("dp", uncovered(method.name, bare));
  if (method.pooled)
    refuse("dp",
           fmt::format("{}, which trains on everybody's data at once; remove it", method.name));
  return out;
}

TrainOptions guarded_train(TrainOptions train, const GuardOptions& guards, uint64_t seed) {
  if (const auto& dp = guards.dp_sgd)
    train.privacy = SamplePrivacy{dp->bound, dp->sigma, dp->entropy == "system"};
  if (const auto& t = guards.transform) {
    VirtualTraining out;
    out.when = t->when == "step"   ? VirtualTraining::When::kStep
               : t->when == "once" ? VirtualTraining::When::kOnce
                                   : VirtualTraining::When::kRound;
    out.options = {t->distance,     t->gradient,        t->distance_weight,
                   t->label_weight, t->gradient_weight, t->iterations,
                   t->batch};
    out.initial = derive(seed, Purpose::kInit);
    train.transform = std::make_shared<const VirtualTraining>(std::move(out));
  }
  return train;
}

Status check_guards(const GuardOptions& guards, const ClientData& data) {
  // Of clients whose data are elsewhere nothing is known yet: their training will say the same.
  if (!guards.transform || !data.is_here() || !data.pool || !data.pool->pixel_mean.empty())
    return ok();
  return fail(Error::kInvalid,
              "guard 'transform' does not go with these data: it replaces pictures whose pixels "
              "are known to be 0 to 1; remove it, or take an image set without data.scale = "
              "\"pixel\"");
}

Status check_guards(const GuardOptions& guards, const Model& model, const std::string& name) {
  const auto why = guards.dp_sgd ? model.no_clipping() : "";
  if (why.empty()) return ok();
  return fail(Error::kInvalid, "guard 'dp-sgd' does not go with model '{}': {}", name, why);
}

Status check_guards(const AnswerGuards& guards, const MethodInfo& method, const TrainOptions& train,
                    int64_t classes) {
  if (guards.vote && !method.no_vote.empty())
    return fail(Error::kInvalid, "guard 'vote' does not go with {}", no_vote_text(method));
  const auto words = answer_words(guards);
  if (!words.empty() && train.loss_kind().kind == Loss::Kind::kMultiLabel)
    return fail(Error::kInvalid, "guard '{}' does not go with {}",
                words.front().substr(0, words.front().find(':')), kManyLosses);
  if (guards.topk && guards.topk->k >= classes)
    return fail(Error::kInvalid,
                "guard 'topk' does not go with k = {} where there are {} classes: it would tell "
                "all of them; lower k, or remove it",
                guards.topk->k, classes);
  return ok();
}

}  // namespace tessera
