#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "attack/first_layer.hpp"
#include "attack/inversion.hpp"
#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "tensor/linear_head.hpp"

namespace tessera {

Attacker::Pairs Attacker::reconstructed(const Victim& victim, bool real,
                                        const AttackTime& time) const {
  const auto& model = scene_.session().model();
  const auto& shape = scene_.federation().sample_shape;
  int64_t inputs = 1;
  for (const int64_t n : shape) inputs *= n;
  const int64_t m = victim.truth.size();
  const auto read = read_labels(victim);
  const auto layer = tessera::first_layer(model.layout());
  if (layer && layer->inputs == inputs &&
      victim.seen.uploaded.narrow(0, layer->weight, layer->rows * layer->inputs)
          .all()
          .item<bool>()) {
    const auto gradient = victim.gradient();
    std::optional<Tensor> sample;
    if (m == 1) sample = extract_sample(*layer, gradient);
    std::vector<int64_t> form{1};
    form.insert(form.end(), shape.begin(), shape.end());
    const auto pixels = sample ? pixels_of(sample->view(form))
                               : extract_pictures(*layer, gradient, shape, scale_, 0.05);
    if (pixels.size(0) == 0) return {{}, "", "no row of the first layer is a picture"};
    if (sample && read.trouble.empty())
      return {{pixels.clamp(0, 1), label_tensor(read.labels)}, "first-layer", ""};
    // Which label goes with which picture, the trained model says best.
    const auto& at = victim.seen.model ? *victim.seen.model : victim.seen.at;
    const auto labels = model.predict(at, scale_.to_inputs(pixels)).argmax(1);
    return {{pixels.clamp(0, 1), labels}, "first-layer", ""};
  }
  if (!read.trouble.empty()) return {{}, "", read.trouble};
  constexpr int64_t kUsual = 600;
  constexpr double kTv = 1e-2;
  Observation seen{
      .model = model,
      .at = victim.seen.at,
      .seen = real && !victim.seen.gradient ? victim.seen.change : victim.gradient(),
      .uploaded = victim.seen.uploaded.all().item<bool>() ? Tensor() : victim.seen.uploaded,
      .samples = m,
      .sample = shape,
      .scale = scale_,
      .stop = [&] { return stopped(time); }};
  if (real && !victim.seen.gradient && victim.clients.size() == 1)
    seen.steps = LocalSteps{scene_.train().epochs, scene_.train().batch, victim.rate};
  const auto key = derive(key_, 9, victim.clients.front());
  const double before = wall_seconds();
  invert_by_angle(seen, label_tensor(read.labels), {.iterations = 2, .tv = kTv}, key);
  const double cost = (wall_seconds() - before) / 3;
  const auto steps =
      std::clamp(static_cast<int64_t>(0.9 * (time.seconds - 3 * cost) / cost), int64_t{20}, kUsual);
  const auto found =
      invert_by_angle(seen, label_tensor(read.labels), {.iterations = steps, .tv = kTv}, key);
  return {
      {found.pixels, found.labels},
      steps < kUsual ? fmt::format("geiping, cut to {} of {} steps,", steps, kUsual) : "geiping",
      ""};
}

Result<AuditAttack> Attacker::extraction(AuditAttack out, const VictimWork& work,
                                         const AttackTime& time) {
  constexpr int64_t kPairs = 64, kSteps = 1000;
  const double start = wall_seconds();
  TESSERA_ASSIGN(const auto* looks, evaluator({0.25 * time.seconds, time.stop}));
  const auto& data = scene_.federation().client(0);
  // One step after the other of the same client, on other samples each time.
  const int64_t uploads =
      work.samples == 0 || scene_.hides_uploads()
          ? 1
          : std::clamp<int64_t>(std::min(kPairs, data.train_size()) / work.samples, 1, kPairs);
  if (uploads > 1) out.target = fmt::format("each of {} uploads: {}", uploads, out.target);
  const double until = start + 0.6 * time.seconds;
  std::vector<Tensor> x, y;
  std::vector<ClientId> whose;
  std::string how;
  int64_t seen = 0;
  for (; seen < uploads && (seen == 0 || wall_seconds() < until); ++seen) {
    TESSERA_ASSIGN(const auto one,
                   victims({.samples = work.samples, .first = seen * work.samples}, 1));
    whose = one.front().clients;
    const double share = (until - wall_seconds()) / static_cast<double>(uploads - seen);
    const auto got =
        reconstructed(one.front(), work.samples == 0, {std::max(0.2, share), time.stop});
    if (stopped(time)) return interrupted();
    if (!got.trouble.empty()) {
      out.skipped = got.trouble;
      return out;
    }
    x.push_back(got.pairs.x.to(at::kFloat)), y.push_back(got.pairs.y);
    if (how.empty() || got.how.size() > how.size()) how = got.how;
  }
  const Examples pairs{at::cat(x), at::cat(y)};
  const Gan gan(
      {.sample = scene_.federation().sample_shape, .classes = scene_.federation().classes});
  GanTraining options;
  options.epochs = 1, options.lr = 1e-3;
  const int64_t per_epoch = (pairs.size() + options.batch - 1) / options.batch;
  const double before = wall_seconds();
  extract_by_gan(gan, pairs, options, derive(key_, 10));
  const double cost = std::max(1e-6, wall_seconds() - before);
  const int64_t usual = std::max<int64_t>(1, kSteps / per_epoch);
  options.epochs =
      std::clamp(static_cast<int64_t>(0.9 * (start + time.seconds - wall_seconds()) / cost),
                 std::min<int64_t>(usual, 20), usual);
  const auto learned = extract_by_gan(gan, pairs, options, derive(key_, 10));
  if (stopped(time)) return interrupted();
  Leaks leaks;
  if (!judge(*looks, gan, learned.generator, whose, leaks)) {
    out.skipped = "nobody else has pictures of the client's classes to compare with";
    return out;
  }
  out.figures = figures_of(leaks);
  const auto mine = pictures_of(whose);
  out.figures.push_back({"the client's pictures among the pairs", "",
                         compare_batches(mine.x, pairs.x, window_).recall(mine.size()), NAN, 2});
  out.pictures = std::move(leaks.pictures);
  out.remark = fmt::format(
      "{} pairs by {} from {} {}{}; GAN of {} steps{}; {}", pairs.size(), how, seen,
      seen == 1 ? "upload" : "uploads", seen < uploads ? " (cut)" : "", options.epochs * per_epoch,
      options.epochs < usual ? fmt::format(" (cut from {})", usual * per_epoch) : "",
      looks->remark);
  return out;
}

}  // namespace tessera
