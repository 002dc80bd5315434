#include "run/checkpoint.hpp"

#include <ATen/ATen.h>
#include <unistd.h>

#include <filesystem>

#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

CheckpointFacts facts(int64_t round) {
  return {round, "name = \"größe\"\nseed = 1\n", "data", fmt::format("history {}", round)};
}

TensorDict server() {
  return {{"g.w", at::arange(5, at::kFloat)},
          {"g.b", at::empty({0})},
          {"latest@3.w", at::ones({2})},
          {"latest@12.w", at::zeros({2})}};
}

CheckpointChanges first() {
  return {
      server(),
      {{0, TensorDict{}},
       {3, TensorDict{{"head", at::ones({2, 2})}, {"n", at::scalar_tensor(int64_t{4}, at::kLong)}}},
       {12, TensorDict{{"a/b", at::zeros({1})}}}}};
}

std::string bits(const Checkpoint& checkpoint) {
  const auto& f = checkpoint.facts;
  auto out = fmt::format("{}\n{}\n{}\n{}\n", f.round, f.config, f.data_digest, f.history_digest);
  const auto add = [&](const TensorDict& dict) { out += text_of(encode(dict)); };
  add(checkpoint.server);
  for (const auto& [id, state] : checkpoint.clients) out += fmt::format("\n{}:", id), add(state);
  return out;
}

class Checkpoints : public ::testing::Test {
 protected:
  /// A file with the first checkpoint, closed.
  void save_first() {
    auto file = CheckpointFile::create(dir_.path());
    ASSERT_THAT(file, Succeeds());
    ASSERT_THAT(file->save(facts(7), first()), Succeeds());
    file->settle();
  }
  Result<Checkpoint> load() {
    auto opened = CheckpointFile::open(dir_.path());
    if (!opened.ok()) return opened.status();
    return opened->second;
  }
  Status execute(const std::string& sql) {
    auto database = Database::open(path_, Database::Mode::kReadWrite);
    return database.ok() ? database->execute(sql) : database.status();
  }

  TempDir dir_;
  const std::string path_ = checkpoint_path(dir_.path());
};

TEST_F(Checkpoints, ComeBackWhole) {
  save_first();
  const auto back = load();
  ASSERT_THAT(back, Succeeds());
  EXPECT_EQ(back->facts.round, 7);
  EXPECT_EQ(back->facts.history_digest, "history 7");
  ASSERT_EQ(back->clients.size(), 3U);
  EXPECT_TRUE(back->clients[0].second.empty()) << "a client with an empty state is still there";
  Checkpoint expected{facts(7), server(), {}};
  for (const auto& [id, state] : first().clients) expected.clients.emplace_back(id, *state);
  EXPECT_EQ(bits(*back), bits(expected));
}

TEST_F(Checkpoints, OnlyWhatChangedIsWrittenAndTheRestStays) {
  save_first();
  {
    auto file = CheckpointFile::open(dir_.path());
    ASSERT_THAT(file, Succeeds());
    // The server's own part, its entry of client 12, client 3's state, and client 0 is forgotten.
    CheckpointChanges changes{{{"g.w", at::zeros({5})}, {"latest@12.w", at::full({2}, 9.0F)}},
                              {{3, TensorDict{{"head", at::zeros({1})}}}, {0, std::nullopt}}};
    ASSERT_THAT(file->first.save(facts(8), changes), Succeeds());
  }
  const auto back = load();
  ASSERT_THAT(back, Succeeds());
  const Checkpoint expected{facts(8),
                            {{"g.w", at::zeros({5})},
                             {"latest@3.w", at::ones({2})},
                             {"latest@12.w", at::full({2}, 9.0F)}},
                            {{3, {{"head", at::zeros({1})}}}, {12, {{"a/b", at::zeros({1})}}}}};
  EXPECT_EQ(bits(*back), bits(expected));
}

TEST_F(Checkpoints, AnUnfinishedSaveLeavesTheOneBefore) {
  save_first();
  const auto before = bits(*load());
  {
    // What a kill in the middle leaves: written, not committed.
    auto database = Database::open(path_, Database::Mode::kReadWrite);
    auto transaction = Transaction::begin(*database);
    ASSERT_THAT(database->execute("DELETE FROM states WHERE client = 3; "
                                  "UPDATE facts SET value = '8' WHERE key = 'round'"),
                Succeeds());
  }
  EXPECT_EQ(bits(*load()), before);
}

TEST_F(Checkpoints, WithoutOneItIsNotFound) {
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, path_));
  // Died before the first save.
  ASSERT_THAT(CheckpointFile::create(dir_.path()), Succeeds());
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, path_));
}

// Found by killing a server at its start: it then refused to start again.
TEST_F(Checkpoints, OneThatDiedBeforeItHadTablesIsNotFound) {
  fs::create_directories(fs::path(path_).parent_path());
  { ASSERT_TRUE(Database::open(path_, Database::Mode::kReadWrite).ok()); }
  ASSERT_TRUE(fs::exists(path_));
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, path_));
}

// Its seal walks over all states; written once more, the file has the seal of today.
TEST_F(Checkpoints, OneOfFormat2IsReadAndWrittenOnAsToday) {
  save_first();
  const auto saved = bits(*load());
  {
    auto database = Database::open(path_, Database::Mode::kReadWrite);
    const auto f = facts(7);
    auto text = fmt::format("{}\n{}\n{}\n{}\n{}\n", f.round, f.config.size(), f.config,
                            f.data_digest, f.history_digest);
    auto rows = database->prepare(
        "SELECT DISTINCT owner, client, digest FROM states ORDER BY owner, client");
    while (*rows->step())
      text += fmt::format("{} {} {}\n", rows->integer(0), rows->integer(1), rows->text(2));
    rows->reset();
    ASSERT_THAT(database->execute(fmt::format("UPDATE facts SET value = '2' WHERE key = 'format';"
                                              "UPDATE facts SET value = '{}' WHERE key = 'seal'",
                                              sha256_hex(bytes_of(text)))),
                Succeeds());
  }
  EXPECT_EQ(bits(*load()), saved);
  {
    auto file = CheckpointFile::open(dir_.path());
    ASSERT_THAT(file->first.save(facts(8), {server(), {}}), Succeeds());
  }
  EXPECT_EQ(load()->facts.round, 8);
  ASSERT_THAT(execute("UPDATE facts SET value = '2' WHERE key = 'format'"), Succeeds());
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "do not match its digest"));
}

// Programs before this one kept states within the tree of their keys.
TEST_F(Checkpoints, OneWhoseStatesLieOtherwiseIsReadAndWrittenOn) {
  save_first();
  const auto before = load();
  ASSERT_THAT(before, Succeeds());
  ASSERT_THAT(execute("ALTER TABLE states RENAME TO moved; CREATE TABLE states(owner INTEGER, "
                      "client INTEGER, piece INTEGER, digest TEXT NOT NULL, data BLOB NOT NULL, "
                      "PRIMARY KEY(owner, client, piece)) WITHOUT ROWID; INSERT INTO states SELECT "
                      "* FROM moved; DROP TABLE moved"),
              Succeeds());
  auto opened = CheckpointFile::open(dir_.path());
  ASSERT_THAT(opened, Succeeds());
  EXPECT_EQ(bits(opened->second), bits(*before));
  ASSERT_THAT(opened->first.save(facts(8), {{{"g.w", at::ones({5})}}, {{3, std::nullopt}}}),
              Succeeds());
  const auto after = load();
  ASSERT_THAT(after, Succeeds());
  EXPECT_EQ(after->facts.round, 8);
  ASSERT_EQ(after->clients.size(), 2);
  EXPECT_EQ(after->clients[1].first, 12);
}

TEST_F(Checkpoints, ClientsAreReadOneByOne) {
  save_first();
  auto opened = CheckpointFile::open(dir_.path(), CheckpointFile::Clients::kLater);
  ASSERT_THAT(opened, Succeeds());
  EXPECT_TRUE(opened->second.clients.empty());
  auto whole = opened->second;
  ASSERT_THAT(opened->first.read_clients([&](ClientId id, TensorDict state) {
    whole.clients.emplace_back(id, std::move(state));
    return ok();
  }),
              Succeeds());
  EXPECT_EQ(bits(whole), bits(*load()));
  EXPECT_THAT(opened->first.read_clients(
                  [](ClientId, const TensorDict&) { return fail(Error::kInvalid, "not mine"); }),
              FailsWith(Error::kInvalid, "not mine"));
}

// SQLite has bytes that mean nothing; what loads must be what was saved.
TEST_F(Checkpoints, NoDamageLoadsAsAnotherState) {
  save_first();
  const auto saved = bits(*load());
  const auto whole = testing::get(path_);
  int refused = 0;
  const auto check = [&](const std::string& bytes, size_t at) {
    fs::remove(path_ + "-wal"), fs::remove(path_ + "-shm");
    testing::put(path_, bytes);
    const auto back = load();
    if (back.ok()) {
      ASSERT_EQ(bits(*back), saved) << "byte " << at;
    } else {
      ++refused;
      ASSERT_THAT(back, FailsWith(Error::kInvalid, path_)) << "byte " << at;
      ASSERT_THAT(back, FailsWith(Error::kInvalid, "--force")) << "byte " << at;
    }
  };
  for (size_t at = 0; at < whole.size(); at += 5) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    check(damaged, at);
  }
  EXPECT_GT(refused, 100);
  for (size_t size = 1; size < whole.size(); size += 301) check(whole.substr(0, size), size);
}

TEST_F(Checkpoints, ContentsThatMakeNoSenseAreRefused) {
  const auto refused = [&](const std::string& sql, const char* why) {
    fs::remove_all(dir_.path() + "/checkpoint");
    save_first();
    ASSERT_THAT(execute(sql), Succeeds());
    EXPECT_THAT(load(), FailsWith(Error::kInvalid, why)) << sql;
  };
  refused("UPDATE facts SET value = '4' WHERE key = 'format'", "format '4', this program writes 3");
  refused("UPDATE facts SET value = 'seven' WHERE key = 'round'", "no round number");
  refused("UPDATE facts SET value = '8' WHERE key = 'round'", "do not match its digest");
  refused("UPDATE facts SET value = 'x' WHERE key = 'history_digest'", "do not match its digest");
  refused("DELETE FROM states WHERE owner = 2 AND client = 3", "do not match its digest");
  refused("UPDATE states SET client = 4 WHERE client = 3", "do not match its digest");
  refused("UPDATE states SET data = x'00' WHERE client = 3", "does not match its digest");
  refused("DROP TABLE states", "states");
  refused("DELETE FROM facts WHERE key = 'seal'", "do not match its digest");
}

TEST_F(Checkpoints, OtherFilesAreRefused) {
  fs::create_directories(dir_.path() + "/checkpoint");
  testing::put(path_,
               "notes of mine, longer than a header of a database has to be to be one ......");
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, path_));
}

TEST_F(Checkpoints, ADirectoryThatCannotBeMadeIsAnError) {
  testing::put(dir_.path() + "/checkpoint", "a file");
  EXPECT_FALSE(CheckpointFile::create(dir_.path()).ok());
  EXPECT_EQ(testing::get(dir_.path() + "/checkpoint"), "a file");
}

}  // namespace
}  // namespace tessera
