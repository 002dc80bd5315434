#include "method/fedham/ham_round.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

// Keys apart from those of the local epochs, which are derived from 0, 1, …
constexpr uint64_t kThetaKey = 0x7468657461, kEpochKey = 0x65706f6368;

// Eq. 15 as far as a client can follow it: the own model's gradient, and lambda times what the own
// model contributes to the loss of the mixture, attention held fixed.
BatchGradient direct(const Site& site, const TrainOptions& train, const HamMixer& mixer,
                     const HamScores& scores, const Weights& own, const Weights& mixed,
                     double lambda) {
  const auto share = mixer.own_share(scores);
  const auto rest = mixed.w - share * own.w;  // b_att x_a + b_glob g
  return [=, &site, kind = train.loss_on(site.data)](Weights& at, const Examples& batch,
                                                     uint64_t key, Tensor& g) {
    Weights mixture{rest + share * at.w, at.b};  // its running statistics are thrown away
    auto pull = at::empty_like(g);
    batch_gradient(site.model, mixture, batch, kind, key, pull);
    const double loss = batch_gradient(site.model, at, batch, kind, key, g);
    g.add_(pull.mul_(share), lambda);
    return loss;
  };
}

}  // namespace

std::pair<ClientData, ClientData> held_out(const ClientData& data, double share) {
  const int64_t n = data.train_size();
  const auto held = std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(n)));
  if (n < 2) return {data, data};
  const auto cut = data.cut(held);
  std::pair<ClientData, ClientData> out{data, data};
  out.first.train.assign(data.train.begin(), data.train.begin() + cut.early);
  out.second.train.assign(data.train.begin() + cut.late, data.train.end());
  return out;
}

Tensor learn_theta(const HamMixer& mixer, const Tensor& theta, const Site& theta_site, Part part,
                   const TrainOptions& train, const HamTraining& ham) {
  auto now = theta.clone();
  Optimizer optimizer(TrainOptions{.optimizer = ham.strict ? "sgd" : "adam"}, ham.theta_lr);
  const int64_t n = theta_site.data.size(part);
  const uint64_t key = derive(theta_site.key, kThetaKey);
  const auto loss = train.loss_on(theta_site.data);
  Tensor v;
  for (int64_t epoch = 0; epoch < ham.theta_epochs; ++epoch) {
    const auto order = Rng(derive(key, epoch)).permutation(n);
    for (int64_t begin = 0; begin < n; begin += train.batch) {
      const auto size = static_cast<size_t>(std::min(train.batch, n - begin));
      const auto batch = theta_site.data.take(part, std::span(order).subspan(begin, size));
      const auto leaf = now.detach().requires_grad_(true);
      const auto scores = mixer.scores(leaf);
      auto mixed = mixer.mix(scores);  // a scratch copy: its running statistics are thrown away
      if (!v.defined()) v = at::empty_like(mixed.w);
      batch_gradient(theta_site.model, mixed, batch, loss, derive(key, epoch, begin), v);
      auto gradient = mixer.gradient(scores, leaf, v);
      const double length = norm64(gradient);
      if (length > 1) gradient.div_(length);
      optimizer.step(now, gradient);
    }
  }
  return now;
}

HamTrained ham_round(const HamModels& models, const Tensor& theta, const Site& site,
                     const Site& theta_site, Part theta_part, const TrainOptions& train,
                     const HamTraining& ham) {
  const int64_t turns = ham.every_epoch ? train.epochs : 1;
  HamTrained out{{models.own}, theta, {}};
  double loss = 0;
  int64_t steps = 0;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const auto own = out.trained.weights;
    const HamMixer mixer(site.model, ham.shape, own, models.others, models.global);
    const auto keyed = [&](const Site& from) {
      const uint64_t key = turn == 0 ? from.key : derive(from.key, kEpochKey, turn);
      return Site{from.model, from.data, from.round, key};
    };
    out.theta = learn_theta(mixer, out.theta, keyed(theta_site), theta_part, train, ham);
    out.scores = mixer.scores(out.theta);
    const auto mixed = mixer.mix(out.scores);
    Job job{.epochs = ham.every_epoch ? 1 : train.epochs};
    if (ham.lambda > 0)
      job.gradient = direct(site, train, mixer, out.scores, own, mixed, ham.lambda);
    out.trained = local_sgd(mixed, keyed(site), train, job);
    loss += out.trained.loss * static_cast<double>(out.trained.steps), steps += out.trained.steps;
  }
  out.trained.loss = steps > 0 ? loss / static_cast<double>(steps) : 0;
  out.trained.steps = steps;
  return out;
}

}  // namespace tessera
