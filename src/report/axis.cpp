#include "report/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace tessera::svg {
namespace {

// The nice step at or above `rough`.
double nice_step(double rough, bool whole) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (whole && factor == 2.5 && power < 10) continue;
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  return whole ? std::max(1.0, std::round(step)) : step;
}

// A range that cannot be divided (one value, or so large that its length overflows) is widened.
void widen(double& low, double& high) {
  low = std::clamp(low, -1e300, 1e300), high = std::clamp(high, -1e300, 1e300);
  if (!negligible(high - low, low, high)) return;
  const bool positive = low >= 0;
  const double room = low == 0 ? 1 : std::abs(low) * 0.5;
  low -= room, high += room;
  if (positive) low = std::max(low, 0.0);
}

int exponent_of(double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); }

bool is_plain(double value) {
  return value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e7);
}

// With a true minus sign.
std::string signed_text(std::string text) { return text[0] == '-' ? "−" + text.substr(1) : text; }

// As many decimals as the step has, so that neighbours differ; powers of ten where those are short.
std::string tick_text(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  const int power = exponent_of(step);
  const bool quarter = std::abs(step / std::pow(10.0, power) - 2.5) < 1e-6;
  const int decimals = std::max(0, (quarter ? 1 : 0) - power);
  const int digits = std::max(0, exponent_of(std::abs(value)) - power + (quarter ? 1 : 0));
  if ((decimals > 6 || std::abs(value) >= 1e7) && digits <= 4) return power_text(value, digits);
  return signed_text(fmt::format("{:.{}f}", value, decimals));
}

}  // namespace

Unit unit_of(Quantity quantity, double largest) {
  const double size = std::isfinite(largest) ? std::abs(largest) : 0;
  switch (quantity) {
    case Quantity::kFraction:
      return {"%", 0.01};
    case Quantity::kBytes:
      if (size >= 1e12) return {"TB", 1e12};
      if (size >= 1e9) return {"GB", 1e9};
      if (size >= 1e6) return {"MB", 1e6};
      return size >= 1e3 ? Unit{"kB", 1e3} : Unit{"bytes", 1};
    case Quantity::kSeconds:
      if (size >= 2 * 3600) return {"h", 3600};
      if (size >= 2 * 60) return {"min", 60};
      return size >= 1 || size == 0 ? Unit{"s", 1} : Unit{"ms", 1e-3};
    case Quantity::kNumber:
    case Quantity::kCount:
      break;
  }
  return {"", 1};
}

bool negligible(double length, double low, double high) {
  // Numbers come from float32: 1e-7 of a value is its last digit.
  return !(length > 1e-6 * std::max(std::abs(low), std::abs(high)));
}

std::string power_text(double value, int decimals) {
  static constexpr const char* kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const auto text = fmt::format("{:.{}e}", value, decimals);  // "-1.96e-24"
  const auto at = text.find('e');
  auto out = signed_text(text.substr(0, at)) + "×10";
  const int exponent = std::stoi(text.substr(at + 1));
  if (exponent < 0) out += "⁻";
  for (const char digit : fmt::format("{}", std::abs(exponent))) out += kRaised[digit - '0'];
  return out;
}

std::string value_text(Quantity quantity, double value) {
  if (!std::isfinite(value)) return "–";
  switch (quantity) {
    case Quantity::kFraction:
      return fmt::format("{:.1f}\u00a0%", value * 100);
    case Quantity::kBytes:
      return human_bytes(value);
    case Quantity::kSeconds:
      return human_seconds(value);
    case Quantity::kCount:
      return fmt::format("{:.0f}", value);
    case Quantity::kNumber:
      break;
  }
  if (!is_plain(value)) return power_text(value, 2);
  // Three digits with their zeros (1.10), so that neighbours compare; whole numbers stay whole.
  if (value == std::round(value) || std::abs(value) >= 1000)
    return signed_text(fmt::format("{:.0f}", value));
  // From where three digits would round to 100.
  if (std::abs(value) >= 99.95) return signed_text(fmt::format("{:.4g}", value));
  return signed_text(fmt::format("{:#.3g}", value));
}

std::string points_text(double difference) {
  if (!std::isfinite(difference)) return "–";
  return fmt::format("{}{:.1f}", difference < 0 ? "−" : "+", std::abs(difference) * 100);
}

std::vector<double> nice_ticks(double low, double high, int wanted, bool whole) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) return {};
  widen(low, high);
  const double step = nice_step((high - low) / std::max(1, wanted), whole);
  std::vector<double> ticks;
  // The slack keeps an end that is a tick but for rounding; the count is bounded by the step.
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 4 * std::max(1, wanted); ++i) {
    const double tick = (first + i) * step;
    if (tick > high + step * 1e-9) break;
    ticks.push_back(tick == 0 ? 0 : tick);
  }
  return ticks;
}

AxisMap::AxisMap(const Axis& axis, double data_low, double data_high, double pixel_low,
                 double pixel_high, int wanted_ticks)
    : pixel_low_(pixel_low), pixel_high_(pixel_high) {
  find_ends(axis, data_low, data_high);
  unit_ = unit_of(axis.quantity, std::max(std::abs(low_), std::abs(high_)));
  title_ = unit_.name.empty() ? axis.title : fmt::format("{} ({})", axis.title, unit_.name);
  log_ ? make_log_ticks() : make_linear_ticks(axis, wanted_ticks);
}

void AxisMap::find_ends(const Axis& axis, double data_low, double data_high) {
  const bool data = std::isfinite(data_low) && std::isfinite(data_high);
  low_ = std::isfinite(axis.low) ? axis.low : data ? data_low : 0;
  high_ = std::isfinite(axis.high) ? axis.high : data ? data_high : low_ + 1;
  if (low_ > high_) std::swap(low_, high_);
  log_ = axis.scale == Scale::kLog && low_ > 0;
  if (log_ && high_ / low_ < 1 + 1e-6) low_ /= 2, high_ *= 2;
  // One round alone: half a round to either side, so that no other round gets a tick.
  if (axis.quantity == Quantity::kCount && axis.tight && low_ == high_) low_ -= 0.5, high_ += 0.5;
  share_ = axis.quantity == Quantity::kFraction && !std::isfinite(axis.high) && high_ <= 1;
  if (!log_) widen(low_, high_);
  if (share_) high_ = std::min(high_, 1.0);
}

void AxisMap::make_linear_ticks(const Axis& axis, int wanted) {
  const bool whole = axis.quantity == Quantity::kCount;
  double low = low_ / unit_.size, high = high_ / unit_.size;
  const double step = nice_step((high - low) / std::max(1, wanted), whole);
  if (!axis.tight) {  // outwards to the next tick, ends that were fixed excepted
    if (!std::isfinite(axis.low)) low = std::floor(low / step + 1e-9) * step;
    if (!std::isfinite(axis.high)) high = std::ceil(high / step - 1e-9) * step;
    if (share_) high = std::min(high, 1 / unit_.size);
    low_ = low * unit_.size, high_ = high * unit_.size;
  }
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    ticks_.push_back({i * step * unit_.size, tick_text(i * step, step)});
    if (ticks_.size() > 64) break;
  }
}

void AxisMap::make_log_ticks() {
  const double decades = std::log10(high_ / low_);
  const std::vector<double> factors = decades < 1.3   ? std::vector<double>{1, 2, 3, 5, 7}
                                      : decades < 3.2 ? std::vector<double>{1, 2, 5}
                                                      : std::vector<double>{1};
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  const int first = static_cast<int>(std::floor(std::log10(low_ / unit_.size)));
  const int last = static_cast<int>(std::ceil(std::log10(high_ / unit_.size)));
  for (int power = first; power <= last; power += every) {
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, power);
      const double scaled = value * unit_.size;
      if (scaled >= low_ * (1 - 1e-9) && scaled <= high_ * (1 + 1e-9))
        ticks_.push_back({scaled, !is_plain(value) ? power_text(value, 0)
                                  : value >= 1e5   ? fmt::format("{:.0f}", value)
                                                   : fmt::format("{:g}", value)});
    }
  }
}

double AxisMap::operator()(double value) const {
  if (std::isnan(value)) return pixel_low_;
  value = std::clamp(value, low_, high_);
  const double part =
      log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return pixel_low_ + part * (pixel_high_ - pixel_low_);
}

}  // namespace tessera::svg
