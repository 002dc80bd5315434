// Charts that misled or said nothing: ticks that were all "1", axes of shares that began at −0.25
// or ended at 150 %, scales that ended at "1.96e-24", maps that long names pressed into a corner,
// and flat lines drawn large.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "report/exhibit_section.hpp"
#include "report/svg.hpp"
#include "report/test_markup.hpp"

namespace tessera {
namespace {

using svg::AxisMap;
using svg::Quantity;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::set<std::string> tick_texts(const AxisMap& map) {
  std::set<std::string> out;
  for (const auto& tick : map.ticks()) out.insert(tick.text);
  return out;
}

// All groups of a pattern with one group, in order.
std::vector<std::string> all_of(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    out.push_back(it->str(1));
  return out;
}

RunHistory clients(const std::vector<std::string>& names) {
  RunHistory run;
  for (size_t i = 0; i < names.size(); ++i)
    run.clients.push_back({static_cast<int64_t>(i), names[i], false, 1, 0, 0, {}});
  return run;
}

ExhibitRow exhibit(int64_t round, std::vector<int64_t> shape, std::vector<double> values) {
  return {round, "e", "Exhibit",        ExhibitRow::Kind::kMatrix,
          {},    {},  std::move(shape), std::move(values)};
}

TEST(ReportTicks, OfOneAxisAllDiffer) {
  const std::pair<double, double> ranges[] = {
      {1, 1.000004}, {0, 3e-9}, {12345678, 12345690}, {-2e-7, 5e-7}, {0, 4e12}};
  for (const auto& [low, high] : ranges) {
    const AxisMap map({"x"}, low, high, 0, 500, 5);
    ASSERT_GE(map.ticks().size(), 3u);
    EXPECT_EQ(tick_texts(map).size(), map.ticks().size()) << low << " … " << high;
  }
}

TEST(ReportTicks, RoundingErrorsAreNoRange) {
  // Shares that sum to one in float32 differ by 6e-8: an axis of that would be all "1.0000000".
  const AxisMap map({"x"}, 1 - 6e-8, 1 + 6e-8, 0, 500, 5);
  EXPECT_LE(map.low(), 0.5);
  EXPECT_GE(map.high(), 1.5);
}

TEST(ReportTicks, ARoundAloneIsTheOnlyTick) {
  svg::Axis axis{"Round", Quantity::kCount};
  axis.tight = true;
  const AxisMap map(axis, 6, 6, 0, 500, 8);
  ASSERT_EQ(map.ticks().size(), 1u) << "rounds 3 … 9 never were";
  EXPECT_EQ(map.ticks()[0].text, "6");
  EXPECT_DOUBLE_EQ(map(6), 250);
}

TEST(ReportAxes, StayWhereTheDataCanBe) {
  for (const double value : {0.0, 0.01, 0.5, 0.758, 1.0}) {
    const AxisMap map({"Accuracy", Quantity::kFraction}, value, value, 0, 500, 5);
    EXPECT_GE(map.low(), 0) << value;
    EXPECT_LE(map.high(), 1) << value << ": no accuracy is 150 %";
    EXPECT_LT(map.low(), map.high());
  }
  EXPECT_EQ(AxisMap({"x"}, 0, 0, 0, 500, 5).low(), 0) << "nothing was negative";
}

TEST(ReportAxes, ABandOfSharesEndsAtTheSmallestShare) {
  // Mean 0.25, standard deviation 0.433: the band would begin at −0.18 and the axis at −0.25.
  auto run = clients({"a", "b", "c", "d"});
  for (int64_t round = 1; round <= 3; ++round) {
    const double r = static_cast<double>(round) / 10;
    run.exhibits.push_back(exhibit(round, {4, 2}, {1 - r, r, 0, 1, 0, 1, 0, 1}));
    run.exhibits.back().columns = {"own", "global"};
  }
  const auto page = exhibit_section(run);
  EXPECT_THAT(page, HasSubstr("class=\"band\""));
  EXPECT_THAT(page, Not(HasSubstr(">−")));
}

TEST(ReportScale, EndsAreWordsForPeople) {
  svg::Matrix matrix;
  matrix.rows = {"r", "s"}, matrix.columns = {"a", "b"};
  matrix.values = {{1.96e-24, 0.5}, {0.25, 0.999}};
  const auto text = svg::heat_map(matrix);
  EXPECT_THAT(text, Not(ContainsRegex("[0-9]e[-+][0-9]")));
  EXPECT_THAT(text, HasSubstr("class=\"soft\">0</text>")) << "the low end, next to 0.999";
  EXPECT_THAT(text, HasSubstr("<title>a, r: 1.96×10⁻²⁴</title>")) << "the value itself stays";
  matrix.values = {{1.5e-24, 3e-24}};
  EXPECT_THAT(svg::heat_map(matrix), HasSubstr(">1.50×10⁻²⁴</text>"));
  EXPECT_EQ(svg::value_text(Quantity::kNumber, 123456), "123456");
  EXPECT_EQ(svg::value_text(Quantity::kNumber, 99.97), "99.97");
  EXPECT_EQ(svg::value_text(Quantity::kNumber, -2.5e9), "−2.50×10⁹");
}

std::vector<std::string> hospitals(int n) {
  std::vector<std::string> out;
  for (int i = 0; i < n; ++i)
    out.push_back((i % 2 ? "University Hospital of the Northern Region, Department "
                         : "StMarysHospitalNorthWing") +
                  std::to_string(i));
  return out;
}

TEST(ReportMaps, LongNamesLeaveTheMapItsRoom) {
  svg::Matrix matrix;
  matrix.rows = matrix.columns = hospitals(12);
  matrix.square = true, matrix.width = 330;
  for (int i = 0; i < 12; ++i) {
    matrix.values.emplace_back();
    for (int j = 0; j < 12; ++j) matrix.values.back().push_back(i + 10 * j);
  }
  const auto text = svg::heat_map(matrix);
  const auto widths = all_of(text,
                             "<rect x=\"[^\"]*\" y=\"[^\"]*\" width=\"([^\"]*)\" height=\"[^\"]*"
                             "\" class=\"cell\" style=\"[^\"]*\"><title>");
  ASSERT_EQ(widths.size(), 144u);
  EXPECT_GE(12 * std::stod(widths[0]), 0.6 * 330) << "most of the chart is its map";
  const auto names = all_of(text, "text-anchor=\"end\" class=\"soft\">([^<]*…[^<]*)</text>");
  ASSERT_EQ(names.size(), 12u);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 12u) << "cut, but still told apart";
}

TEST(ReportMaps, NamesUnderColumnsAreNotCutOffAtTheLeft) {
  svg::Matrix matrix;
  matrix.rows = {"own", "all"}, matrix.columns = hospitals(20);
  matrix.width = 330;
  for (int i = 0; i < 2; ++i) {
    matrix.values.emplace_back();
    for (int j = 0; j < 20; ++j) matrix.values.back().push_back(i + j);
  }
  const auto text = svg::heat_map(matrix);
  const std::regex slanted("<text x=\"([^\"]*)\" [^>]*rotate\\(-45[^>]*>([^<]*)<");
  size_t seen = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), slanted), end; it != end; ++it, ++seen) {
    size_t letters = 0;
    for (const char c : it->str(2)) letters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    // A letter of 12 px is some 6.7 wide; at 45° it reaches 0.71 of that to the left.
    EXPECT_GE(std::stod(it->str(1)) - 0.71 * 6.7 * static_cast<double>(letters), 0) << it->str(2);
  }
  EXPECT_GT(seen, 3u);
}

TEST(ReportConstants, AreSaidNotDrawn) {
  svg::LineChart chart;
  chart.x = {"Round", Quantity::kCount};
  chart.series = {{"most", 0, {{1, 3}, {2, 3}, {9, 3}}}, {"fewest", 1, {{1, 2}, {9, 2}}}};
  const auto words = svg::line_chart(chart);
  EXPECT_THAT(words, Not(HasSubstr("<svg")));
  EXPECT_THAT(words, HasSubstr("always most 3, fewest 2 (round 1 to 9)"));
  EXPECT_EQ(markup_error(words), "");
  chart.series[1].points[1].y = 1;
  EXPECT_THAT(svg::line_chart(chart), HasSubstr("<svg"));
  svg::Matrix matrix;
  matrix.rows = {"r"}, matrix.columns = {"a", "b"}, matrix.values = {{0.5, 0.5}};
  EXPECT_THAT(svg::heat_map(matrix), Not(HasSubstr("<svg")));
  EXPECT_THAT(svg::heat_map(matrix), HasSubstr("0.500 in every cell"));
}

TEST(ReportConstants, OfAMethodTakeALineOfTheirCard) {
  auto run = clients({"a", "b"});
  for (int64_t round = 1; round <= 3; ++round) {
    run.exhibits.push_back(exhibit(round, {2, 1}, {0.5, static_cast<double>(round)}));
    run.exhibits.back().rows = {"p", "size"}, run.exhibits.back().columns = {"value"};
  }
  const auto page = exhibit_section(run);
  EXPECT_EQ(count_of(page, "<svg"), 1u);
  EXPECT_EQ(count_of(page, "<h4>"), 1u) << "the panel of what changes";
  EXPECT_THAT(page, HasSubstr("p: always 0.500 (round 1 to 3)"));
}

TEST(ReportNothing, TakesNoRoom) {
  // A method that warms up: the first half of its exhibits has no numbers.
  auto run = clients({"a", "b"});
  for (int64_t round = 1; round <= 8; ++round) {
    const double v = round < 5 ? kAbsent : static_cast<double>(round);
    run.exhibits.push_back(exhibit(round, {2, 2}, {v, 1, 2, v}));
    if (round < 5) run.exhibits.back().values = std::vector<double>(4, kAbsent);
  }
  const auto page = exhibit_section(run);
  EXPECT_THAT(page, Not(HasSubstr("no values yet")));
  for (const char* round : {"<h4>Round 5</h4>", "<h4>Round 6</h4>", "<h4>Round 8</h4>"})
    EXPECT_THAT(page, HasSubstr(round));
  EXPECT_THAT(page, HasSubstr("No values before round 5."));
  run.exhibits.resize(4);
  const auto none = exhibit_section(run);
  EXPECT_EQ(count_of(none, "no values yet"), 1u);
  EXPECT_THAT(none, Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace tessera
