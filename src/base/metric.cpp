#include "base/metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace tessera {

bool MetricInfo::better(double a, double b) const {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
  return smaller_is_better ? a < b : a > b;
}

std::string MetricInfo::text(double value) const {
  if (!std::isfinite(value)) return "–";
  return fraction ? fmt::format("{:.1f}", value * 100) : fmt::format("{:.3g}", value);
}

const std::vector<MetricInfo>& metrics() {
  static const std::vector<MetricInfo> out{{"accuracy", "accuracy"},
                                           {"acc_micro", "pooled accuracy", false, true, true},
                                           {"balanced_accuracy", "balanced accuracy"},
                                           {"auroc", "AUROC"},
                                           {"f1_macro", "macro F1"},
                                           {"precision_macro", "macro precision"},
                                           {"loss", "loss", true, false},
                                           {"ece", "calibration error", true}};
  return out;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> out;
  for (const auto& metric : metrics()) out.push_back(metric.name);
  return out;
}

const MetricInfo& metric_of(const std::string& name) {
  for (const auto& metric : metrics())
    if (metric.name == name) return metric;
  return metrics().front();
}

MetricSpread spread_of(const MetricInfo& metric, std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) {
    const double none = std::nan("");
    return {none, none, none, none, none, none};
  }
  // From worst to best. By value alone, so that sums do not depend on the order of clients.
  std::sort(values.begin(), values.end(),
            [&](double a, double b) { return metric.rank(a) < metric.rank(b); });
  const auto mean_of = [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / static_cast<double>(part.size());
  };
  const auto count = static_cast<double>(values.size());
  MetricSpread out{};
  out.mean = mean_of(values);
  for (const double value : values) out.std += (value - out.mean) * (value - out.mean) / count;
  out.std = std::sqrt(out.std);
  const auto [least, most] = std::minmax(values.front(), values.back());
  out.min = least, out.max = most;
  const auto tenth = static_cast<size_t>(std::ceil(0.1 * count));
  out.worst10 = mean_of(std::span(values).first(tenth));
  out.best10 = mean_of(std::span(values).last(tenth));
  return out;
}

}  // namespace tessera
