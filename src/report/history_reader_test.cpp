#include "report/history_reader.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "io/sqlite.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSchema = R"sql(
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
  f1_remap REAL, loss REAL, balanced_accuracy REAL, auroc REAL, ece REAL);
CREATE TABLE client_evals(round INTEGER, client INTEGER, view TEXT, part TEXT, n INTEGER,
  correct INTEGER, loss REAL, precision_macro REAL, f1_macro REAL, f1_remap REAL,
  balanced_accuracy REAL, auroc REAL, ece REAL);
CREATE TABLE confusions(round INTEGER, client INTEGER, view TEXT, truth INTEGER, predicted INTEGER,
  n INTEGER);
CREATE TABLE problems(round INTEGER, client INTEGER, kind TEXT, reason TEXT);
CREATE TABLE eval_traffic(round INTEGER PRIMARY KEY, eval_down INTEGER, eval_up INTEGER,
  exchanges INTEGER, onboard_down INTEGER, onboard_up INTEGER);
CREATE TABLE exhibits(round INTEGER, name TEXT, kind TEXT, title TEXT, rows TEXT, columns TEXT,
  shape TEXT, value BLOB, PRIMARY KEY(round, name));
)sql";

constexpr const char* kRows = R"sql(
INSERT INTO meta VALUES('format','4'),('name','toy'),('method','FedAvg'),('dataset','mnist'),
  ('model','mlp100'),('clients','2'),('newcomers','0'),('rounds','3'),('seed','7'),
  ('headline','post'),('class_names','["zero","one"]'),('config','[run]'),('state','running');
INSERT INTO clients VALUES(1,'b',1,30,3,6),(0,'a',0,10,1,2);
INSERT INTO labels VALUES(0,'train',1,10),(1,'train',0,30),(1,'test',0,0);
INSERT INTO rounds VALUES(2,2,1,0,0.5,100,50,110,60,2.5,1.0,0.5,0),
  (1,2,0,0,NULL,10,5,11,6,1.5,NULL,0.5,1);
INSERT INTO evals(round,who,view,part,mean,std) VALUES(1,'clients','post','val',0.5,0.1),
  (2,'clients','post','val',0.5,0.1),(2,'clients','post','test',0.75,0.25);
INSERT INTO client_evals(round,client,view,part,n,correct,auroc,ece) VALUES
  (2,1,'post','test',6,3,0.875,0.25),(2,0,'post','test',0,0,NULL,NULL);
INSERT INTO confusions VALUES(2,0,'post',1,0,3),(2,0,'post',0,0,4),(2,0,'pre',0,0,7),
  (2,1,'post',0,0,50);
INSERT INTO problems VALUES(1,1,'upload','late'),(2,1,'upload','gone'),(2,0,'upload','x'),
  (2,1,'evaluation','not finite');
INSERT INTO eval_traffic VALUES(2,80,4,3,60,30);
)sql";

// 1, NaN, −0.5, 2: float64, least significant byte first.
constexpr const char* kBlob =
    "x'000000000000F03F"
    "000000000000F87F"
    "000000000000E0BF"
    "0000000000000040'";
std::string exhibit(const std::string& facts, const std::string& blob = kBlob) {
  return fmt::format("DELETE FROM exhibits; INSERT INTO exhibits VALUES({},{});", facts, blob);
}

class HistoryReader : public testing::Test {
 protected:
  HistoryReader() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("tessera_history_{}_{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "history.sqlite";
  }
  ~HistoryReader() override { std::filesystem::remove_all(folder_); }

  Database write(const std::string& sql) {
    auto database = Database::open(path_, Database::Mode::kReadWrite);
    EXPECT_TRUE(database.ok()) << database.status();
    const auto status = database->execute(sql);
    EXPECT_TRUE(status.ok()) << status;
    return std::move(*database);
  }
  std::string error() {
    const auto run = read_history(path_);
    return run.ok() ? "no error" : message(run.status());
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(HistoryReader, ReadsBackWhatWasWritten) {
  write(std::string(kSchema) + kRows);
  const auto run = read_history(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->meta.method, "FedAvg");
  EXPECT_EQ(run->meta.rounds, 3);
  EXPECT_EQ(run->meta.parameters, 0) << "not written";
  EXPECT_THAT(run->meta.class_names, ElementsAre("zero", "one"));

  ASSERT_EQ(run->clients.size(), 2u);
  EXPECT_EQ(run->clients[0].name, "a");
  EXPECT_TRUE(run->clients[1].newcomer);
  EXPECT_EQ(run->clients[1].labels.at("train").at(0), 30);
  EXPECT_FALSE(run->clients[1].labels.contains("test")) << "no samples, no entry";

  ASSERT_EQ(run->rounds.size(), 2u);
  EXPECT_EQ(run->rounds[0].round, 1);
  EXPECT_TRUE(std::isnan(run->rounds[0].loss));
  EXPECT_EQ(run->rounds[1].wire_up, 60);
  EXPECT_EQ(run->rounds[1].train_seconds, 0.5);

  ASSERT_EQ(run->evals.size(), 3u);
  EXPECT_EQ(run->evals[2].mean, 0.75);
  EXPECT_TRUE(std::isnan(run->evals[2].f1_remap));
  EXPECT_EQ(run->client_evals[1].accuracy(), 0.5);
  EXPECT_EQ(run->client_evals[1].auroc, 0.875);
  EXPECT_EQ(value_of(run->client_evals[1], "ece"), 0.25);
  EXPECT_TRUE(std::isnan(run->client_evals[0].auroc));
  EXPECT_TRUE(run->rounds[0].counted);
  EXPECT_FALSE(run->rounds[1].counted);

  ASSERT_EQ(run->eval_traffic.size(), 1u);
  EXPECT_EQ(run->eval_traffic[0].eval_down, 80);
  EXPECT_EQ(run->eval_traffic[0].eval_up, 4);
  EXPECT_EQ(run->eval_traffic[0].exchanges, 3);
  EXPECT_EQ(run->eval_traffic[0].onboard_down, 60);
  EXPECT_EQ(run->eval_traffic[0].onboard_up, 30);
  EXPECT_TRUE(run->exhibits.empty());
}

TEST_F(HistoryReader, ReadsWhatWentWrongByClientAndKind) {
  write(std::string(kSchema) + kRows);
  const auto run = read_history(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->problems.size(), 3u);
  EXPECT_EQ(run->problems[0].client, 0);
  EXPECT_EQ(run->problems[1].kind, "evaluation");
  EXPECT_EQ(run->problems[2].client, 1);
  EXPECT_EQ(run->problems[2].count, 2);
  EXPECT_EQ(run->problems[2].round, 1);
  EXPECT_EQ(run->problems[2].reason, "late") << "that of the first";
  write(
      "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
      "INSERT INTO problems SELECT 3, i, 'upload', printf('%.*c', 5000, 'x') FROM n");
  const auto many = read_history(path_);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->problems.size(), 1000u);
  EXPECT_EQ(many->problems.back().reason.size(), 1000u);
}

TEST_F(HistoryReader, SumsConfusionsOverClientsButNewcomers) {
  write(std::string(kSchema) + kRows);
  const auto run = *read_history(path_);
  using Counts = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(confusion_at(run, 2, "post"), (Counts{{4, 0}, {3, 0}})) << "client 1 is a newcomer";
  EXPECT_EQ(confusion_at(run, 2, "pre"), (Counts{{7, 0}, {0, 0}}));
  EXPECT_TRUE(confusion_at(run, 1, "post").empty());
  for (const char* row :
       {"-1,0,1", "0,-1,1", "100,0,1", "0,100,1", "0,0,-1", "0,0,9223372036854775807"}) {
    write(fmt::format("DELETE FROM confusions; INSERT INTO confusions VALUES(2,0,'post',{})", row));
    EXPECT_THAT(error(), HasSubstr("a row of 'confusions'")) << row;
  }
}

TEST_F(HistoryReader, TheRunsMetricChoosesTheBestRound) {
  write(std::string(kSchema) + kRows +
        "UPDATE evals SET auroc = round / 10.0, loss = 1.0 / round, mean = 0.5;"
        "INSERT INTO meta VALUES('metric','auroc')");
  auto run = *read_history(path_);
  EXPECT_EQ(run.meta.metric, "auroc");
  EXPECT_EQ(best_validation_round(run), 2);
  run.meta.metric = "loss";
  EXPECT_EQ(best_validation_round(run), 2) << "the smaller the better";
  run.meta.metric = "accuracy";
  EXPECT_EQ(best_validation_round(run), 1) << "the first of equals";
  run.meta.metric = "ece";
  EXPECT_EQ(best_validation_round(run), std::nullopt) << "not measured";
  const auto spread = spread_of(run, 2, true, "post", "auroc");
  EXPECT_EQ(spread.mean, 0.875);
  EXPECT_TRUE(std::isnan(spread_of(run, 2, false, "post", "auroc").mean)) << "no samples";
}

TEST_F(HistoryReader, ReadsExhibits) {
  write(std::string(kSchema) + kRows +
        exhibit(R"(2,'own','matrix','Own <b>','[]','["a","b"]','[2,2]')"));
  const auto run = read_history(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->exhibits.size(), 1u);
  const auto& own = run->exhibits[0];
  EXPECT_EQ(own.round, 2);
  EXPECT_EQ(own.name, "own");
  EXPECT_EQ(own.title, "Own <b>");
  EXPECT_EQ(own.kind, ExhibitRow::Kind::kMatrix);
  EXPECT_TRUE(own.rows.empty());
  EXPECT_THAT(own.columns, ElementsAre("a", "b"));
  EXPECT_THAT(own.shape, ElementsAre(2, 2));
  EXPECT_EQ(own.at(0, 0), 1);
  EXPECT_TRUE(std::isnan(own.at(0, 1)));
  EXPECT_EQ(own.at(1, 0), -0.5);
  EXPECT_EQ(own.at(1, 1), 2);
}

TEST_F(HistoryReader, DamagedExhibitsAreClearErrors) {
  write(std::string(kSchema) + kRows);
  const auto with = [&](const std::string& facts, const std::string& blob = kBlob) {
    write(exhibit(facts, blob));
    const auto text = error();
    const auto all = for_each_exhibit(path_, [](const ExhibitRow&) { return ok(); });
    EXPECT_EQ(all.ok() ? "no error" : message(all), text) << "both ways of reading must see it";
    return text;
  };
  const std::string own = "2,'own','matrix','T',";
  EXPECT_THAT(with("2,'../own','matrix','T','[]','[]','[2,2]'"), HasSubstr("a name that is none"));
  EXPECT_THAT(with("2,'own','sculpture','T','[]','[]','[2,2]'"),
              HasSubstr("exhibit 'own' of round 2: unknown kind 'sculpture'; the file is damaged"));
  for (const char* shape :
       {"[2,3]", "[1,1]", "[4]", "[2,2,1]", "[0,4]", "[-2,-2]", "[2.0,2]", "null", "[2,", "",
        "[4611686018427387904,4]", "[18446744073709551615,2]", "[9223372036854775808,2]"})
    EXPECT_THAT(with(own + fmt::format("'[]','[]','{}'", shape)),
                HasSubstr(fmt::format("shape {} where there are 4 numbers", shape)));
  EXPECT_THAT(with("2,'own','images','T','[]','[]','[2,2]'"), HasSubstr("is not that of images"));
  EXPECT_THAT(with("2,'own','matrix','T','[]','[]','[1,1,2,2]'"), HasSubstr("not that of matrix"));
  EXPECT_THAT(with("2,'own','graph','T','[]','[]','[1,4]'"), HasSubstr("is not that of graph"));
  for (const char* names : {"[\"a\"]", "[1,2]", "{}", "[\"a\",\"b\",\"c\"]", "[", ""})
    EXPECT_THAT(with(own + fmt::format("'{}','[]','[2,2]'", names)), HasSubstr("names that do not"))
        << names;
  EXPECT_THAT(with(own + "'[]','[]','[2,2]'", "x'00'"), HasSubstr("1 bytes are no numbers"));
  EXPECT_THAT(with(own + "'[]','[]','[2,2]'", "NULL"), HasSubstr("where there are 0 numbers"));
  EXPECT_THAT(with(own + "'[]','[]','[2,2]'", "'words'"), HasSubstr("5 bytes are no numbers"));
  EXPECT_EQ(with(own + "'[]','[]','[2,2]'"), "no error");
}

// 5 rounds of 2000 × 1000 numbers are more than a report holds; each blob is all zero bytes.
TEST_F(HistoryReader, OfLargeExhibitsTheReportHoldsThreeRounds) {
  write(std::string(kSchema) + kRows);
  for (int round = 1; round <= 5; ++round)
    write(
        fmt::format("INSERT INTO exhibits VALUES({},'big','matrix','T','[]','[]','[2000,1000]',"
                    "zeroblob(16000000))",
                    round));
  const auto run = read_history(path_);
  ASSERT_TRUE(run.ok()) << run.status();
  std::vector<int64_t> rounds;
  for (const auto& one : run->exhibits) rounds.push_back(one.round);
  EXPECT_THAT(rounds, ElementsAre(1, 3, 5));
  rounds.clear();
  ASSERT_TRUE(for_each_exhibit(path_, [&](const ExhibitRow& one) {
                rounds.push_back(one.round);
                return ok();
              }).ok());
  EXPECT_THAT(rounds, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(HistoryReader, SumsAndSelection) {
  write(std::string(kSchema) + kRows);
  auto run = *read_history(path_);
  const auto spent = spent_until(run, 2);
  EXPECT_EQ(spent.bytes_down, 110);
  EXPECT_EQ(spent.bytes_up, 55);
  EXPECT_EQ(spent.sim_seconds, 4);
  EXPECT_EQ(spent.wall_seconds, 1) << "NULL adds nothing";
  EXPECT_EQ(spent_until(run, 1).bytes_down, 10);

  EXPECT_EQ(last_evaluated_round(run), 2);
  EXPECT_EQ(best_validation_round(run), 1) << "the first of equals on validation";
  run.meta.headline = "pre";
  EXPECT_EQ(best_validation_round(run), std::nullopt) << "no validation of that view";

  const auto accuracy = client_accuracy(run, 2, "post");
  ASSERT_EQ(accuracy.size(), 2u);
  EXPECT_TRUE(std::isnan(accuracy[0])) << "no test samples";
  EXPECT_EQ(accuracy[1], 0.5);
}

TEST_F(HistoryReader, ReadsWhileARunWrites) {
  auto writer = write(std::string(kSchema) + kRows);
  auto transaction = Transaction::begin(writer);
  ASSERT_TRUE(transaction.ok());
  ASSERT_TRUE(writer.execute("INSERT INTO rounds(round) VALUES(3)").ok());
  const auto before = read_history(path_);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->rounds.size(), 2u) << "the open round is not visible yet";
  ASSERT_TRUE(transaction->commit().ok());
  EXPECT_EQ(read_history(path_)->rounds.size(), 3u);
}

TEST_F(HistoryReader, MissingFile) {
  EXPECT_THAT(error(), HasSubstr("no such file"));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "reading must not make one";
}

TEST_F(HistoryReader, ForeignDatabase) {
  write("CREATE TABLE notes(x)");
  EXPECT_THAT(error(), HasSubstr("no table 'meta'"));
}

TEST_F(HistoryReader, MissingTableAndColumn) {
  write(std::string(kSchema) + kRows + "DROP TABLE evals; ALTER TABLE rounds DROP COLUMN wire_up;");
  EXPECT_THAT(error(), HasSubstr("no table 'rounds' with a column 'wire_up'"));
  write("ALTER TABLE rounds ADD COLUMN wire_up INTEGER");
  EXPECT_THAT(error(), HasSubstr("no table 'evals'"));
}

TEST_F(HistoryReader, OtherFormatAndImpossibleValues) {
  write(std::string(kSchema) + kRows + "UPDATE meta SET value='1' WHERE key='format'");
  EXPECT_THAT(error(), HasSubstr("history format '1'"));
  write(
      "UPDATE meta SET value='4' WHERE key='format';"
      "UPDATE meta SET value='many' WHERE key='clients'");
  EXPECT_THAT(error(), HasSubstr("meta 'clients' is 'many'"));
  write(
      "UPDATE meta SET value='2' WHERE key='clients';"
      "INSERT INTO labels VALUES(0,'train',4000000000,1)");
  EXPECT_THAT(error(), HasSubstr("label 4000000000"));
}

TEST_F(HistoryReader, DamagedFile) {
  std::ofstream(path_) << "this is no database, however long the text may be"
                       << std::string(5000, 'x');
  EXPECT_THAT(error(), HasSubstr(path_));
  EXPECT_NE(error(), "no error");
}

TEST_F(HistoryReader, CutShort) {
  write(std::string(kSchema) + kRows);
  const auto size = std::filesystem::file_size(path_);
  ASSERT_GT(size, 8192u);
  std::filesystem::resize_file(path_, size / 2);
  EXPECT_THAT(error(), HasSubstr(path_));
}

}  // namespace
}  // namespace tessera
