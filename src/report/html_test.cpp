#include "report/html.hpp"

#include <gtest/gtest.h>

#include "report/svg.hpp"
#include "report/test_markup.hpp"

namespace tessera {
namespace {

TEST(Escape, MarkupAndQuotes) {
  EXPECT_EQ(escape("<script>a & b</script>"), "&lt;script&gt;a &amp; b&lt;/script&gt;");
  EXPECT_EQ(escape("\"x\" 'y'"), "&quot;x&quot; &#39;y&#39;");
}

TEST(Escape, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(escape("Žofín 北京 🙂"), "Žofín 北京 🙂");
  EXPECT_EQ(escape("a\xC3"), "a\uFFFD");          // cut short
  EXPECT_EQ(escape("\xC0\xAF"), "\uFFFD\uFFFD");  // overlong '/'
  EXPECT_EQ(escape("\xED\xA0\x80").size(), 9u);   // a surrogate: three replacements
  EXPECT_EQ(escape(std::string("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(escape("a\r\n\tb"), "a\n\tb");
}

TEST(Shorten, CountsCodePoints) {
  EXPECT_EQ(shorten("北京北京", 4), "北京北京");
  EXPECT_EQ(shorten("北京北京北", 4), "北京北…");
  EXPECT_EQ(shorten("one two", 5), "one…") << "no blank before the ellipsis";
}

TEST(MarkupChecker, SeesWhatItMust) {
  EXPECT_EQ(markup_error("<a b=\"c\"><d/>e &amp; f</a>"), "");
  EXPECT_NE(markup_error("<a><b></a></b>"), "");
  EXPECT_NE(markup_error("<a>"), "");
  EXPECT_NE(markup_error("<a b=c></a>"), "");
  EXPECT_NE(markup_error("x & y"), "");
}

TEST(Page, TablesTilesAndFiguresAreWellFormed) {
  const std::string evil = "<b onclick=\"x\">&'";
  const auto page =
      html_page(evil, tile_row({{evil, evil, evil, true}}) +
                          side_by_side({figure(evil, "<svg></svg>", evil)}) +
                          html_table({evil, {evil, evil}, {{evil, evil}, {"1", "2"}}, 1, {1}}));
  EXPECT_EQ(markup_error(page), "");
  EXPECT_EQ(count_of(page, "<b "), 0u);
  EXPECT_EQ(count_of(page, "<tr class=\"bold\"><td>1</td><td class=\"number\">2</td></tr>"), 1u);
}

TEST(Page, ChartsDrawnForAWholePageStandOneBelowTheOther) {
  svg::LineChart small{.label = "a", .series = {{"x", 0, {{0, 1}, {1, 2}}}}, .width = 500};
  auto wide = small;
  wide.width = 1040;
  const auto side = panels({{"one", svg::line_chart(small)}, {"two", svg::line_chart(small)}});
  EXPECT_EQ(side.find("stacked"), std::string::npos);
  const auto both = panels({{"one", svg::line_chart(small)}, {"two", svg::line_chart(wide)}});
  EXPECT_TRUE(both.starts_with("<div class=\"panels stacked\">"));
}

TEST(Shorten, InTheMiddleKeepsBothEnds) {
  EXPECT_EQ(shorten_middle("StMarysNorth7", 13), "StMarysNorth7");
  EXPECT_EQ(shorten_middle("StMarysNorth7", 8), "StMa…th7");
  EXPECT_EQ(shorten_middle("StMarysNorth7", 9), "StMa…rth7");
  EXPECT_EQ(shorten_middle("äöüÄÖÜß", 5), "äö…Üß");
  EXPECT_EQ(shorten_middle("abc", 2), "a…");
}

}  // namespace
}  // namespace tessera
