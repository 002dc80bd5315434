#include "engine/state_shelf.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/client_store.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;
using Kind = StateShelf::Kind;

TensorDict numbered(int64_t value) {
  return {{"a", at::full({25}, static_cast<double>(value), at::kFloat)},
          {"b", at::arange(value, value + 5, at::kLong)}};  // 140 bytes
}

void expect_numbered(const std::optional<TensorDict>& state, int64_t value) {
  ASSERT_TRUE(state.has_value()) << value;
  EXPECT_TRUE(at::equal(state->at("a"), numbered(value).at("a"))) << value;
  EXPECT_TRUE(at::equal(state->at("b"), numbered(value).at("b"))) << value;
}

TEST(StateShelf, HoldsWhatFitsAndFindsTheRest) {
  TempDir dir;
  StateShelf shelf;
  shelf.limit({3 * 140, dir.path()});
  for (int64_t id = 0; id < 10; ++id)
    ASSERT_THAT(shelf.put({Kind::kSettled, id}, numbered(id)), Succeeds());
  EXPECT_EQ(shelf.bytes_in_memory(), 3 * 140);
  EXPECT_EQ(shelf.on_disk(), 7);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "the file has no name";
  for (int64_t id = 0; id < 10; ++id) expect_numbered(*shelf.get({Kind::kSettled, id}), id);
  EXPECT_EQ(shelf.bytes_in_memory(), 3 * 140);
  EXPECT_EQ(shelf.ids(Kind::kSettled).size(), 10U);
  EXPECT_EQ(*shelf.get({Kind::kWaiting, 1}), std::nullopt);
}

TEST(StateShelf, TheLongestUnusedGoesFirst) {
  TempDir dir;
  StateShelf shelf;
  shelf.limit({2 * 140, dir.path()});
  ASSERT_THAT(shelf.put({Kind::kSettled, 1}, numbered(1)), Succeeds());
  ASSERT_THAT(shelf.put({Kind::kSettled, 2}, numbered(2)), Succeeds());
  const auto one = (*shelf.get({Kind::kSettled, 1}))->at("a");
  ASSERT_THAT(shelf.put({Kind::kSettled, 3}, numbered(3)), Succeeds());
  EXPECT_TRUE((*shelf.get({Kind::kSettled, 1}))->at("a").is_same(one)) << "was used since";
  EXPECT_EQ(shelf.on_disk(), 1);
}

TEST(StateShelf, MovesAndForgetsWhereverAStateIs) {
  TempDir dir;
  StateShelf shelf;
  shelf.limit({0, dir.path()});
  ASSERT_THAT(shelf.put({Kind::kSettled, 1}, numbered(1)), Succeeds());
  ASSERT_THAT(shelf.put({Kind::kWaiting, 1}, numbered(5)), Succeeds());
  EXPECT_EQ(shelf.on_disk(), 2);
  shelf.move({Kind::kWaiting, 1}, {Kind::kSettled, 1});
  expect_numbered(*shelf.get({Kind::kSettled, 1}), 5);
  EXPECT_FALSE(shelf.contains({Kind::kWaiting, 1}));
  EXPECT_EQ(shelf.on_disk(), 1);
  EXPECT_TRUE(shelf.erase({Kind::kSettled, 1}));
  EXPECT_FALSE(shelf.erase({Kind::kSettled, 1}));
  EXPECT_EQ(shelf.on_disk(), 0);
  EXPECT_EQ(shelf.bytes_in_memory(), 0);
}

// A head that is a view of a whole model: 100,000 of them would keep 100,000 models.
TEST(StateShelf, KeepsNoMoreThanTheTensorsNeed) {
  StateShelf shelf;
  const auto model = at::arange(1000, at::kFloat);
  ASSERT_THAT(shelf.put({Kind::kSettled, 1}, {{"head", model.slice(0, 990)}}), Succeeds());
  const auto head = (*shelf.get({Kind::kSettled, 1}))->at("head");
  EXPECT_EQ(head.storage().nbytes(), 40U);
  EXPECT_TRUE(at::equal(head, model.slice(0, 990)));
}

TEST(StateShelf, NamesTheDirectoryItCannotWriteTo) {
  StateShelf shelf;
  shelf.limit({100, "/nowhere/at/all"});
  EXPECT_THAT(shelf.put({Kind::kSettled, 1}, numbered(1)), FailsWith(Error::kNotFound, "/nowhere"));
}

TEST(ClientStore, ALimitChangesNothingThatAnybodySees) {
  TempDir dir;
  ClientStore all, some;
  some.limit({2 * 140, dir.path()});
  for (auto* store : {&all, &some}) {
    for (int64_t round = 1; round <= 3; ++round)
      for (ClientId id = 0; id < 8; ++id) {
        ASSERT_THAT(store->stage(id, round, 1, numbered(10 * round + id)), Succeeds());
        if (id % 2 == 1) continue;
        ASSERT_THAT(store->settle(id, round, 1, round != 3), Succeeds());
      }
    for (ClientId id = 1; id < 8; id += 2)
      ASSERT_THAT(store->settle(id, 3, 1, id != 5), Succeeds());
    ASSERT_THAT(store->forget(0), Succeeds());
    ASSERT_THAT(store->restore(9, numbered(99)), Succeeds());
  }
  EXPECT_EQ(all.on_disk(), 0);
  EXPECT_GT(some.on_disk(), 2);
  EXPECT_EQ(all.ids(), some.ids());
  EXPECT_EQ(all.changed(), some.changed());
  for (const ClientId id : all.ids()) {
    const auto expected = id == 9 ? 99 : id % 2 == 0 ? 20 + id : 30 + id;
    expect_numbered(all.get(id), expected);
    expect_numbered(some.get(id), expected);
  }
  EXPECT_EQ(some.get(5), std::nullopt);
}

}  // namespace
}  // namespace tessera
