#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "guard/answers.hpp"
#include "guard/vote/votes.hpp"

namespace tessera {
namespace {

/// Training and test samples of these clients as one's, copied: they need not share a pool. Of
/// many clients some: a shadow costs what a few of them cost.
ClientData together(const Federation& federation, const std::vector<ClientId>& ids) {
  constexpr size_t kMost = 1000;
  ClientData out;
  std::vector<Tensor> x, y;
  int64_t next = 0;
  for (const ClientId id : ids) {
    if (out.train.size() >= kMost) break;
    for (const Part part : {Part::kTrain, Part::kTest}) {
      const auto& data = federation.client(id);
      const auto samples = data.range(part, 0, data.size(part));
      x.push_back(samples.x), y.push_back(samples.y);
      for (int64_t i = 0; i < samples.size(); ++i)
        (part == Part::kTrain ? out.train : out.test).push_back(next++);
    }
  }
  out.pool = std::make_shared<const Pool>(Pool{at::cat(x), at::cat(y), federation.classes});
  return out;
}

AskModel asking(const Personal& model) {
  return [&model](const Tensor& x) {
    return class_probabilities(Loss::Kind::kCrossEntropy, model.predict(x));
  };
}

/// What voting costs: test accuracies over clients.
struct VoteAccuracy {
  int64_t samples = 0, single = 0, vote = 0, noisy_vote = 0;
  bool noisy = false;

  void add(VoteAnswers guard, const Examples& test, uint64_t key, const AskModel& one,
           const std::vector<AskModel>& panel) {
    if (test.size() == 0) return;
    const auto right = [&](const Tensor& labels) {
      return (labels == test.y).sum().item<int64_t>();
    };
    samples += test.size();
    single += right(one(test.x).argmax(1));
    noisy = guard.noise != "none";
    if (noisy) noisy_vote += right(voted_answers(guard, test.x, key, panel).labels);
    guard.noise = "none";
    vote += right(voted_answers(guard, test.x, key, panel).labels);
  }
  std::vector<AuditFigure> figures() const {
    if (samples == 0) return {};
    const auto share = [&](int64_t of) {
      return static_cast<double>(of) / static_cast<double>(samples);
    };
    std::vector<AuditFigure> out{{"test accuracy, single", "", share(single), NAN, 3},
                                 {"test accuracy, vote", "", share(vote), NAN, 3}};
    if (noisy) out.push_back({"test accuracy, noisy vote", "", share(noisy_vote), NAN, 3});
    return out;
  }
};

}  // namespace

double auc_error(double auc, double members, double others) {
  const double q1 = auc / (2 - auc), q2 = 2 * auc * auc / (1 + auc);
  return std::sqrt(
      (auc * (1 - auc) + (members - 1) * (q1 - auc * auc) + (others - 1) * (q2 - auc * auc)) /
      (members * others));
}

Result<const Attacker::Shadows*> Attacker::shadows(const AttackTime& time) {
  if (shadows_) return &*shadows_;
  const int64_t groups = std::min<int64_t>(5, scene_.clients());
  if (groups < 3)
    return fail(Error::kInvalid,
                "needs shadow models of 2 groups of other clients, and there are {} clients",
                scene_.clients());
  Shadows out;
  std::vector<std::vector<ClientId>> of(static_cast<size_t>(groups));
  for (ClientId id = 0; id < scene_.clients(); ++id) {
    out.group_of.push_back(static_cast<size_t>(id % groups));
    of[out.group_of.back()].push_back(id);
  }
  auto train = scene_.train();
  const int64_t wanted =
      std::min<int64_t>(60, std::max<int64_t>(1, scene_.experiment().run.rounds) * train.epochs);
  train.epochs = wanted;
  const double end = wall_seconds() + time.seconds;
  for (size_t g = 0; g < of.size(); ++g) {
    const ClientData data = together(scene_.federation(), of[g]);
    const auto round = [&](const TrainOptions& options) {
      return train_shadow({scene_.session().model(), data, 1, derive(key_, 4, g)}, options);
    };
    if (g == 0) {
      auto trial = train;
      trial.epochs = 1;
      const double before = wall_seconds();
      round(trial);
      const double cost = std::max(1e-6, wall_seconds() - before);
      train.epochs = std::clamp(
          static_cast<int64_t>(0.9 * (end - wall_seconds()) / (cost * static_cast<double>(groups))),
          int64_t{1}, wanted);
    }
    out.models.push_back(round(train));
    if (stopped(time)) return interrupted();
  }
  out.remark = fmt::format("{} shadow models of {} epochs{}", groups, train.epochs,
                           train.epochs < wanted ? fmt::format(" (cut from {})", wanted) : "");
  shadows_ = std::move(out);
  return &*shadows_;
}

Result<AuditAttack> Attacker::membership(AuditAttack out, Adversary by, const AttackTime& time) {
  if (scene_.session().loss() != Loss::kCrossEntropy) {
    out.skipped = "the loss is not cross-entropy";
    return out;
  }
  const auto found = shadows(time);
  if (error_of(found.status()) == Error::kInvalid && !found.ok()) {
    out.skipped = message(found.status());
    return out;
  }
  TESSERA_RETURN_IF_ERROR(found.status());
  const Shadows& all = **found;
  const ShadowAttack rule(all.models);
  const auto& model = scene_.session().model();
  const auto& answers = scene_.experiment().guard.answers;
  constexpr int64_t kSamples = 50, kClients = 30;
  const std::vector<MembershipSignal> signals{
      MembershipSignal::kLoss, MembershipSignal::kConfidence, MembershipSignal::kEntropy,
      MembershipSignal::kModifiedEntropy};
  struct Scores {
    std::vector<double> in, out;
  };
  std::vector<Scores> by_signal(signals.size());
  Scores shadowed, ratio, blind;
  VoteAccuracy accuracy;
  const auto add = [](std::vector<double>& to, const std::vector<double>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  const int64_t count = std::min(scene_.clients(), kClients);
  for (ClientId id = 0; id < count; ++id) {
    if (stopped(time)) return interrupted();
    const auto& data = scene_.federation().client(id);
    const int64_t n = std::min({data.size(Part::kTrain), data.size(Part::kTest), kSamples});
    const size_t group = all.group_of[static_cast<size_t>(id)];
    out.skipped = with_target(by, id, [&](const Personal& target) {
      const bool guarded = by == Adversary::kUser && answers.any();
      const auto voters = guarded && answers.vote ? scene_.voters(id) : Voters();
      std::vector<AskModel> panel;
      for (const auto& voter : voters.models) panel.push_back(asking(voter));
      if (!panel.empty())
        accuracy.add(*answers.vote, data.range(Part::kTest, 0, data.size(Part::kTest)),
                     derive(key_, 6, id), asking(target), panel);
      for (const bool member : {true, false}) {
        const auto samples = data.range(member ? Part::kTrain : Part::kTest, 0, n);
        const auto side = [member](Scores& scores) -> std::vector<double>& {
          return member ? scores.in : scores.out;
        };
        const auto ask = asking(target);
        const Answers said{guarded ? filled_in(guarded_answers(answers, samples.x,
                                                               derive(key_, 6, id), ask, panel))
                                   : ask(samples.x),
                           samples.y};
        for (size_t s = 0; s < signals.size(); ++s)
          add(side(by_signal[s]), membership_scores(signals[s], said));
        add(side(shadowed), rule.scores(said));
        std::vector<std::vector<double>> never;
        for (size_t g = 0; g < all.models.size(); ++g)
          if (g != group)
            never.push_back(logit_confidences(answers_of(model, all.models[g].model, samples)));
        add(side(ratio), likelihood_ratios(logit_confidences(said), never));
        const size_t other = (group + 1) % all.models.size();
        add(side(blind), membership_scores(MembershipSignal::kLoss,
                                           answers_of(model, all.models[other].model, samples)));
      }
    });
    if (!out.skipped.empty()) return out;
  }
  const auto measured = [](const Scores& scores) {
    return measure_membership(scores.in, scores.out);
  };
  const auto reference = measured(blind);
  for (size_t s = 0; s < signals.size(); ++s)
    out.figures.push_back(
        {"AUC, " + name_of(signals[s]), "", measured(by_signal[s]).auc, reference.auc, 3});
  out.figures.push_back({"AUC, shadow models", "", measured(shadowed).auc, reference.auc, 3});
  const auto ratios = measured(ratio);
  out.figures.push_back({"AUC, likelihood ratio", "", ratios.auc, reference.auc, 3});
  out.figures.insert(out.figures.begin() + 1,
                     {"TPR at 1 % FPR, likelihood ratio", "", ratios.tpr_at_low_fpr, 0.01, 3});
  for (auto& figure : accuracy.figures()) out.figures.push_back(std::move(figure));
  out.remark = fmt::format("{} members and as many others of {} clients; {}; ± {:.3f}",
                           ratio.in.size(), count, all.remark,
                           auc_error(ratios.auc, static_cast<double>(ratio.in.size()),
                                     static_cast<double>(ratio.out.size())));
  return out;
}

}  // namespace tessera
