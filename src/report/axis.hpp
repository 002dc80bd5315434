// From values to pixels: units, nice ticks, linear and logarithmic axes.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace tessera::svg {

/// What a number measures; decides unit, ticks and how it is written.
enum class Quantity { kNumber, kCount, kFraction, kBytes, kSeconds };
enum class Scale { kLinear, kLog };

struct Axis {
  std::string title;
  Quantity quantity = Quantity::kNumber;
  Scale scale = Scale::kLinear;  // kLog falls back to linear when no value is positive
  /// Fixed ends; NaN = from the data.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  bool tight = false;  // end at the data instead of at the next tick
};

/// The unit an axis is written in: fractions in %, the rest by the largest value.
struct Unit {
  std::string name;   // "%", "MB", "min"; empty for plain numbers
  double size = 1.0;  // how much of the quantity one unit is: 0.01, 1e6, 60
};
Unit unit_of(Quantity quantity, double largest);

/// One value with its unit, for tooltips and tables: "84.2 %" (with a no-break space), "1.20 MB";
/// "–" when not finite. Plain numbers have three digits; very small and large ones are powers of
/// ten.
std::string value_text(Quantity quantity, double value);
/// "1.96×10⁻²⁴": `decimals` of them after the point. Finite values only.
std::string power_text(double value, int decimals);
/// So little beside the values themselves that it is rounding: an axis of it would have one tick.
bool negligible(double length, double low, double high);
/// A difference of fractions in percentage points, signed: "+1.2", "−3.4"; "–" when not finite.
std::string points_text(double difference);

/// Multiples of 1, 2, 2.5 or 5 times a power of ten inside [low, high], about `wanted` of them.
/// `whole`: only integers. Empty when an end is not finite or low > high.
std::vector<double> nice_ticks(double low, double high, int wanted, bool whole = false);

struct Tick {
  double value;
  std::string text;  // in the axis' unit, without its name
};

/// Maps values to pixels. Every result is finite: values outside are clamped to the ends.
/// No axis reaches where its data cannot: below 0 without negative values, beyond 100 % of
/// fractions.
class AxisMap {
 public:
  /// Data reach from data_low to data_high (not finite = no data); pixel_low may exceed pixel_high.
  AxisMap(const Axis& axis, double data_low, double data_high, double pixel_low, double pixel_high,
          int wanted_ticks);

  double operator()(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }
  const std::string& title() const { return title_; }  // with the unit: "Traffic (MB)"
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  void find_ends(const Axis& axis, double data_low, double data_high);
  void make_linear_ticks(const Axis& axis, int wanted);
  void make_log_ticks();

  Unit unit_;
  bool log_ = false;
  bool share_ = false;  // fractions of which none exceeds 1
  double low_ = 0, high_ = 1, pixel_low_, pixel_high_;
  std::vector<Tick> ticks_;
  std::string title_;
};

}  // namespace tessera::svg
