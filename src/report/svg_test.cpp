#include "report/svg.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "report/svg_canvas.hpp"
#include "report/test_markup.hpp"

namespace tessera::svg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> numbered(const std::string& word, int n) {
  std::vector<std::string> out;
  for (int i = 0; i < n; ++i) out.push_back(fmt::format("{} {}", word, i));
  return out;
}

void expect_sound(const std::string& chart) {
  EXPECT_EQ(markup_error(chart), "");
  for (const char* word : {"nan", "inf", "NaN", "-0\""}) EXPECT_THAT(chart, Not(HasSubstr(word)));
  EXPECT_THAT(chart, HasSubstr("role=\"img\" aria-label=\""));
}

// One legend row is 24 high and the y title needs 30 above the box; 44 stay below, 14 at the right;
// the widest tick "100" takes 3 × 6.7 + 12 = 32.1 at the left.
LineChart hand_made() {
  LineChart chart;
  chart.label = "by hand";
  chart.x = {"Round", Quantity::kCount};
  chart.y = {"Accuracy", Quantity::kFraction};
  chart.series = {{"curve", 0, {{0, 0, 0, 0.25}, {5, 0.5, 0.25, 0.75}, {10, 1, 0.75, 1}}}};
  chart.direct_labels = false;
  chart.width = 400, chart.height = 300;
  return chart;
}

TEST(LineChart, PointsLandOnTheirPixels) {
  const auto text = line_chart(hand_made());
  expect_sound(text);
  EXPECT_THAT(text, HasSubstr("viewBox=\"0 0 400 300\""));
  EXPECT_THAT(text, HasSubstr("cx=\"32.1\" cy=\"256\""));
  EXPECT_THAT(text, HasSubstr("cy=\"155\""));  // half way between 54 and 256
  EXPECT_THAT(text, HasSubstr("cx=\"386\" cy=\"54\""));
  EXPECT_THAT(text, HasSubstr("<title>curve: 50.0\u00a0% at Round 5</title>"));
}

TEST(LineChart, BandRunsForthAboveAndBackBelow) {
  const auto text = line_chart(hand_made());
  // High ends 0.25, 0.75, 1 at y = 205.5, 104.5, 54; low ends back at 104.5, 205.5, 256.
  EXPECT_THAT(text, testing::ContainsRegex("<path d=\"M32.1 205.5L209[.0-9]* 104.5L386 54L386 104.5"
                                           "L209[.0-9]* 205.5L32.1 256Z\" class=\"band\""));
}

TEST(LineChart, StepHoldsTheValue) {
  auto chart = hand_made();
  chart.series[0].step = true;
  EXPECT_THAT(line_chart(chart), testing::ContainsRegex("M32.1 256H209[.0-9]*L209[.0-9]* 155H386"));
}

TEST(LineChart, GapsAreLeftOutAndNothingIsSaidInWords) {
  auto chart = hand_made();
  chart.series[0].points[1].y = kNoNumber;
  const auto text = line_chart(chart);
  expect_sound(text);
  EXPECT_EQ(count_of(text, "class=\"dot\""), 2u);

  chart.series[0].points = {{kNoNumber, kNoNumber}};
  chart.empty = "nothing here";
  EXPECT_THAT(line_chart(chart), HasSubstr(">nothing here</p>"));
}

TEST(LineChart, OnePointIsADotEvenWithoutDots) {
  auto chart = hand_made();
  chart.series.push_back({"other", 1, {{3, 0.25}}});
  chart.series[1].dots = false;
  const auto text = line_chart(chart);
  expect_sound(text);
  EXPECT_EQ(count_of(text, "class=\"dot\""), 4u);
}

TEST(LineChart, WhatALineCanSayIsNotDrawn) {
  auto chart = hand_made();
  EXPECT_EQ(in_words(chart), "");
  chart.series.push_back({"other", 1, {{0, 0.25}}});
  for (auto& series : chart.series) series.points.resize(1);
  EXPECT_EQ(in_words(chart), "curve 0.0\u00a0%, other 25.0\u00a0% (round 0)");
  chart.series[0].points[0].x = 7;
  EXPECT_EQ(in_words(chart), "") << "two places are a chart";
  chart.series = {{"<b>", 0, {{0, 0.5}, {4, 0.5 + 1e-9}}}};
  EXPECT_EQ(in_words(chart), "always 50.0\u00a0% (round 0 to 4)");
  chart.series[0].points[1].low = 0, chart.series[0].points[1].high = 1;
  chart.series[0].points[0].low = 0.25, chart.series[0].points[0].high = 1;
  EXPECT_EQ(in_words(chart), "") << "its band changes";
  chart.series.assign(20, {"<b>", 0, {{0, 0.5}, {4, 0.5}}});
  const auto many = line_chart(chart);
  EXPECT_EQ(markup_error(many), "");
  EXPECT_EQ(count_of(many, "&lt;b&gt; 50.0"), 12u);
  EXPECT_THAT(many, HasSubstr(", and 8 more (round 0 to 4)"));
}

TEST(LineChart, DirectLabelsKeepApart) {
  auto chart = hand_made();
  chart.direct_labels = true;
  chart.y.low = 0, chart.y.high = 1;
  chart.series = {{"a", 0, {{0, 0}, {10, 0.5}}}, {"b", 1, {{0, 0}, {10, 0.5}}}};
  const auto text = line_chart(chart);
  // No legend: the box runs from 30 to 256, 0.5 is at 143; labels 8 above and below, 4 for the
  // font.
  EXPECT_THAT(text, testing::ContainsRegex("y=\"139\"[^>]*>a  50.0"));
  EXPECT_THAT(text, testing::ContainsRegex("y=\"155\"[^>]*>b  50.0"));
}

TEST(LineChart, LogarithmicAxisDropsWhatHasNoLogarithm) {
  auto chart = hand_made();
  chart.y = {"Loss", Quantity::kNumber, Scale::kLog};
  chart.series[0].points = {{0, 0}, {1, 0.1}, {2, 1}, {3, 10}};
  const auto text = line_chart(chart);
  expect_sound(text);
  EXPECT_EQ(count_of(text, "class=\"dot\""), 3u);
  EXPECT_THAT(text, HasSubstr("cy=\"155\""));  // 1 lies half way between 0.1 and 10
}

TEST(Spread, MovesAsLittleAsPossible) {
  EXPECT_THAT(spread({10, 50}, 16, 0, 100), ElementsAre(10, 50));
  EXPECT_THAT(spread({50, 50}, 16, 0, 100), ElementsAre(42, 58));
  EXPECT_THAT(spread({52, 48}, 16, 0, 100), ElementsAre(58, 42));
  EXPECT_THAT(spread({0, 0}, 16, 0, 100), ElementsAre(0, 16));
  EXPECT_THAT(spread({100, 100}, 16, 0, 100), ElementsAre(84, 100));
}

TEST(ColumnNames, CommonWordsGoAndManyAreThinnedOut) {
  EXPECT_THAT(short_names({"client 7", "client 12"}), ElementsAre("7", "12"));
  EXPECT_THAT(short_names({"Wanliu", "Wanshou"}), ElementsAre("Wanliu", "Wanshou"));
  EXPECT_THAT(short_names({"a b", "a b"}), ElementsAre("b", "b"));
  EXPECT_THAT(short_names({"a ", "a b"}), ElementsAre("a ", "a b")) << "a name would vanish";
}

TEST(Dumbbell, RowsForFewColumnsForMany) {
  DumbbellChart chart;
  chart.label = "clients";
  chart.value = {"Accuracy", Quantity::kFraction};
  chart.before_name = "before", chart.after_name = "after", chart.item_title = "Client";
  for (const auto& name : numbered("client", 3)) chart.pairs.push_back({name, 0.25, 0.75});
  chart.pairs[1].before = kNoNumber;
  const auto few = dumbbell_chart(chart);
  expect_sound(few);
  EXPECT_THAT(few, HasSubstr(">client 2</text>"));
  EXPECT_EQ(count_of(few, "class=\"link\""), 2u);
  EXPECT_THAT(few, HasSubstr("<title>client 0, before 25.0\u00a0%, after 75.0\u00a0%</title>"));

  chart.pairs.clear();
  for (const auto& name : numbered("client", 500)) chart.pairs.push_back({name, 0.5, 0.25});
  const auto many = dumbbell_chart(chart);
  expect_sound(many);
  EXPECT_EQ(count_of(many, "class=\"link\""), 500u);
  EXPECT_LT(count_of(many, "<text"), 60u);
}

TEST(Strip, DotsDoNotCoverEachOther) {
  StripChart chart;
  chart.label = "methods";
  chart.value = {"Accuracy", Quantity::kFraction};
  chart.rows = {{"m", 0, {{"a", 0.5}, {"b", 0.5}, {"c", kNoNumber}}, 0.5, 0.1}};
  const auto text = strip_chart(chart);
  expect_sound(text);
  EXPECT_EQ(count_of(text, "<circle"), 2u);
  EXPECT_THAT(text, HasSubstr("50.0 ± 10.0"));
  // The row's middle is 6 + 17 = 23; the second dot moves by the first multiple of 1.8 >= 6.84.
  EXPECT_THAT(text, HasSubstr("cy=\"23\""));
  EXPECT_THAT(text, HasSubstr("cy=\"30.2\""));
}

TEST(StackedBars, PartsStandOnEachOther) {
  StackedBars chart;
  chart.label = "samples";
  chart.value = {"Samples", Quantity::kCount};
  chart.columns = {"x"};
  chart.parts = {{"train", 0, {60}}, {"test", 1, {40}}};
  chart.column_names = false;
  chart.left = 100, chart.height = 236;
  const auto text = stacked_bars(chart);
  expect_sound(text);
  // Legend 24 + 8 above, 4 below: 0 … 100 on 232 … 32, so 60 is 120 high and 40 is 80 high above
  // it.
  EXPECT_THAT(text, testing::ContainsRegex("y=\"112\" width=\"52\" height=\"120\""));
  EXPECT_THAT(text, testing::ContainsRegex("y=\"32\" width=\"52\" height=\"80\""));
}

TEST(Bubbles, AreaIsTheValue) {
  Matrix matrix;
  matrix.label = "classes";
  matrix.rows = {"r"}, matrix.columns = {"a", "b", "c"};
  matrix.values = {{100, 25}};
  matrix.quantity = Quantity::kCount;
  const auto text = bubble_matrix(matrix);
  expect_sound(text);
  EXPECT_EQ(count_of(text, "<circle"), 2u);
  EXPECT_THAT(text, HasSubstr("r=\"14.4\""));  // 0.48 of the row's 30
  EXPECT_THAT(text, HasSubstr("r=\"7.2\""));   // a quarter of the area
}

TEST(HeatMap, StrengthRunsFromLowToHigh) {
  Matrix matrix;
  matrix.label = "attention";
  matrix.rows = {"r", "s"}, matrix.columns = {"a", "b"};
  matrix.values = {{0, 0.5}, {1, kNoNumber}};
  const auto text = heat_map(matrix);
  expect_sound(text);
  EXPECT_THAT(text, HasSubstr("<title>b, r: 0.500</title>"));
  EXPECT_THAT(text, HasSubstr("fill-opacity:0.52\"><title>b, r"));
  EXPECT_THAT(text, HasSubstr("fill-opacity:1.00\"><title>a, s"));
  EXPECT_EQ(count_of(text, "<title>"), 3u);
}

TEST(HeatMap, TheEndsOfANarrowScaleDiffer) {
  Matrix matrix;
  matrix.rows = {"r"}, matrix.columns = {"a", "b"};
  matrix.values = {{0.99984, 1}};
  const auto text = heat_map(matrix, {.low = 0.99984, .high = 1});
  EXPECT_THAT(text, HasSubstr(">0.99984<"));
  EXPECT_THAT(text, HasSubstr(">1<"));
}

TEST(Charts, EmptyInputsSaySo) {
  for (const auto& text : {line_chart({}), dumbbell_chart({}), strip_chart({}), stacked_bars({}),
                           bubble_matrix({}), heat_map({})}) {
    EXPECT_EQ(markup_error(text), "");
    EXPECT_THAT(text, HasSubstr("no values yet"));
    EXPECT_THAT(text, Not(HasSubstr("<svg"))) << "a line, not an empty chart";
  }
}

TEST(Charts, NamesAreEscaped) {
  const std::string evil = "<script>alert(\"1\")</script>&";
  Axis axis;
  axis.title = evil;
  Matrix matrix{evil, evil, evil, {evil}, {evil, evil}, {{1, 2}}};
  LineChart lines{evil, axis, axis, {{evil, 0, {{0, 1}, {1, 2}}}}, {{0.5, evil}}};
  DumbbellChart pairs{evil, axis, evil, evil, evil, {{evil, 1, 2}}};
  StripChart strip{evil, axis, {{evil, 0, {{evil, 1}}, 1, 1}}};
  StackedBars bars{evil, axis, evil, {evil}, {{evil, 0, {1}}}};
  for (const auto& text : {line_chart(lines), dumbbell_chart(pairs), strip_chart(strip),
                           stacked_bars(bars), bubble_matrix(matrix), heat_map(matrix)}) {
    EXPECT_EQ(markup_error(text), "");
    EXPECT_THAT(text, Not(HasSubstr("<script")));
  }
}

TEST(Pixels, AlwaysANumber) {
  EXPECT_EQ(px(kNoNumber), "0");
  EXPECT_EQ(px(-0.01), "0");
  EXPECT_EQ(px(12.34), "12.3");
  EXPECT_EQ(px(1e300), "100000");
}

}  // namespace
}  // namespace tessera::svg
