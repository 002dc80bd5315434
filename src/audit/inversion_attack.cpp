#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "attack/inversion.hpp"
#include "attack/labels.hpp"
#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"

namespace tessera {

Result<AuditAttack> Attacker::inversion(AuditAttack out, const VictimWork& work,
                                        const AttackTime& time) const {
  const bool angle = out.name == "geiping", search = out.name == "dlg";
  TESSERA_ASSIGN(const auto all, victims(work, work.victims));
  const double end = wall_seconds() + time.seconds;
  const bool real = work.samples == 0;
  if (!angle && all.front().truth.size() > 8) {
    out.skipped = "hopeless for so many samples at once; geiping is tried";
    return out;
  }
  const auto& model = scene_.session().model();
  if (!linear_head(model.layout()) || scene_.session().loss() != Loss::kCrossEntropy) {
    out.skipped = "needs cross-entropy and a network that ends in a linear layer";
    return out;
  }
  const std::vector<double> priors =
      angle ? std::vector<double>{1e-4, 1e-3, 1e-2, 1e-1} : std::vector<double>{0};
  int64_t usual = angle ? 600 : 300, least = usual, tried = 0;
  Likenesses likenesses;
  for (size_t v = 0; v < all.size(); ++v) {
    const auto& one = all[v];
    const double share = (end - wall_seconds()) / static_cast<double>(all.size() - v);
    // One victim is always looked at; of the others as many as there is time for.
    if (v > 0 && share <= 0.5) break;
    Observation seen{
        .model = model,
        .at = one.seen.at,
        .seen = real && !one.seen.gradient ? one.seen.change : one.gradient(),
        .uploaded = one.seen.uploaded.all().item<bool>() ? Tensor() : one.seen.uploaded,
        .samples = one.truth.size(),
        .sample = scene_.federation().sample_shape,
        .scale = scale_};
    if (real && !one.seen.gradient && one.clients.size() == 1)
      seen.steps = LocalSteps{scene_.train().epochs, scene_.train().batch, one.rate};
    const auto read = read_labels(one);
    if (!search && !read.trouble.empty() && out.name == "idlg") {
      out.skipped = read.trouble;
      return out;
    }
    const auto labels = search || !read.trouble.empty() ? Tensor() : label_tensor(read.labels);
    Tensor best;
    double best_psnr = -INFINITY;
    for (size_t p = 0; p < priors.size(); ++p) {
      const double until =
          wall_seconds() +
          std::max(0.2, (end - wall_seconds()) /
                            static_cast<double>((all.size() - v - 1) * priors.size() +
                                                priors.size() - p));
      seen.stop = [&] { return wall_seconds() > until || stopped(time); };
      const auto key = derive(key_, 3, one.clients.front(), p);
      Inverted found;
      if (angle) {
        GeipingOptions options{.iterations = usual, .tv = priors[p]};
        // A few steps tell what one costs: the rate falls with the share that is done.
        auto trial = seen;
        trial.stop = [&] { return stopped(time); };
        const double before = wall_seconds();
        invert_by_angle(trial, labels, {.iterations = 2, .tv = priors[p]}, key);
        const double cost = (wall_seconds() - before) / 3;
        options.iterations = std::clamp(static_cast<int64_t>(0.9 * (until - wall_seconds()) / cost),
                                        int64_t{20}, usual);
        seen.stop = [&] { return stopped(time); };
        found = invert_by_angle(seen, labels, options, key);
      } else {
        found = invert_by_distance(seen, labels, {.iterations = usual}, key);
      }
      if (stopped(time)) return interrupted();
      if (angle || wall_seconds() > until) least = std::min(least, found.steps);
      Likenesses here;
      compare(one, found.pixels, here);
      if (const double psnr = here.attack.front().mean.psnr; psnr > best_psnr || !best.defined())
        best = found.pixels, best_psnr = psnr;
    }
    compare(one, best, likenesses);
    ++tried;
  }
  out.figures = figures_of(likenesses);
  out.pictures = std::move(likenesses.pictures);
  out.remark = fmt::format(
      "{} {}{}{}{}", tried, tried == 1 ? "client" : "clients", angle ? ", best of 4 priors" : "",
      all.front().seen.guessed ? ", what stays with the client guessed" : "",
      least < usual ? fmt::format(", cut to {} of {} steps", least, usual) : "");
  return out;
}

}  // namespace tessera
