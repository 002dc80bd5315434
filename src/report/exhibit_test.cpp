#include "report/exhibit.hpp"

#include <gmock/gmock.h>

#include <set>

#include "report/exhibit_csv.hpp"
#include "report/exhibit_section.hpp"
#include "report/test_markup.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = ExhibitRow::Kind;

// Three clients (mostly cat, dog, dog) and a newcomer.
RunHistory four() {
  RunHistory run;
  run.meta.class_names = {"cat", "dog"};
  run.clients = {{0, "a", false, 9, 0, 0, {{"train", {{0, 5}, {1, 4}}}}},
                 {1, "b, \"c\"", false, 9, 0, 0, {{"train", {{1, 9}}}}},
                 {2, "", false, 9, 0, 0, {{"train", {{0, 1}, {1, 8}}}}},
                 {3, "late", true, 9, 0, 0, {{"train", {{7, 9}}}}}};
  return run;
}

ExhibitRow matrix(int64_t round, std::vector<int64_t> shape, std::vector<double> values) {
  return {round, "m", "The <matrix>", Kind::kMatrix, {}, {}, std::move(shape), std::move(values)};
}

std::string drawn(const RunHistory& run) {
  const auto section = exhibit_section(run);
  EXPECT_EQ(markup_error(section), "");
  EXPECT_THAT(section, Not(HasSubstr("nan")));
  EXPECT_THAT(section, Not(HasSubstr("inf\"")));
  EXPECT_EQ(count_of(section, "<figure>"), count_of(section, "<figcaption>"));
  return section;
}

TEST(ExhibitAxis, NamesGivenClientsOrNumbers) {
  const auto run = four();
  auto one = matrix(1, {3, 4}, std::vector<double>(12));
  EXPECT_TRUE(exhibit_axis(run, one, 0).clients);
  EXPECT_THAT(exhibit_axis(run, one, 0).names, ElementsAre("a", "b, \"c\"", "client 2"));
  EXPECT_TRUE(exhibit_axis(run, one, 1).clients) << "all, newcomers too";
  EXPECT_EQ(exhibit_axis(run, one, 1).names[3], "late");
  one.kind = Kind::kPoints;
  EXPECT_FALSE(exhibit_axis(run, one, 1).clients) << "dimensions, even if there are as many";
  EXPECT_THAT(exhibit_axis(run, one, 1).names, ElementsAre("1", "2", "3", "4"));
  one = matrix(1, {2, 1}, {1, 2});
  one.rows = {"x", "y"};
  EXPECT_FALSE(exhibit_axis(run, one, 0).clients);
  EXPECT_THAT(exhibit_axis(run, one, 0).names, ElementsAre("x", "y"));
  EXPECT_THAT(exhibit_axis(run, one, 1).names, ElementsAre(""));
}

TEST(ExhibitCast, ColoursFollowTheDominantClass) {
  const auto run = four();
  const auto cast = cast_of(run, matrix(1, {3, 3}, std::vector<double>(9)));
  EXPECT_THAT(cast.colours, ElementsAre(0, 1, 1));
  ASSERT_EQ(cast.legend.size(), 2u);
  EXPECT_EQ(cast.legend[1].name, "dog");
  EXPECT_EQ(cast.described(2), "client 2, mostly dog");
  EXPECT_EQ(dominant_class(ClientRow{}), std::nullopt);
}

TEST(ExhibitCast, ManyClassesShareTheLastColour) {
  RunHistory run;
  for (int64_t i = 0; i < 40; ++i)  // class 30 dominates eleven clients, 0 … 29 one each
    run.clients.push_back({i, "", false, 1, 0, 0, {{"train", {{std::min<int64_t>(i, 30), 1}}}}});
  const auto cast = cast_of(run, matrix(1, {40, 40}, std::vector<double>(1600)));
  ASSERT_EQ(cast.legend.size(), 15u);
  EXPECT_EQ(cast.legend.back().name, "other classes");
  std::set<int> colours;
  for (const auto& group : cast.legend) colours.insert(group.colour);
  EXPECT_EQ(colours.size(), 15u) << "no two alike";
  EXPECT_EQ(cast.colours[0], cast.legend.back().colour);
  EXPECT_NE(cast.colours[39], cast.legend.back().colour);
}

TEST(ExhibitSection, NothingToShowIsNoSection) { EXPECT_EQ(exhibit_section(four()), ""); }

TEST(ExhibitSection, MapsOfFirstMiddleAndLast) {
  auto run = four();
  for (int64_t round = 1; round <= 4; ++round)
    run.exhibits.push_back(matrix(
        round, {3, 3}, {1, 0.25, 0.5, 0.125, 1, kAbsent, 0.25, static_cast<double>(round), 1}));
  const auto page = drawn(run);
  EXPECT_THAT(page, HasSubstr("<h3>The &lt;matrix&gt;</h3>"));
  for (const char* round : {"<h4>Round 1</h4>", "<h4>Round 2</h4>", "<h4>Round 4</h4>"})
    EXPECT_EQ(count_of(page, round), 1u);
  EXPECT_EQ(count_of(page, "<h4>"), 3u);
  EXPECT_EQ(count_of(page, "class=\"cell\" style=\"fill-opacity:") - 3 * 24, 3u * 8)
      << "three maps of nine cells without the absent one, and three scales of 24 steps";
  EXPECT_THAT(page, HasSubstr("<title>a, b, &quot;c&quot;: 0.250</title>"));
  EXPECT_THAT(page, HasSubstr("<title>client 2, b, &quot;c&quot;: 4</title>"));
  // One scale for all: 0.125 … 4 off the diagonal.
  EXPECT_EQ(count_of(page, ">0.125</text>"), 3u);
  EXPECT_THAT(page, HasSubstr("off the diagonal"));
}

TEST(ExhibitSection, MapsPutClientsOfOneClassTogether) {
  auto run = four();
  run.clients[0].labels["train"] = {{1, 9}}, run.clients[1].labels["train"] = {{0, 9}};
  run.exhibits = {matrix(1, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})};
  EXPECT_THAT(class_order(run, run.exhibits[0], 3), ElementsAre(1, 0, 2));
  const auto page = drawn(run);
  const auto at = [&](const std::string& title) { return page.find("<title>" + title); };
  EXPECT_LT(at("b, &quot;c&quot;, b, &quot;c&quot;: 5"), at("b, &quot;c&quot;, a: 4"));
  EXPECT_LT(at("b, &quot;c&quot;, a: 4"), at("a, a: 1"));
  EXPECT_LT(at("a, a: 1"), at("a, client 2: 3"));
  EXPECT_NE(at("a, client 2: 3"), std::string::npos);
}

TEST(ExhibitSection, FewColumnsAlsoGetCurvesOfTheirMeans) {
  auto run = four();
  for (int64_t round = 2; round <= 4; round += 2) {
    const double more = 0.03 * static_cast<double>(round - 2);
    run.exhibits.push_back(matrix(round, {3, 2}, {0.5, 0.1 + more, 0.25, 0.1, 0, 0.1}));
    run.exhibits.back().columns = {"own", "global"};
  }
  const auto page = drawn(run);
  EXPECT_EQ(count_of(page, "<figure>"), 2u);
  EXPECT_THAT(page, HasSubstr("<title>own: 0.250 at Round 4</title>"));
  EXPECT_THAT(page, HasSubstr("<title>global: 0.100 at Round 2</title>"));
  EXPECT_THAT(page, HasSubstr("<title>b, &quot;c&quot;, own: 0.250</title>"));
  EXPECT_EQ(count_of(page, "class=\"band\""), 2u);
}

TEST(ExhibitSection, FewNumbersAreCurves) {
  auto run = four();
  for (int64_t round = 1; round <= 3; ++round) {
    const auto r = static_cast<double>(round);
    run.exhibits.push_back(matrix(round, {2, 1}, {0.5 * r, 7 + r}));
    run.exhibits.back().rows = {"threshold", "size"}, run.exhibits.back().columns = {"now"};
  }
  const auto page = drawn(run);
  EXPECT_THAT(page, HasSubstr("<h4>threshold</h4>"));
  EXPECT_THAT(page, HasSubstr("<h4>size</h4>"));
  EXPECT_EQ(count_of(page, "<title>now: "), 6u);
  EXPECT_THAT(page, HasSubstr("<title>now: 1.50 at Round 3</title>"));
  EXPECT_EQ(count_of(page, "class=\"cell\""), 0u) << "no map of two cells";
}

TEST(ExhibitSection, ManyCellsAreOnePictureAndVeryManyArePooled) {
  RunHistory run;
  for (int64_t i = 0; i < 50; ++i) run.clients.push_back({i, "", false, 1, 0, 0, {}});
  std::vector<double> cells(2500, 0.5);
  cells[1] = 0.25;
  run.exhibits = {matrix(1, {50, 50}, cells)};
  auto page = exhibit_section(run);
  EXPECT_EQ(count_of(page, "<image"), 1u);
  EXPECT_EQ(count_of(page, "href=\"data:image/png;base64,"), count_of(page, "href="));
  EXPECT_THAT(page, Not(HasSubstr("neighbours")));
  cells.resize(1800);
  run.exhibits = {matrix(1, {2, 900}, cells)};
  page = exhibit_section(run);
  EXPECT_THAT(page, HasSubstr("the mean of up to 3 neighbours"));
  EXPECT_THAT(page, HasSubstr("CSV"));
}

TEST(ExhibitSection, GraphOnACircle) {
  auto run = four();
  ExhibitRow graph{5,  "g", "Partners", Kind::kGraph,
                   {}, {},  {3, 3},     {1, 0, 0.5, 0, 1, kAbsent, 0.5, 1, 0}};
  run.exhibits = {graph};
  const auto page = drawn(run);
  EXPECT_EQ(count_of(page, "class=\"edge\""), 2u) << "a–2 and b–2 (one direction is enough)";
  EXPECT_THAT(page, HasSubstr("<title>a, mostly cat: 1 partner</title>"));
  EXPECT_THAT(page, HasSubstr("<title>b, &quot;c&quot;, mostly dog: 0 partners</title>"))
      << "itself is none";
  EXPECT_THAT(page, HasSubstr("<title>client 2, mostly dog: 2 partners</title>"));
  EXPECT_THAT(page, HasSubstr("Partners of a client: most 2, mean 1, fewest 0 (round 5)."));
  EXPECT_EQ(count_of(page, "<figure>"), 1u) << "one round is no chart";
  EXPECT_THAT(page, HasSubstr("stroke-width:3.0")) << "the strongest edge";
  EXPECT_THAT(page, HasSubstr("stroke-width:1.9")) << "half as strong";
  run.exhibits.push_back(graph);
  run.exhibits[1].round = 6, run.exhibits[1].values[1] = 1;
  const auto two = drawn(run);
  EXPECT_THAT(two, HasSubstr("<title>mean: 1 at Round 5</title>"));
  EXPECT_THAT(two, HasSubstr("<title>mean: 1.33 at Round 6</title>"));
}

TEST(ExhibitSection, LargeGraphsAreDrawnInPart) {
  RunHistory run;
  for (int64_t i = 0; i < 310; ++i) run.clients.push_back({i, "", false, 1, 0, 0, {}});
  run.exhibits = {
      {1, "g", "Partners", Kind::kGraph, {}, {}, {310, 310}, std::vector<double>(310 * 310, 1)}};
  const auto page = exhibit_section(run);
  EXPECT_EQ(count_of(page, "class=\"edge\""), 2000u);
  EXPECT_EQ(count_of(page, ": 309 partners</title>"), 300u);
  EXPECT_THAT(page, HasSubstr("The first 300 of 310 clients."));
  EXPECT_THAT(page, HasSubstr("The strongest 2000 of 44850 links."));
}

TEST(ExhibitSection, PointsByTheirComponents) {
  auto run = four();
  const std::vector<double> line{0, 0, 1, 1, 3, 3};  // along (1, 1)
  run.exhibits = {{1, "p", "Embeddings", Kind::kPoints, {}, {}, {3, 2}, {9, 9, kAbsent, 0, 9, 9}},
                  {2, "p", "Embeddings", Kind::kPoints, {}, {}, {3, 2}, line}};
  const auto page = drawn(run);
  EXPECT_THAT(page, HasSubstr("First component (100 % of the variance)"));
  EXPECT_THAT(page, HasSubstr("Second component (0 %)"));
  EXPECT_EQ(count_of(page, "<h4>"), 2u);
  EXPECT_EQ(count_of(page, "<title>client 2, mostly dog</title>"), 2u);
  EXPECT_EQ(count_of(page, "<title>b, &quot;c&quot;, mostly dog</title>"), 1u)
      << "not where it has no number";
  run.exhibits = {{1, "p", "E", Kind::kPoints, {}, {}, {1, 1}, {kAbsent}}};
  EXPECT_THAT(drawn(run), HasSubstr("no values yet"));
}

TEST(ExhibitSection, PicturesInAGrid) {
  auto run = four();
  run.exhibits = {{4,
                   "i",
                   "Maps",
                   Kind::kImages,
                   {"x"},
                   {"in", "out"},
                   {1, 2, 2, 2},
                   {0, 1, 0.5, kAbsent, 2, -1, 0.25, 0}}};
  const auto page = drawn(run);
  EXPECT_EQ(count_of(page, "<image"), 2u);
  EXPECT_EQ(count_of(page, "href=\"data:image/png;base64,"), 2u);
  EXPECT_THAT(page, HasSubstr("<title>x, out</title>"));
  run.exhibits[0] = {4,  "i", "Maps",         Kind::kImages,
                     {}, {},  {20, 13, 1, 1}, std::vector<double>(260)};
  const auto part = drawn(run);
  EXPECT_EQ(count_of(part, "<image"), 16u * 12);
  EXPECT_THAT(part, HasSubstr("The first 16 × 12 of 20 × 13 pictures."));
}

TEST(ExhibitCsv, LongFormByHand) {
  const auto run = four();
  const auto all = matrix(7, {3, 3}, {1, 0.1, 2, kAbsent, 1e-30, 0, -3, 0.25, 5});
  EXPECT_EQ(csv_header(run, all), "round,client,other,value\n");
  EXPECT_EQ(csv_lines(run, all),
            "7,a,a,1\n7,a,\"b, \"\"c\"\"\",0.1\n7,a,client 2,2\n"
            "7,\"b, \"\"c\"\"\",a,\n7,\"b, \"\"c\"\"\",\"b, \"\"c\"\"\",1e-30\n"
            "7,\"b, \"\"c\"\"\",client 2,0\n"
            "7,client 2,a,-3\n7,client 2,\"b, \"\"c\"\"\",0.25\n7,client 2,client 2,5\n");
  auto named = matrix(1, {1, 1}, {0.1f});
  named.rows = {"threshold"}, named.columns = {"value"};
  EXPECT_EQ(csv_header(run, named) + csv_lines(run, named),
            "round,row,column,value\n1,threshold,value,0.10000000149011612\n");
  auto few = matrix(1, {3, 1}, {1, 2, 3});
  few.columns = {"own"};
  EXPECT_EQ(csv_header(run, few), "round,client,column,value\n");
}

TEST(ExhibitCsv, GraphsPointsAndImages) {
  const auto run = four();
  auto graph = matrix(2, {3, 3}, {0, 1, 0, kAbsent, 0, 0.5, 0, 0, 0});
  graph.kind = Kind::kGraph;
  EXPECT_EQ(csv_lines(run, graph), "2,a,\"b, \"\"c\"\"\",1\n2,\"b, \"\"c\"\"\",client 2,0.5\n");
  auto points = matrix(2, {3, 2}, {1, 2, 3, 4, 5, 6});
  points.kind = Kind::kPoints;
  EXPECT_EQ(csv_header(run, points), "round,client,dimension,value\n");
  EXPECT_THAT(csv_lines(run, points), HasSubstr("\n2,client 2,1,5\n2,client 2,2,6\n"));
  const ExhibitRow images{3,     "i",           "",           Kind::kImages,
                          {"x"}, {"in", "out"}, {1, 2, 2, 1}, {0, 1, 0.5, 0.25}};
  EXPECT_EQ(csv_header(run, images), "round,row,column,y,x,value\n");
  EXPECT_EQ(csv_lines(run, images),
            "3,x,in,0,0,0\n3,x,in,1,0,1\n3,x,out,0,0,0.5\n3,x,out,1,0,0.25\n");
}

}  // namespace
}  // namespace tessera
