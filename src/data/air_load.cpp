#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/key.hpp"
#include "data/air.hpp"
#include "data/sources.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxCsv = size_t{256} << 20;
constexpr int64_t kMinWindows = 10;
constexpr float kClip = 5.0f;

struct Site {
  std::string name;
  AirSeries series;
  std::vector<int64_t> windows;  // their first hours, ascending
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

int64_t train_count(const Site& site) { return static_cast<int64_t>(site.windows.size()) * 7 / 10; }

void add_training_hours(const Site& site, int64_t length, Sums& sums) {
  int64_t next = 0;
  for (int64_t i = 0; i < train_count(site); ++i) {
    const int64_t start = site.windows[static_cast<size_t>(i)];
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
    for (size_t f = 0; f < kAirMeasured; ++f)
      to[f] = std::clamp(static_cast<float>((hour[f] - scale.mean[f]) * scale.inverse[f]), -kClip,
                         kClip);
    if (options.station_id) to[kAirFeatures] = station;
  }
  const int64_t windows = hours - options.window;
  auto y = at::zeros({windows}, at::kLong);
  for (int64_t t = 0; t < windows; ++t)
    y.data_ptr<int64_t>()[t] =
        std::max<int64_t>(0, site.series.levels[static_cast<size_t>(t + options.window)]);
  return {rows.as_strided({windows, options.window, width}, {width, width, 1}), y, kAirLevels};
}

Result<std::vector<Site>> read_sites(const std::vector<AirPlace>& places,
                                     const DataOptions& options, std::vector<std::string>& notes) {
  std::map<std::string, Result<Csv>> files;  // a city's file holds several sites
  std::vector<Site> sites;
  for (const auto& place : places) {
    TESSERA_ASSIGN(const auto dir, find_set(place.set, options.data_dir));
    TESSERA_ASSIGN(const auto path, find_unpacked(dir, place.file));
    if (!files.contains(path)) {
      TESSERA_ASSIGN(const auto bytes, read_unpacked(path, kMaxCsv));
      files.emplace(path, parse_csv(bytes, path));
      notes.push_back(fmt::format("{}: {}", place.set, path));
    }
    const auto& csv = files.at(path);
    if (!csv.ok()) return csv.status();
    TESSERA_ASSIGN(auto series, read_air(*csv, place, path));
    auto windows = air_windows(series, options.window, options.stride);
    if (options.windows > 0 && windows.size() > static_cast<size_t>(options.windows))
      windows.resize(static_cast<size_t>(options.windows));
    if (static_cast<int64_t>(windows.size()) < kMinWindows)
      return fail(Error::kInvalid,
                  "{}: '{}' has {} windows of {} hours without a long gap, fewer than {}; use a "
                  "smaller window or stride",
                  path, place.column, windows.size(), options.window, kMinWindows);
    sites.push_back({place.name, std::move(series), std::move(windows)});
  }
  return sites;
}

void balance(std::vector<Site>& sites) {
  size_t least = sites.front().windows.size();
  for (const auto& site : sites) least = std::min(least, site.windows.size());
  for (auto& site : sites) site.windows.resize(least);
}

ClientRows split_rows(const Site& site) {
  const auto& rows = site.windows;
  const auto n = static_cast<int64_t>(rows.size());
  const auto train = rows.begin() + train_count(site), val = rows.begin() + n * 8 / 10;
  return {{rows.begin(), train}, {train, val}, {val, rows.end()}, {}};
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
  if (options.balanced) balance(sites);
  Sums everybody;
  for (size_t k = 0; k < picked.clients.size(); ++k)
    add_training_hours(sites[k], options.window, everybody);

  size_t windows = 0;
  for (size_t k = 0; k < sites.size(); ++k) {
    Sums own;
    add_training_hours(sites[k], options.window, own);
    const auto scale = scale_of(options.stats == "global" ? everybody : own);
    const auto pool = std::make_shared<const Pool>(make_air_pool(sites[k], scale, options));
    auto& group = k < picked.clients.size() ? out.clients : out.newcomers;
    group.push_back(natural_client(sites[k].name, pool, split_rows(sites[k]), 0.0, options.samples,
                                   derive(key, Purpose::kPartition, k)));
    windows += sites[k].windows.size();
  }
  out.notes.push_back(fmt::format("{}: {} sites, {} windows of {} hours", options.set, sites.size(),
                                  windows, options.window));
  out.sample_shape = out.clients.front().pool->x.sizes().slice(1).vec();
  out.classes = kAirLevels;
  out.class_names = {"up to 35", "up to 75", "up to 115", "up to 150", "above 150"};
  out.multi_label_loss = true;
  out.digest = digest_of(out);
  return out;
}

}  // namespace tessera
