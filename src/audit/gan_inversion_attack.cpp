#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"

namespace tessera {
namespace {

Gan gan_of(const Federation& federation) {
  return Gan({.sample = federation.sample_shape, .classes = federation.classes});
}

}  // namespace

void Attacker::watch(const AttackTime& time) {
  constexpr size_t kWanted = 4;
  if (!no_pictures_.empty() || scene_.session().loss() != Loss::kCrossEntropy ||
      scene_.clients() < 2)
    return;
  const auto gan = gan_of(scene_.federation());
  auto& [labels, generators, rounds, all_steps, usual] = watched_;
  if (labels.empty()) {
    // What the victim has, and first of all what the participant has not.
    const auto theirs = scene_.federation().client(0).class_counts(Part::kTrain);
    const auto own = scene_.federation().client(participant()).class_counts(Part::kTrain);
    for (const bool lacks : {true, false})
      for (size_t c = 0; c < theirs.size() && labels.size() < kWanted; ++c)
        if (theirs[c] > 0 && (own[c] == 0) == lacks) labels.push_back(static_cast<int64_t>(c));
    for (const int64_t label : labels)
      generators.push_back(gan.init(derive(key_, 11, label)).generator);
  }
  scene_.with_personal(participant(), View::kPre, [&](const Personal& sent) {
    if (!sent.weights) return;
    const InvertedModel target{sent.model ? *sent.model : scene_.session().model(), *sent.weights,
                               scene_.federation().sample_shape, scale_};
    GanInversionOptions options;
    options.lr = 1e-3;
    usual = options.steps;
    const double end = wall_seconds() + time.seconds;
    const double before = wall_seconds();
    auto trial = options;
    trial.steps = 1;
    invert_by_generator(target, gan, generators.front(), labels.front(), trial, 1);
    const double cost = std::max(1e-6, wall_seconds() - before);
    options.steps = std::clamp(
        static_cast<int64_t>((end - wall_seconds()) / (cost * static_cast<double>(labels.size()))),
        int64_t{10}, usual);
    for (size_t i = 0; i < labels.size() && !stopped(time); ++i)
      generators[i] = invert_by_generator(target, gan, generators[i], labels[i], options,
                                          derive(key_, 12, scene_.round(), labels[i]));
    ++rounds, all_steps += options.steps;
  });
}

Examples Attacker::lies() const {
  if (watched_.rounds == 0) return {};
  const auto& federation = scene_.federation();
  const auto gan = gan_of(federation);
  std::vector<Tensor> x, y;
  for (size_t i = 0; i < watched_.labels.size(); ++i) {
    const int64_t label = watched_.labels[i], wrong = (label + 1) % federation.classes;
    const auto some = mislabelled(gan, watched_.generators[i], label, wrong, 8,
                                  derive(key_, 13, scene_.round(), label));
    x.push_back(scale_.to_inputs(some.x)), y.push_back(some.y);
  }
  return {at::cat(x), at::cat(y)};
}

Result<AuditAttack> Attacker::gan_inversion(AuditAttack out, const AttackTime& time) {
  constexpr int64_t kEach = 8;
  out.target = fmt::format("models as a participant is sent them, after {} rounds", scene_.round());
  if (scene_.experiment().method.exposure.peers == Shown::kNothing) {
    out.skipped = "nothing of others is sent to a client";
    return out;
  }
  TESSERA_ASSIGN(const auto* looks, evaluator({time.seconds / 2, time.stop}));
  // Of a run that stands where it is there is one model.
  if (watched_.rounds == 0) watch({time.seconds / 2, time.stop});
  if (stopped(time)) return interrupted();
  if (watched_.rounds == 0) {
    out.skipped =
        scene_.clients() < 2 ? "there is no other client" : "what it has is no single network";
    return out;
  }
  const auto gan = gan_of(scene_.federation());
  const auto training = pictures_of({0});
  std::vector<Tensor> x, y;
  double blind = 0;
  for (size_t i = 0; i < watched_.labels.size(); ++i) {
    const int64_t label = watched_.labels[i];
    y.push_back(at::full({kEach}, label, at::kLong));
    x.push_back(gan.pictures(watched_.generators[i], y.back(), derive(key_, 14, label)));
    const auto mine = training.x.index_select(0, at::nonzero(training.y == label).flatten());
    const auto mean = mean_image(mine);
    blind += ssim(mean_picture_, mean, window_) / static_cast<double>(watched_.labels.size());
    const auto far = (mine - x.back()[0]).square().flatten(1).mean(1);
    out.pictures.push_back(
        {picture_of(mine[far.argmin().item<int64_t>()]), picture_of(x.back()[0]),
         "class " + scene_.federation().class_names[static_cast<size_t>(label)]});
  }
  const auto score = score_model_inversion(
      {at::cat(x), at::cat(y)}, looks->view(scene_.federation().sample_shape), training, window_);
  out.figures = {{"recognised by another model", "", score.evaluator_accuracy,
                  1.0 / static_cast<double>(scene_.federation().classes), 2},
                 {"SSIM to the class's mean picture", "", score.mean_ssim, blind, 2},
                 {"distance to the nearest sample", "", score.nearest, NAN, 2}};
  const int64_t full = watched_.rounds * watched_.usual;
  out.remark = fmt::format(
      "{} classes, {} {}, {} steps{}; {}; shown: the nearest picture of the class above",
      watched_.labels.size(), watched_.rounds, watched_.rounds == 1 ? "model" : "models",
      watched_.steps, watched_.steps < full ? fmt::format(" (cut from {})", full) : "",
      looks->remark);
  return out;
}

}  // namespace tessera
