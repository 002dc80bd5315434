#include "io/sqlite.hpp"

#include <pwd.h>
#include <sys/wait.h>

#include <limits>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::put;
using testing::Succeeds;
using testing::TempDir;
using Mode = Database::Mode;

Database create(const std::string& path) {
  auto database = Database::open(path, Mode::kReadWrite);
  EXPECT_THAT(database, Succeeds());
  EXPECT_THAT(database->execute("CREATE TABLE IF NOT EXISTS t (i INTEGER, r REAL, s TEXT)"),
              Succeeds());
  return *std::move(database);
}

int64_t count(Database& database) {
  auto statement = database.prepare("SELECT count(*) FROM t");
  EXPECT_TRUE(statement.ok() && *statement->step());
  return statement->integer(0);
}

TEST(Sqlite, ValuesComeBackWithTheirTypes) {
  TempDir dir;
  Database database = create(dir.file("d"));
  auto insert = database.prepare("INSERT INTO t VALUES (?, ?, ?)");
  ASSERT_THAT(insert, Succeeds());
  const std::string zero("a\0b", 3);
  EXPECT_THAT(insert->bind_all(std::numeric_limits<int64_t>::min(), 0.1, zero).run(), Succeeds());
  EXPECT_THAT(insert->bind_all(std::nullopt, std::numeric_limits<double>::quiet_NaN(), "").run(),
              Succeeds());
  EXPECT_THAT(insert->bind_all(std::optional<int64_t>(), std::optional<double>(2.0), true).run(),
              Succeeds());
  EXPECT_EQ(database.changes(), 1);
  EXPECT_EQ(database.last_insert_id(), 3);
  auto select = database.prepare("SELECT i, r, s FROM t ORDER BY rowid");
  ASSERT_THAT(select, Succeeds());
  EXPECT_EQ(select->columns(), 3);
  ASSERT_TRUE(*select->step());
  EXPECT_EQ(select->integer(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(select->real(1), 0.1);
  EXPECT_EQ(select->text(2), zero);
  ASSERT_TRUE(*select->step());
  EXPECT_TRUE(select->is_null(0));
  EXPECT_EQ(select->maybe_integer(0), std::nullopt);
  EXPECT_TRUE(std::isnan(select->real(1)));
  EXPECT_EQ(select->maybe_real(1), std::nullopt);
  EXPECT_EQ(select->maybe_text(2), "");
  ASSERT_TRUE(*select->step());
  EXPECT_EQ(select->maybe_real(1), 2.0);
  EXPECT_EQ(select->text(2), "1");
  EXPECT_FALSE(*select->step());
}

TEST(Sqlite, BlobsComeBackByteByByte) {
  TempDir dir;
  Database database = create(dir.file("d"));
  auto insert = database.prepare("INSERT INTO t(s) VALUES (?)");
  ASSERT_THAT(insert, Succeeds());
  const Bytes bytes{0, 255, 0, 128, 7};
  EXPECT_THAT(insert->bind(1, ByteSpan(bytes)).run(), Succeeds());
  EXPECT_THAT(insert->bind(1, ByteSpan()).run(), Succeeds());
  EXPECT_THAT(insert->bind(1, std::nullopt).run(), Succeeds());
  auto select = database.prepare("SELECT s, typeof(s) FROM t ORDER BY rowid");
  ASSERT_TRUE(*select->step());
  EXPECT_EQ(Bytes(select->blob(0).begin(), select->blob(0).end()), bytes);
  EXPECT_EQ(select->text(1), "blob");
  ASSERT_TRUE(*select->step());
  EXPECT_TRUE(select->blob(0).empty());
  EXPECT_EQ(select->text(1), "blob") << "empty is not NULL";
  ASSERT_TRUE(*select->step());
  EXPECT_TRUE(select->blob(0).empty());
  EXPECT_EQ(select->text(1), "null");
}

TEST(Sqlite, WrongSqlAndWrongParametersAreErrors) {
  TempDir dir;
  Database database = create(dir.file("d"));
  EXPECT_THAT(database.prepare("SELECT x FROM nowhere"),
              FailsWith(Error::kInternal, "no such table"));
  EXPECT_THAT(database.prepare(""), FailsWith(Error::kInternal, "empty"));
  auto insert = database.prepare("INSERT INTO t VALUES (?, 1, 'x')");
  ASSERT_THAT(insert, Succeeds());
  EXPECT_THAT(insert->bind(2, 5).run(), FailsWith(Error::kInternal, "binding"));
  EXPECT_THAT(insert->bind(1, 5).run(), Succeeds());
  EXPECT_EQ(count(database), 1);
}

TEST(Sqlite, UncommittedTransactionsLeaveNoTrace) {
  TempDir dir;
  Database database = create(dir.file("d"));
  {
    auto transaction = Transaction::begin(database);
    ASSERT_THAT(transaction, Succeeds());
    EXPECT_THAT(database.execute("INSERT INTO t VALUES (1, 2, '3')"), Succeeds());
    EXPECT_EQ(count(database), 1);
  }
  EXPECT_EQ(count(database), 0);
  auto transaction = Transaction::begin(database);
  ASSERT_THAT(transaction, Succeeds());
  EXPECT_THAT(database.execute("INSERT INTO t VALUES (1, 2, '3')"), Succeeds());
  EXPECT_THAT(transaction->commit(), Succeeds());
  EXPECT_THAT(transaction->commit(), FailsWith(Error::kInternal, "twice"));
  EXPECT_EQ(count(database), 1);
}

TEST(Sqlite, ReadersSeeTheLastCommitWhileAWriterWrites) {
  TempDir dir;
  Database writer = create(dir.file("d"));
  auto transaction = Transaction::begin(writer);
  ASSERT_THAT(transaction, Succeeds());
  EXPECT_THAT(writer.execute("INSERT INTO t VALUES (1, 2, '3')"), Succeeds());
  auto reader = Database::open(dir.file("d"), Mode::kReadOnly);
  ASSERT_THAT(reader, Succeeds());
  EXPECT_EQ(count(*reader), 0);
  EXPECT_THAT(transaction->commit(), Succeeds());
  EXPECT_EQ(count(*reader), 1);
  EXPECT_THAT(reader->execute("DELETE FROM t"), FailsWith(Error::kIo, dir.file("d")));
}

TEST(Sqlite, WriteModeIsWalAndFull) {
  TempDir dir;
  Database database = create(dir.file("d"));
  auto journal = database.prepare("PRAGMA journal_mode");
  ASSERT_TRUE(journal.ok() && *journal->step());
  EXPECT_EQ(journal->text(0), "wal");
  auto synchronous = database.prepare("PRAGMA synchronous");
  ASSERT_TRUE(synchronous.ok() && *synchronous->step());
  EXPECT_EQ(synchronous->integer(0), 2);
}

TEST(Sqlite, TellsDamagedFromMissingFromLocked) {
  TempDir dir;
  put(dir.file("text"), std::string(5000, 'x'));
  for (const Mode mode : {Mode::kReadOnly, Mode::kReadWrite}) {
    EXPECT_THAT(Database::open(dir.file("text"), mode),
                FailsWith(Error::kInvalid, "damaged or not a database"));
    EXPECT_THAT(Database::open(dir.file("no/d"), mode), FailsWith(Error::kNotFound, "no/d"));
  }
  EXPECT_THAT(Database::open(dir.file("none"), Mode::kReadOnly),
              FailsWith(Error::kNotFound, dir.file("none")));
  EXPECT_EQ(testing::get(dir.file("text")), std::string(5000, 'x'));

  Database one = create(dir.file("d"));
  auto two = Database::open(dir.file("d"), Mode::kReadWrite);
  ASSERT_THAT(two, Succeeds());
  ASSERT_THAT(two->execute("PRAGMA busy_timeout=1"), Succeeds());
  auto transaction = Transaction::begin(one);
  ASSERT_THAT(transaction, Succeeds());
  EXPECT_THAT(Transaction::begin(*two), FailsWith(Error::kBusy, "locked by another program"));
}

TEST(Sqlite, QuickCheckFindsDamage) {
  TempDir dir;
  const auto path = dir.file("d");
  {
    Database database = create(path);
    auto transaction = Transaction::begin(database);
    auto insert = database.prepare("INSERT INTO t VALUES (?, 1.5, ?)");
    ASSERT_THAT(insert, Succeeds());
    for (int64_t i = 0; i < 2000; ++i)
      ASSERT_THAT(insert->bind_all(i, std::string(50, 'x')).run(), Succeeds());
    ASSERT_THAT(transaction->commit(), Succeeds());
    EXPECT_THAT(database.quick_check(), Succeeds());
  }
  std::string bytes = testing::get(path);
  ASSERT_GT(bytes.size(), 20000u);
  std::fill(bytes.begin() + 8192, bytes.begin() + 12288, '\x77');
  put(path, bytes);
  auto database = Database::open(path, Mode::kReadWrite);
  ASSERT_THAT(database, Succeeds());
  EXPECT_THAT(database->quick_check(), FailsWith(Error::kInvalid, "damaged or not a database"));
  EXPECT_THAT(Database::open(path, Mode::kReadOnly),
              FailsWith(Error::kInvalid, "damaged or not a database"));
}

TEST(Sqlite, AFullDiskIsAnErrorAndKeepsWhatWasCommitted) {
  TempDir dir;
  Database database = create(dir.file("d"));
  ASSERT_THAT(database.execute("INSERT INTO t VALUES (1, 2, '3')"), Succeeds());
  // SQLite's own limit stands for the disk: both end in SQLITE_FULL.
  ASSERT_THAT(database.execute("PRAGMA max_page_count=10"), Succeeds());
  const auto fill = [&]() -> Status {
    TESSERA_ASSIGN(auto transaction, Transaction::begin(database));
    TESSERA_ASSIGN(auto insert, database.prepare("INSERT INTO t VALUES (1, 2, ?)"));
    for (int i = 0; i < 100; ++i)
      TESSERA_RETURN_IF_ERROR(insert.bind(1, std::string(1000, 'x')).run());
    return transaction.commit();
  };
  EXPECT_THAT(fill(), FailsWith(Error::kIo, "the disk is full; free some space"));
  EXPECT_EQ(count(database), 1);
  EXPECT_THAT(database.quick_check(), Succeeds());
}

TEST(Sqlite, ReadsAFinishedRunInADirectoryWithoutWritePermission) {
  TempDir dir;
  const passwd* nobody = ::getpwnam("nobody");
  if (::geteuid() != 0 || !nobody) GTEST_SKIP() << "only root can become a user without rights";
  { Database database = create(dir.file("d?#%")); }
  ASSERT_EQ(dir.names().size(), 1u) << "the WAL is gone once the writer has closed";
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setuid(nobody->pw_uid) != 0) ::_exit(2);
    auto database = Database::open(dir.file("d?#%"), Mode::kReadOnly);
    ::_exit(database.ok() && count(*database) == 0 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera
