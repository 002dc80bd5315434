#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>
#include <set>

#include "data/sources.hpp"
#include "data/testing.hpp"
#include "data/vmnist.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

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

}  // namespace
}  // namespace tessera
