#include "engine/client_store.hpp"

#include <ATen/ATen.h>

#include <filesystem>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

TensorDict state(float value) { return {{"v", at::full({2}, value)}}; }
float value_of(const std::optional<TensorDict>& state) {
  return state ? state->at("v")[0].item<float>() : -1;
}

TEST(ClientStore, KnowsWhatChangedSinceItWasSaved) {
  ClientStore store;
  ASSERT_THAT(store.stage(3, 1, 1, state(1)), Succeeds());
  EXPECT_TRUE(store.changed().empty()) << "waiting is not settled";
  EXPECT_TRUE(*store.settle(3, 1, 1, true));
  ASSERT_THAT(store.stage(5, 1, 1, state(2)), Succeeds());
  EXPECT_FALSE(*store.settle(5, 1, 1, false));
  EXPECT_EQ(store.changed(), std::set<ClientId>{3});
  store.saved();
  EXPECT_TRUE(store.changed().empty());
  ASSERT_THAT(store.forget(3), Succeeds());
  EXPECT_EQ(store.changed(), std::set<ClientId>{3}) << "a forgotten state is a change, too";
  EXPECT_EQ(store.get(3), std::nullopt);
}

TEST(ClientStore, InADirectoryEverythingSurvives) {
  TempDir dir;
  {
    auto store = *ClientStore::open(dir.file("state"));
    ASSERT_THAT(store->stage(1, 4, 2, state(1)), Succeeds());
    ASSERT_TRUE(*store->settle(1, 4, 2, true));
    ASSERT_THAT(store->stage(1, 5, 1, state(7)), Succeeds());
  }
  auto store = *ClientStore::open(dir.file("state"));
  EXPECT_EQ(value_of(store->get(1)), 1);
  EXPECT_FALSE(*store->settle(1, 5, 3, true)) << "another attempt";
  EXPECT_EQ(value_of(store->get(1)), 1);
  EXPECT_TRUE(*store->settle(1, 5, 1, true)) << "what waited still waits";
  EXPECT_EQ(value_of(store->get(1)), 7);
  EXPECT_FALSE(*store->settle(1, 5, 1, true));
  store = *ClientStore::open(dir.file("state"));
  EXPECT_EQ(value_of(store->get(1)), 7);
  ASSERT_THAT(store->forget(1), Succeeds());
  store = *ClientStore::open(dir.file("state"));
  EXPECT_TRUE(store->ids().empty());
}

// Killed between writing the settled state and removing what waited: settling again is harmless.
TEST(ClientStore, AnInterruptedSettlementIsRepeated) {
  TempDir dir;
  const auto path = dir.file("state");
  {
    auto store = *ClientStore::open(path);
    ASSERT_THAT(store->stage(1, 5, 1, state(7)), Succeeds());
    std::filesystem::copy_file(path + "/client-1.next.safetensors", dir.file("waiting"));
    ASSERT_TRUE(*store->settle(1, 5, 1, true));
  }
  std::filesystem::copy_file(dir.file("waiting"), path + "/client-1.next.safetensors");
  auto store = *ClientStore::open(path);
  EXPECT_TRUE(*store->settle(1, 5, 1, true));
  EXPECT_EQ(value_of(store->get(1)), 7);
}

TEST(ClientStore, DamagedAndForeignFilesAreToldApart) {
  TempDir dir;
  const auto path = dir.file("state");
  {
    auto store = *ClientStore::open(path);
    ASSERT_THAT(store->restore(1, state(7)), Succeeds());
  }
  testing::put(path + "/notes.txt", "mine");
  EXPECT_THAT(ClientStore::open(path).status(), Succeeds());
  auto bytes = testing::get(path + "/client-1.safetensors");
  bytes.back() ^= 1;
  testing::put(path + "/client-1.safetensors", bytes);
  EXPECT_THAT(ClientStore::open(path).status(),
              FailsWith(Error::kInvalid, "client-1.safetensors: damaged"));
}

}  // namespace
}  // namespace tessera
