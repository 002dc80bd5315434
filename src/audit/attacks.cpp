#include "audit/attacks.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "run/exposed.hpp"

namespace tessera {
namespace {

constexpr uint64_t kAuditStream = 0x617564697400;
constexpr int64_t kSummed = 10;

std::string text_of(const VictimWork& work, int64_t round) {
  const auto upload = round == 1 ? "first upload" : fmt::format("upload of round {}", round);
  if (work.samples == 0) return upload + " as the experiment sends it";
  return fmt::format("{}, {} in one step", upload,
                     work.samples == 1 ? "one sample" : fmt::format("{} samples", work.samples));
}

bool pruned(const Experiment& experiment) {
  for (const auto& name : active_guards(experiment.guard))
    if (name == "prune" || name == "compress") return true;
  return false;
}

}  // namespace

std::string name_of(Adversary adversary) {
  switch (adversary) {
    case Adversary::kServer:
      return "server";
    case Adversary::kClient:
      return "client";
    case Adversary::kUser:
      return "user";
  }
  return "";
}

const std::vector<AttackInfo>& attacks() {
  static const std::vector<AttackInfo> kAll{
      {"labels",
       {Adversary::kServer},
       "an upload with the last layer, cross-entropy",
       "which classes a client's samples have, from the last layer's change"},
      {"first-layer",
       {Adversary::kServer},
       "pictures, a fully connected first layer",
       "samples in closed form from the first layer's change"},
      {"trap",
       {Adversary::kServer},
       "the same, and a server that sends weights of its own",
       "the same by an active server: weights that isolate samples"},
      {"dlg",
       {Adversary::kServer},
       "pictures, an upload",
       "pictures and labels whose gradient is nearest (Zhu et al., 2019)"},
      {"idlg",
       {Adversary::kServer},
       "pictures, an upload with the last layer",
       "the same with labels read off first (Zhao et al., 2020)"},
      {"geiping",
       {Adversary::kServer},
       "pictures, an upload",
       "pictures whose gradient has the nearest direction (Geiping et al., 2020), several priors"},
      {"membership",
       {Adversary::kServer, Adversary::kClient, Adversary::kUser},
       "a model or its answers, cross-entropy, 2 groups of other clients",
       "was a sample in the training? By loss, confidence, shadow models, likelihood ratios",
       false},
      {"inversion",
       {Adversary::kServer, Adversary::kClient},
       "pictures, a whole model",
       "pictures that a model is surest of, class by class",
       false},
      {"generator",
       {Adversary::kServer, Adversary::kClient},
       "a method that trains a common generator",
       "whose pictures a federation's generator makes: distances to a client's and to others'",
       false},
      {"extraction",
       {Adversary::kServer},
       "pictures, an upload, cross-entropy",
       "a GAN of the attacker's own, trained on what it reconstructed from uploads"},
      {"gan-inversion",
       {Adversary::kClient},
       "pictures, models that are sent round by round, cross-entropy",
       "a participant's generator against the models it is sent (Hitaj et al., 2017)",
       false},
  };
  return kAll;
}

Tensor Attacker::Victim::gradient() const {
  return seen.gradient ? seen.change : seen.change / (rate * static_cast<double>(steps));
}

Attacker::Attacker(const Scene& scene) : scene_(scene) {
  key_ = derive(scene.session().seed(), kAuditStream);
  const auto& shape = scene.federation().sample_shape;
  const bool pictures =
      shape.size() == 3 && (shape[0] == 1 || shape[0] == 3) && std::min(shape[1], shape[2]) >= 8;
  if (!pictures) no_pictures_ = "samples are no pictures, and its measures are of pictures";
  if (scene.experiment().data.scale == "pixel")
    no_pictures_ =
        "data.scale = \"pixel\" scales every pixel by itself: there is no picture to show";
  if (!no_pictures_.empty()) return;
  // A picture's box by the darkest and brightest values there are: 0 and 255 of bytes.
  const auto& x = scene.federation().clients.front().pool->x;
  for (int64_t c = 0; c < shape[0]; ++c) {
    const auto plane = x.select(1, c);
    const double low = plane.min().item<double>(), high = plane.max().item<double>();
    const double range = high > low ? high - low : 1;
    scale_.std.push_back(1 / range), scale_.mean.push_back(-low / range);
  }
  if (std::min(shape[1], shape[2]) < 32) window_.side = 7;
  std::vector<Tensor> known;
  for (const auto& client : scene.federation().clients)
    known.push_back(
        client.range(Part::kTest, 0, std::min<int64_t>(client.size(Part::kTest), 20)).x);
  mean_picture_ = mean_image(pixels_of(at::cat(known)));
}

Result<Attacker::Victim> Attacker::victim(ClientId client, const VictimWork& work) const {
  TESSERA_ASSIGN(const auto exchange, scene_.exchange(client, work));
  TESSERA_ASSIGN(auto seen, seen_in(scene_, exchange));
  // Who knows that small changes were left out does not match what was never sent.
  if (pruned(scene_.experiment())) seen.uploaded = seen.uploaded.logical_and(seen.change != 0);
  const auto& data = scene_.federation().client(client);
  const int64_t all = data.train_size();
  const int64_t first = work.samples > 0 ? std::min(work.first, all) : 0;
  const int64_t n = work.samples > 0 ? std::min(work.samples, all - first) : all;
  const auto& train = scene_.train();
  const int64_t batches = (n + train.batch - 1) / train.batch;
  return Victim{{client},
                std::move(seen),
                data.range(Part::kTrain, first, first + n),
                work.samples > 0 ? 1 : train.epochs * batches,
                train.lr_at(exchange.round)};
}

Result<std::vector<Attacker::Victim>> Attacker::victims(const VictimWork& work,
                                                        int64_t most) const {
  std::vector<Victim> out;
  const bool summed = scene_.hides_uploads();
  const int64_t count = std::min(scene_.clients(), summed ? kSummed : most);
  for (ClientId id = 0; id < count; ++id) {
    TESSERA_ASSIGN(auto one, victim(id, work));
    out.push_back(std::move(one));
  }
  if (!summed) return out;
  // The sum of all is all that the server has: one upload of many samples.
  Victim all = out.front();
  std::vector<Tensor> x, y;
  double weight = 0;
  all.seen.change = at::zeros_like(all.seen.change, at::kDouble);
  all.clients.clear();
  for (const auto& one : out) {
    const auto n = static_cast<double>(one.truth.size());
    all.seen.change += one.seen.change.to(at::kDouble) * n;
    weight += n;
    x.push_back(one.truth.x), y.push_back(one.truth.y);
    all.clients.push_back(one.clients.front());
  }
  all.seen.change = (all.seen.change / weight).to(at::kFloat);
  all.seen.model.reset();
  all.truth = {at::cat(x), at::cat(y)};
  return std::vector<Victim>{std::move(all)};
}

void Attacker::compare(const Victim& victim, const Tensor& pixels, Likenesses& out) const {
  const auto originals = pixels_of(victim.truth.x);
  const int64_t n = originals.size(0);
  const auto likeness = pixels.size(0) > 0 ? compare_batches(originals, pixels, window_)
                                           : BatchLikeness{{}, {NAN, NAN, NAN}, {NAN, NAN, NAN}};
  out.attack.push_back(likeness);
  out.guess.push_back(random_guess(originals, mean_picture_, window_));
  out.recall.push_back(likeness.recall(n));
  auto best = likeness.matches;
  std::sort(best.begin(), best.end(),
            [](const Match& a, const Match& b) { return a.likeness.psnr > b.likeness.psnr; });
  for (const auto& match : best) {
    if (std::ssize(out.pictures) >= kShown) break;
    out.pictures.push_back({picture_of(originals[match.original]),
                            picture_of(pixels[match.reconstruction]),
                            fmt::format("{:.1f} dB", match.likeness.psnr)});
  }
}

std::vector<AuditFigure> Attacker::figures_of(const Likenesses& all) {
  std::vector<double> psnr, ssim, mse, guess, alike, apart;
  double best = -INFINITY, best_guess = -INFINITY;
  for (size_t i = 0; i < all.attack.size(); ++i) {
    if (!all.attack[i].matches.empty()) {
      psnr.push_back(all.attack[i].mean.psnr), ssim.push_back(all.attack[i].mean.ssim);
      mse.push_back(all.attack[i].mean.mse);
      best = std::max(best, all.attack[i].best.psnr);
    }
    guess.push_back(all.guess[i].mean.psnr), alike.push_back(all.guess[i].mean.ssim);
    apart.push_back(all.guess[i].mean.mse);
    best_guess = std::max(best_guess, all.guess[i].best.psnr);
  }
  return {{"PSNR, mean", "dB", mean_of(psnr), mean_of(guess)},
          {"PSNR, best", "dB", best, best_guess},
          {"SSIM, mean", "", mean_of(ssim), mean_of(alike), 2},
          {"MSE, mean", "", mean_of(mse), mean_of(apart), 4},
          {"recovered above 25 dB", "", mean_of(all.recall), NAN, 2}};
}

std::string Attacker::with_target(Adversary by, ClientId victim,
                                  const std::function<void(const Personal&)>& use) const {
  const auto& exposure = scene_.experiment().method.exposure;
  const auto& model = scene_.session().model();
  const bool single =
      by == Adversary::kServer ? !scene_.hides_uploads() : exposure.peers == Shown::kSingle;
  if (by == Adversary::kUser) {
    scene_.with_personal(victim, scene_.asked_view(), use);
    return "";
  }
  if (single) {
    const auto exchange = scene_.exchange(victim, {});
    if (exchange.ok()) {
      if (const auto seen = seen_in(scene_, *exchange); seen.ok() && seen->model) {
        use(plain(model, *seen->model));
        return "";
      }
      // A whole model of which the start is not known is a whole model all the same.
      for (const auto& told : exposure.server) {
        const auto at = exchange->up.find(told.tensor);
        if (told.what != Tells::kModel || told.covers != Covers::kAll || told.copies != 1 ||
            at == exchange->up.end() || at->second.numel() != model.layout().numel())
          continue;
        use(plain(model, {at->second.flatten(), scene_.start().b}));
        return "";
      }
    }
  }
  if (by == Adversary::kClient) {
    scene_.with_personal((victim + 1) % scene_.clients(), View::kPre, use);
    return "";
  }
  if (const auto global = scene_.global()) {
    use(plain(model, *global));
    return "";
  }
  return "the server has no whole model: part of it stays with the client";
}

Result<AuditAttack> Attacker::run(const std::string& name, Adversary by, const VictimWork& work,
                                  const AttackTime& time) {
  const auto& known = attacks();
  const auto info = std::find_if(known.begin(), known.end(),
                                 [&](const AttackInfo& one) { return one.name == name; });
  AuditAttack out;
  out.name = name;
  const bool single =
      by == Adversary::kClient && scene_.experiment().method.exposure.peers == Shown::kSingle;
  out.target = info->of_uploads ? text_of(work, scene_.round() + 1)
               : by == Adversary::kUser && scene_.experiment().guard.answers.vote
                   ? "votes of models of parts of a client's data"
               : by == Adversary::kUser ? "answers of personalized models"
               : by == Adversary::kClient
                   ? (single ? "a client's model as its peers get it" : "the model a peer is given")
               : scene_.hides_uploads() ? "the common model"
                                        : "the uploaded model";
  if (!info->of_uploads) out.target += fmt::format(", after {} rounds", scene_.round());
  const bool draws = name != "labels" && name != "membership";
  if (draws && !no_pictures_.empty()) {
    out.skipped = no_pictures_;
    return out;
  }
  const double start = wall_seconds();
  const auto done = [&]() -> Result<AuditAttack> {
    try {
      if (name == "labels") return labels(out, work);
      if (name == "first-layer" || name == "trap") return first_layer(out, work, name == "trap");
      if (name == "membership") return membership(out, by, time);
      if (name == "inversion") return model_inversion(out, by, time);
      if (name == "generator") return generator(out, by, time);
      if (name == "extraction") return extraction(out, work, time);
      if (name == "gan-inversion") return gan_inversion(out, time);
      return inversion(out, work, time);
    } catch (const std::exception& error) {
      return fail(Error::kInvalid, "{}", first_line(error.what()));
    }
  }();
  if (!done.ok()) {
    // What a method or a victim's data do not allow is a finding, too.
    if (error_of(done.status()) == Error::kInterrupted) return done;
    out.skipped = message(done.status());
    return out;
  }
  auto finished = *done;
  finished.seconds = wall_seconds() - start;
  return finished;
}

}  // namespace tessera
