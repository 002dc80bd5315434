#include "data/federation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/sources.hpp"
#include "data/testing.hpp"
#include "io/cifar.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DataOptions small(const std::string& set, const std::string& partition) {
  DataOptions options;
  options.set = set;
  options.partition = partition;
  options.data_dir = test_data_dir();
  return options;
}

// Mean and population standard deviation of a channel over the first n images, of 0…1.
std::pair<double, double> moments(const ImageSet& images, int64_t n, int64_t channel) {
  const int64_t plane = images.height * images.width;
  double sum = 0.0, squares = 0.0;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < plane; ++i) {
      const double v = images.image(row)[channel * plane + i] / 255.0;
      sum += v, squares += v * v;
    }
  const double count = static_cast<double>(n * plane), mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean)};
}

TEST(Images, MnistIsTheOfficialOne) {
  TESSERA_NEED_SET("mnist");
  const auto mnist = load_images("mnist", test_data_dir());
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  std::vector<int64_t> train(10), test(10);
  for (const int64_t label : mnist->labels.train) ++train[static_cast<size_t>(label)];
  for (const int64_t label : mnist->labels.test) ++test[static_cast<size_t>(label)];
  EXPECT_THAT(train, ElementsAre(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949));
  EXPECT_THAT(test, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  const auto [mean, std] = moments(*mnist, 60000, 0);
  EXPECT_NEAR(mean, published_moments("mnist").mean[0], 5e-5);
  EXPECT_NEAR(std, published_moments("mnist").std[0], 5e-5);
}

TEST(Images, FashionMnistHasThePublishedMoments) {
  TESSERA_NEED_SET("fmnist");
  const auto fmnist = load_images("fmnist", test_data_dir());
  ASSERT_TRUE(fmnist.ok()) << fmnist.status();
  const auto [mean, std] = moments(*fmnist, 60000, 0);
  EXPECT_NEAR(mean, published_moments("fmnist").mean[0], 5e-5);
  EXPECT_NEAR(std, published_moments("fmnist").std[0], 5e-5);
}

TEST(Federation, MnistComesStandardisedAndEachClientHoldsItsShare) {
  TESSERA_NEED_SET("mnist");
  auto options = small("mnist", "iid");
  options.clients = 5, options.newcomers = 1, options.train_samples = 6000;
  options.test_samples = 1200, options.val = 0.1;
  const auto fed = load_federation(options, 3);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->sample_shape, ElementsAre(1, 28, 28));
  EXPECT_EQ(fed->classes, 10);
  ASSERT_EQ(fed->clients.size(), 5u);
  ASSERT_EQ(fed->newcomers.size(), 1u);
  EXPECT_EQ(fed->newcomers[0].name, "5");
  EXPECT_EQ(fed->clients[0].pool->x.size(0), 7200);  // the pool keeps only what is dealt
  for (const auto& client : fed->clients) {
    EXPECT_EQ(client.size(Part::kTrain), 900);
    EXPECT_EQ(client.size(Part::kVal), 100);
    EXPECT_EQ(client.size(Part::kTest), 200);
  }
  const auto examples = fed->clients[2].range(Part::kTrain, 0, 900);
  EXPECT_NEAR(examples.x.mean().item<double>(), 0.0, 0.05);
  EXPECT_NEAR(examples.x.std().item<double>(), 1.0, 0.05);
  EXPECT_NEAR(examples.x.min().item<double>(), -0.1307 / 0.3081, 1e-6);
}

TEST(Pool, PixelScaleStandardisesEachPixelOverTheWholeSet) {
  // Two images of two pixels: (10, 0) and (30, 0). Means 20 and 0, deviations 10 and 0.
  const ImageSet images{1, 1, 2, {10, 0, 30, 0}, {{4}, {2}, 5}, {}};
  const auto pool = make_pixel_pool(images, std::vector<int64_t>{1});
  EXPECT_NEAR(pool.x.flatten()[0].item<double>(), 10.0 / 10.001, 1e-6);
  EXPECT_EQ(pool.x.flatten()[1].item<double>(), 0.0);
  EXPECT_EQ(pool.y[0].item<int64_t>(), 2);
}

TEST(Pool, ChannelsAreScaledByTheirOwnMoments) {
  const ImageSet images{2, 1, 1, {0, 255, 51, 102}, {{0, 1}, {}, 2}, {}};
  const auto pool = make_pool(images, std::vector<int64_t>{0, 1}, {{0.5, 0.2}, {0.5, 0.1}});
  const std::vector<double> expected{-1.0, 8.0, -0.6, 2.0};  // (byte / 255 − mean) / std
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_NEAR(pool.x.flatten()[i].item<double>(), expected[static_cast<size_t>(i)], 1e-6);
}

// Two clients on a pool of four samples.
Federation tiny() {
  const auto pool =
      std::make_shared<Pool>(Pool{at::zeros({4, 1}), at::tensor({0, 1, 0, 1}, at::kLong), 2});
  Federation out;
  out.set = "tiny", out.sample_shape = {1}, out.classes = 2;
  out.clients = {{"0", pool, {0}, {}, {1}, {}}, {"1", pool, {2}, {}, {3}, {}}};
  return out;
}

TEST(Digest, ChangesWithWhoHoldsWhat) {
  const auto digest = digest_of(tiny());
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(digest, digest_of(tiny()));
  EXPECT_NE(digest, digest_of(tiny(), std::vector<int64_t>{0, 1, 2, 4}));
  const auto changed = [](auto change) {
    auto federation = tiny();
    change(federation);
    return digest_of(federation);
  };
  EXPECT_NE(digest, changed([](auto& f) { f.set = "other"; }));
  EXPECT_NE(digest, changed([](auto& f) { std::swap(f.clients[0].train, f.clients[1].train); }));
  EXPECT_NE(digest, changed([](auto& f) { std::swap(f.clients[0].train, f.clients[0].val); }));
  EXPECT_NE(digest, changed([](auto& f) { f.newcomers.push_back(f.clients.back()); }));
  EXPECT_NE(digest, changed([](auto& f) {
              f.newcomers.push_back(f.clients.back());
              f.clients.pop_back();
            }));
}

TEST(Federation, GathersTheRightSamples) {
  TESSERA_NEED_SET("fmnist");
  auto options = small("fmnist", "few");
  options.clients = 10, options.scale = "unit";
  const auto fed = load_federation(options, 5);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_EQ(fed->digest, load_federation(options, 5)->digest);
  const auto& client = fed->clients[4];
  EXPECT_EQ(client.size(Part::kTrain), 50);
  const std::vector<int64_t> positions{7, 0, 7};
  const auto out = client.take(Part::kTrain, positions);
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t row = client.train[static_cast<size_t>(positions[static_cast<size_t>(i)])];
    EXPECT_TRUE(out.x[i].equal(client.pool->x[row]));
    EXPECT_EQ(out.y[i].item<int64_t>(), client.pool->y[row].item<int64_t>());
  }
  const auto counts = client.class_counts(Part::kTest);
  const auto labels = client.range(Part::kTest, 0, client.size(Part::kTest)).y;
  for (int64_t c = 0; c < 10; ++c)
    EXPECT_EQ(counts[static_cast<size_t>(c)], labels.eq(c).sum().item<int64_t>());
  EXPECT_EQ(client.take(Part::kTrain, {}).size(), 0);
}

// Two clients with pools of their own, of 10 and 25 samples; the value of a sample tells whose it
// is.
Federation two_pools() {
  Federation out{.classes = 2, .digest = "d"};
  for (const int64_t n : {10, 25}) {
    ClientData client;
    client.pool = std::make_shared<const Pool>(
        Pool{at::arange(n, at::kFloat).view({n, 1}) + 100 * n, at::ones({n}, at::kLong), 2});
    for (int64_t i = 0; i < n; ++i) client.train.push_back(n - 1 - i);
    out.clients.push_back(client);
  }
  return out;
}

TEST(Commons, AreTheLastRowsOfEveryClientAndLeaveIt) {
  auto fed = two_pools();
  ASSERT_TRUE(give_to_server(fed, 0.1).ok());  // 1 of 10, 2 of 25
  const auto given = fed.commons.range(Part::kTrain, 0, fed.commons.train_size());
  EXPECT_TRUE(given.x.flatten().equal(at::tensor({1000.F, 2501.F, 2500.F})));
  EXPECT_EQ(fed.clients[0].train, (std::vector<int64_t>{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(fed.clients[1].train_size(), 23);
  EXPECT_NE(fed.digest, "d");
}

// 25 rows, of which 5 are given: 20 … 24. 18 and 19 share values with these.
TEST(Commons, OfATimeSeriesAreTheMostRecentRowsAfterAGap) {
  auto fed = two_pools();
  fed.clients.erase(fed.clients.begin());
  auto& client = fed.clients.front();
  std::sort(client.train.begin(), client.train.end());
  client.order = {true, 2};
  ASSERT_TRUE(give_to_server(fed, 0.2).ok());
  EXPECT_EQ(fed.commons.range(Part::kTrain, 0, 1).x.item<float>(), 2520);
  EXPECT_EQ(fed.commons.train_size(), 5);
  EXPECT_EQ(client.train_size(), 18);
}

TEST(Commons, AnErrorIfNobodyHasEnoughToGive) {
  auto fed = two_pools();
  const auto status = give_to_server(fed, 0.01);
  EXPECT_THAT(message(status), HasSubstr("public = 0.01: no client has 100 training samples"));
}

TEST(ClientData, TheLogHoldsWhatWasTakenInOrder) {
  auto client = two_pools().clients[0];
  client.log = std::make_shared<BatchLog>();
  client.take(Part::kTrain, std::vector<int64_t>{4, 2});
  client.range(Part::kTrain, 1, 3);
  EXPECT_EQ(*client.log, (BatchLog{{Part::kTrain, {4, 2}}, {Part::kTrain, {1, 2}}}));
}

TEST(CheckData, AcceptsDefaultsAndEveryPartitionOfMnist) {
  EXPECT_THAT(check_data(DataOptions{}), IsEmpty());
  for (const auto& partition : partition_names()) {
    if (partition.name == "natural") continue;
    EXPECT_THAT(check_data(small("mnist", partition.name)), IsEmpty()) << partition.name;
  }
}

std::string problems(auto change) {
  DataOptions options;
  change(options);
  std::string all;
  for (const auto& line : check_data(options)) all += line + "\n";
  return all;
}

TEST(CheckData, NamesWhatIsWrong) {
  EXPECT_THAT(problems([](auto& o) { o.set = "fminst"; }), HasSubstr("did you mean 'fmnist'?"));
  EXPECT_THAT(problems([](auto& o) { o.partition = "dirichelt"; }), HasSubstr("'dirichlet'"));
  EXPECT_THAT(problems([](auto& o) { o.alpha = 0; }), HasSubstr("alpha"));
  EXPECT_THAT(problems([](auto& o) { o.partition = "natural"; }), HasSubstr("does not fit"));
  EXPECT_THAT(problems([](auto& o) { o.set = "vmnist"; }), HasSubstr("\"natural\""));
  EXPECT_THAT(problems([](auto& o) { o.partition = "pathological", o.classes = 11; }),
              HasSubstr("classes = 11"));
  EXPECT_THAT(problems([](auto& o) { o.partition = "iid", o.alpha = 0.3; }),
              HasSubstr("alpha = 0.3 does nothing"));
  EXPECT_THAT(problems([](auto& o) { o.shrink = 9; }), HasSubstr("shrink = 9 does nothing"));
  EXPECT_THAT(problems([](auto& o) { o.superclasses = true; }), HasSubstr("\"cifar100\""));
  EXPECT_THAT(problems([](auto& o) { o.from = "2014-07-01"; }), HasSubstr("does nothing"));
  EXPECT_THAT(problems([](auto& o) { o.scale = "half"; }), HasSubstr("scale = \"half\""));
  EXPECT_THAT(problems([](auto& o) { o.partition = "cbam", o.clients = 4; }), HasSubstr("always"));
  EXPECT_THAT(problems([](auto& o) { o.partition = "cbam", o.split = 2, o.fraction = 0.5; }),
              HasSubstr("keep one"));
  EXPECT_THAT(problems([](auto& o) { o.set = "npz", o.partition = "natural"; }),
              HasSubstr("data_dir"));
  EXPECT_THAT(problems([](auto& o) { o.set = "x", o.partition = "y"; }),
              testing::AllOf(HasSubstr("set ="), HasSubstr("partition =")));
}

// Files of CIFAR-100's format: superclass, class, pixels. Class c is of superclass c mod 20.
Bytes cifar100_file(int64_t per_class) {
  Bytes out;
  for (int64_t i = 0; i < 100 * per_class; ++i) {
    out.push_back(static_cast<uint8_t>(i % 100 % 20));
    out.push_back(static_cast<uint8_t>(i % 100));
    out.insert(out.end(), kCifarPixels, static_cast<uint8_t>(i));
  }
  return out;
}

TEST(Federation, SuperclassesAreThoseOfTheFile) {
  const auto dir = fresh_dir("superclasses");
  auto train = cifar100_file(8);
  ASSERT_TRUE(write_file_atomic(dir + "/train.bin", train).ok());
  ASSERT_TRUE(write_file_atomic(dir + "/test.bin", cifar100_file(4)).ok());
  const auto images = load_images("cifar100", dir);
  ASSERT_TRUE(images.ok()) << images.status();
  for (size_t c = 0; c < 100; ++c) EXPECT_EQ(images->labels.superclass[c], int64_t(c % 20));
  auto options = small("cifar100", "dirichlet");
  options.data_dir = dir, options.clients = 5, options.superclasses = true;
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  auto plain = options;
  plain.superclasses = false;
  EXPECT_NE(load_federation(plain, 1)->digest, fed->digest);

  train[0] = 7;  // the first image of class 0, whose others are of superclass 0
  ASSERT_TRUE(write_file_atomic(dir + "/train.bin", train).ok());
  EXPECT_TRUE(load_federation(plain, 1).ok()) << "nobody asked";
  EXPECT_THAT(message(load_federation(options, 1).status()),
              HasSubstr("the files of set 'cifar100' do not give every class one superclass"));
}

TEST(Federation, MissingSetNamesEveryPlaceAndTheWayToGetIt) {
  auto options = small("cifar100", "iid");
  options.data_dir = testing::TempDir() + "nothing-here";
  const auto fed = load_federation(options, 1);
  if (fed.ok()) GTEST_SKIP() << "cifar100 is installed on this machine";
  const auto text = message(fed.status());
  EXPECT_THAT(text, HasSubstr(options.data_dir + "/cifar-100"));
  EXPECT_THAT(text, HasSubstr("/usr/share/datasets/cifar-100"));
  EXPECT_THAT(text, HasSubstr("tessera data get cifar100"));
}

}  // namespace
}  // namespace tessera
