#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "audit/attack_parts.hpp"
#include "base/clock.hpp"
#include "base/key.hpp"
#include "method/gan_round.hpp"
#include "train/local_sgd.hpp"

namespace tessera {
namespace {

/// As many of each class as `wanted` has, from the front; fewer where there are no more.
Examples of_same_classes(const Examples& wanted, const Examples& all, int64_t classes) {
  std::vector<Tensor> rows;
  for (int64_t label = 0; label < classes; ++label) {
    const auto found = at::nonzero(all.y == label).flatten();
    rows.push_back(found.slice(0, 0, (wanted.y == label).sum().item<int64_t>()));
  }
  const auto at = at::cat(rows);
  return {all.x.index_select(0, at), all.y.index_select(0, at)};
}

/// Of each picture the nearest in `real`: where it is, and the PSNR.
std::pair<Tensor, Tensor> nearest_of(const Tensor& pictures, const Tensor& real) {
  const auto far = at::cdist(pictures.flatten(1).to(at::kDouble), real.flatten(1).to(at::kDouble));
  const auto [least, at] = far.min(1);
  const auto mse = least.square() / static_cast<double>(real[0].numel());
  return {at, -10 * mse.clamp_min(1e-10).log10()};
}

/// Of the values that are numbers.
double mean_of_finite(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  return mean_of(values);
}

}  // namespace

Result<const Attacker::Evaluator*> Attacker::evaluator(const AttackTime& time) {
  if (evaluator_) return &*evaluator_;
  constexpr int64_t kMost = 10000;
  if (scene_.session().loss() != Loss::kCrossEntropy)
    return fail(Error::kInvalid, "the loss is not cross-entropy");
  const auto& federation = scene_.federation();
  Evaluator out;
  TESSERA_ASSIGN(out.model, make_model("lenet", {federation.sample_shape, federation.classes}));
  std::vector<Tensor> x, y;
  int64_t n = 0;
  for (const auto& client : federation.clients) {
    const auto some = client.range(Part::kTest, 0, std::min(client.size(Part::kTest), kMost - n));
    x.push_back(pixels_of(some.x)), y.push_back(some.y);
    n += some.size();
  }
  ClientData data;
  data.pool = std::make_shared<const Pool>(Pool{at::cat(x), at::cat(y), federation.classes});
  data.train.resize(static_cast<size_t>(n));
  std::iota(data.train.begin(), data.train.end(), 0);
  TrainOptions options;
  options.epochs = 1, options.lr = 0.02, options.momentum = 0.9, options.loss = "ce";
  const int64_t usual = std::clamp<int64_t>(120000 / std::max<int64_t>(n, 1), 12, 60);
  int64_t epochs = 0;
  out.at = out.model->init(derive(key_, 7));
  const double end = wall_seconds() + time.seconds;
  for (; epochs < usual && (epochs == 0 || wall_seconds() < end); ++epochs) {
    out.at = local_sgd(out.at, {*out.model, data, 1, derive(key_, 7, epochs)}, options).weights;
    if (stopped(time)) return interrupted();
  }
  out.remark =
      fmt::format("evaluator: lenet on {} test pictures{}", n,
                  epochs < usual ? fmt::format(", cut to {} of {} epochs", epochs, usual) : "");
  evaluator_ = std::move(out);
  return &*evaluator_;
}

Examples Attacker::pictures_of(const std::vector<ClientId>& clients) const {
  std::vector<Tensor> x, y;
  for (const ClientId id : clients) {
    const auto& data = scene_.federation().client(id);
    const auto own = data.range(Part::kTrain, 0, data.train_size());
    x.push_back(pixels_of(own.x).clamp(0, 1)), y.push_back(own.y);
  }
  return {at::cat(x), at::cat(y)};
}

bool Attacker::judge(const Evaluator& by, const Gan& gan, const Tensor& generator,
                     const std::vector<ClientId>& victims, Leaks& out) const {
  constexpr int64_t kLooked = 64;
  const auto& federation = scene_.federation();
  std::vector<ClientId> others;
  for (ClientId id = 0; id < scene_.clients(); ++id)
    if (std::find(victims.begin(), victims.end(), id) == victims.end()) others.push_back(id);
  if (others.empty()) return false;
  const auto mine = pictures_of(victims);
  const auto theirs = of_same_classes(mine, pictures_of(others), federation.classes);
  if (std::min(mine.size(), theirs.size()) < 2) return false;
  const auto key = derive(key_, 8, victims.front());
  out.all.push_back(
      generator_leak(gan, generator, by.view(federation.sample_shape), mine, theirs, key));
  const auto y = mine.y.slice(0, 0, kLooked);
  const auto made = gan.pictures(generator, y, derive(key, 3));
  const auto [at, psnr] = nearest_of(made, mine.x);
  out.nearest.push_back(psnr.mean().item<double>());
  out.others_nearest.push_back(nearest_of(made, theirs.x).second.mean().item<double>());
  // One of each class, in the order of classes, until there are enough.
  for (int64_t label = 0; label < federation.classes && std::ssize(out.pictures) < kShown;
       ++label) {
    const auto found = at::nonzero(y == label).flatten();
    if (found.numel() == 0 || out.all.size() > 1) continue;
    const auto i = found[0].item<int64_t>();
    out.pictures.push_back(
        {picture_of(mine.x[at[i].item<int64_t>()]), picture_of(made[i]),
         fmt::format("{}, {:.1f} dB", federation.class_names[static_cast<size_t>(label)],
                     psnr[i].item<double>())});
  }
  return true;
}

std::vector<AuditFigure> Attacker::figures_of(const Leaks& leaks) const {
  const auto over = [&](auto value) {
    std::vector<double> values;
    for (const auto& one : leaks.all) values.push_back(value(one));
    return mean_of_finite(std::move(values));
  };
  const auto& federation = scene_.federation();
  const double guess = 1.0 / static_cast<double>(federation.classes);
  std::vector<AuditFigure> out{
      {"distance to the client's pictures", "", over([](const auto& l) { return l.victim; }),
       over([](const auto& l) { return l.noise; })},
      {"distance to others' of the same classes", "", over([](const auto& l) { return l.other; }),
       NAN},
      {"the client's to others', both real", "", over([](const auto& l) { return l.apart; }), NAN},
      {"nearer to the client than to others by", "",
       over([](const auto& l) { return l.other - l.victim; }), 0},
      {"PSNR to the nearest of the client's", "dB", mean_of(leaks.nearest),
       mean_of(leaks.others_nearest)},
      {"taken for the class wanted", "", over([](const auto& l) { return l.mean_accuracy; }), guess,
       2}};
  constexpr int64_t kRows = 10;
  for (int64_t c = 0; c < federation.classes && federation.classes <= kRows; ++c) {
    const double right = over([c](const auto& l) { return l.accuracy[static_cast<size_t>(c)]; });
    if (std::isfinite(right))
      out.push_back({"of " + federation.class_names[static_cast<size_t>(c)], "", right, guess, 2});
  }
  return out;
}

Result<AuditAttack> Attacker::generator(AuditAttack out, Adversary by, const AttackTime& time) {
  const bool uploaded = by == Adversary::kServer && !scene_.hides_uploads();
  out.target = fmt::format(
      "{}, after {} rounds",
      uploaded ? "a client's generator as it is uploaded" : "the common generator", scene_.round());
  if (!generator_in(scene_, scene_.download(0, Why::kTrain))) {
    out.skipped = "the method trains no common generator";
    return out;
  }
  constexpr int64_t kJudged = 8;
  const double end = wall_seconds() + time.seconds;
  TESSERA_ASSIGN(const auto* looks, evaluator({time.seconds / 2, time.stop}));
  const auto gan = GanRound::networks(scene_.session().model());
  Leaks leaks;
  const int64_t all = std::min(scene_.clients(), kJudged);
  for (ClientId id = 0; id < all && (id == 0 || wall_seconds() < end); ++id) {
    if (stopped(time)) return interrupted();
    TensorDict message;
    if (uploaded) {
      TESSERA_ASSIGN(auto exchange, scene_.exchange(id, {}));
      message = std::move(exchange.up);
    } else {
      message = scene_.download((id + 1) % scene_.clients(), Why::kTrain);
    }
    judge(*looks, gan, generator_in(scene_, message).value(), {id}, leaks);
  }
  if (leaks.all.empty()) {
    out.skipped = "nobody else has pictures of a client's classes to compare with";
    return out;
  }
  out.figures = figures_of(leaks);
  out.pictures = std::move(leaks.pictures);
  const auto judged = std::ssize(leaks.all);
  double square = 0;
  for (const auto& one : leaks.all) {
    const double off = one.other - one.victim - out.figures[3].value;
    square += off * off;
  }
  const auto n = static_cast<double>(judged);
  out.remark = fmt::format(
      "{} {}{}; {}; shown: the client's nearest picture above{}", judged,
      judged == 1 ? "client" : "clients", judged < all ? fmt::format(" (cut from {})", all) : "",
      looks->remark,
      judged > 1 ? fmt::format("; nearer by ± {:.1f}", std::sqrt(square / (n - 1) / n)) : "");
  return out;
}

}  // namespace tessera
