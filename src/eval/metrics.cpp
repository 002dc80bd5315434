#include "eval/metrics.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera {
namespace {

// counts[true][predicted] reduced to what precision and recall need.
struct Counts {
  std::vector<int64_t> hit, predicted, truth;
  explicit Counts(int64_t classes)
      : hit(static_cast<size_t>(classes)), predicted(hit.size()), truth(hit.size()) {}
  void add(int64_t guess, int64_t label) {
    if (guess >= 0) ++predicted[static_cast<size_t>(guess)];
    ++truth[static_cast<size_t>(label)];
    if (guess == label) ++hit[static_cast<size_t>(label)];
  }
};

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Mean F1 over classes that occur in truth or prediction: 2 TP / (2 TP + FP + FN).
double f1_macro(const Counts& c) {
  double sum = 0;
  int64_t classes = 0;
  for (size_t k = 0; k < c.hit.size(); ++k) {
    if (c.predicted[k] + c.truth[k] == 0) continue;
    sum += ratio(2 * c.hit[k], c.predicted[k] + c.truth[k]);
    ++classes;
  }
  return sum / static_cast<double>(classes);
}

}  // namespace

ClientMetrics class_metrics(std::span<const int64_t> predicted, std::span<const int64_t> truth,
                            int64_t classes) {
  ClientMetrics out;
  out.n = static_cast<int64_t>(truth.size());
  if (out.n == 0) {
    out.loss = out.precision_macro = out.f1_macro = out.f1_remap = std::nan("");
    return out;
  }
  Counts plain(classes);
  for (size_t i = 0; i < truth.size(); ++i) plain.add(predicted[i], truth[i]);
  out.correct = std::accumulate(plain.hit.begin(), plain.hit.end(), int64_t{0});

  std::vector<int64_t> present;
  for (int64_t k = 0; k < classes; ++k)
    if (plain.truth[static_cast<size_t>(k)] > 0) present.push_back(k);
  for (const int64_t k : present) {
    const auto i = static_cast<size_t>(k);
    out.precision_macro +=
        ratio(plain.hit[i], plain.predicted[i]) / static_cast<double>(present.size());
  }
  out.f1_macro = f1_macro(plain);

  Counts mapped(classes);
  for (size_t i = 0; i < truth.size(); ++i) {
    int64_t guess = predicted[i];
    if (plain.truth[static_cast<size_t>(guess)] == 0) {
      // The smallest other class of the client; with a single class there is none to blame.
      guess = present.size() == 1 ? -1 : present[present[0] == truth[i] ? 1 : 0];
    }
    mapped.add(guess, truth[i]);
  }
  out.f1_remap = f1_macro(mapped);
  return out;
}

ClientMetrics measure(const std::function<Tensor(const Tensor&)>& predict, const ClientData& data,
                      Part part, Loss loss) {
  constexpr int64_t kBatch = 256;
  const int64_t n = data.size(part);
  std::vector<int64_t> predicted, truth;
  double loss_sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBatch) {
    const auto batch = data.range(part, begin, std::min(begin + kBatch, n));
    const auto logits = predict(batch.x);
    loss_sum +=
        loss_value(loss, logits, batch.y).item<double>() * static_cast<double>(batch.size());
    const auto guess = logits.argmax(1).contiguous();
    const auto* from = guess.data_ptr<int64_t>();
    predicted.insert(predicted.end(), from, from + guess.numel());
    const auto* labels = batch.y.data_ptr<int64_t>();
    truth.insert(truth.end(), labels, labels + batch.y.numel());
  }
  auto out = class_metrics(predicted, truth, data.classes());
  if (n > 0) out.loss = loss_sum / static_cast<double>(n);
  return out;
}

Summary summarize(std::span<const ClientMetrics> clients) {
  std::vector<double> accuracy;
  Summary out;
  int64_t correct = 0, samples = 0;
  for (const auto& client : clients) {
    if (client.n == 0) continue;
    accuracy.push_back(client.accuracy());
    correct += client.correct, samples += client.n;
    out.precision_macro += client.precision_macro, out.f1_macro += client.f1_macro;
    out.f1_remap += client.f1_remap, out.loss += client.loss;
  }
  const auto count = static_cast<double>(accuracy.size());
  if (accuracy.empty()) {
    const double none = std::nan("");
    return {none, none, none, none, none, none, none, none, none, none, none};
  }
  for (double* value : {&out.precision_macro, &out.f1_macro, &out.f1_remap, &out.loss})
    *value /= count;
  std::sort(accuracy.begin(), accuracy.end());
  const auto mean_of = [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / static_cast<double>(part.size());
  };
  out.mean = mean_of(accuracy);
  for (const double a : accuracy) out.std += (a - out.mean) * (a - out.mean) / count;
  out.std = std::sqrt(out.std);
  out.micro = ratio(correct, samples);
  out.min = accuracy.front(), out.max = accuracy.back();
  const auto tenth = static_cast<size_t>(std::ceil(0.1 * count));
  out.worst10 = mean_of(std::span(accuracy).first(tenth));
  out.best10 = mean_of(std::span(accuracy).last(tenth));
  return out;
}

}  // namespace tessera
