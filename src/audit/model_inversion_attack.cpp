#include <ATen/ATen.h>

#include <cmath>

#include "attack/model_inversion.hpp"
#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"

namespace tessera {

Result<AuditAttack> Attacker::model_inversion(AuditAttack out, Adversary by,
                                              const AttackTime& time) {
  const auto found = shadows(time);
  if (!found.ok() && error_of(found.status()) == Error::kInvalid) {
    out.skipped = message(found.status());
    return out;
  }
  TESSERA_RETURN_IF_ERROR(found.status());
  const auto& all = **found;
  const auto& model = scene_.session().model();
  const auto& data = scene_.federation().client(0);
  const auto own = data.range(Part::kTrain, 0, data.train_size());
  const Examples training{pixels_of(own.x), own.y};
  std::vector<int64_t> classes;
  const auto counts = data.class_counts(Part::kTrain);
  for (size_t c = 0; c < counts.size() && classes.size() < 10; ++c)
    if (counts[c] > 0) classes.push_back(static_cast<int64_t>(c));
  const auto labels = label_tensor(classes);
  const double until = wall_seconds() + time.seconds;
  const size_t other = (all.group_of[0] + 1) % all.models.size();
  const InvertedModel evaluator{model, all.models[other].model, scene_.federation().sample_shape,
                                scale_};
  out.skipped = with_target(by, 0, [&](const Personal& target) {
    if (!target.weights) return;
    const InvertedModel seen{target.model ? *target.model : model, *target.weights,
                             scene_.federation().sample_shape, scale_,
                             [&] { return wall_seconds() > until || stopped(time); }};
    const auto pixels = invert_model(seen, labels, {}, derive(key_, 5));
    const auto score = score_model_inversion({pixels, labels}, evaluator, training, window_);
    double blind = 0;
    for (size_t i = 0; i < classes.size(); ++i) {
      const auto mine = at::nonzero(training.y == classes[i]).flatten();
      const auto mean = mean_image(training.x.index_select(0, mine));
      blind += ssim(mean_picture_, mean, window_) / static_cast<double>(classes.size());
      if (std::ssize(out.pictures) < kShown)
        out.pictures.push_back(
            {picture_of(mean), picture_of(pixels[static_cast<int64_t>(i)]),
             "class " + scene_.federation().class_names[static_cast<size_t>(classes[i])]});
    }
    out.figures = {{"recognised by another model", "", score.evaluator_accuracy,
                    1.0 / static_cast<double>(scene_.federation().classes), 2},
                   {"SSIM to the class's mean picture", "", score.mean_ssim, blind, 2},
                   {"distance to the nearest sample", "", score.nearest, NAN, 2}};
    out.remark =
        fmt::format("client {}, {} classes; above: the mean of the client's pictures{}", data.name,
                    classes.size(), wall_seconds() > until ? "; cut short" : "");
  });
  if (stopped(time)) return interrupted();
  if (out.skipped.empty() && out.figures.empty()) out.skipped = "what it has is no single network";
  return out;
}

}  // namespace tessera
