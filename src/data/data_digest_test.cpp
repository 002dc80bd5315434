#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "data/federation.hpp"
#include "data/sources.hpp"
#include "data/testing.hpp"
#include "io/npy.hpp"

namespace tessera {
namespace {

std::shared_ptr<Pool> numbers(int64_t rows, int64_t features) {
  return std::make_shared<Pool>(Pool{at::arange(rows * features, at::kFloat).view({rows, features}),
                                     at::arange(rows, at::kLong).remainder(2), 2});
}

// Two clients on one pool, a newcomer on its own, a public sample; row 5 of the pool is nobody's.
struct Parts {
  std::shared_ptr<Pool> shared = numbers(6, 3), own = numbers(2, 3), common = numbers(1, 3);
  Federation federation;
  Parts() {
    federation.set = "toy", federation.sample_shape = {3}, federation.classes = 2;
    federation.class_names = {"no", "yes"}, federation.digest = "dealt";
    federation.clients = {{"a", shared, {0}, {1}, {2}, {}}, {"b", shared, {3}, {}, {4}, {}}};
    federation.newcomers = {{"late", own, {0}, {}, {1}, {}}};
    federation.commons = {"public", common, {0}, {}, {}, {}};
  }
};

std::string digest_after(const std::function<void(Parts&)>& change) {
  Parts parts;
  change(parts);
  return data_digest_of(parts.federation);
}

TEST(DataDigest, SeesEveryValueThatAnybodyHolds) {
  const auto same = digest_after([](Parts&) {});
  EXPECT_EQ(same.size(), 64u);
  EXPECT_EQ(same, digest_after([](Parts&) {}));
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t feature = 0; feature < 3; ++feature)
      EXPECT_NE(same, digest_after([&](Parts& p) { p.shared->x[row][feature] += 0.5; }))
          << row << " " << feature;
  for (int64_t row = 0; row < 5; ++row)
    EXPECT_NE(same, digest_after([&](Parts& p) { p.shared->y[row] = 1 - p.shared->y[row]; }));
  EXPECT_NE(same, digest_after([](Parts& p) { p.own->x[1][2] = 9; })) << "a newcomer's test row";
  EXPECT_NE(same, digest_after([](Parts& p) { p.common->x[0][0] = 9; })) << "a public row";
  EXPECT_EQ(same, digest_after([](Parts& p) { p.shared->x[5][1] = 9; })) << "nobody's row";
  EXPECT_EQ(same, digest_after([](Parts& p) { p.shared->y[5] = 0; }));
}

void scale(ClientData& client, std::vector<float> mean, std::vector<float> factor) {
  client.scaling = std::make_shared<const Scaling>(Scaling{std::move(mean), std::move(factor)});
}

TEST(DataDigest, SeesNamesShapesAndTheDeal) {
  const std::vector<std::function<void(Parts&)>> changes{
      [](Parts&) {},
      [](Parts& p) { p.federation.digest = "other"; },
      [](Parts& p) {
        p.federation.sample_shape = {3, 1};
      },
      [](Parts& p) { p.federation.classes = 3; },
      [](Parts& p) { p.federation.class_names[0] = "never"; },
      [](Parts& p) {
        p.federation.class_names = {"noy", "es"};
      },
      [](Parts& p) { p.federation.multi_label_loss = true; },
      [](Parts& p) { p.federation.clients[1].name = "third"; },
      [](Parts& p) { p.federation.newcomers[0].name = "third"; },
      [](Parts& p) { std::swap(p.federation.clients[0].train, p.federation.clients[0].val); },
      [](Parts& p) { std::swap(p.federation.clients[0].train, p.federation.clients[1].train); },
      [](Parts& p) { p.federation.clients[0].support = {0}; },
      [](Parts& p) {
        p.federation.clients[0].train = {0, 0};
      },
      [](Parts& p) { p.federation.commons = {}; },
      [](Parts& p) {
        p.federation.columns = {"a", "b", "c"};
      },
      [](Parts& p) {
        p.federation.columns = {"ab", "b", "c"};
      },
      [](Parts& p) {
        scale(p.federation.clients[0], {0, 0, 0}, {1, 1, 1});
      },
      [](Parts& p) {
        scale(p.federation.clients[0], {0, 0, 1}, {1, 1, 1});
      },
      [](Parts& p) {
        scale(p.federation.clients[0], {0, 0, 0}, {1, 1, 2});
      },
      [](Parts& p) {
        scale(p.federation.newcomers[0], {0, 0, 0}, {1, 1, 1});
      },
      [](Parts& p) {
        p.federation.clients.push_back(p.federation.newcomers[0]);
        p.federation.newcomers.clear();
      },
  };
  std::set<std::string> seen;
  for (const auto& change : changes) seen.insert(digest_after(change));
  EXPECT_EQ(seen.size(), changes.size());
}

TEST(DataDigest, OverlappingWindowsAreTakenOnce) {
  // Hours 0 … 9 of two values; a window is three hours. Windows 0, 1 and 5 cover hours 0–3, 5–7.
  const auto digest = [](int64_t changed) {
    auto hours = at::arange(20, at::kFloat);
    if (changed >= 0) hours[changed] = -1;
    auto pool = std::make_shared<Pool>(
        Pool{hours.as_strided({8, 3, 2}, {2, 2, 1}), at::zeros({8}, at::kLong), 2});
    Federation out;
    out.clients = {{"a", pool, {1, 0}, {}, {5}, {}}};
    return data_digest_of(out);
  };
  const auto same = digest(-1);
  for (int64_t value = 0; value < 20; ++value) {
    const int64_t hour = value / 2;
    const bool used = hour <= 3 || (hour >= 5 && hour <= 7);
    EXPECT_EQ(digest(value) != same, used) << "value " << value;
  }
}

Npy array_of(std::vector<int64_t> shape, const std::vector<float>& values) {
  Npy out{DType::kF32, std::move(shape), Bytes(values.size() * sizeof(float))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

TEST(DataDigest, OneValueOfATestRowInAFileChangesItAndNotTheDeal) {
  const auto dir = fresh_dir("digest");
  const auto load = [&](float value) {
    EXPECT_TRUE(
        write_npz(dir + "/client-a.npz", {{"x_train", array_of({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                                          {"y_train", array_of({4}, {0, 1, 0, 1})},
                                          {"x_test", array_of({2, 2}, {1, 2, 3, value})},
                                          {"y_test", array_of({2}, {0, 1})}})
            .ok());
    auto fed = load_federation(natural("npz", dir), 1);
    EXPECT_TRUE(fed.ok()) << fed.status();
    return *fed;
  };
  const auto before = load(4), again = load(4), after = load(4.5f);
  EXPECT_EQ(before.data_digest.size(), 64u);
  EXPECT_EQ(before.data_digest, again.data_digest);
  EXPECT_EQ(before.digest, after.digest) << "who holds which rows is the same";
  EXPECT_NE(before.data_digest, after.data_digest);
}

TEST(DataDigest, TheDealKeepsItsDigest) {
  // Of format "tessera deal 1": a change would make old and new runs look different.
  Parts parts;
  EXPECT_EQ(digest_of(parts.federation),
            "38360d1e5c75cb6ed26aeec4a0fa4d6b86a3ef8280586c288da8b85079001906");
}

TEST(DataDigest, APoolThatManyShareIsReadOnce) {
  // A hundred clients with every row each: 120 MB in all, 12 GB if a client's share were read.
  auto pool = std::make_shared<Pool>(
      Pool{at::ones({10000, 3 * 32 * 32}), at::zeros({10000}, at::kLong), 10});
  Federation out;
  std::vector<int64_t> rows(10000);
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t client = 0; client < 100; ++client)
    out.clients.push_back({std::to_string(client), pool, rows, {}, {}, {}});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(data_digest_of(out).size(), 64u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 5);
}

}  // namespace
}  // namespace tessera
