#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data/own_testing.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  for (const char c : header) file.push_back(static_cast<uint8_t>(c));
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
