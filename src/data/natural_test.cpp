#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <set>

#include "data/air.hpp"
#include "data/sources.hpp"
#include "data/testing.hpp"
#include "data/vmnist.hpp"
#include "io/file.hpp"
#include "io/npy.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string fresh_dir(const std::string& name) {
  const auto dir = fs::path(testing::TempDir()) / ("tessera-data-" + name);
  fs::remove_all(dir);
  fs::create_directories(dir);
  return dir.string();
}

DataOptions natural(const std::string& set, const std::string& dir) {
  DataOptions options;
  options.set = set, options.partition = "natural", options.data_dir = dir;
  return options;
}

// A data directory with links to mnist and fmnist, and one training batch of CIFAR-10, unpacked:
// unpacking takes seconds, so it is done once for all tests. Empty if a set is missing.
const std::string& one_batch_dir() {
  static const std::string kDir = [] {
    std::string dir = fresh_dir("one-batch");
    fs::create_directories(dir + "/cifar-10");
    for (const std::string set : {"mnist", "fmnist"}) {
      const auto from = find_set(set, test_data_dir());
      if (!from.ok()) return std::string();
      fs::create_directory_symlink(*from, dir + "/" + files_of(set)->folders.front());
    }
    for (const std::string name : {"data_batch_1.bin", "test_batch.bin"}) {
      const auto from = find_set("cifar10", test_data_dir());
      const auto path = from.ok() ? find_unpacked(*from, name) : from;
      const auto bytes = path.ok() ? read_unpacked(*path) : Result<Bytes>(path.status());
      if (!bytes.ok() || !write_file_atomic(dir + "/cifar-10/" + name, *bytes).ok())
        return std::string();
    }
    return dir;
  }();
  return kDir;
}

// CIFAR-10 and MNIST-M ----------------------------------------------------------------------------

TEST(Cifar10, LoadsTheBatchesThatAreThere) {
  if (one_batch_dir().empty()) GTEST_SKIP() << "mnist, fmnist or cifar10 is not on this machine";
  auto options = natural("cifar10", one_batch_dir());
  options.partition = "iid", options.clients = 2, options.val = 0;
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->notes, testing::Contains(HasSubstr("only training batches 1 of 5")));
  EXPECT_EQ(fed->clients[0].train_size() + fed->clients[1].train_size(), 10000);
  // One batch is a random fifth of the set: its moments are the set's to about a per cent.
  const auto& client = fed->clients[0];
  const auto x = client.range(Part::kTrain, 0, 5000).x;
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(x.select(1, c).mean().item<double>(), 0.0, 0.03);
    EXPECT_NEAR(x.select(1, c).std().item<double>(), 1.0, 0.03);
  }
  const std::vector<int64_t> first{0};
  EXPECT_EQ(client.take(Part::kTest, first).x.sizes().vec(), (std::vector<int64_t>{1, 3, 32, 32}));
}

TEST(MnistM, BuiltImagesAreTheDifferenceOfPhotographAndDigit) {
  ImageSet mnist{1, 28, 28, std::vector<uint8_t>(2 * 784, 0), {{3}, {5}, 10}, {}};
  for (size_t i = 0; i < 784; ++i) mnist.pixels[i] = 250;
  ImageSet cifar{3, 32, 32, std::vector<uint8_t>(2 * 3072), {{0}, {1}, 10}, {}};
  for (size_t i = 0; i < 3072; ++i)
    cifar.pixels[i] = static_cast<uint8_t>(10 * (i / 1024)), cifar.pixels[3072 + i] = 77;
  const auto out = build_mnistm(mnist, cifar, 1);
  EXPECT_EQ(out.image_size(), 3 * 784);
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(out.image(0)[c * 784 + 300], 250 - 10 * c);  // |10 c − 250|
    EXPECT_EQ(out.image(1)[c * 784 + 300], 77);            // test digit over test photograph
  }
  EXPECT_EQ(to_gray(out).image(1)[5], 77);
  EXPECT_EQ(to_gray(out).image(0)[5], 242);  // 0.299 · 250 + 0.587 · 240 + 0.114 · 230 = 241.85
}

TEST(MnistM, RealImagesLieOverTheMnistTestDigits) {
  TESSERA_NEED_SET("mnist");
  TESSERA_NEED_SET("mnistm");
  const auto real = load_mnistm(test_data_dir());
  const auto mnist = load_images("mnist", test_data_dir());
  ASSERT_TRUE(real.ok() && mnist.ok()) << real.status();
  EXPECT_EQ(real->labels.train.size(), 3601u);
  EXPECT_EQ(real->labels.test.size(), 900u);
  std::vector<int64_t> counts(10);
  for (const auto* labels : {&real->labels.train, &real->labels.test})
    for (const int64_t label : *labels) ++counts[static_cast<size_t>(label)];
  EXPECT_THAT(counts, ElementsAre(404, 532, 457, 461, 434, 418, 443, 461, 415, 476));
  // Record 4 is the first test image and shows MNIST test image 8; across the digit's edge the
  // photograph is inverted, so the jump there is larger than inside the background.
  EXPECT_EQ(real->labels.test[0], mnist->labels.test[8]);
  const auto* image = real->image(3601);
  const auto* digit = mnist->image(60000 + 8);
  double edge = 0, flat = 0, edges = 0, flats = 0;
  for (int i = 0; i < 783; ++i) {
    if (i % 28 == 27) continue;
    const double jump = std::abs(int{image[i]} - int{image[i + 1]});
    if ((digit[i] > 0) != (digit[i + 1] > 0))
      edge += jump, ++edges;
    else if (digit[i] == 0)
      flat += jump, ++flats;
  }
  EXPECT_GT(edge / edges, 2 * flat / flats);
}

// V-MNIST -----------------------------------------------------------------------------------------

TEST(Vmnist, CountsAreThePublishedStatistics) {
  const auto counts = vmnist_counts(false, 1);
  ASSERT_EQ(counts.size(), 18u);
  double sum = 0, squares = 0;
  for (const int64_t n : counts) sum += double(n), squares += double(n) * double(n);
  const double mean = sum / 18;
  EXPECT_EQ(sum, 72795);
  EXPECT_NEAR(mean, 4044, 0.5);
  EXPECT_NEAR(std::sqrt(squares / 18 - mean * mean), 1867, 1);
  EXPECT_THAT(vmnist_counts(true, 1), testing::Each(4600));
  EXPECT_THAT(vmnist_counts(true, 10), testing::Each(460));
  const auto ninth = vmnist_counts(false, 9);
  EXPECT_NEAR(std::accumulate(ninth.begin(), ninth.end(), 0.0) / 18, 449, 0.5);
}

TEST(Vmnist, RotationByQuartersMovesPixelsExactly) {
  std::vector<uint8_t> digit(784), turned(784), back(784);
  for (size_t i = 0; i < digit.size(); ++i) digit[i] = static_cast<uint8_t>(i * 37 % 251);
  rotate_digit(digit.data(), 0.0, turned.data());
  EXPECT_EQ(turned, digit);
  rotate_digit(digit.data(), std::numbers::pi / 2, turned.data());
  // Counter-clockwise: what was at the right edge is at the top.
  for (size_t y = 0; y < 28; ++y)
    for (size_t x = 0; x < 28; ++x)
      ASSERT_NEAR(turned[y * 28 + x], digit[x * 28 + (27 - y)], 1) << y << ' ' << x;
  rotate_digit(turned.data(), -std::numbers::pi / 2, back.data());
  for (size_t i = 0; i < digit.size(); ++i) ASSERT_NEAR(back[i], digit[i], 1);
}

// Sets whose image number r is recognisable: every pixel in the middle row is r + 1.
ImageSet marked(int64_t n, int64_t side, uint8_t base) {
  ImageSet out{1, side, side, std::vector<uint8_t>(static_cast<size_t>(n * side * side)), {}, {}};
  out.labels.classes = 10;
  for (int64_t r = 0; r < n; ++r) {
    out.labels.train.push_back(r % 10);
    auto* image = out.pixels.data() + r * side * side;
    for (int64_t x = 0; x < side; ++x) image[side / 2 * side + x] = static_cast<uint8_t>(base + r);
  }
  return out;
}

TEST(Vmnist, VariantsKeepTheDigitAndUseNoImageTwice) {
  const auto mnist = marked(30, 28, 1), fashion = marked(12, 28, 101);
  ImageSet photos{1, 32, 32, std::vector<uint8_t>(1024), {{0}, {}, 10}, {}};
  for (size_t i = 0; i < 1024; ++i) photos.pixels[i] = i % 2 ? 255 : 200;  // never 0, never flat
  const auto out = build_vmnist(mnist, fashion, photos, std::vector<int64_t>(18, 2), 9);
  ASSERT_EQ(out.count(), 36);
  std::set<int> digits;
  for (int64_t row = 0; row < 36; ++row) {
    const int64_t variant = row / 6;
    const auto* image = out.image(row);
    const int mark = image[14 * 28 + 3];
    if (variant == 2 || variant == 5) continue;  // turned: the row is elsewhere
    EXPECT_TRUE(digits.insert(mark).second) << "image used twice";
    EXPECT_EQ(mark > 100, variant == 1);
    EXPECT_EQ(out.labels.train[static_cast<size_t>(row)], (mark - (mark > 100 ? 101 : 1)) % 10);
    const auto black = std::count(image, image + 784, 0);
    if (variant < 2) {
      EXPECT_EQ(black, 27 * 28);
    }
    if (variant == 3) {
      EXPECT_LT(black, 20);  // uniform noise: about 3 of 756 are 0
    }
    if (variant == 4) {
      EXPECT_EQ(std::count(image, image + 784, 255), 27 * 14);
    }
  }
}

TEST(Vmnist, FederationHasEighteenClientsSplitSeventyTenTwenty) {
  if (one_batch_dir().empty()) GTEST_SKIP() << "mnist, fmnist or cifar10 is not on this machine";
  auto options = natural("vmnist", one_batch_dir());
  options.shrink = 9, options.newcomers = 3;
  const auto fed = load_federation(options, 4);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 15u);
  ASSERT_EQ(fed->newcomers.size(), 3u);
  std::set<std::string> names;
  double sum = 0, squares = 0, n = 0;
  for (const auto* group : {&fed->clients, &fed->newcomers})
    for (const auto& client : *group) {
      names.insert(client.name);
      const auto all =
          client.size(Part::kTrain) + client.size(Part::kVal) + client.size(Part::kTest);
      EXPECT_EQ(client.size(Part::kTrain), all * 7 / 10);
      EXPECT_EQ(client.size(Part::kVal), all * 8 / 10 - all * 7 / 10);
      const auto x = client.range(Part::kTrain, 0, client.size(Part::kTrain)).x.to(at::kDouble);
      sum += x.sum().item<double>(), squares += x.square().sum().item<double>();
      n += static_cast<double>(x.numel());
    }
  EXPECT_EQ(names.size(), 18u);
  EXPECT_TRUE(names.contains("rotated-photo-3"));
  EXPECT_NEAR(sum / n, 0.0, 1e-3);  // standardised over all training images together
  EXPECT_NEAR(squares / n, 1.0, 1e-3);
}

// Air ---------------------------------------------------------------------------------------------

// 30 hours from 2013-03-01; PM2.5 is 10 h, missing at 5, 6 (filled) and at 12…18 (too long).
std::string air_csv() {
  std::string text =
      "\"No\",\"year\",\"month\",\"day\",\"hour\",\"PM2.5\",\"PM10\",\"SO2\",\"NO2\",\"CO\",\"O3\","
      "\"TEMP\",\"PRES\",\"DEWP\",\"RAIN\",\"wd\",\"WSPM\",\"station\"\r\n";
  for (int h = 0; h < 30; ++h) {
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

TEST(Air, FederationIsStandardisedByTrainingHoursAndSplitByTime) {
  const auto dir = fresh_dir("air");
  const auto path = dir + "/PRSA_Data_Aotizhongxin_20130301-20170228.csv";
  ASSERT_TRUE(write_file_atomic(path, bytes_of(air_csv())).ok());
  auto options = natural("air-bj", dir);
  options.clients = 1, options.window = 3;
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->sample_shape, ElementsAre(3, 22));
  EXPECT_TRUE(fed->multi_label_loss);
  const auto& client = fed->clients.front();
  EXPECT_EQ(client.name, "Aotizhongxin");
  auto train = client.train;
  std::sort(train.begin(), train.end());
  EXPECT_THAT(train, ElementsAre(0, 1, 4, 5, 6, 7, 8, 19, 20, 21));
  EXPECT_THAT(client.val, ElementsAre(22, 23));
  EXPECT_THAT(client.test, ElementsAre(24, 25, 26));
  // Training windows cover hours 0…10 and 19…23: mean of 10 h is 100, variance 100 · 62.5.
  const auto test = client.range(Part::kTest, 0, 3);
  EXPECT_NEAR(test.x[0][1][5].item<double>(), (250 - 100) / std::sqrt(6250.0), 1e-5);
  EXPECT_EQ(test.x[0][0][6].item<double>(), 0.0);  // PM10 never changes
  EXPECT_EQ(test.y[0].item<int64_t>(), 4);         // 270 in hour 27
  const auto first = client.pool->x[0];            // hours 0, 1, 2
  EXPECT_NEAR(first[2][0].item<double>(), (2 - 10.0) / std::sqrt(62.5), 1e-5);
  EXPECT_EQ(client.pool->y[0].item<int64_t>(), 0);  // 30 in hour 3
  EXPECT_EQ(client.pool->y[4].item<int64_t>(), 1);  // 70 in hour 7

  options.station_id = true, options.windows = 12, options.samples = 5;
  const auto more = load_federation(options, 1);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT(more->sample_shape, ElementsAre(3, 23));
  EXPECT_EQ(more->clients[0].train_size(), 5);  // of 8
  EXPECT_THAT(more->clients[0].val, ElementsAre(20));
  EXPECT_THAT(more->clients[0].test, ElementsAre(21, 22, 23));
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

// npz ---------------------------------------------------------------------------------------------

template <class T>
Npy array_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Npy out{dtype, std::move(shape), Bytes(values.size() * sizeof(T))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

std::map<std::string, Npy> images_client(uint8_t first, int64_t label) {
  std::vector<uint8_t> x(3 * 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(first + i);
  return {{"x_train", array_of<uint8_t>(DType::kU8, {3, 1, 2, 2}, x)},
          {"y_train", array_of<int64_t>(DType::kI64, {3}, {0, label, 1})},
          {"x_test", array_of<double>(DType::kF64, {1, 1, 2, 2}, {0.5, -1, 2, 3})},
          {"y_test", array_of<int32_t>(DType::kI32, {1}, {1})}};
}

std::string put(const std::string& dir, const std::string& name,
                const std::map<std::string, Npy>& arrays) {
  const auto path = dir + "/" + name;
  EXPECT_TRUE(write_npz(path, arrays).ok());
  return path;
}

TEST(OwnFederation, ReadsImagesOfSeveralTypes) {
  const auto dir = fresh_dir("npz");
  put(dir, "client-b.npz", images_client(0, 4));
  put(dir, "client-a.npz", images_client(100, 2));
  auto options = natural("npz", dir);
  options.val = 0;
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 2u);
  EXPECT_EQ(fed->clients[0].name, "a");
  EXPECT_EQ(fed->classes, 5);
  EXPECT_THAT(fed->sample_shape, ElementsAre(1, 2, 2));
  const auto& pool = *fed->clients[1].pool;
  EXPECT_NEAR(pool.x.flatten()[7].item<double>(), 7 / 255.0, 1e-7);  // bytes of images: 0…1
  EXPECT_EQ(pool.x[3].flatten()[1].item<float>(), -1.0f);
  EXPECT_EQ(fed->clients[1].class_counts(Part::kTrain), (std::vector<int64_t>{1, 1, 0, 0, 1}));
  EXPECT_EQ(fed->clients[1].test, (std::vector<int64_t>{3}));
  put(dir, "client-a.npz", images_client(100, 3));
  EXPECT_NE(load_federation(options, 1)->digest, fed->digest);
}

TEST(OwnFederation, ReadsFortranOrder) {
  // A version 1 header as NumPy writes it, [2, 3] by columns: 1 4 2 5 3 6.
  std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  Bytes file{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  file.insert(file.end(), header.begin(), header.end());
  for (const float v : {1.f, 4.f, 2.f, 5.f, 3.f, 6.f}) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    append_little_endian(file, bits);
  }
  const auto x = parse_npy(file, "x");
  ASSERT_TRUE(x.ok()) << x.status();
  const auto dir = fresh_dir("fortran");
  put(dir, "client-f.npz",
      {{"x_train", *x},
       {"y_train", array_of<uint8_t>(DType::kU8, {2}, {0, 1})},
       {"x_test", *x},
       {"y_test", array_of<uint8_t>(DType::kU8, {2}, {0, 1})},
       {"x_val", *x},
       {"y_val", array_of<uint8_t>(DType::kU8, {2}, {1, 1})}});
  const auto fed = load_federation(natural("npz", dir), 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  const auto& client = fed->clients[0];
  EXPECT_TRUE(client.pool->x.slice(0, 0, 2).equal(at::arange(1, 7, at::kFloat).view({2, 3})));
  EXPECT_EQ(client.train_size(), 2);  // its own validation samples: none are set aside
  EXPECT_THAT(client.class_counts(Part::kVal), ElementsAre(0, 2));
}

std::string npz_error(const std::map<std::string, Npy>& second) {
  const auto dir = fresh_dir("bad");
  put(dir, "client-a.npz", images_client(1, 1));
  put(dir, "client-bad.npz", second);
  const auto fed = load_federation(natural("npz", dir), 1);
  EXPECT_FALSE(fed.ok());
  return message(fed.status());
}

TEST(OwnFederation, RefusesBadFilesAndSaysWhere) {
  auto bad = images_client(1, 1);
  bad["x_test"] = array_of<double>(DType::kF64, {1, 1, 2, 2}, {0.5, NAN, 2, 3});
  EXPECT_THAT(npz_error(bad),
              testing::AllOf(HasSubstr("client-bad.npz, x_test: row 0"), HasSubstr("finite")));
  bad = images_client(1, 1);
  bad["x_train"] = array_of<float>(DType::kF32, {3, 1, 1, 1}, {1, 2, INFINITY});
  EXPECT_THAT(npz_error(bad), HasSubstr("x_train: row 2"));
  bad = images_client(1, 1);
  bad["y_train"] = array_of<int64_t>(DType::kI64, {3}, {0, -1, 1});
  EXPECT_THAT(npz_error(bad), HasSubstr("y_train: row 1 has label -1"));
  bad["y_train"] = array_of<float>(DType::kF32, {3}, {0, 1, 0.5});
  EXPECT_THAT(npz_error(bad), HasSubstr("row 2 has label 0.5"));
  bad["y_train"] = array_of<int64_t>(DType::kI64, {2}, {0, 1});
  EXPECT_THAT(npz_error(bad), HasSubstr("3 rows"));
  bad.erase("y_train");
  EXPECT_THAT(npz_error(bad), HasSubstr("no array y_train"));
  bad = images_client(1, 1);
  bad["x_test"] = array_of<float>(DType::kF32, {1, 4}, {1, 2, 3, 4});
  EXPECT_THAT(npz_error(bad), HasSubstr("samples are 4"));
  bad["x_train"] = array_of<float>(DType::kF32, {3, 4}, std::vector<float>(12, 1.0f));
  EXPECT_THAT(npz_error(bad), HasSubstr("client 'a'"));
  bad["x_train"] = array_of<float>(DType::kF32, {0, 4}, {});
  bad["y_train"] = array_of<int64_t>(DType::kI64, {0}, {});
  EXPECT_THAT(npz_error(bad), HasSubstr("no samples"));
  bad["x_train"] = array_of<float>(DType::kF32, {4}, {1, 2, 3, 4});
  EXPECT_THAT(npz_error(bad), HasSubstr("NxF"));
}

TEST(OwnFederation, RefusesEmptyOrMissingDirectoriesAndTooManyClients) {
  const auto dir = fresh_dir("empty");
  EXPECT_THAT(message(load_federation(natural("npz", dir), 1).status()),
              HasSubstr("holds no client-NAME.npz"));
  EXPECT_THAT(message(load_federation(natural("npz", dir + "/no"), 1).status()), HasSubstr("/no"));
  put(dir, "client-a.npz", images_client(1, 1));
  auto options = natural("npz", dir);
  options.newcomers = 1;
  EXPECT_THAT(message(load_federation(options, 1).status()), HasSubstr("has 1 clients"));
}

}  // namespace
}  // namespace tessera
