#include "run/checkpoint.hpp"

#include <ATen/ATen.h>
#include <unistd.h>

#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

Checkpoint sample() {
  return {7,
          "name = \"größe\"\nseed = 1\n",
          {{"g.w", at::arange(5, at::kFloat)}, {"g.b", at::empty({0})}},
          {{0, {}},
           {3, {{"head", at::ones({2, 2})}, {"n", at::scalar_tensor(int64_t{4}, at::kLong)}}},
           {12, {{"a/b", at::zeros({1})}}}}};
}

std::string bits(const Checkpoint& checkpoint) {
  std::string out = fmt::format("{}\n{}\n", checkpoint.round, checkpoint.config);
  const auto add = [&](const TensorDict& dict) { out += text_of(encode(dict)); };
  add(checkpoint.server);
  for (const auto& [id, state] : checkpoint.clients) out += fmt::format("\n{}:", id), add(state);
  return out;
}

class Checkpoints : public ::testing::Test {
 protected:
  void save(const Checkpoint& checkpoint) {
    ASSERT_THAT(save_checkpoint(dir_.path(), checkpoint), Succeeds());
  }
  void overwrite(const TensorDict& tensors, Metadata metadata) {
    ASSERT_THAT(save_tensors(path_, tensors, std::move(metadata)), Succeeds());
  }
  auto load() { return load_checkpoint(dir_.path()); }

  TempDir dir_;
  const std::string path_ = checkpoint_path(dir_.path());
};

TEST_F(Checkpoints, ComeBackWhole) {
  save(sample());
  const auto back = load();
  ASSERT_THAT(back, Succeeds());
  EXPECT_EQ(back->round, 7);
  ASSERT_EQ(back->clients.size(), 3U);
  EXPECT_EQ(back->clients[0].first, 0);
  EXPECT_TRUE(back->clients[0].second.empty()) << "a client with an empty state is still there";
  EXPECT_EQ(bits(*back), bits(sample()));
}

TEST_F(Checkpoints, EmptyOnesToo) {
  save({});
  const auto back = load();
  ASSERT_THAT(back, Succeeds());
  EXPECT_EQ(bits(*back), bits({}));
}

TEST_F(Checkpoints, ANewOneReplacesTheOldAndNothingElseStays) {
  save(sample());
  auto next = sample();
  next.round = 8, next.clients.pop_back();
  save(next);
  EXPECT_EQ(bits(*load()), bits(next));
  const auto folder = std::filesystem::directory_iterator(dir_.path() + "/checkpoint");
  EXPECT_EQ(std::distance(begin(folder), end(folder)), 1);
}

TEST_F(Checkpoints, WithoutOneItIsNotFound) {
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, path_));
}

TEST_F(Checkpoints, EveryTruncationIsAClearError) {
  save(sample());
  const auto whole = testing::get(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    testing::put(path_, whole.substr(0, size));
    ASSERT_THAT(load(), FailsWith(Error::kInvalid, "--force")) << size << " bytes";
  }
  testing::put(path_, whole + "x");
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, path_));
}

TEST_F(Checkpoints, EveryFlippedBitIsAClearError) {
  save(sample());
  const auto whole = testing::get(path_);
  for (size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    testing::put(path_, damaged);
    ASSERT_THAT(load(), FailsWith(Error::kInvalid, path_)) << "byte " << at;
  }
}

TEST_F(Checkpoints, OtherFilesAreRefused) {
  std::filesystem::create_directories(dir_.path() + "/checkpoint");
  overwrite({{"server/w", at::zeros({2})}}, {});
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "format ''"));
  overwrite({}, {{"tessera_checkpoint", "2"}, {"round", "1"}});
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "format '2', this program writes 1"));
  testing::put(path_, encode({}, {{"tessera_checkpoint", "1"}, {"round", "1"}}));
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "digest"));
}

TEST_F(Checkpoints, ContentsThatMakeNoSenseAreRefused) {
  std::filesystem::create_directories(dir_.path() + "/checkpoint");
  const auto refused = [&](const TensorDict& tensors, const char* round, const char* clients,
                           const char* why) {
    overwrite(tensors, {{"tessera_checkpoint", "1"}, {"round", round}, {"clients", clients}});
    EXPECT_THAT(load(), FailsWith(Error::kInvalid, why)) << round << " / " << clients;
  };
  for (const char* round : {"", "-1", "seven", "7 ", "99999999999999999999"})
    refused({}, round, "", "round");
  for (const char* clients : {"1", "1  2 ", "x ", "-1 ", " "})
    refused({}, "1", clients, "client list");
  for (const char* name : {"client/2/w", "client/w", "client/x/w", "clients/1/w", "other", ""})
    refused({{name, at::zeros({1})}}, "1", "1 ", "unexpected tensor");
}

TEST_F(Checkpoints, ADirectoryThatCannotBeMadeIsAnError) {
  testing::put(dir_.path() + "/checkpoint", "a file");
  EXPECT_FALSE(save_checkpoint(dir_.path(), sample()).ok());
  EXPECT_EQ(testing::get(dir_.path() + "/checkpoint"), "a file");
}

TEST_F(Checkpoints, AReadOnlyDirectoryIsAnErrorAndKeepsTheOldOne) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  save(sample());
  std::filesystem::permissions(dir_.path() + "/checkpoint", std::filesystem::perms::owner_read |
                                                                std::filesystem::perms::owner_exec);
  auto next = sample();
  next.round = 8;
  EXPECT_THAT(save_checkpoint(dir_.path(), next), FailsWith(Error::kIo, path_));
  EXPECT_EQ(bits(*load()), bits(sample()));
  std::filesystem::permissions(dir_.path() + "/checkpoint", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace tessera
