// A history.sqlite that somebody else made must end in a sentence, not in a crash or a wait without
// end. Once: JSON nested 100,000 deep overflowed the stack, and a view in place of a table, or a
// tree of pages that refers to one page again and again, was read for ever.
#include <sqlite3.h>

#include "io/sqlite.hpp"
#include "io/testing.hpp"
#include "report/history_reader.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;
using Mode = Database::Mode;

// As docs/formats.md has them; page_size: small pages make a tree of many.
constexpr const char* kHistory = R"sql(
PRAGMA page_size = 1024;
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE clients(id INTEGER PRIMARY KEY, name TEXT, newcomer INTEGER, train INTEGER,
  val INTEGER, test INTEGER);
CREATE TABLE labels(client INTEGER, part TEXT, label INTEGER, n INTEGER);
CREATE TABLE rounds(round INTEGER PRIMARY KEY, cohort INTEGER, dropped INTEGER, rejected INTEGER,
  loss REAL, bytes_down INTEGER, bytes_up INTEGER, wire_down INTEGER, wire_up INTEGER,
  sim_seconds REAL, wall_seconds REAL, train_seconds REAL,
  counted INTEGER);
CREATE TABLE evals(round INTEGER, who TEXT, view TEXT, part TEXT, mean REAL, std REAL, micro REAL,
  min REAL, max REAL, worst10 REAL, best10 REAL, precision_macro REAL, f1_macro REAL,
  f1_remap REAL, loss REAL, balanced_accuracy REAL, auroc REAL, ece REAL,
  PRIMARY KEY(round, who, view, part));
CREATE TABLE client_evals(round INTEGER, client INTEGER, view TEXT, part TEXT, n INTEGER,
  correct INTEGER, loss REAL, precision_macro REAL, f1_macro REAL, f1_remap REAL,
  balanced_accuracy REAL, auroc REAL, ece REAL, PRIMARY KEY(round, client, view, part));
CREATE TABLE confusions(round INTEGER, client INTEGER, view TEXT, truth INTEGER, predicted INTEGER,
  n INTEGER);
CREATE TABLE problems(round INTEGER, client INTEGER, kind TEXT, reason TEXT);
CREATE TABLE eval_traffic(round INTEGER PRIMARY KEY, eval_down INTEGER, eval_up INTEGER,
  exchanges INTEGER, onboard_down INTEGER, onboard_up INTEGER);
CREATE TABLE exhibits(round INTEGER, name TEXT, kind TEXT, title TEXT, rows TEXT, columns TEXT,
  shape TEXT, value BLOB, PRIMARY KEY(round, name));
INSERT INTO meta VALUES('format','4'),('class_names','["a","b"]');
INSERT INTO clients VALUES(0,'a',0,10,1,2);
INSERT INTO labels VALUES(0,'train',0,10);
)sql";

constexpr const char* kEndless =
    "WITH RECURSIVE endless(i) AS (SELECT 1 UNION ALL SELECT 1 FROM endless) SELECT ";

class ForeignHistory : public ::testing::Test {
 protected:
  ForeignHistory() { run_sql(kHistory); }

  // Past io/sqlite.hpp, which refuses such files for writing as well. Returns the last row's texts.
  std::vector<std::string> run_sql(const std::string& sql) {
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &handle), SQLITE_OK);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> guard(handle, sqlite3_close);
    std::vector<std::string> row;
    const auto keep = [](void* out, int columns, char** texts, char**) {
      static_cast<std::vector<std::string>*>(out)->assign(texts, texts + columns);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), keep, &row, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    return row;
  }
  void set_meta(const std::string& key, const std::string& value) {
    auto database = Database::open(path_, Mode::kReadWrite);
    ASSERT_THAT(database, Succeeds());
    auto insert = database->prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)");
    ASSERT_THAT(insert, Succeeds());
    ASSERT_THAT(insert->bind_all(key, value).run(), Succeeds());
  }
  // Both ways in must refuse with the same sentence.
  void expect_refused(const std::string& words) {
    const auto whole = read_history(path_);
    EXPECT_THAT(whole, FailsWith(Error::kInvalid, path_));
    EXPECT_THAT(whole, FailsWith(Error::kInvalid, words));
    EXPECT_THAT(for_each_exhibit(path_, [](const ExhibitRow&) { return ok(); }),
                FailsWith(Error::kInvalid, words));
  }

  TempDir dir_;
  const std::string path_ = dir_.file("history.sqlite");
};

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_F(ForeignHistory, IsReadWhereNothingIsWrong) {
  const auto run = read_history(path_);
  ASSERT_THAT(run, Succeeds());
  EXPECT_EQ(run->meta.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run->clients.at(0).labels.at("train").at(0), 10);
}

TEST_F(ForeignHistory, DeeplyNestedClassNamesAreRefused) {
  for (const std::string& text :
       {nested(100'000), std::string(100'000, '['), "[" + nested(100'000) + ",\"a\"]",
        "{\"a\":" + nested(1000) + "}"}) {
    set_meta("class_names", text);
    EXPECT_THAT(read_history(path_),
                FailsWith(Error::kInvalid, path_ + ", meta 'class_names': JSON nested more than"));
  }
}

TEST_F(ForeignHistory, ClassNamesThatAreNoListOfNamesAreRefused) {
  for (const char* text : {"[\"a\"", "[\"a\"] x", "[\"\\ud800\"]"}) {
    set_meta("class_names", text);
    EXPECT_THAT(read_history(path_),
                FailsWith(Error::kInvalid, path_ + ", meta 'class_names': not valid JSON"));
  }
  set_meta("class_names", std::string("[\"a\"]\0[", 7));
  EXPECT_THAT(read_history(path_), FailsWith(Error::kInvalid, "'class_names': not valid JSON"));
  for (const char* text : {"{\"a\": 1}", "[[\"a\"]]", "[1]", "3"}) {
    set_meta("class_names", text);
    EXPECT_THAT(read_history(path_),
                FailsWith(Error::kInvalid, path_ + ", meta 'class_names': no list of names"));
  }
  set_meta("class_names", "");
  EXPECT_THAT(read_history(path_), Succeeds()) << "a set without names";
}

TEST_F(ForeignHistory, DeeplyNestedNamesAndShapesOfExhibitsAreRefused) {
  const auto deep = nested(100'000);
  const std::string value = "x'0000000000000000')";
  for (const auto& [facts, words] :
       {std::pair{"'" + deep + "','[]','[1,1]',", "names that do not fit"},
        std::pair{"'[]','[" + deep + "]','[1,1]',", "names that do not fit"},
        std::pair{"'[]','[]','" + deep + "',", "where there are 1 numbers"}}) {
    run_sql("DELETE FROM exhibits; INSERT INTO exhibits VALUES(1,'own','matrix','T'," + facts +
            value);
    expect_refused(words);
  }
}

TEST_F(ForeignHistory, LongNamesAreRefused) {
  const std::string longest(1000, 'x'), longer(1001, 'x');
  for (const char* key :
       {"name", "method", "dataset", "model", "partition", "seed", "headline", "state"}) {
    set_meta(key, longest);
    EXPECT_THAT(read_history(path_), Succeeds());
    set_meta(key, longer);
    EXPECT_THAT(read_history(path_),
                FailsWith(Error::kInvalid,
                          fmt::format("meta '{}' has 1001 bytes where a name of at most", key)));
    set_meta(key, "short");
  }
  set_meta("class_names", fmt::format("[\"{}\"]", longer));
  EXPECT_THAT(read_history(path_), FailsWith(Error::kInvalid, "a class has 1001 bytes"));
  set_meta("class_names", "[]");
  run_sql(fmt::format("UPDATE clients SET name = '{}'", longer));
  EXPECT_THAT(read_history(path_), FailsWith(Error::kInvalid, "client 0 has 1001 bytes"));
  run_sql("UPDATE clients SET name = 'a'");
  const std::string value = "','[1,1]',x'0000000000000000')";
  run_sql(
      fmt::format("INSERT INTO exhibits VALUES(1,'own','matrix','{}','[]','[]{}", longer, value));
  expect_refused("a title of 1001 bytes");
  run_sql(
      fmt::format("DELETE FROM exhibits; INSERT INTO exhibits VALUES(1,'own','matrix','T',"
                  "'[]','[\"{}\"]{}",
                  longer, value));
  expect_refused("names that do not fit");
}

TEST_F(ForeignHistory, AViewInPlaceOfATableIsRefused) {
  run_sql(std::string("DROP TABLE meta; CREATE VIEW meta(key, value) AS ") + kEndless +
          "'format', '4' FROM endless");
  expect_refused("holds the view 'meta', but only plain tables are read");
}

TEST_F(ForeignHistory, EveryTableMayBeTheView) {
  for (const char* table :
       {"clients", "labels", "rounds", "evals", "client_evals", "eval_traffic", "exhibits"}) {
    std::filesystem::remove(path_);
    run_sql(kHistory);
    const auto columns = run_sql(fmt::format(
        "SELECT group_concat(name), group_concat('1') FROM pragma_table_info('{}')", table));
    ASSERT_EQ(columns.size(), 2u);
    run_sql(fmt::format("DROP TABLE {0}; CREATE VIEW {0}({1}) AS {2} {3} FROM endless", table,
                        columns[0], kEndless, columns[1]));
    expect_refused(fmt::format("holds the view '{}'", table));
  }
}

TEST_F(ForeignHistory, ViewsTriggersAndVirtualTablesAreRefusedWhateverTheirName) {
  run_sql("CREATE VIEW other AS SELECT 1");
  expect_refused("holds the view 'other'");
  run_sql("DROP VIEW other; CREATE TRIGGER react AFTER INSERT ON meta BEGIN SELECT 1; END");
  expect_refused("holds the trigger 'react'");
  run_sql("DROP TRIGGER react; CREATE VIRTUAL TABLE words USING fts5(text)");
  expect_refused("holds the table 'words'");
}

// The kind of an object is a text in the file and may lie.
TEST_F(ForeignHistory, AViewThatCallsItselfATableIsRefused) {
  run_sql(std::string("DROP TABLE labels; CREATE VIEW labels(client, part, label, n) AS ") +
          kEndless + "0, 'train', 0, 1 FROM endless");
  run_sql(
      "PRAGMA writable_schema = ON; "
      "UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'labels'");
  EXPECT_THAT(read_history(path_), FailsWith(Error::kInvalid, path_));
}

TEST_F(ForeignHistory, ComputedColumnsAreRefused) {
  // A few bytes a row on disk, hundreds of megabytes each when read.
  run_sql(
      "DROP TABLE clients; CREATE TABLE clients(id INTEGER PRIMARY KEY, newcomer INTEGER, "
      "train INTEGER, val INTEGER, test INTEGER, "
      "name TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))) VIRTUAL)");
  expect_refused("the column 'name' of its table 'clients' is computed");
  run_sql(
      "DROP TABLE clients; CREATE TABLE clients(id INTEGER PRIMARY KEY, newcomer INTEGER, "
      "train INTEGER, val INTEGER, test INTEGER)");
  run_sql(
      fmt::format("INSERT INTO clients VALUES(0,0,0,0,0); "
                  "ALTER TABLE clients ADD COLUMN name TEXT DEFAULT '{}'",
                  std::string(100'000, 'x')));
  expect_refused("the column 'name' of its table 'clients' is computed or filled in");
}

TEST_F(ForeignHistory, ChecksOfTheSchemaAreNotRun) {
  run_sql(
      "DROP TABLE eval_traffic; CREATE TABLE eval_traffic(round INTEGER PRIMARY KEY, "
      "eval_down INTEGER, eval_up INTEGER, exchanges INTEGER, onboard_down INTEGER, "
      "onboard_up INTEGER CHECK(onboard_up > 5))");
  run_sql("PRAGMA ignore_check_constraints = ON; INSERT INTO eval_traffic VALUES(1,2,3,4,5,0)");
  const auto run = read_history(path_);
  ASSERT_THAT(run, Succeeds());
  EXPECT_EQ(run->eval_traffic.at(0).eval_up, 3);
}

void put_number(std::string& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    bytes[at + i] = static_cast<char>(value >> (8 * (size - 1 - i)));
}

// An inner page of a table's tree whose 100 children are all the same page.
std::string inner_page(size_t page_size, uint64_t child) {
  constexpr size_t kCells = 100, kHeader = 12, kCell = 5;
  std::string page(page_size, '\0');
  const size_t content = page_size - kCells * kCell;
  page[0] = 5;
  put_number(page, 3, kCells, 2), put_number(page, 5, content, 2), put_number(page, 8, child, 4);
  for (size_t i = 0; i < kCells; ++i) {
    put_number(page, kHeader + 2 * i, content + i * kCell, 2);
    put_number(page, content + i * kCell, child, 4);
    page[content + i * kCell + 4] = static_cast<char>(i + 1);  // row number
  }
  return page;
}

// 12 levels of 100 children: 10^24 rows in a file of 30 kB.
TEST_F(ForeignHistory, ATreeThatComesBackToItsPagesIsRefused) {
  const auto root =
      std::stoul(run_sql("SELECT rootpage FROM sqlite_master WHERE name = 'labels'").at(0));
  auto bytes = testing::get(path_);
  const size_t page_size = 1024, pages = bytes.size() / page_size;
  ASSERT_EQ(bytes.size() % page_size, 0u);
  const auto leaf = bytes.substr((root - 1) * page_size, page_size);
  bytes.replace((root - 1) * page_size, page_size, inner_page(page_size, pages + 1));
  for (size_t level = 1; level < 12; ++level) bytes += inner_page(page_size, pages + level + 1);
  bytes += leaf;
  put_number(bytes, 28, pages + 12, 4);
  testing::put(path_, bytes);
  expect_refused("the file is damaged or not a database");
}

// One byte changed, anywhere: an answer or a sentence, under the sanitizers of the preset asan.
TEST_F(ForeignHistory, ChangedBytesAreAnAnswerOrASentence) {
  run_sql(
      "INSERT INTO exhibits VALUES(1,'own','matrix','T','[]','[\"x\"]','[1,1]',"
      "x'000000000000F03F'); INSERT INTO rounds(round) VALUES(1), (2)");
  const auto whole = testing::get(path_);
  int refused = 0;
  for (size_t i = 0; i < 300; ++i) {
    auto bytes = whole;
    // Headers of pages and the schema lie at the beginning of pages: there every byte counts.
    const size_t at = i < 100 ? i : i * 7919 % whole.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << i % 8));
    testing::put(path_, bytes);
    const auto run = read_history(path_);
    if (run.ok()) continue;
    ++refused;
    EXPECT_THAT(message(run.status()), ::testing::HasSubstr(path_)) << "byte " << at;
  }
  EXPECT_GT(refused, 30);
  EXPECT_LT(refused, 300);
}

// A statement of ours that ran away on a file of a few pages is stopped as well.
TEST_F(ForeignHistory, WorkBeyondTheSizeOfTheFileIsStopped) {
  auto database = Database::open(path_, Mode::kReadOnly);
  ASSERT_THAT(database, Succeeds());
  auto endless = database->prepare(std::string(kEndless) + "count(*) FROM endless");
  ASSERT_THAT(endless, Succeeds());
  EXPECT_THAT(endless->step(),
              FailsWith(Error::kInvalid, path_ + ": reading takes more work than"));
  auto next = database->prepare("SELECT count(*) FROM labels");
  ASSERT_THAT(next, Succeeds());
  ASSERT_THAT(next->step(), Succeeds()) << "each statement has its own allowance";
  EXPECT_EQ(next->integer(0), 1);
}

// --resume writes to a history that is there already: its triggers would run.
TEST_F(ForeignHistory, IsRefusedForWritingToo) {
  run_sql("CREATE TRIGGER react AFTER INSERT ON meta BEGIN SELECT 1; END");
  EXPECT_THAT(Database::open(path_, Mode::kReadWrite),
              FailsWith(Error::kInvalid, "holds the trigger 'react'"));
}

}  // namespace
}  // namespace tessera
