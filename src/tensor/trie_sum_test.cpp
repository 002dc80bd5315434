#include "tensor/trie_sum.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/key.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

std::shared_ptr<const MessageParts> parts_of_means() {
  MessageParts out;
  const MessagePart mean{.meaning = Meaning::kTrained, .adds = Adds::kMean, .weight = "weight"};
  out.add("value.w", mean), out.add("value.b", mean);
  out.add("weight", {.meaning = Meaning::kCount, .adds = Adds::kWeight});
  out.add("total", {.meaning = Meaning::kTrained, .adds = Adds::kTotal});
  out.add("many", {.meaning = Meaning::kCount, .adds = Adds::kTotal});
  out.add("open", {.meaning = Meaning::kOpen, .adds = Adds::kShared});
  out.add("each", {.meaning = Meaning::kStatistic});
  return std::make_shared<const MessageParts>(std::move(out));
}

/// A sum of weighted vectors alone.
struct Means {
  explicit Means(std::vector<ClientId> ids, at::ScalarType type = at::kFloat)
      : sum(std::move(ids), addends(type)) {}
  Means(std::vector<ClientId> ids, IdRange within)
      : sum(std::move(ids), addends(at::kFloat), within) {}
  static Addends addends(at::ScalarType type) {
    return {pack(Weighted{{at::empty({0}, type), at::empty({0}, type)}, 0}), parts_of_means()};
  }
  void add(ClientId id, const Weighted& one) { sum.add(id, pack(one)); }
  void skip(ClientId id) { sum.skip(id); }
  void add(TriePart part) { sum.add(std::move(part)); }
  std::vector<TriePart> take_parts() { return sum.take_parts(); }
  std::optional<Weighted> mean() const {
    const auto out = sum.result();
    return out ? std::optional(unpack<Weighted>(*out)) : std::nullopt;
  }
  int64_t held() const { return sum.held(); }
  TrieSum sum;
};

Weighted part(float w, double weight) { return {{at::full({3}, w), at::empty({0})}, weight}; }

TEST(TrieSum, IsTheWeightedMean) {
  Means sum({4, 1, 9});
  sum.add(1, part(1, 1)), sum.add(9, part(5, 2)), sum.add(4, part(-3, 5));
  const auto mean = sum.mean();
  ASSERT_TRUE(mean.has_value());
  EXPECT_EQ(mean->weight, 8);
  EXPECT_EQ(mean->value.w[0].item<float>(), (1 * 1 + 2 * 5 - 5 * 3) / 8.0F);
}

// Worked by hand for ids 0, 1, 2: (0 + 1) + 2, whatever comes first. In float64 1e16 + 1 is 1e16.
TEST(TrieSum, AddsAlongTheTrie) {
  const double big = 1e16;
  for (const std::vector<ClientId>& order :
       {std::vector<ClientId>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    Means sum({0, 1, 2}, at::kDouble);
    for (const ClientId id : order) {
      const double value = id == 0 ? big : id == 1 ? 1 : -big;
      sum.add(id, {{at::full({1}, value, at::kDouble), at::empty({0}, at::kDouble)}, 1});
    }
    EXPECT_EQ(sum.mean()->value.w.item<double>(), 0);  // ((1e16 + 1) − 1e16) / 3
  }
  // Ids 0, 2, 3 pair 2 with 3 first, so the 1 survives.
  Means sum({0, 2, 3}, at::kDouble);
  const auto add = [&](ClientId id, double value) {
    sum.add(id, {{at::full({1}, value, at::kDouble), at::empty({0}, at::kDouble)}, 1});
  };
  add(2, big), add(0, 1), add(3, -big);
  EXPECT_EQ(sum.mean()->value.w.item<double>(), 1.0 / 3);
}

TEST(TrieSum, ArrivalChangesNoBit) {
  std::vector<ClientId> ids{0, 1, 2, 5, 6, 7, 8, 19, 20, 33};
  const auto value = [](ClientId id) {
    Rng rng(derive(3, id));
    auto w = at::empty({5});
    for (int64_t i = 0; i < 5; ++i) w[i] = rng.normal();
    return Weighted{{w, at::full({1}, rng.normal())}, 0.1 + rng.uniform()};
  };
  Tensor first;
  for (uint64_t order = 0; order < 20; ++order) {
    auto arriving = ids;
    Rng(order).shuffle(std::span(arriving));
    Means sum(ids);
    for (const ClientId id : arriving)
      if (id == 7)
        sum.skip(id);
      else
        sum.add(id, value(id));
    const auto mean = sum.mean()->value;
    const auto all = at::cat({mean.w, mean.b});
    if (order == 0) first = all;
    EXPECT_TRUE(all.equal(first));
  }
  // Who never was expected and who will not add leave the same bits.
  std::erase(ids, 7);
  Means without(ids);
  for (const ClientId id : ids) without.add(id, value(id));
  EXPECT_TRUE(at::cat({without.mean()->value.w, without.mean()->value.b}).equal(first));
}

TEST(TrieSum, ASinglePartIsItself) {
  Means sum({3, 8});
  const auto one = part(0.1F, 3);
  sum.skip(8), sum.add(3, one);
  EXPECT_TRUE(sum.mean()->value.w.is_same(one.value.w));
  EXPECT_EQ(sum.mean()->weight, 3);
}

TEST(TrieSum, NobodyIsNoMean) {
  EXPECT_FALSE(Means({}).mean().has_value());
  Means skipped({0, 4});
  skipped.skip(0), skipped.skip(4);
  EXPECT_FALSE(skipped.mean().has_value());
  Means weightless({0, 4});
  weightless.add(0, part(1, 0)), weightless.add(4, part(2, 0));
  EXPECT_FALSE(weightless.mean().has_value());
  Means open({0, 4});
  open.add(0, part(1, 1));
  EXPECT_THROW(open.mean(), std::logic_error);
  EXPECT_THROW(open.add(1, part(1, 1)), std::invalid_argument) << "not expected";
}

TEST(TrieSum, InOrderItHoldsLogManySums) {
  std::vector<ClientId> ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  Means sum(ids);
  int64_t most = 0;
  for (const ClientId id : ids) {
    sum.add(id, part(1, 1));
    most = std::max(most, sum.held());
  }
  EXPECT_LE(most, 10);
  EXPECT_EQ(sum.mean()->value.w[0].item<float>(), 1);
}

// Ranges that are no aligned blocks, at every cut, with skips: the same bits as in one place.
TEST(TrieSum, PartsOfRangesGiveTheSameBits) {
  const std::vector<ClientId> ids{0, 1, 2, 5, 6, 7, 8, 11, 12, 13, 19, 20, 33};
  const auto value = [](ClientId id) {
    Rng rng(derive(4, id));
    auto w = at::empty({5});
    for (int64_t i = 0; i < 5; ++i) w[i] = rng.normal();
    return Weighted{{w, at::full({1}, rng.normal())}, 0.1 + rng.uniform()};
  };
  const auto put = [&](Means& sum, ClientId id) {
    if (id % 6 == 1)
      sum.skip(id);
    else
      sum.add(id, value(id));
  };
  Means whole(ids);
  for (const ClientId id : ids) put(whole, id);
  const auto mean = *whole.mean();
  for (ClientId cut = 0; cut <= 34; ++cut)
    for (const ClientId second : {cut, cut + 3, ClientId{30}}) {
      Means all(ids);
      size_t parts = 0;
      for (const IdRange range : {IdRange{0, cut}, IdRange{cut, std::max(cut, second)},
                                  IdRange{std::max(cut, second), 40}}) {
        std::vector<ClientId> own;
        for (const ClientId id : ids)
          if (range.holds(id)) own.push_back(id);
        Means part(own, range);
        for (auto id = own.rbegin(); id != own.rend(); ++id) put(part, *id);
        for (auto& one : part.take_parts()) all.add(std::move(one)), ++parts;
      }
      EXPECT_LE(parts, 12U);
      const auto same = *all.mean();
      EXPECT_TRUE(at::equal(same.value.w, mean.value.w)) << cut << " " << second;
      EXPECT_TRUE(at::equal(same.value.b, mean.value.b));
      EXPECT_EQ(static_cast<double>(same.weight), static_cast<double>(mean.weight));
    }
}

// By hand: of 4 … 6 with 4 and 5 present, their common parent; 6 waits for 7, who is elsewhere.
TEST(TrieSum, PartsAreTheLargestSubtreesInside) {
  Means sum({4, 5, 6}, {4, 7});
  sum.add(4, part(1, 1)), sum.add(5, part(3, 2)), sum.add(6, part(5, 4));
  auto parts = sum.take_parts();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].level, 0);
  EXPECT_EQ(parts[0].prefix, 6);
  ASSERT_TRUE(parts[0].single.has_value());
  EXPECT_EQ(parts[1].level, 1);
  EXPECT_EQ(parts[1].prefix, 2);
  ASSERT_TRUE(parts[1].sum.has_value());
  EXPECT_EQ(parts[1].sum->at("value.w")[0].item<double>(), 1 * 1 + 2 * 3);
  EXPECT_EQ(parts[1].sum->at("weight").item<double>(), 3);
  Means nobody({4}, {4, 7});
  nobody.skip(4);
  parts = nobody.take_parts();
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_FALSE(parts[0].single || parts[0].sum);
  EXPECT_THROW(Means({3}, {4, 7}), std::invalid_argument);
  Means whole({4, 5});
  EXPECT_THROW(whole.add(TriePart{.level = 1, .prefix = 7}), std::invalid_argument);
}

// By hand: a total is the plain sum whatever the weights are, whole numbers stay whole, and what
// all share is there once.
TEST(TrieSum, AddsTotalsBesideMeans) {
  const auto upload = [](float value, double weight, int64_t many) {
    return TensorDict{{"value.w", at::full({2}, value)},
                      {"weight", detail::scalar(weight)},
                      {"total", at::full({2}, value)},
                      {"many", detail::scalar(many)},
                      {"open", detail::scalar(int64_t{7})}};
  };
  TrieSum sum({0, 1, 5}, {upload(0, 0, 0), parts_of_means()});
  sum.add(5, upload(4, 1, 3)), sum.add(0, upload(2, 3, 4)), sum.add(1, upload(-1, 0, 5));
  const auto out = sum.result();
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->at("value.w")[0].item<float>(), (3 * 2 + 1 * 4) / 4.0F);
  EXPECT_EQ(out->at("weight").item<double>(), 4);
  EXPECT_EQ(out->at("total")[1].item<float>(), 4 + 2 - 1);
  EXPECT_EQ(out->at("many").scalar_type(), at::kLong);
  EXPECT_EQ(out->at("many").item<int64_t>(), 12);
  EXPECT_EQ(out->at("open").item<int64_t>(), 7);
  TrieSum apart({0, 1}, {{}, parts_of_means()});
  EXPECT_THROW(apart.add(0, {{"each", at::ones({1})}}), std::invalid_argument);
}

// A mean that nobody weighs is zero beside one that somebody does; totals need no weight.
TEST(TrieSum, AMeanOfWeightZeroIsZero) {
  MessageParts parts;
  for (const std::string name : {"a", "b"}) {
    parts.add(name, {.adds = Adds::kMean, .weight = name + "n"});
    parts.add(name + "n", {.meaning = Meaning::kCount, .adds = Adds::kWeight});
  }
  const auto shared = std::make_shared<const MessageParts>(std::move(parts));
  const auto upload = [](float a, double an) {
    return TensorDict{{"a", at::full({1}, a)},
                      {"an", detail::scalar(an)},
                      {"b", at::full({1}, 9.0F)},
                      {"bn", detail::scalar(0.0)}};
  };
  TrieSum sum({0, 1}, {upload(0, 0), shared});
  sum.add(0, upload(1, 1)), sum.add(1, upload(3, 1));
  const auto out = sum.result();
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->at("a").item<float>(), 2);
  EXPECT_EQ(out->at("b").item<float>(), 0);
  TrieSum nobody({0, 1}, {upload(0, 0), shared});
  nobody.add(0, upload(1, 0)), nobody.add(1, upload(3, 0));
  EXPECT_FALSE(nobody.result().has_value());
}

}  // namespace
}  // namespace tessera
