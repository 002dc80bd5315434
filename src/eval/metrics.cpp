#include "eval/metrics.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/metric.hpp"

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

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// Mean over the classes that have samples of their own and of others; NaN without any.
double mean_auroc(const Predictions& p) {
  const size_t n = p.truth.size();
  std::vector<int64_t> count(static_cast<size_t>(p.classes));
  for (const int64_t label : p.truth) ++count[static_cast<size_t>(label)];
  double sum = 0, classes = 0;
  std::vector<double> scores(n);
  std::vector<bool> positive(n);
  for (size_t k = 0; k < count.size(); ++k) {
    if (count[k] == 0 || count[k] == std::ssize(p.truth)) continue;
    for (size_t i = 0; i < n; ++i) {
      scores[i] = p.scores_of(i)[k];
      positive[i] = p.truth[i] == static_cast<int64_t>(k);
    }
    sum += auroc_of(scores, positive), ++classes;
  }
  return sum / classes;
}

double top_calibration(const Predictions& p) {
  std::vector<double> confidence;
  std::vector<bool> hit;
  for (size_t i = 0; i < p.truth.size(); ++i) {
    confidence.push_back(p.scores_of(i)[static_cast<size_t>(p.predicted[i])]);
    hit.push_back(p.predicted[i] == p.truth[i]);
  }
  return calibration_error(confidence, hit);
}

}  // namespace

double auroc_of(std::span<const double> scores, const std::vector<bool>& positive) {
  if (!all_finite(scores)) return std::nan("");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  // In halves: 2 for a negative below, 1 for one beside. Whole numbers are exact.
  int64_t won = 0, below = 0, positives = 0;
  for (size_t i = 0; i < order.size();) {
    int64_t up = 0, down = 0;  // of one score
    const double score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) ++(positive[order[i]] ? up : down);
    won += up * (2 * below + down);
    below += down, positives += up;
  }
  if (below == 0 || positives == 0) return std::nan("");
  return static_cast<double>(won) /
         (2 * static_cast<double>(below) * static_cast<double>(positives));
}

double calibration_error(std::span<const double> confidence, const std::vector<bool>& hit) {
  constexpr int64_t kBins = 15;
  if (confidence.empty() || !all_finite(confidence)) return std::nan("");
  std::vector<double> gap(kBins);  // hits − confidences
  for (size_t i = 0; i < confidence.size(); ++i) {
    const auto bin = static_cast<int64_t>(confidence[i] * kBins);
    gap[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kBins - 1))] +=
        (hit[i] ? 1.0 : 0.0) - confidence[i];
  }
  double sum = 0;
  for (const double one : gap) sum += std::abs(one);
  return sum / static_cast<double>(confidence.size());
}

ClientMetrics class_metrics(std::span<const int64_t> predicted, std::span<const int64_t> truth,
                            int64_t classes) {
  ClientMetrics out;
  out.n = static_cast<int64_t>(truth.size());
  out.loss = out.auroc = out.ece = std::nan("");
  if (out.n == 0) {
    out.precision_macro = out.f1_macro = out.f1_remap = out.balanced_accuracy = std::nan("");
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
    const auto share = static_cast<double>(present.size());
    out.precision_macro += ratio(plain.hit[i], plain.predicted[i]) / share;
    out.balanced_accuracy += ratio(plain.hit[i], plain.truth[i]) / share;
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

Predictions predict_part(const std::function<Tensor(const Tensor&)>& predict,
                         const ClientData& data, Part part, const Loss& loss) {
  constexpr int64_t kBatch = 256;
  const int64_t n = data.size(part);
  Predictions out{.classes = data.classes()};
  out.scores.reserve(static_cast<size_t>(n * out.classes));
  double loss_sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBatch) {
    const auto batch = data.range(part, begin, std::min(begin + kBatch, n));
    const auto logits = predict(batch.x);
    loss_sum +=
        loss_value(loss, logits, batch.y).item<double>() * static_cast<double>(batch.size());
    const auto guess = logits.argmax(1).contiguous();
    const auto* from = guess.data_ptr<int64_t>();
    out.predicted.insert(out.predicted.end(), from, from + guess.numel());
    const auto* labels = batch.y.data_ptr<int64_t>();
    out.truth.insert(out.truth.end(), labels, labels + batch.y.numel());
    const auto scores = class_probabilities(loss.kind, logits.detach()).contiguous();
    const auto* first = scores.data_ptr<double>();
    out.scores.insert(out.scores.end(), first, first + scores.numel());
  }
  out.loss = n > 0 ? loss_sum / static_cast<double>(n) : std::nan("");
  return out;
}

ClientMetrics metrics_of(const Predictions& predictions) {
  auto out = class_metrics(predictions.predicted, predictions.truth, predictions.classes);
  if (out.n == 0) return out;
  out.loss = predictions.loss;
  out.auroc = mean_auroc(predictions);
  out.ece = top_calibration(predictions);
  return out;
}

Confusion confusion_of(const Predictions& predictions) {
  Confusion out{predictions.classes, {}};
  out.counts.resize(static_cast<size_t>(out.classes * out.classes));
  for (size_t i = 0; i < predictions.truth.size(); ++i)
    ++out.counts[static_cast<size_t>(predictions.truth[i] * out.classes +
                                     predictions.predicted[i])];
  return out;
}

ClientMetrics measure(const std::function<Tensor(const Tensor&)>& predict, const ClientData& data,
                      Part part, const Loss& loss) {
  return metrics_of(predict_part(predict, data, part, loss));
}

double value_of(const ClientMetrics& metrics, const std::string& metric) {
  return metric_in(metrics, metric, metrics.n > 0 ? metrics.accuracy() : std::nan(""));
}

double value_of(const Summary& summary, const std::string& metric) {
  return metric_in(summary, metric, summary.mean);
}

Summary summarize(std::span<const ClientMetrics> clients) {
  std::vector<double> accuracy;
  Summary out;
  int64_t correct = 0, samples = 0;
  double with_auroc = 0, with_ece = 0;
  for (const auto& client : clients) {
    if (client.n == 0) continue;
    accuracy.push_back(client.accuracy());
    correct += client.correct, samples += client.n;
    out.precision_macro += client.precision_macro, out.f1_macro += client.f1_macro;
    out.f1_remap += client.f1_remap, out.loss += client.loss;
    out.balanced_accuracy += client.balanced_accuracy;
    if (!std::isnan(client.auroc)) out.auroc += client.auroc, ++with_auroc;
    if (!std::isnan(client.ece)) out.ece += client.ece, ++with_ece;
  }
  const double none = std::nan("");
  if (accuracy.empty())
    return {none, none, none, none, none, none, none, none, none, none, none, none, none, none};
  const auto count = static_cast<double>(accuracy.size());
  for (double* value :
       {&out.precision_macro, &out.f1_macro, &out.f1_remap, &out.loss, &out.balanced_accuracy})
    *value /= count;
  out.auroc = with_auroc > 0 ? out.auroc / with_auroc : none;
  out.ece = with_ece > 0 ? out.ece / with_ece : none;
  const auto spread = spread_of(metrics().front(), std::move(accuracy));
  out.mean = spread.mean, out.std = spread.std, out.min = spread.min, out.max = spread.max;
  out.worst10 = spread.worst10, out.best10 = spread.best10;
  out.micro = ratio(correct, samples);
  return out;
}

}  // namespace tessera
