#include "io/csv.hpp"

#include <cmath>

#include "io/file.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Succeeds;

Result<Csv> csv_of(std::string_view text) { return parse_csv(bytes_of(text), "f.csv"); }

TEST(Csv, PlainAndQuotedCells) {
  const auto csv = csv_of("\"No\",\"w, d\"\r\n1,\"N\"\"E\"\r\n2,\"two\r\nlines\"\r\n3,\r\n");
  ASSERT_THAT(csv, Succeeds());
  EXPECT_THAT(csv->header(), ElementsAre("No", "w, d"));
  ASSERT_EQ(csv->rows(), 3u);
  EXPECT_THAT(*csv->texts("w, d"), ElementsAre("N\"E", "two\r\nlines", ""));
  EXPECT_THAT(*csv->integers("No"), ElementsAre(1, 2, 3));
  EXPECT_TRUE(csv->missing(2, 1));
}

TEST(Csv, LineEndsAndByteOrderMark) {
  for (const char* text : {"a,b\n1,2", "a,b\n1,2\n", "a,b\r\n1,2\r\n",
                           "\xEF\xBB\xBF"
                           "a,b\n1,2\n"}) {
    const auto csv = csv_of(text);
    ASSERT_THAT(csv, Succeeds()) << text;
    EXPECT_EQ(csv->rows(), 1u) << text;
    EXPECT_EQ(csv->cell(0, 0), "1") << text;
    EXPECT_EQ(csv->cell(0, 1), "2") << text;
    EXPECT_EQ(*csv->column("a"), 0u) << text;
  }
  EXPECT_EQ(csv_of("a,b\n")->rows(), 0u);
}

TEST(Csv, NumbersKnowExponentsAndMissingValues) {
  const auto csv = csv_of("x\n-2.77555756156289e-17\nNA\n+5\n999\n");
  ASSERT_THAT(csv, Succeeds());
  const auto x = csv->numbers("x");
  ASSERT_THAT(x, Succeeds());
  EXPECT_EQ((*x)[0], -2.77555756156289e-17);
  EXPECT_TRUE(std::isnan((*x)[1]));
  EXPECT_EQ((*x)[2], 5);
  EXPECT_EQ((*x)[3], 999);
  // A quoted NA is a text (Namibia's code, for one), so not a number either.
  EXPECT_THAT(csv_of("x\n\"NA\"\n")->numbers("x"), FailsWith(Error::kInvalid, "'NA'"));
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const auto csv = csv_of("a,b\n1,\"x\ny\"\n1.5,nan\n");
  ASSERT_THAT(csv, Succeeds());
  EXPECT_THAT(csv->integers("a"),
              FailsWith(Error::kInvalid, "f.csv, line 4, column 'a': '1.5' is not a whole number"));
  EXPECT_THAT(csv->numbers("b"), FailsWith(Error::kInvalid, "f.csv, line 2, column 'b': 'x?y'"));
  for (const char* bad : {"nan", "inf", "1e999", "0x10", "1 ", " 1", "1,", "--1", "+-1", "1e"})
    EXPECT_FALSE(csv_of("x\n\"" + std::string(bad) + "\"\n")->numbers("x").ok()) << bad;
  EXPECT_THAT(csv->numbers("aa"), FailsWith(Error::kNotFound, "did you mean 'a'"));
  EXPECT_THAT(csv_of("x\nNA\n")->integers("x"), FailsWith(Error::kInvalid, "line 2"));
}

TEST(Csv, ACellIsANumberOrNot) {
  const auto csv = csv_of("a,b\n+1.5e1,x\n,\"NA\"\n");
  ASSERT_THAT(csv, Succeeds());
  EXPECT_EQ(csv->number(0, 0), 15.0);
  EXPECT_EQ(csv->number(0, 1), std::nullopt);
  EXPECT_EQ(csv->number(1, 0), std::nullopt);
  EXPECT_EQ(csv->number(1, 1), std::nullopt);
  EXPECT_EQ(csv->place(1, 1), "f.csv, line 3, column 'b'");
  EXPECT_EQ(csv->line(1), 3u);
}

TEST(Csv, RefusesMalformedFiles) {
  EXPECT_THAT(csv_of(""), FailsWith(Error::kInvalid, "f.csv: the file is empty"));
  EXPECT_THAT(csv_of("a,b\n1,2\n3\n"), FailsWith(Error::kInvalid, "f.csv, line 3: 1 field where"));
  EXPECT_THAT(csv_of("a,b\n1,2,3\n"), FailsWith(Error::kInvalid, "f.csv, line 2: more fields"));
  EXPECT_THAT(csv_of("a,b\n\n1,2\n"), FailsWith(Error::kInvalid, "f.csv, line 2"));
  EXPECT_THAT(csv_of("a,a\n"), FailsWith(Error::kInvalid, "two columns are named 'a'"));
  EXPECT_THAT(csv_of("a\n1\n\"open\n2\n"), FailsWith(Error::kInvalid, "line 3: a quote is opened"));
  EXPECT_THAT(csv_of("a\n\"x\"y\n"), FailsWith(Error::kInvalid, "line 2: a stray character"));
  EXPECT_THAT(csv_of("a\nx\"y\n"), FailsWith(Error::kInvalid, "line 2: a stray quote"));
  EXPECT_THAT(csv_of("a\nx\ry\n"), FailsWith(Error::kInvalid, "line 2: a stray carriage return"));
  EXPECT_THAT(csv_of(std::string_view("a\n\0\n", 4)), FailsWith(Error::kInvalid, "line 2: a NUL"));
  EXPECT_THAT(csv_of(std::string_view("a\n\"\0\"\n", 6)), FailsWith(Error::kInvalid, "a NUL"));
  EXPECT_THAT(csv_of(std::string(20000, ',')), FailsWith(Error::kInvalid, "line 1"));
}

TEST(Csv, RealStationHasItsKnownValues) {
  const auto path =
      testing::data_file("beijing-multi-site-air/PRSA_Data_Dongsi_20130301-20170228.csv.gz");
  if (!path) GTEST_SKIP() << "no Beijing data; set TESSERA_DATA to run this";
  const auto file = read_unpacked(*path, 1 << 24);
  ASSERT_THAT(file, Succeeds());
  const auto csv = parse_csv(*file, *path);
  ASSERT_THAT(csv, Succeeds());
  EXPECT_EQ(csv->rows(), 35064u);
  const auto pm = csv->numbers("PM2.5");
  ASSERT_THAT(pm, Succeeds());
  double sum = 0, missing = 0;
  for (const double value : *pm) std::isnan(value) ? missing += 1 : sum += value;
  EXPECT_EQ(missing, 750);
  EXPECT_NEAR(sum / (35064 - missing), 86.2, 0.05);
  EXPECT_EQ(csv->integers("No")->back(), 35064);
  EXPECT_EQ(csv->cell(0, *csv->column("station")), "Dongsi");
}

}  // namespace
}  // namespace tessera
