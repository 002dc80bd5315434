#include "run/privacy_spent.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "run/driver.hpp"

namespace tessera {

std::string PrivacySpent::text(int64_t rounds) const {
  const auto server =
      !server_epsilon ? "; none against the server, which sees uploads before the noise"
      : *server_epsilon == epsilon
          ? ", and against the server"
          : fmt::format("; {:.3g} against the server, which knows who was drawn", *server_epsilon);
  return fmt::format(
      "epsilon {:.3g} at delta {:.1e} for a whole client, after {} round{}, against members and "
      "outsiders{}{}",
      epsilon, delta, rounds, rounds == 1 ? "" : "s", server,
      simulated ? " (of a simulation: its noise follows from the seed)" : "");
}

namespace {

constexpr double kWeak = 10;

bool has_noise(const auto& guard) { return guard && guard->sigma > 0; }

/// Whom a round asks; 1 of participation is everybody.
std::vector<ClientId> asked_in(const Experiment& experiment, int64_t clients, int64_t round) {
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  const double share = experiment.federation.participation;
  return has_noise(experiment.guard.dp) && share < 1
             ? cohort_one_by_one(seed, round, clients, share)
             : cohort_of(seed, round, clients, share);
}

}  // namespace

std::string SamplesSpent::text() const {
  return fmt::format(
      "epsilon {:.3g} at delta {:.1e} for a single sample of the client with the weakest promise "
      "({} samples, {} steps)",
      epsilon, delta, samples, steps);
}

std::string SamplesSpent::warning() const {
  if (epsilon <= kWeak) return "";
  return fmt::format(
      "epsilon {:.3g} promises next to nothing (below 1 is strong, above {:.0f} is none): take "
      "more noise, smaller batches, or fewer rounds and epochs",
      epsilon, kWeak);
}

std::string PrivacySpent::warning(int64_t clients) const {
  if (epsilon <= kWeak) return "";
  return fmt::format(
      "epsilon {:.3g} promises next to nothing (below 1 is strong, above {:.0f} is none): with {} "
      "clients take more noise, fewer rounds or more clients",
      epsilon, kWeak, clients);
}

PrivacyMeter::PrivacyMeter(const Experiment& experiment, std::vector<int64_t> samples)
    : experiment_(experiment), samples_(std::move(samples)), asked_(samples_.size(), 0) {
  const auto& dp = experiment.guard.dp;
  const bool hides_clients = has_noise(dp), hides_samples = has_noise(experiment.guard.dp_sgd);
  if (experiment.method.pooled || (!hides_clients && !hides_samples)) return;
  const auto method = experiment.draft->build(experiment.train);
  if (hides_clients) {
    PrivacySpent out;
    out.of_uploads = !method->sum_will_do();
    // Who sees single uploads sees who was drawn.
    out.rate = out.of_uploads ? 1 : experiment.federation.participation;
    out.delta = dp->delta > 0 ? dp->delta : std::pow(static_cast<double>(samples_.size()), -1.1);
    // delta = 1 for a single client: there is nobody to hide among.
    out.delta = std::min(out.delta, 0.5);
    out.simulated = dp->entropy == "seed";
    if (out.of_uploads || experiment.guard.secure) out.server_epsilon = 0;
    clients_ = out;
  }
  for (size_t i = 0; hides_samples && i < samples_.size(); ++i)
    if (const int64_t n = samples_[i]; n > 0 && !sizes_.contains(n))
      sizes_.emplace(n, Size{static_cast<int64_t>(i), 0, method->local_steps(n), {}});
}

void PrivacyMeter::advance(int64_t rounds) {
  const int64_t before = std::exchange(rounds_, rounds);
  // Arguments that an experiment can have are never refused.
  const auto add = [](Accountant& to, double q, double sigma, int64_t steps) {
    const auto added = to.add({.q = q, .sigma = sigma, .steps = steps});
    if (!added.ok()) throw std::invalid_argument(message(added));
  };
  if (clients_) {
    const double sigma = experiment_.guard.dp->sigma;
    add(released_, clients_->rate, sigma, rounds - before);
    add(to_server_, 1, sigma, rounds - before);
  }
  if (sizes_.empty()) return;
  // Where draws are a secret of a server they are not known here: as if all had been asked always.
  const bool secret = has_noise(experiment_.guard.dp) && experiment_.guard.dp->entropy == "system";
  const bool everybody = secret || experiment_.federation.participation >= 1;
  for (int64_t round = before + 1; round <= rounds && !everybody; ++round)
    for (const auto id : asked_in(experiment_, std::ssize(samples_), round))
      ++asked_[static_cast<size_t>(id)];
  std::map<int64_t, std::pair<int64_t, int64_t>> most;  // by size: rounds and the client
  for (size_t i = 0; i < samples_.size(); ++i) {
    const auto found = sizes_.find(samples_[i]);
    if (found == sizes_.end()) continue;
    const int64_t asked = everybody ? rounds : asked_[i];
    auto& top = most.try_emplace(samples_[i], -1, 0).first->second;
    if (asked > top.first) top = {asked, static_cast<int64_t>(i)};
  }
  for (const auto& [n, top] : most) {
    auto& size = sizes_.at(n);
    add(size.spent, rate_of(n), experiment_.guard.dp_sgd->sigma,
        (top.first - size.asked) * size.steps);
    size.asked = top.first, size.client = top.second;
  }
}

double PrivacyMeter::rate_of(int64_t samples) const {
  return std::min(1.0, static_cast<double>(experiment_.train.batch) / static_cast<double>(samples));
}

std::optional<PrivacySpent> PrivacyMeter::clients() const {
  auto out = clients_;
  if (!out) return out;
  out->epsilon = released_.epsilon(out->delta).value_or(INFINITY);
  if (out->server_epsilon) out->server_epsilon = to_server_.epsilon(out->delta).value_or(INFINITY);
  return out;
}

std::optional<SamplesSpent> PrivacyMeter::samples() const {
  std::optional<SamplesSpent> worst;
  for (const auto& [n, size] : sizes_) {
    SamplesSpent here;
    here.client = size.client, here.samples = n, here.steps = size.asked * size.steps;
    here.rate = rate_of(n);
    const double delta = experiment_.guard.dp_sgd->delta;
    here.delta = delta > 0 ? delta : std::min(1e-5, 1 / (10 * static_cast<double>(n)));
    here.epsilon = size.spent.epsilon(here.delta).value_or(INFINITY);
    if (!worst || here.epsilon > worst->epsilon ||
        (here.epsilon == worst->epsilon && here.client < worst->client))
      worst = here;
  }
  return worst;
}

std::vector<std::string> PrivacyMeter::text() const {
  std::vector<std::string> out;
  const auto add = [&](const std::string& text, const std::string& weak) {
    out.push_back(weak.empty() ? text : text + "; " + weak);
  };
  const auto here = clients();
  if (here) add(here->text(rounds_), here->warning(std::ssize(samples_)));
  if (const auto single = samples()) add(single->text(), single->warning());
  return out;
}

std::optional<SamplesSpent> samples_spent(const Experiment& experiment,
                                          const std::vector<int64_t>& samples, int64_t rounds) {
  PrivacyMeter meter(experiment, samples);
  meter.advance(rounds);
  return meter.samples();
}

std::optional<PrivacySpent> privacy_spent(const Experiment& experiment, int64_t clients,
                                          int64_t rounds) {
  PrivacyMeter meter(experiment, std::vector<int64_t>(static_cast<size_t>(clients), 0));
  meter.advance(rounds);
  return meter.clients();
}

}  // namespace tessera
