#include "report/leading.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

namespace tessera {

MetricSpread Leading::spread(const RunHistory& run, const EvalRow& row) const {
  if (is_accuracy()) return {row.mean, row.std, row.min, row.max, row.worst10, row.best10};
  return spread_of(run, row.round, row.who == "newcomers", row.view, metric.name);
}

std::string Leading::plus_minus(double mean, double std) const {
  if (!std::isfinite(std)) return text(mean);
  if (!metric.fraction) return fmt::format("{:.3g} ± {:.2g}", mean, std);
  return fmt::format("{:.1f} ± {:.1f}\u00a0%", mean * 100, std * 100);
}

std::string Leading::difference(double value) const {
  if (metric.fraction) return svg::points_text(value);
  return std::isfinite(value) ? fmt::format("{:+.3g}", value) : "–";
}

Leading leading_of(const RunMeta& meta) { return leading_of(metric_of(meta.metric)); }

Leading leading_of(const MetricInfo& metric) {
  auto title = metric.title;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return {metric, metric.title, title,
          metric.fraction ? svg::Quantity::kFraction : svg::Quantity::kNumber};
}

}  // namespace tessera
