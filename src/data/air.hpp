// Hourly air-quality records of one site, cleaned, before any scaling. Needs no torch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/csv.hpp"

namespace tessera {

/// 0…4 temperature, pressure, dew point, wind speed, rain; 5…10 PM2.5, PM10, SO2, NO2, CO, O3;
/// 11…15 wind from NE, NW, SE, SW, calm or variable; 16…19 hour and month as sine and cosine;
/// 20 the other pollutants are missing; 21 some value of the hour was interpolated.
inline constexpr size_t kAirFeatures = 22;
inline constexpr size_t kAirMeasured = 11;  // the first so many are standardised
inline constexpr int64_t kAirLevels = 5;
inline constexpr std::array kAirLimits{35.0, 75.0, 115.0, 150.0};  // of PM2.5, between levels
inline constexpr size_t kAirPm25 = 5;                              // the feature they are of
inline constexpr int64_t kAirGap = 6;  // hours; longer gaps are not filled

/// Where a client's series is: a file of set air-bj or air-5c, and a column of it.
struct AirPlace {
  std::string name, set, file, column;
};
/// The sites of air-bj, air-5c, air-a (both, none twice) or air-b (Beijing first, then farther
/// cities), in a fixed order.
std::vector<AirPlace> air_places(const std::string& set);

using AirHour = std::array<float, kAirFeatures>;
struct AirSeries {
  int64_t first = 0;  // the hour of the first row, since 1970
  std::vector<AirHour> hours;
  std::vector<bool> usable;    // every value measured, or filled in a gap of at most kAirGap hours
  std::vector<int8_t> levels;  // of PM2.5; −1 where it was not measured
};

/// kInvalid if the rows are not consecutive hours or a cell is not a number.
Result<AirSeries> read_air(const Csv& csv, const AirPlace& place, const std::string& path);

/// The number of kAirLimits below. 0: ≤ 35, 1: ≤ 75, 2: ≤ 115, 3: ≤ 150, 4: above (µg/m³; HJ
/// 633-2012, the two highest merged).
int8_t air_level(double pm25);

/// Fills runs of at most kAirGap NaN between two numbers with a straight line; marks them.
void fill_gaps(std::vector<double>& values, std::vector<bool>& filled);

/// Hours at which a window of `length` usable hours starts whose following hour has a level:
/// candidates are every `stride` hours from the first.
std::vector<int64_t> air_windows(const AirSeries& series, int64_t length, int64_t stride);

/// The first hour of a day, since 1970, written as 2014-07-01; empty if it is none.
std::optional<int64_t> air_date(const std::string& text);

}  // namespace tessera
