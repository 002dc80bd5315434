#include "report/holdings.hpp"

#include <gmock/gmock.h>

#include "report/test_markup.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// Clients with 8 training samples each; client k has k of class 1, the rest of class 0.
Holdings striped(int64_t clients) {
  Holdings out{"made", {"a<b", "c"}, {}};
  for (int64_t k = 0; k < clients; ++k)
    out.clients.push_back({std::to_string(k), false, {8 - k % 9, k % 9}, {1, 2}});
  return out;
}

Holdings with_newcomer(Holdings holdings) {
  holdings.clients.push_back(holdings.clients.back());
  holdings.clients.back().newcomer = true;
  return holdings;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    out.push_back(text.substr(begin, end - begin));
  return out;
}

TEST(HoldingsText, BlocksAreAsHighAsTheSharesAndFitTheWidth) {
  EXPECT_EQ(holdings_text(with_newcomer(striped(5)), 29),
            "client   train   test  classes 0 … 1\n"
            "0            8      3  ███ ···\n"
            "1            8      3  ▇▇▇ ▁▁▁\n"
            "2            8      3  ▆▆▆ ▂▂▂\n"
            "3            8      3  ▅▅▅ ▃▃▃\n"
            "4            8      3  ▄▄▄ ▄▄▄\n"
            "4            8      3  ▄▄▄ ▄▄▄ newcomer\n"
            "█ = 100 % of a client's training samples, · = none\n");
}

TEST(HoldingsText, ManyClientsAreCutAndCounted) {
  const auto out = lines(holdings_text(with_newcomer(striped(43)), 80));
  ASSERT_EQ(out.size(), 43u);  // heading, 40 clients, rest, scale
  EXPECT_EQ(out[41], "… and 4 more");
  EXPECT_EQ(lines(holdings_text(striped(40), 80)).size(), 42u);
}

Holdings wide() {
  Holdings out{"wide", {}, {{"\x1b[31mäöüäöüäöüäöüäöüäöüäöüäöü", false, {}, {}}}};
  for (int c = 0; c < 200; ++c) out.classes.push_back(std::to_string(c));
  out.clients[0].train.resize(200), out.clients[0].test.resize(200);
  out.clients[0].train.front() = out.clients[0].train.back() = 1;
  return out;
}

TEST(HoldingsText, ManyClassesShareBlocksAndStrangeNamesAreHarmless) {
  for (const int width : {-5, 0, 20, 72}) {
    const auto out = holdings_text(wide(), width);
    EXPECT_THAT(out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(out, HasSubstr("?[31mäöüäöüäöüäöüäöüäöü…  ")) << "24 columns";
    EXPECT_THAT(out, HasSubstr("200 classes"));
  }
  EXPECT_THAT(holdings_text(wide(), 72), HasSubstr("200 classes, 7 a block"));
}

TEST(HoldingsText, NobodyAndNothingAreDrawnToo) {
  EXPECT_THAT(holdings_text({"none", {}, {}}, 80), HasSubstr("client"));
  EXPECT_THAT(holdings_text({"none", {"a"}, {{"x", false, {0}, {0}}}}, 80), HasSubstr("·"));
  EXPECT_THAT(holdings_svg({"none", {}, {}}), HasSubstr("no samples"));
  EXPECT_THAT(holdings_svg({"none", {"a"}, {{"x", false, {0}, {0}}}}), HasSubstr("<svg"));
}

TEST(HoldingsSvg, HasADiscPerClientAndClassItHolds) {
  const auto svg = holdings_svg(with_newcomer(striped(5)));
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(markup_error(svg), "");
  EXPECT_THAT(svg, HasSubstr("made: training samples by client and class, 6 clients<"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, Not(HasSubstr("a<b")));
  EXPECT_EQ(count_of(svg, "<title>"), 11u);  // 1 for client 0, 2 for four others and the newcomer
  EXPECT_THAT(svg, HasSubstr("client 3, class c: 3 to train on, 2 to test"));
  EXPECT_THAT(svg, HasSubstr(">8 samples<"));
  EXPECT_THAT(svg, HasSubstr(">2 samples<"));
  // Two discs of the newcomer and its legend; nine of clients and the two of the sizes.
  EXPECT_EQ(count_of(svg, "style=\"fill:#d55e00;fill:var(--s1)\""), 3u);
  EXPECT_EQ(count_of(svg, "style=\"fill:#0072b2;fill:var(--s0)\""), 11u);
  EXPECT_THAT(svg, HasSubstr(">newcomer<"));
  EXPECT_THAT(holdings_svg(striped(5)), Not(HasSubstr(">newcomer<")));
}

TEST(HoldingsSvg, AreaIsTheNumberOfSamples) {
  const Holdings holdings{"areas", {"x"}, {{"a", false, {100}, {0}}, {"b", false, {25}, {0}}}};
  const auto svg = holdings_svg(holdings);
  const auto radius = [&](const std::string& tooltip) {
    const auto end = svg.find(tooltip);
    const auto at = svg.rfind(" r=\"", end);
    return std::stod(svg.substr(at + 4));
  };
  EXPECT_GT(radius("client a,"), 5);
  EXPECT_NEAR(radius("client a,"), 2 * radius("client b,"), 0.11);
}

TEST(HoldingsSvg, StandsAloneOnLightAndDarkPages) {
  const auto svg = holdings_svg(striped(3));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr(" width=\"")) << "a size, for programs that show files";
  // Every variable has a plain colour before it, for programs without variables.
  EXPECT_EQ(count_of(svg, ":var(--"),
            count_of(svg, ";fill:var(--") + count_of(svg, ";stroke:var(--"));
  EXPECT_THAT(svg, HasSubstr("fill:#1a2230;fill:var(--ink)"));
}

TEST(HoldingsSvg, HasAtMost120ClientsAnd100Classes) {
  const auto classes = holdings_svg(wide());
  EXPECT_THAT(classes, HasSubstr("1 clients, the first 100 classes<"));
  EXPECT_EQ(count_of(classes, "<title>"), 1u) << "class 199 is beyond";
  EXPECT_EQ(markup_error(classes), "");
  const auto clients = holdings_svg(striped(150));
  EXPECT_THAT(clients, HasSubstr("150 clients, the first 120 shown<"));
  EXPECT_THAT(clients, HasSubstr("client 119, "));
  EXPECT_THAT(clients, Not(HasSubstr("client 120, ")));
}

}  // namespace
}  // namespace tessera
