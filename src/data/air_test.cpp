#include "data/air.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "data/sources.hpp"
#include "data/testing.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Hours from 2013-03-01; PM2.5 is 10 h, missing at 5, 6 (filled) and at 12…18 (too long).
std::string air_csv(int hours = 30) {
  std::string text =
      "\"No\",\"year\",\"month\",\"day\",\"hour\",\"PM2.5\",\"PM10\",\"SO2\",\"NO2\",\"CO\",\"O3\","
      "\"TEMP\",\"PRES\",\"DEWP\",\"RAIN\",\"wd\",\"WSPM\",\"station\"\r\n";
  for (int h = 0; h < hours; ++h) {
    const bool missing = h == 5 || h == 6 || (h >= 12 && h <= 18);
    text += fmt::format("{},2013,3,{},{},{},7,1,1,1,1,{},1000,1,0,{},{},\"A\"\r\n", h + 1,
                        1 + h / 24, h % 24, missing ? "NA" : std::to_string(10 * h), h,
                        h == 8   ? "NA"
                        : h == 9 ? "\"WSW\""
                                 : "\"NNE\"",
                        h == 2 ? 0.1 : 2.0);
  }
  return text;
}

TEST(Air, GapsUpToSixHoursAreFilledWithAStraightLine) {
  const double na = std::nan("");
  std::vector<double> v{na, 1, na, na, 7, na, na, na, na, na, na, na, 0, na};
  std::vector<bool> filled(v.size());
  fill_gaps(v, filled);
  EXPECT_TRUE(std::isnan(v[0]) && std::isnan(v[13]));  // no neighbour on one side
  EXPECT_EQ(v[2], 3.0);
  EXPECT_EQ(v[3], 5.0);
  EXPECT_TRUE(filled[2] && filled[3] && !filled[4]);
  for (size_t i = 5; i < 12; ++i) EXPECT_TRUE(std::isnan(v[i])) << "seven hours are too long";
}

TEST(Air, LevelsAreTheDailyBreakpoints) {
  for (const auto& [pm, level] : std::vector<std::pair<double, int>>{
           {2, 0}, {35, 0}, {35.1, 1}, {75, 1}, {76, 2}, {115, 2}, {150, 3}, {150.5, 4}, {999, 4}})
    EXPECT_EQ(air_level(pm), level) << pm;
}

TEST(Air, WindowsAvoidLongGapsAndUnmeasuredLabels) {
  const auto csv = parse_csv(bytes_of(air_csv()), "a.csv");
  ASSERT_TRUE(csv.ok()) << csv.status();
  const auto series = read_air(*csv, air_places("air-bj").front(), "a.csv");
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_EQ(series->hours[5][5], 50.0f);
  EXPECT_EQ(series->hours[5][21], 1.0f);
  EXPECT_EQ(series->levels[5], -1);
  EXPECT_EQ(series->hours[7][11], 1.0f);  // NNE is of the north-east quarter
  EXPECT_EQ(series->hours[8][11], 1.0f);  // missing: the last known one
  EXPECT_EQ(series->hours[8][21], 1.0f);
  EXPECT_EQ(series->hours[9][14], 1.0f);          // WSW is of the south-west quarter
  EXPECT_EQ(series->hours[2][15], 1.0f);          // 0.1 m/s is calm
  EXPECT_NEAR(series->hours[6][16], 1.0f, 1e-6);  // sine of six o'clock
  EXPECT_NEAR(series->hours[0][18], std::sin(std::numbers::pi / 3), 1e-6);  // March
  EXPECT_EQ(series->hours[0][20], 0.0f);
  EXPECT_THAT(air_windows(*series, 3, 1),
              ElementsAre(0, 1, 4, 5, 6, 7, 8, 19, 20, 21, 22, 23, 24, 25, 26));
  EXPECT_THAT(air_windows(*series, 3, 6), ElementsAre(0, 6, 24));
}

// Windows of 3 hours of the one station in a directory of its own.
DataOptions one_station(const std::string& name, int hours) {
  const auto dir = fresh_dir(name);
  const auto path = dir + "/PRSA_Data_Aotizhongxin_20130301-20170228.csv";
  EXPECT_TRUE(write_file_atomic(path, bytes_of(air_csv(hours))).ok());
  auto options = natural("air-bj", dir);
  options.clients = 1, options.window = 3;
  return options;
}

// 45 windows start at 0, 1, 4 … 8, 19 … 56. By 70 / 10 / 20 the validation part starts at 43, the
// test part at 48; windows within 3 hours before these share hours with them.
TEST(Air, FederationIsStandardisedByTrainingHoursAndSplitByTime) {
  auto options = one_station("air", 60);
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->sample_shape, ElementsAre(3, 22));
  EXPECT_TRUE(fed->multi_label_loss);
  const auto& client = fed->clients.front();
  EXPECT_EQ(client.name, "Aotizhongxin");
  std::vector<int64_t> early{0, 1, 4, 5, 6, 7, 8};
  for (int64_t row = 19; row < 40; ++row) early.push_back(row);
  EXPECT_EQ(client.train, early);
  EXPECT_THAT(client.val, ElementsAre(43, 44));
  EXPECT_THAT(client.test, ElementsAre(48, 49, 50, 51, 52, 53, 54, 55, 56));
  EXPECT_TRUE(client.order.chronological);
  EXPECT_EQ(client.order.gap, 3);
  // Training windows cover hours 0…10 and 19…41: 34 hours, sum 55 + 690, squares 385 + 21712.
  const double mean = 745.0 / 34, deviation = std::sqrt(22097.0 / 34 - mean * mean);
  const auto test = client.range(Part::kTest, 0, 3);
  EXPECT_NEAR(test.x[0][1][5].item<double>(), (49 - mean) / deviation, 1e-5);
  EXPECT_EQ(test.x[0][0][6].item<double>(), 0.0);  // PM10 never changes
  EXPECT_EQ(test.y[0].item<int64_t>(), 4);         // 510 in hour 51
  const auto first = client.pool->x[0];            // hours 0, 1, 2
  EXPECT_NEAR(first[2][0].item<double>(), (2 - mean) / deviation, 1e-5);
  EXPECT_EQ(client.pool->y[0].item<int64_t>(), 0);  // 30 in hour 3
  EXPECT_EQ(client.pool->y[4].item<int64_t>(), 1);  // 70 in hour 7

  options.station_id = true, options.windows = 9;
  auto more = load_federation(options, 1);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT(more->sample_shape, ElementsAre(3, 23));
  // Every fifth window, of the whole period; nothing overlaps any more.
  EXPECT_THAT(more->clients[0].train, ElementsAre(0, 7, 22, 27, 32, 37));
  EXPECT_THAT(more->clients[0].val, ElementsAre(42));
  EXPECT_THAT(more->clients[0].test, ElementsAre(47, 52));
  options.samples = 3;
  more = load_federation(options, 1);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT(more->clients[0].train, ElementsAre(0, 22, 32));
  EXPECT_THAT(more->clients[0].test, ElementsAre(47, 52));
}

// The level of the last hour, from a sample alone. Limits are the scaled 35, 75, 115 and 150.
TEST(Air, SamplesShowTheLastLevel) {
  const auto fed = load_federation(one_station("air-last", 60), 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  const auto& client = fed->clients.front();
  ASSERT_TRUE(client.last_label);
  EXPECT_EQ(client.last_label->at, 2 * 22 + 5);
  ASSERT_EQ(client.last_label->limits.size(), 4u);
  for (const int64_t row : {0, 1, 4, 5, 6, 8}) {  // last hours 2, 3, 6, 7, 8, 10: 20 … 100
    const auto value = client.pool->x[row].flatten()[client.last_label->at].item<float>();
    int level = 0;
    for (const float limit : client.last_label->limits) level += value > limit;
    EXPECT_EQ(level, air_level(10.0 * static_cast<double>(row + 2))) << row;
  }
}

// Hours 24 … 47 are the second of March: a window's first hour is 24 at least, its label's 47 at
// most.
TEST(Air, APeriodIsOfWholeDays) {
  auto options = one_station("air-days", 80);
  options.from = "2013-03-02", options.until = "2013-03-04";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_EQ(fed->clients[0].train.front(), 24);
  EXPECT_EQ(fed->clients[0].test.back(), 68);  // 71 is the label's
  EXPECT_THAT(fed->notes.back(),
              HasSubstr("1 sites, 39 windows of 3 hours: 39 to 39 per site, mean 39"));

  options.until = "2013-03-03";  // 21 windows: validation would be 14, 15 of them, test from 16 on
  EXPECT_THAT(message(load_federation(options, 1).status()),
              HasSubstr("'Aotizhongxin' has 21 windows of 3 hours without a long gap, too few"));
  options.until = "2013-02-30";
  EXPECT_THAT(message(load_federation(options, 1).status()),
              HasSubstr("until = \"2013-02-30\" is not a day"));
  options.until = "2013-03-02";
  EXPECT_THAT(message(load_federation(options, 1).status()), HasSubstr("is not before until"));
}

// Two stations, one of which was out of order on some days.
TEST(Air, CountsAreRealOrCutToTheSmallest) {
  auto options = one_station("air-counts", 80);
  auto text = air_csv(80);
  for (int h = 40; h < 50; ++h) {
    const auto at = text.find(fmt::format("\r\n{},", h + 1));
    const auto from = text.find(fmt::format(",{},{},", h % 24, 10 * h), at);
    text.replace(from, fmt::format(",{},{},", h % 24, 10 * h).size(),
                 fmt::format(",{},NA,", h % 24));
  }
  ASSERT_TRUE(write_file_atomic(options.data_dir + "/PRSA_Data_Changping_20130301-20170228.csv",
                                bytes_of(text))
                  .ok());
  options.clients = 2;
  const auto windows = [&] {
    const auto fed = load_federation(options, 1);
    EXPECT_TRUE(fed.ok()) << fed.status();
    return fed.ok() ? fed->notes.back() : "";
  };
  // 65 windows, 7 and 19 … 76: validation from 57, test from 64, so parts of 42, 4 and 13. The
  // other one lacks 37 … 49, whose hours or label are missing: 52, parts from 61 and 66, of 33, 2
  // and 11.
  EXPECT_THAT(windows(), HasSubstr("2 sites, 105 windows of 3 hours: 46 to 59 per site, mean 52"));
  // Of 65 and 52 windows every second one: 32 and 26, less those that overlap a later part (3
  // hours: one or two at either cut, where it had been three). A cap would have made them equal.
  options.shrink = 2;
  const auto thinned = load_federation(options, 1);
  const auto count = [&](int client) {
    const auto& data = thinned->clients[static_cast<size_t>(client)];
    return static_cast<double>(data.train.size() + data.val.size() + data.test.size());
  };
  EXPECT_NEAR(count(0), 29, 1);
  EXPECT_NEAR(count(1), 23, 1);
  options.shrink = 1;
  options.balanced = true;
  EXPECT_THAT(windows(),
              HasSubstr("92 windows of 3 hours: 46 to 46 per site, mean 46, deviation 0"));
  const auto fed = load_federation(options, 1);
  EXPECT_EQ(fed->clients[0].test.back(), 75) << "of the whole period, not the earliest";
}

TEST(Air, RefusesASkippedHourAndSaysWhere) {
  auto text = air_csv();
  text.erase(text.find("\r\n10,"), text.find("\r\n11,") - text.find("\r\n10,"));
  const auto csv = parse_csv(bytes_of(text), "a.csv");
  const auto series = read_air(*csv, air_places("air-bj").front(), "a.csv");
  ASSERT_FALSE(series.ok());
  EXPECT_THAT(message(series.status()), HasSubstr("a.csv, data row 10"));
}

TEST(Air, SitesOfTheStandInFederations) {
  EXPECT_EQ(air_places("air-bj").size(), 12u);
  EXPECT_EQ(air_places("air-5c").size(), 15u);
  const auto a = air_places("air-a"), b = air_places("air-b");
  EXPECT_EQ(a.size(), 25u);
  EXPECT_EQ(b.size(), 13u);
  std::set<std::string> names;
  for (const auto& place : a) names.insert(place.name);
  EXPECT_EQ(names.size(), 25u);
  EXPECT_FALSE(names.contains("Beijing Dongsi"));
}

TEST(Air, RealBeijingDataAreComplete) {
  TESSERA_NEED_SET("air-bj");
  auto options = natural("air-bj", test_data_dir());
  options.stride = 6, options.newcomers = 2, options.balanced = true;
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  int64_t hours = 0;
  std::set<int64_t> sizes;
  for (const auto* group : {&fed->clients, &fed->newcomers})
    for (const auto& client : *group) {
      hours += client.pool->x.size(0) + options.window;
      sizes.insert(client.train_size() + client.size(Part::kVal) + client.size(Part::kTest));
      EXPECT_LE(client.pool->x.abs().max().item<float>(), 5.0f);
    }
  EXPECT_EQ(hours, 420768);
  EXPECT_EQ(sizes.size(), 1u);  // balanced
  const auto& client = fed->clients.front();
  EXPECT_LT(client.pool->x.storage().nbytes(), 4u << 20);  // windows share their hours
}

// Counted by a program of a few lines in another language.
TEST(Air, HalfAYearHasTheRealCounts) {
  TESSERA_NEED_SET("air-bj");
  TESSERA_NEED_SET("air-5c");
  auto options = natural("air-a", test_data_dir());
  options.from = "2014-07-01", options.until = "2015-01-01";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->notes.back(), HasSubstr("25 sites, 93002 windows of 48 hours: 3235 to 4183 per "
                                           "site, mean 3720, deviation 304"));
}

TEST(Air, RealSiteHasTheDocumentedGapsAndMean) {
  TESSERA_NEED_SET("air-5c");
  const auto dir = find_set("air-5c", test_data_dir());
  const auto path = find_unpacked(*dir, "GuangzhouPM20100101_20151231.csv");
  const auto csv = parse_csv(*read_unpacked(*path), *path);
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(csv->rows(), 52584u);
  const auto places = air_places("air-5c");
  const auto place = std::find_if(places.begin(), places.end(),
                                  [](auto& p) { return p.name == "Guangzhou US Post"; });
  const auto series = read_air(*csv, *place, *path);
  ASSERT_TRUE(series.ok()) << series.status();
  double sum = 0;
  int64_t measured = 0;
  float driest = 0;
  for (size_t h = 0; h < series->hours.size(); ++h) {
    if (series->levels[h] >= 0) sum += series->hours[h][5], ++measured;
    if (series->usable[h]) driest = std::min(driest, series->hours[h][2]);
  }
  EXPECT_EQ(measured, 32352);
  EXPECT_NEAR(sum / double(measured), 50.8, 0.05);
  EXPECT_GT(driest, -60.0f);  // -9999 was read as missing
}

}  // namespace
}  // namespace tessera
