#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/key.hpp"
#include "data/air.hpp"
#include "data/keep.hpp"
#include "data/sources.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxCsv = size_t{256} << 20;
constexpr float kClip = 5.0f;

struct Site {
  std::string name;
  AirSeries series;
  std::vector<int64_t> windows;  // their first hours, ascending; also the pool's row numbers
  ClientRows parts;
};

// Sums over the hours that training windows cover, each hour once.
struct Sums {
  double n = 0.0;
  std::array<double, kAirMeasured> sum{}, squares{};
};

// What a measured value loses and is divided by; a constant column becomes 0.
struct Scale {
  std::array<double, kAirMeasured> mean{}, inverse{};
};

void add_training_hours(const Site& site, int64_t length, Sums& sums) {
  int64_t next = 0;
  for (const int64_t start : site.parts.train) {
    for (next = std::max(next, start); next < start + length; ++next) {
      const auto& hour = site.series.hours[static_cast<size_t>(next)];
      sums.n += 1.0;
      for (size_t f = 0; f < kAirMeasured; ++f) {
        const double v = hour[f];
        sums.sum[f] += v, sums.squares[f] += v * v;
      }
    }
  }
}

Scale scale_of(const Sums& sums) {
  Scale out;
  for (size_t f = 0; f < kAirMeasured; ++f) {
    out.mean[f] = sums.sum[f] / sums.n;
    const double variance = sums.squares[f] / sums.n - out.mean[f] * out.mean[f];
    out.inverse[f] = variance > 1e-9 ? 1.0 / std::sqrt(variance) : 0.0;
  }
  return out;
}

// A measured value as a network sees it. Never falls with the value.
float scaled(double value, size_t feature, const Scale& scale) {
  return std::clamp(static_cast<float>((value - scale.mean[feature]) * scale.inverse[feature]),
                    -kClip, kClip);
}

// The level of a window's last hour can be read off its PM2.5.
LastLabel last_level(const Scale& scale, int64_t window, int64_t width) {
  LastLabel out{(window - 1) * width + static_cast<int64_t>(kAirPm25), {}};
  for (const double limit : kAirLimits) out.limits.push_back(scaled(limit, kAirPm25, scale));
  return out;
}

// Constant for a station, spread over [0, 1).
float station_number(const std::string& name) {
  uint64_t key = 0;
  for (const char c : name) key = derive(key, static_cast<uint64_t>(c));
  return static_cast<float>(Rng(key).uniform());
}

// One row per hour; windows are overlapping views of them, so a site costs its hours only once.
Pool make_air_pool(const Site& site, const Scale& scale, const DataOptions& options) {
  const auto hours = static_cast<int64_t>(site.series.hours.size());
  const int64_t width = static_cast<int64_t>(kAirFeatures) + (options.station_id ? 1 : 0);
  auto rows = at::zeros({hours, width}, at::kFloat);
  float* to = rows.data_ptr<float>();
  const float station = station_number(site.name);
  for (int64_t h = 0; h < hours; ++h, to += width) {
    if (!site.series.usable[static_cast<size_t>(h)]) continue;
    const auto& hour = site.series.hours[static_cast<size_t>(h)];
    for (size_t f = 0; f < kAirFeatures; ++f) to[f] = hour[f];
    for (size_t f = 0; f < kAirMeasured; ++f) to[f] = scaled(hour[f], f, scale);
    if (options.station_id) to[kAirFeatures] = station;
  }
  const int64_t windows = hours - options.window;
  auto y = at::zeros({windows}, at::kLong);
  for (int64_t t = 0; t < windows; ++t)
    y.data_ptr<int64_t>()[t] =
        std::max<int64_t>(0, site.series.levels[static_cast<size_t>(t + options.window)]);
  return {rows.as_strided({windows, options.window, width}, {width, width, 1}), y, kAirLevels};
}

// Windows of which every hour, that of the label too, lies in from … until.
void keep_period(std::vector<int64_t>& windows, const AirSeries& series,
                 const DataOptions& options) {
  if (const auto from = air_date(options.from))
    std::erase_if(windows, [&](int64_t start) { return series.first + start < *from; });
  if (const auto until = air_date(options.until))
    std::erase_if(windows,
                  [&](int64_t start) { return series.first + start + options.window >= *until; });
}

// Over the whole period: the first ones would be of one season.
void thin(std::vector<int64_t>& windows, int64_t most) {
  windows = rows_at(windows, evenly(static_cast<int64_t>(windows.size()), most));
}

Result<std::vector<Site>> read_sites(const std::vector<AirPlace>& places,
                                     const DataOptions& options, std::vector<std::string>& notes) {
  std::map<std::string, Result<Csv>> files;  // a city's file holds several sites
  std::set<std::string> named;
  std::vector<Site> sites;
  for (const auto& place : places) {
    TESSERA_ASSIGN(const auto dir, find_set(place.set, options.data_dir));
    TESSERA_ASSIGN(const auto path, find_unpacked(dir, place.file));
    if (named.insert(path).second) notes.push_back(fmt::format("{}: {}", place.set, path));
    const auto read = [&]() -> Result<AirSeries> {
      if (!files.contains(path)) {
        TESSERA_ASSIGN(const auto bytes, read_unpacked(path, kMaxCsv));
        files.emplace(path, parse_csv(bytes, path));
      }
      const auto& csv = files.at(path);
      if (!csv.ok()) return csv.status();
      return read_air(*csv, place, path);
    };
    TESSERA_ASSIGN(
        auto series,
        read_or_kept<AirSeries>(fmt::format("air {} {} {}", place.name, place.column, path), read));
    auto windows = air_windows(series, options.window, options.stride);
    keep_period(windows, series, options);
    // Every site by the same factor, so that counts stay as unequal as they are.
    if (options.shrink > 1)
      thin(windows, std::max<int64_t>(std::ssize(windows) / options.shrink, 1));
    if (options.windows > 0) thin(windows, options.windows);
    sites.push_back({place.name, std::move(series), std::move(windows), {}});
  }
  return sites;
}

// In the order of time, 70 / 10 / 20, and no hour in two parts.
Status split_by_time(Site& site, const DataOptions& options) {
  const auto& rows = site.windows;
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t val = n * 7 / 10, test = n * 8 / 10;
  const auto part = [&](int64_t begin, int64_t end) {
    const int64_t clear = clear_before(rows, end, options.window);
    return std::vector<int64_t>(rows.begin() + begin, rows.begin() + std::max(begin, clear));
  };
  site.parts = {part(0, val), part(val, test), part(test, n), {}};
  if (!site.parts.train.empty() && !site.parts.val.empty() && !site.parts.test.empty()) return ok();
  return fail(Error::kInvalid,
              "set '{}': '{}' has {} windows of {} hours without a long gap, too few for training, "
              "validation and test parts that share no hour; use a smaller window or a longer "
              "period (from, until)",
              options.set, site.name, n, options.window);
}

// The smallest part of any site is everybody's.
void balance(std::vector<Site>& sites) {
  for (const auto part : {&ClientRows::train, &ClientRows::val, &ClientRows::test}) {
    size_t least = (sites.front().parts.*part).size();
    for (const auto& site : sites) least = std::min(least, (site.parts.*part).size());
    for (auto& site : sites) thin(site.parts.*part, static_cast<int64_t>(least));
  }
}

// All windows, and how they spread over sites.
std::string window_counts(const std::vector<Site>& sites, int64_t hours) {
  double sum = 0, squares = 0;
  size_t least = SIZE_MAX, most = 0;
  for (const auto& [name, series, windows, parts] : sites) {
    const size_t n = parts.train.size() + parts.val.size() + parts.test.size();
    least = std::min(least, n), most = std::max(most, n);
    sum += static_cast<double>(n), squares += static_cast<double>(n) * static_cast<double>(n);
  }
  const double count = static_cast<double>(sites.size()), mean = sum / count;
  return fmt::format(
      "{} sites, {:.0f} windows of {} hours: {} to {} per site, mean {:.0f}, deviation {:.0f}",
      sites.size(), sum, hours, least, most, mean,
      std::sqrt(std::max(0.0, squares / count - mean * mean)));
}

}  // namespace

Result<Federation> load_air(const DataOptions& options, uint64_t key) {
  const auto all = air_places(options.set);
  TESSERA_ASSIGN(const auto picked, pick_clients(all.size(), options, key));
  std::vector<AirPlace> places;
  for (const auto* group : {&picked.clients, &picked.newcomers})
    for (const size_t k : *group) places.push_back(all[k]);

  Federation out;
  out.set = options.set;
  TESSERA_ASSIGN(auto sites, read_sites(places, options, out.notes));
  for (auto& site : sites) TESSERA_RETURN_IF_ERROR(split_by_time(site, options));
  if (options.balanced) balance(sites);
  out.notes.push_back(fmt::format("{}: {}", options.set, window_counts(sites, options.window)));
  Sums everybody;
  for (size_t k = 0; k < picked.clients.size(); ++k)
    add_training_hours(sites[k], options.window, everybody);

  for (size_t k = 0; k < sites.size(); ++k) {
    Sums own;
    add_training_hours(sites[k], options.window, own);
    const auto scale = scale_of(options.stats == "global" ? everybody : own);
    const auto pool = std::make_shared<const Pool>(make_air_pool(sites[k], scale, options));
    auto& group = k < picked.clients.size() ? out.clients : out.newcomers;
    auto& [train, val, test, support] = sites[k].parts;
    if (options.samples > 0) thin(train, options.samples);
    group.push_back({sites[k].name, pool, std::move(train), std::move(val), std::move(test), {}});
    group.back().order = {true, options.window};
    group.back().last_label =
        std::make_shared<const LastLabel>(last_level(scale, options.window, pool->x.size(2)));
  }
  out.sample_shape = out.clients.front().pool->x.sizes().slice(1).vec();
  out.classes = kAirLevels;
  out.class_names = {"up to 35", "up to 75", "up to 115", "up to 150", "above 150"};
  out.multi_label_loss = true;
  out.digest = digest_of(out);
  return out;
}

}  // namespace tessera
