#include "audit/attacks.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "attack/first_layer.hpp"
#include "attack/inversion.hpp"
#include "attack/labels.hpp"
#include "attack/model_inversion.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "guard/votes.hpp"
#include "run/exposed.hpp"

namespace tessera {
namespace {

constexpr uint64_t kAuditStream = 0x617564697400;
constexpr int64_t kVictims = 4, kSummed = 10, kShown = 8;

std::string text_of(const VictimWork& work, int64_t round) {
  const auto upload = round == 1 ? "first upload" : fmt::format("upload of round {}", round);
  if (work.samples == 0) return upload + " as the experiment sends it";
  return fmt::format("{}, {} in one step", upload,
                     work.samples == 1 ? "one sample" : fmt::format("{} samples", work.samples));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? std::nan("") : sum / static_cast<double>(values.size());
}

Picture picture_of(const Tensor& pixels) {
  const auto shown =
      (pixels.clamp(0, 1) * 255).round().to(at::kByte).permute({1, 2, 0}).contiguous();
  Picture out{static_cast<uint32_t>(shown.size(1)),
              static_cast<uint32_t>(shown.size(0)),
              static_cast<int>(shown.size(2)),
              {}};
  out.pixels.assign(shown.data_ptr<uint8_t>(), shown.data_ptr<uint8_t>() + shown.numel());
  return out;
}

Tensor label_tensor(const std::vector<int64_t>& labels) { return at::tensor(labels, at::kLong); }

bool pruned(const Experiment& experiment) {
  for (const auto& name : active_guards(experiment.guard))
    if (name == "prune" || name == "compress") return true;
  return false;
}

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

Status interrupted() { return fail(Error::kInterrupted, "stopped; nothing was written"); }

bool stopped(const AttackTime& time) { return time.stop && time.stop->load(); }

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
  };
  return kAll;
}

double auc_error(double auc, double members, double others) {
  const double q1 = auc / (2 - auc), q2 = 2 * auc * auc / (1 + auc);
  return std::sqrt(
      (auc * (1 - auc) + (members - 1) * (q1 - auc * auc) + (others - 1) * (q2 - auc * auc)) /
      (members * others));
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
  const int64_t n = work.samples > 0 ? std::min(work.samples, all) : all;
  const auto& train = scene_.train();
  const int64_t batches = (n + train.batch - 1) / train.batch;
  return Victim{{client},
                std::move(seen),
                data.range(Part::kTrain, 0, n),
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

Attacker::ReadLabels Attacker::read_labels(const Victim& victim) const {
  const auto& model = scene_.session().model();
  const auto head = linear_head(model.layout());
  if (!head) return {{}, {}, "the network does not end in a linear layer"};
  if (scene_.session().loss() != Loss::kCrossEntropy)
    return {{}, {}, "the loss is not cross-entropy"};
  const auto& up = victim.seen.uploaded;
  if (!up.narrow(0, head->begin, head->numel()).any().item<bool>())
    return {{}, {}, "the last layer stays with the client"};
  const auto slope = head_bias_gradient(*head, victim.gradient());
  const int64_t m = victim.truth.size();
  ReadLabels out;
  if (m == 1) {
    if (const auto label = label_by_sign(slope)) {
      out.counts.assign(static_cast<size_t>(head->classes), 0);
      out.counts[static_cast<size_t>(*label)] = 1;
    }
  }
  if (out.counts.empty()) {
    const auto pbar = mean_probabilities(model, victim.seen.at, scene_.federation().sample_shape,
                                         256, derive(key_, 1));
    out.counts = whole_counts(estimated_counts(slope, pbar, m), m);
  }
  out.labels = labels_of_counts(out.counts);
  return out;
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
  std::vector<double> psnr, ssim, guess, alike;
  double best = -INFINITY, best_guess = -INFINITY;
  for (size_t i = 0; i < all.attack.size(); ++i) {
    if (!all.attack[i].matches.empty()) {
      psnr.push_back(all.attack[i].mean.psnr), ssim.push_back(all.attack[i].mean.ssim);
      best = std::max(best, all.attack[i].best.psnr);
    }
    guess.push_back(all.guess[i].mean.psnr), alike.push_back(all.guess[i].mean.ssim);
    best_guess = std::max(best_guess, all.guess[i].best.psnr);
  }
  return {{"PSNR, mean", "dB", mean_of(psnr), mean_of(guess)},
          {"PSNR, best", "dB", best, best_guess},
          {"SSIM, mean", "", mean_of(ssim), mean_of(alike), 2},
          {"recovered above 25 dB", "", mean_of(all.recall), NAN, 2}};
}

Result<AuditAttack> Attacker::labels(AuditAttack out, const VictimWork& work) const {
  TESSERA_ASSIGN(const auto all, victims(work, 20));
  std::vector<double> accuracy, guess, l1, guess_l1;
  for (const auto& one : all) {
    const auto read = read_labels(one);
    if (!read.trouble.empty()) {
      out.skipped = read.trouble;
      return out;
    }
    const int64_t m = one.truth.size(), classes = std::ssize(read.counts);
    const auto score = score_labels(read.counts, one.truth.y);
    const std::vector<double> even(static_cast<size_t>(classes),
                                   static_cast<double>(m) / static_cast<double>(classes));
    const auto blind = score_labels(whole_counts(even, m), one.truth.y);
    accuracy.push_back(score.accuracy), l1.push_back(score.l1 / static_cast<double>(m));
    // One sample has no even share: any class is as good a guess as another.
    guess.push_back(m == 1 ? 1.0 / static_cast<double>(classes) : blind.accuracy);
    guess_l1.push_back(m == 1 ? 2 * (1 - guess.back()) : blind.l1 / static_cast<double>(m));
  }
  out.figures = {{"labels right", "", mean_of(accuracy), mean_of(guess), 2},
                 {"error of class counts, a sample", "", mean_of(l1), mean_of(guess_l1), 2}};
  out.remark = fmt::format("{} clients; reference: equal shares", all.size());
  return out;
}

Result<AuditAttack> Attacker::first_layer(AuditAttack out, const VictimWork& work,
                                          bool trap) const {
  const auto& model = scene_.session().model();
  const auto layer = tessera::first_layer(model.layout());
  const auto& shape = scene_.federation().sample_shape;
  int64_t inputs = 1;
  for (const int64_t n : shape) inputs *= n;
  if (!layer || layer->inputs != inputs) {
    out.skipped = "the network does not begin with a fully connected layer";
    return out;
  }
  if (trap && scene_.hides_uploads()) {
    out.skipped = "the server sees sums only";
    return out;
  }
  Likenesses all;
  TESSERA_ASSIGN(auto looked_at, victims(work, kVictims));
  if (!looked_at.front()
           .seen.uploaded.narrow(0, layer->weight, layer->rows * layer->inputs)
           .any()
           .item<bool>()) {
    out.skipped = "the first layer stays with the client";
    return out;
  }
  for (auto& one : looked_at) {
    if (trap) {
      auto down = scene_.download(one.clients.front(), Why::kTrain);
      // What a server knows of such pictures it has from elsewhere: other clients' test samples.
      const auto& other = scene_.federation().clients.back();
      const auto known = pixels_of(other.range(Part::kTest, 0, other.size(Part::kTest)).x);
      const auto key = derive(key_, 2, one.clients.front());
      const double gamma = trap_gamma(*layer, known, one.truth.size(), key);
      auto w = with_trap(*layer, one.seen.at.w, {0.1, gamma}, key);
      // The trap is made for pixels; the network sees them shifted and scaled.
      auto rows =
          w.narrow(0, layer->weight, layer->rows * layer->inputs).view({layer->rows, shape[0], -1});
      auto bias = w.narrow(0, layer->bias, layer->rows);
      for (int64_t c = 0; c < shape[0]; ++c) {
        auto channel = rows.select(1, c);
        bias += channel.sum(1) * scale_.mean[static_cast<size_t>(c)];
        channel *= scale_.std[static_cast<size_t>(c)];
      }
      bool altered = false;
      for (auto& [name, tensor] : down) {
        if (tensor.dim() != 1 || !tensor.is_floating_point() ||
            tensor.numel() <= layer->bias + layer->rows - 1 || altered)
          continue;
        tensor = tensor.clone();
        tensor.narrow(0, 0, layer->bias + layer->rows)
            .copy_(w.narrow(0, 0, layer->bias + layer->rows));
        altered = true;
      }
      if (!altered) {
        out.skipped = "the first layer is not sent by the server";
        return out;
      }
      TESSERA_ASSIGN(const auto exchange, scene_.answer(one.clients.front(), work, down));
      TESSERA_ASSIGN(one.seen, seen_in(scene_, exchange));
    }
    compare(one, extract_pictures(*layer, one.gradient(), shape, scale_, 0.05), all);
  }
  out.figures = figures_of(all);
  out.pictures = std::move(all.pictures);
  out.remark = fmt::format("{} clients", looked_at.size());
  return out;
}

Result<AuditAttack> Attacker::inversion(AuditAttack out, const VictimWork& work,
                                        const AttackTime& time) const {
  const bool angle = out.name == "geiping", search = out.name == "dlg";
  TESSERA_ASSIGN(const auto all, victims(work, work.samples == 1 ? kVictims : 1));
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

namespace {

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
