#include "base/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

TEST(Text, PlainNamesAndCsvCells) {
  for (const char* name : {"a", "layer-1", "own_2", "0"}) EXPECT_TRUE(is_plain_name(name)) << name;
  for (const char* name : {"", "..", "a/b", "A", "a b", "a.csv", "é"})
    EXPECT_FALSE(is_plain_name(name)) << name;
  EXPECT_TRUE(is_plain_name(std::string(64, 'x')));
  EXPECT_FALSE(is_plain_name(std::string(65, 'x')));
  EXPECT_EQ(csv_cell("plain text"), "plain text");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
}

const std::vector<std::string> kKnown{"epochs", "batch", "lr", "lr_decay", "momentum"};

TEST(Text, NearestForgivesOneTypo) {
  EXPECT_EQ(nearest("epoch", kKnown), "epochs");    // left out
  EXPECT_EQ(nearest("epochss", kKnown), "epochs");  // doubled
  EXPECT_EQ(nearest("epocks", kKnown), "epochs");   // another letter
  EXPECT_EQ(nearest("eopchs", kKnown), "epochs");   // two swapped
  EXPECT_EQ(nearest("EPOCHS", kKnown), "epochs");   // capitals
  EXPECT_EQ(nearest("lr-decay", kKnown), "lr_decay");
}

TEST(Text, ASwapOfNeighboursCountsOnce) {
  // Two letters may hide one mistake: a swap fits, two replacements do not.
  EXPECT_EQ(nearest("rl", {"lr"}), "lr");
  EXPECT_EQ(nearest("xy", {"lr"}), "");
}

TEST(Text, NearestTakesTheCloserAndTheEarlierOfEquals) {
  EXPECT_EQ(nearest("fedprx", {"fedper", "fedprox"}), "fedprox");
  EXPECT_EQ(nearest("cat", {"bat", "hat"}), "bat");
}

TEST(Text, NothingIsSuggestedForSomethingElse) {
  EXPECT_EQ(nearest("temperature", kKnown), "");
  EXPECT_EQ(nearest("", kKnown), "");
  EXPECT_EQ(nearest("epochs", {}), "");
}

TEST(Text, SuggestionNamesTheNearestOrAll) {
  EXPECT_EQ(suggestion("bacth", kKnown), " (did you mean 'batch'?)");
  EXPECT_EQ(suggestion("zzzzzz", {"a", "b"}), " (known: a, b)");
  EXPECT_EQ(suggestion("zzzzzz", {}), "");
}

TEST(Text, BytesKeepThreeDigitsAndRoundIntoTheNextUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(999.5), "1.00 kB");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(1234), "1.23 kB");
  EXPECT_EQ(human_bytes(9994), "9.99 kB");
  EXPECT_EQ(human_bytes(9996), "10.0 kB");
  EXPECT_EQ(human_bytes(99940), "99.9 kB");
  EXPECT_EQ(human_bytes(99960), "100 kB");
  EXPECT_EQ(human_bytes(999499), "999 kB");
  EXPECT_EQ(human_bytes(999500), "1.00 MB");
  EXPECT_EQ(human_bytes(2.5e9), "2.50 GB");
  EXPECT_EQ(human_bytes(7e12), "7.00 TB");
  EXPECT_EQ(human_bytes(1.5e16), "15000 TB");
}

TEST(Text, SecondsChangeTheirUnitWhereTheyRoundIntoIt) {
  EXPECT_EQ(human_seconds(0), "0 ms");
  EXPECT_EQ(human_seconds(0.0124), "12 ms");
  EXPECT_EQ(human_seconds(0.9994), "999 ms");
  EXPECT_EQ(human_seconds(0.9995), "1.0 s");
  EXPECT_EQ(human_seconds(9.94), "9.9 s");
  EXPECT_EQ(human_seconds(9.96), "10 s");
  EXPECT_EQ(human_seconds(59.4), "59 s");
  EXPECT_EQ(human_seconds(59.6), "1 min 00 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(3599.4), "59 min 59 s");
  EXPECT_EQ(human_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(90000), "25 h 00 min");
}

TEST(Text, JoinAndLower) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "b", "c"}, "-"), "a-b-c");
  EXPECT_EQ(lower("FedAvg-É"), "fedavg-É");  // bytes beyond ASCII stay
}

TEST(Text, TableAlignsByDisplayedWidth) {
  Table table({"méthode", "n"});
  table.row({"α", "7"});
  table.row({"fedavg ±", "123"});
  EXPECT_EQ(table.text(),
            "méthode     n\n"
            "─────────────\n"
            "α           7\n"
            "fedavg ±  123\n");
}

TEST(Text, TableWithoutRowsIsItsHeading) {
  EXPECT_EQ(Table({"a", "bc"}).text(), "a  bc\n─────\n");
  EXPECT_EQ(Table({"a", "bc"}).csv(), "a,bc\n");
}

TEST(Text, NegativeNumbersStandToTheRightAndADashDoesNot) {
  Table table({"delta"});
  table.row({"-1"});
  table.row({"-"});
  EXPECT_EQ(table.text(), "delta\n─────\n   -1\n-\n");
}

TEST(Text, CsvQuotesWhatNeedsIt) {
  Table table({"name", "says"});
  table.row({"a,b", "he said \"no\""});
  table.row({"two\nlines", "carriage\rreturn"});
  table.row({"plain", "0.5"});
  EXPECT_EQ(table.csv(),
            "name,says\n"
            "\"a,b\",\"he said \"\"no\"\"\"\n"
            "\"two\nlines\",\"carriage\rreturn\"\n"
            "plain,0.5\n");
}

TEST(Text, MarkdownKeepsACellInItsColumn) {
  Table table({"a", "b"});
  table.row({"x|y", "1"});
  EXPECT_EQ(table.markdown(), "| a | b |\n|---|---|\n| x\\|y | 1 |\n");
}

TEST(Text, FirstLine) {
  EXPECT_EQ(first_line("it broke\nframe #0: deep\n"), "it broke");
  EXPECT_EQ(first_line("it broke"), "it broke");
  EXPECT_EQ(first_line("\n"), "");
}

TEST(Text, NamesAreOrderedAsPeopleCount) {
  std::vector<std::string> names{"b",  "10", "a10b2",  "2",   "a2", "a",
                                 "02", "1",  "a10b10", "a02", ""};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(join(names, " "), " 1 02 2 10 a a02 a2 a10b2 a10b10 b");
  // Longer than any integer, and a byte beyond ASCII behind letters.
  EXPECT_TRUE(natural_less("99999999999999999999998", "99999999999999999999999"));
  EXPECT_TRUE(natural_less("x9", "x00000000000000000000000010"));
  EXPECT_TRUE(natural_less("z", "\xC3\xA9"));
}

TEST(Text, NaturalOrderIsAStrictTotalOrder) {
  const std::vector<std::string> names{"",    "0",  "00", "1",  "01", "1a", "01a", "a",    "a0",
                                       "a00", "0a", "a1", "-1", "1-", "10", "1.5", "1.50", "01.5"};
  for (const auto& a : names) {
    EXPECT_FALSE(natural_less(a, a)) << a;
    for (const auto& b : names) {
      EXPECT_TRUE(a == b || natural_less(a, b) != natural_less(b, a)) << a << " " << b;
      for (const auto& c : names) {
        const bool chained = natural_less(a, b) && natural_less(b, c);
        EXPECT_TRUE(!chained || natural_less(a, c)) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(Text, Utf8IsToldFromOtherBytes) {
  size_t at = 1;
  EXPECT_EQ(next_character("aé€😀", at), 0xE9u);
  EXPECT_EQ(next_character("aé€😀", at), 0x20ACu);
  EXPECT_EQ(next_character("aé€😀", at), 0x1F600u);
  EXPECT_EQ(at, 10u);
  EXPECT_EQ(utf8_length("aé€😀"), 10u);
  EXPECT_EQ(utf8_length(""), 0u);
  // Latin-1, a lone tail, cut off, "/" in two and three bytes, a surrogate, beyond U+10FFFF.
  for (const std::string bad : {"\xE9", "\x80", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF",
                                "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\xC3z"})
    EXPECT_EQ(utf8_length("ab" + bad), 2u) << bad;
}

TEST(Text, CommaLists) {
  EXPECT_TRUE(comma_list("").empty());
  EXPECT_EQ(comma_list("sex"), (std::vector<std::string>{"sex"}));
  EXPECT_EQ(comma_list(" sex ,ward no, "), (std::vector<std::string>{"sex", "ward no", ""}));
}

TEST(Text, CommaListsHoldNamesWithCommasInQuotes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(comma_list(R"("ill, treated", well ," x")"), (Names{"ill, treated", "well", " x"}));
  EXPECT_EQ(comma_list(R"("say ""no"", please",b)"), (Names{"say \"no\", please", "b"}));
  EXPECT_EQ(comma_list(R"("")"), Names{""});
  // Quotes count at the beginning of a piece, and where they are closed.
  EXPECT_EQ(comma_list(R"(6" pipe,"b,c)"), (Names{"6\" pipe", "\"b", "c"}));
  EXPECT_EQ(comma_list(R"("a"b",c,"d" e)"), (Names{"\"a\"b\"", "c", "\"d\" e"}));

  EXPECT_EQ(comma_text({"sex", "ward no"}), "sex,ward no");
  EXPECT_EQ(comma_text({"a, b", "c"}), R"("a, b",c)");
  const Names odd{"", "a,b", "\"q\"", " x ", "6\" pipe", "\",\""};
  EXPECT_EQ(comma_list(comma_text(odd)), odd);

  EXPECT_EQ(toml_names({"no", "yes"}), R"("no,yes")");
  EXPECT_EQ(toml_names({"a, b", "c\"d"}), R"(["a, b", "c\"d"])");
}

TEST(Text, WholeNumbersAreDigitsAndNothingElse) {
  EXPECT_EQ(whole_number("0"), 0);
  EXPECT_EQ(whole_number("007"), 7);
  EXPECT_EQ(whole_number("9223372036854775807"), INT64_MAX);
  for (const auto* none : {"", "-1", "+1", " 1", "1 ", "1.0", "9223372036854775808", "x"})
    EXPECT_FALSE(whole_number(none)) << none;
}

}  // namespace
}  // namespace tessera
