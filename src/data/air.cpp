#include "data/air.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kCalm = 0.3;  // m/s: Beaufort 0

struct Columns {
  std::array<const char*, 5> weather;     // temperature, pressure, dew point, wind speed, rain
  std::array<const char*, 5> pollutants;  // besides PM2.5; empty names where the set has none
  const char* wind;
};
constexpr Columns kBeijing{
    {"TEMP", "PRES", "DEWP", "WSPM", "RAIN"}, {"PM10", "SO2", "NO2", "CO", "O3"}, "wd"};
constexpr Columns kFiveCities{
    {"TEMP", "PRES", "DEWP", "Iws", "precipitation"}, {"", "", "", "", ""}, "cbwd"};

const std::vector<std::string>& beijing_stations() {
  static const std::vector<std::string> kStations{
      "Aotizhongxin", "Changping",    "Dingling", "Dongsi",  "Guanyuan", "Gucheng",
      "Huairou",      "Nongzhanguan", "Shunyi",   "Tiantan", "Wanliu",   "Wanshouxigong"};
  return kStations;
}

AirPlace beijing(const std::string& station) {
  return {station, "air-bj", fmt::format("PRSA_Data_{}_20130301-20170228.csv", station), "PM2.5"};
}

AirPlace five_cities(const std::string& city, const std::string& post) {
  return {city + " " + post, "air-5c", city + "PM20100101_20151231.csv", "PM_" + post};
}

// Guangzhou's City Station is left out: it repeats its US Post in every row.
std::vector<AirPlace> all_five_cities() {
  const std::vector<std::pair<std::string, std::vector<std::string>>> kPosts{
      {"Beijing", {"US Post", "Dongsi", "Dongsihuan", "Nongzhanguan"}},
      {"Chengdu", {"US Post", "Caotangsi", "Shahepu"}},
      {"Guangzhou", {"US Post", "5th Middle School"}},
      {"Shanghai", {"US Post", "Jingan", "Xuhui"}},
      {"Shenyang", {"US Post", "Taiyuanjie", "Xiaoheyan"}}};
  std::vector<AirPlace> out;
  for (const auto& [city, posts] : kPosts)
    for (const auto& post : posts) out.push_back(five_cities(city, post));
  return out;
}

std::vector<AirPlace> case_study() {
  std::vector<AirPlace> out;
  for (const char* station : {"Dongsi", "Tiantan", "Guanyuan", "Gucheng"})
    out.push_back(beijing(station));
  const auto cities = all_five_cities();
  for (const std::string city : {"Shenyang", "Shanghai", "Chengdu"})
    std::copy_if(cities.begin(), cities.end(), std::back_inserter(out),
                 [&](const AirPlace& place) { return place.name.starts_with(city + " "); });
  return out;
}

// Quarter 0…4 as in the features: NE, NW, SE, SW, calm; −1 if it is not a wind direction.
int quarter(std::string_view wind, double speed) {
  if (wind == "cv" || speed < kCalm) return 4;
  if (wind == "N" || wind == "NNE" || wind == "NE" || wind == "ENE") return 0;
  if (wind == "W" || wind == "WNW" || wind == "NW" || wind == "NNW") return 1;
  if (wind == "E" || wind == "ESE" || wind == "SE" || wind == "SSE") return 2;
  if (wind == "S" || wind == "SSW" || wind == "SW" || wind == "WSW") return 3;
  return -1;
}

// Known impossible values of the originals (README of the data): −9999, −97 and 999990.
void drop_impossible(std::vector<double>& values, double low, double high) {
  for (double& v : values)
    if (v < low || v > high) v = kMissing;
}

// Hour of the day and month of every row.
struct AirClock {
  int64_t first = 0;  // the first row, in hours since 1970
  std::vector<std::array<double, 2>> rows;
};

int64_t hours_at(const std::chrono::year_month_day& date) {
  return std::chrono::sys_days(date).time_since_epoch().count() * int64_t{24};
}

Result<AirClock> read_clock(const Csv& csv, const std::string& path) {
  std::array<std::vector<int64_t>, 4> parts;
  const std::array names{"year", "month", "day", "hour"};
  for (size_t i = 0; i < 4; ++i) {
    TESSERA_ASSIGN(parts[i], csv.integers(names[i]));
  }
  AirClock out;
  std::optional<int64_t> previous;
  for (size_t row = 0; row < csv.rows(); ++row) {
    using namespace std::chrono;
    const year_month_day date{year(static_cast<int>(parts[0][row])),
                              month(static_cast<unsigned>(parts[1][row])),
                              day(static_cast<unsigned>(parts[2][row]))};
    const int64_t hour_of_day = parts[3][row];
    const bool sane = date.ok() && hour_of_day >= 0 && hour_of_day < 24;
    const int64_t now = sane ? hours_at(date) + hour_of_day : 0;
    if (!sane || (previous && now != *previous + 1))
      return fail(Error::kInvalid,
                  "{}, data row {}: not the hour after the row before; the file must hold every "
                  "hour once, in order",
                  path, row + 1);
    if (!previous) out.first = now;
    previous = now;
    out.rows.push_back({static_cast<double>(hour_of_day), static_cast<double>(parts[1][row])});
  }
  return out;
}

// The wind's quarter of each hour; short gaps keep the last known direction, long ones are −1.
Result<std::vector<int>> read_wind(const Csv& csv, const char* column,
                                   const std::vector<double>& speed, std::vector<bool>& filled,
                                   const std::string& path) {
  TESSERA_ASSIGN(const auto index, csv.column(column));
  std::vector<double> known(csv.rows(), kMissing);
  for (size_t row = 0; row < csv.rows(); ++row) {
    if (csv.missing(row, index)) continue;
    const int found = quarter(csv.cell(row, index), speed[row]);
    if (found < 0)
      return fail(Error::kInvalid, "{}, data row {}: '{}' is not a wind direction", path, row + 1,
                  csv.cell(row, index));
    known[row] = found;
  }
  auto line = known;
  fill_gaps(line, filled);
  std::vector<int> out(csv.rows(), -1);
  for (size_t row = 0; row < out.size(); ++row)
    if (!std::isnan(line[row]))
      out[row] = std::isnan(known[row]) ? out[row - 1] : static_cast<int>(known[row]);
  return out;
}

// The eleven measured columns, NaN where missing; other pollutants are 0 where the set has none.
Result<std::array<std::vector<double>, kAirMeasured>> read_measured(const Csv& csv,
                                                                    const Columns& columns,
                                                                    const AirPlace& place) {
  std::array<std::vector<double>, kAirMeasured> out;
  for (size_t i = 0; i < 5; ++i) {
    TESSERA_ASSIGN(out[i], csv.numbers(columns.weather[i]));
  }
  TESSERA_ASSIGN(out[5], csv.numbers(place.column));
  for (size_t i = 0; i < 5; ++i) {
    if (columns.pollutants[i][0] == '\0') {
      out[6 + i].assign(csv.rows(), 0.0);
      continue;
    }
    TESSERA_ASSIGN(out[6 + i], csv.numbers(columns.pollutants[i]));
  }
  drop_impossible(out[2], -90.0, 100.0);
  drop_impossible(out[4], 0.0, 1000.0);
  return out;
}

}  // namespace

std::vector<AirPlace> air_places(const std::string& set) {
  if (set == "air-b") return case_study();
  std::vector<AirPlace> out;
  if (set != "air-5c")
    for (const auto& station : beijing_stations()) out.push_back(beijing(station));
  if (set == "air-bj") return out;
  for (auto& place : all_five_cities()) {
    const bool twice = place.name == "Beijing Dongsi" || place.name == "Beijing Nongzhanguan";
    if (set == "air-5c" || !twice) out.push_back(std::move(place));
  }
  return out;
}

int8_t air_level(double pm25) {
  return static_cast<int8_t>(std::count_if(kAirLimits.begin(), kAirLimits.end(),
                                           [&](double limit) { return pm25 > limit; }));
}

std::optional<int64_t> air_date(const std::string& text) {
  using namespace std::chrono;
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto y = whole_number(text.substr(0, 4)), m = whole_number(text.substr(5, 2)),
             d = whole_number(text.substr(8, 2));
  if (!y || !m || !d) return std::nullopt;
  const year_month_day date{year(static_cast<int>(*y)), month(static_cast<unsigned>(*m)),
                            day(static_cast<unsigned>(*d))};
  return date.ok() ? std::optional(hours_at(date)) : std::nullopt;
}

void fill_gaps(std::vector<double>& values, std::vector<bool>& filled) {
  const auto n = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < n; ++begin) {
    if (!std::isnan(values[static_cast<size_t>(begin)])) continue;
    int64_t end = begin;
    while (end < n && std::isnan(values[static_cast<size_t>(end)])) ++end;
    if (begin > 0 && end < n && end - begin <= kAirGap) {
      const double left = values[static_cast<size_t>(begin - 1)];
      const double step =
          (values[static_cast<size_t>(end)] - left) / static_cast<double>(end - begin + 1);
      for (int64_t i = begin; i < end; ++i) {
        values[static_cast<size_t>(i)] = left + step * static_cast<double>(i - begin + 1);
        filled[static_cast<size_t>(i)] = true;
      }
    }
    begin = end;
  }
}

Result<AirSeries> read_air(const Csv& csv, const AirPlace& place, const std::string& path) {
  const bool beijing_set = place.set == "air-bj";
  const Columns& columns = beijing_set ? kBeijing : kFiveCities;
  TESSERA_ASSIGN(const auto clock, read_clock(csv, path));
  TESSERA_ASSIGN(auto measured, read_measured(csv, columns, place));
  std::vector<bool> filled(csv.rows());
  AirSeries out;
  out.first = clock.first;
  for (const double pm25 : measured[5])
    out.levels.push_back(std::isnan(pm25) ? int8_t{-1} : air_level(pm25));
  // Only air-bj leaves calm hours to the wind speed; air-5c marks them itself.
  const std::vector<double> unknown(csv.rows(), kMissing);
  TESSERA_ASSIGN(const auto wind,
                 read_wind(csv, columns.wind, beijing_set ? measured[3] : unknown, filled, path));
  for (auto& column : measured) fill_gaps(column, filled);

  for (size_t row = 0; row < csv.rows(); ++row) {
    AirHour hour{};
    bool usable = wind[row] >= 0;
    for (size_t i = 0; i < kAirMeasured; ++i) {
      usable = usable && !std::isnan(measured[i][row]);
      hour[i] = static_cast<float>(measured[i][row]);
    }
    if (wind[row] >= 0) hour[kAirMeasured + static_cast<size_t>(wind[row])] = 1.0f;
    const double day = 2.0 * std::numbers::pi * clock.rows[row][0] / 24.0;
    const double year = 2.0 * std::numbers::pi * (clock.rows[row][1] - 1.0) / 12.0;
    hour[16] = static_cast<float>(std::sin(day)), hour[17] = static_cast<float>(std::cos(day));
    hour[18] = static_cast<float>(std::sin(year)), hour[19] = static_cast<float>(std::cos(year));
    hour[20] = beijing_set ? 0.0f : 1.0f;
    hour[21] = filled[row] ? 1.0f : 0.0f;
    out.hours.push_back(hour);
    out.usable.push_back(usable);
  }
  return out;
}

std::vector<int64_t> air_windows(const AirSeries& series, int64_t length, int64_t stride) {
  const auto n = static_cast<int64_t>(series.hours.size());
  std::vector<int64_t> starts;
  int64_t run = 0;  // usable hours in a row up to and including `last`
  for (int64_t last = 0; last + 1 < n; ++last) {
    run = series.usable[static_cast<size_t>(last)] ? run + 1 : 0;
    const int64_t start = last - length + 1;
    if (run >= length && start % stride == 0 && series.levels[static_cast<size_t>(last + 1)] >= 0)
      starts.push_back(start);
  }
  return starts;
}

}  // namespace tessera
