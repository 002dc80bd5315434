// Pages that hid what they knew: a table wider than its card, charts cut off without a hint, a
// caption that spoke of pale cells on a dark page, comparisons that did not say of what, rows that
// failed without a reason, and clients that were rejected without a name.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "report/compare_report.hpp"
#include "report/run_report.hpp"
#include "report/test_markup.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

RunHistory run_of(const std::string& method, const std::string& seed) {
  RunHistory run;
  run.meta.name = "wards", run.meta.method = method, run.meta.dataset = "npz";
  run.meta.partition = "natural", run.meta.model = "mlp100", run.meta.seed = seed;
  run.meta.headline = "post", run.meta.state = "finished";
  run.meta.clients = 2, run.meta.newcomers = 1, run.meta.rounds = 30, run.meta.parameters = 4321;
  run.meta.config = fmt::format(
      "name = \"wards\"\nseed = {}\nrounds = 30\n\n[data]\nset = \"npz\"\n\n[train]\nlr = 0.05\n"
      "epochs = 2\nbatch = 10\n\n[method]\nname = \"{}\"\n{}",
      seed, method, method == "ditto" ? "lambda = 0.5\n" : "");
  run.clients = {{0, "north", false, 40, 5, 10, {}},
                 {1, "south", false, 40, 5, 10, {}},
                 {2, "late", true, 40, 5, 10, {}}};
  for (int64_t round = 1; round <= 2; ++round) {
    run.rounds.push_back({round, 2, 0, 0, 1.0 / static_cast<double>(round), 3000, 1000, 0, 0, 60});
    for (const char* who : {"clients", "newcomers"})
      for (const char* view : {"pre", "post", "global"}) {
        run.evals.push_back({round, who, view, "test"});
        auto& row = run.evals.back();  // every figure as wide as it gets
        row.mean = row.std = row.micro = row.worst10 = row.best10 = 1 - 0.1 / (1.0 + round);
        row.precision_macro = row.f1_macro = row.f1_remap = 1;
        row.loss = 0.0123;
      }
    for (int64_t client = 0; client < 2; ++client)
      run.client_evals.push_back({round, client, "post", "test", 10, 5 + client + round});
  }
  return run;
}

std::string without_tags(const std::string& text) {
  return std::regex_replace(text, std::regex("<[^>]*>"), "");
}

size_t letters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

// The least width of the table that holds `word`, in pixels: cells in one line, headings too unless
// the style lets them wrap. 13.5 px and bold: 8.3 a letter; 24 of padding a column.
double table_width(const std::string& page, const std::string& word) {
  const auto begin = page.rfind("<table", page.find(word));
  const auto table = page.substr(begin, page.find("</table>", begin) - begin);
  const bool wraps = page.find("thead th{white-space:normal") != std::string::npos;
  std::vector<size_t> widest;
  static const std::regex row_of("<tr[^>]*>(.*)</tr>"), cell_of("<(th|td)[^>]*>(.*?)</(?:th|td)>");
  for (std::sregex_iterator row(table.begin(), table.end(), row_of), end; row != end; ++row) {
    const auto cells = row->str(1);
    size_t column = 0;
    for (std::sregex_iterator c(cells.begin(), cells.end(), cell_of); c != end; ++c, ++column) {
      if (column == widest.size()) widest.push_back(0);
      auto text = without_tags(c->str(2));
      if (c->str(1) == "th" && wraps) {
        size_t longest = 0;
        std::stringstream words(text);
        for (std::string one; words >> one;) longest = std::max(longest, letters(one));
        widest[column] = std::max(widest[column], longest);
      } else {
        widest[column] = std::max(widest[column], letters(text));
      }
    }
  }
  double width = 0;
  for (const size_t one : widest) width += 8.3 * static_cast<double>(one) + 24;
  return width;
}

TEST(ReportPage, TheMetricsTablesFitTheirCards) {
  const auto page = *run_report(run_of("ditto", "1"));
  // A window of 1280: the column is 1120 wide, less 2 × 20 of padding and the card's border.
  for (const char* heading : {">Mean</th>", ">Personalization</th>", "emapped"}) {
    EXPECT_GT(table_width(page, heading), 300) << heading;
    EXPECT_LE(table_width(page, heading), 1078) << heading;
  }
}

TEST(ReportPage, NamesWhoWasRejectedHowOftenAndWhy) {
  auto run = run_of("ditto", "1");
  EXPECT_THAT(*run_report(run), Not(HasSubstr("Rejected and failed")));
  run.problems = {{0, "upload", 1, 2, "fc1.weight is not finite"},
                  {1, "upload", 30, 1, "norm 1e9 <over> 100"},
                  {2, "join", 1, 2, "no answer"}};
  run.clients[0].name = "";
  run.rounds[1].counted = false;
  const auto page = *run_report(run);
  EXPECT_EQ(markup_error(page), "");
  const auto row = [](const char* who, const char* what, const char* why, int often, int round) {
    return fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td>"
        "<td class=\"number\">{}</td></tr>",
        who, what, why, often, round);
  };
  const auto south = page.find(row("south", "upload rejected", "norm 1e9 &lt;over&gt; 100", 30, 1));
  const auto first =
      page.find(row("client 0", "upload rejected", "fc1.weight is not finite", 1, 2));
  const auto late = page.find(row("late", "newcomer&#39;s upload not used", "no answer", 1, 2));
  ASSERT_NE(south, std::string::npos);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(late, std::string::npos);
  EXPECT_LT(south, first) << "the most frequent first";
  EXPECT_THAT(page, HasSubstr("1 of 2 rounds did not count"));
  run.problems.assign(40, {1, "evaluation", 2, 1, "loss is not finite"});
  const auto many = *run_report(run);
  EXPECT_EQ(count_of(many, "<td>evaluation does not count</td>"), 30u);
  EXPECT_THAT(many, HasSubstr("The 30 most frequent of 40"));
}

TEST(ReportPage, WideChartsSayThatTheyScrollOnASmallScreen) {
  const auto page = *run_report(run_of("ditto", "1"));
  const std::regex unmarked("<div class=\"plot\"><svg[^>]*class=\"wide\"");
  EXPECT_FALSE(std::regex_search(page, unmarked));
  EXPECT_GE(count_of(page, "<div class=\"plot wide\">"), 3u);
  const auto narrow = page.find("@media screen and (max-width:700px)");
  ASSERT_NE(narrow, std::string::npos);
  const auto hint = page.find(".plot.wide::before{content:\"scroll sideways", narrow);
  EXPECT_NE(hint, std::string::npos);
}

TEST(ReportPage, CostsThatNobodyHadTakeNoCard) {
  auto run = run_of("local", "1");
  for (auto& round : run.rounds) round.bytes_down = round.bytes_up = 0;
  const auto page = *run_report(run);
  EXPECT_THAT(page, Not(HasSubstr("Accuracy against traffic")));
  EXPECT_THAT(page, Not(HasSubstr("nothing spent")));
  EXPECT_THAT(page, HasSubstr("Accuracy against simulated time"));
}

json row_of(const std::string& method, std::vector<std::string> runs, double accuracy) {
  return {{"method", method}, {"seeds", runs.size()}, {"runs", runs}, {"accuracy_mean", accuracy}};
}

std::string comparison() {
  const auto table = json::array({row_of("fedavg", {"fedavg-s1", "fedavg-s2"}, 0.5),
                                  row_of("ditto", {"ditto-s1", "a b\"c-s2"}, 0.75),
                                  {{"method", "pfedme"},
                                   {"seeds", 0},
                                   {"runs", json::array()},
                                   {"failed", "pfedme-s1: round 3: the loss is not finite <&>"}}});
  const auto page = compare_report(
      "wards",
      {run_of("fedavg", "1"), run_of("fedavg", "2"), run_of("ditto", "1"), run_of("ditto", "2")},
      table);
  EXPECT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(markup_error(*page), "");
  return *page;
}

TEST(ReportComparison, ItsCaptionIsTrueOnDarkPages) {
  EXPECT_THAT(comparison(), Not(HasSubstr("pale")));
}

TEST(ReportComparison, ShowsTheMetricThatLeads) {
  auto run = run_of("fedavg", "1"), other = run_of("ditto", "1");
  for (auto* one : {&run, &other}) {
    for (auto& row : one->evals) row.loss = one == &run ? 0.5 : 0.25 + 0.125 * row.round;
    for (auto& row : one->client_evals) row.loss = 0.25 * static_cast<double>(1 + row.client);
  }
  auto table = json::array({row_of("fedavg", {"a"}, 0.75), row_of("ditto", {"b"}, 0.5)});
  for (auto& row : table) row["metric"] = "loss";
  table[0]["difference"] = 0.25, table[0]["best_baseline"] = "ditto";
  const auto page = *compare_report("t", {run, other}, table);
  EXPECT_EQ(markup_error(page), "");
  EXPECT_THAT(page, HasSubstr("<th class=\"number\">Loss</th>"));
  EXPECT_THAT(page, HasSubstr("<tr class=\"bold\"><td data-key=\"ditto\">")) << "less is better";
  EXPECT_THAT(page, HasSubstr("<td class=\"number\" data-key=\"0.75\">0.750</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\" data-key=\"0.25\">+0.25</td>"));
  EXPECT_THAT(page, HasSubstr("<title>ditto: 0.375 at Round 1</title>"));
  EXPECT_THAT(page, HasSubstr("<title>fedavg, south: 0.500</title>"));
  EXPECT_THAT(page, HasSubstr("<h3>Loss against traffic</h3>"));
  EXPECT_THAT(page, HasSubstr("A faint column is an easy client"));
}

TEST(ReportComparison, SaysOfWhatItIs) {
  const auto page = comparison();
  const auto tile = [](const char* label, const char* value, const char* note) {
    return fmt::format(
        "<dt>{}</dt><dd><span class=\"value\">{}</span><span class=\"note\">{}</span>", label,
        value, note);
  };
  EXPECT_THAT(page, HasSubstr(tile("Data", "npz", "partition natural")));
  EXPECT_THAT(page, HasSubstr(tile("Model", "mlp100", "4.321 k parameters")));
  EXPECT_THAT(page, HasSubstr(tile("Clients", "2", "and 1 that never trains")));
  EXPECT_THAT(page, HasSubstr(tile("Rounds", "30", "of training")));
  EXPECT_THAT(page, HasSubstr(tile("Seeds", "2", "1, 2")));
  EXPECT_THAT(page, HasSubstr(tile("Training", "lr 0.05", "epochs 2, batch 10")));
  // What all runs share once, what differs beside its method; seeds differ by design.
  const auto common = page.substr(page.find("Settings of all runs"));
  EXPECT_THAT(common, HasSubstr("[train]\nlr = 0.05\nepochs = 2\n"));
  EXPECT_THAT(common, Not(HasSubstr("seed =")));
  EXPECT_THAT(page, HasSubstr("<td>ditto</td><td>lambda = 0.5</td>"));
  EXPECT_THAT(page, HasSubstr("<td>fedavg</td><td>–</td>"));
}

TEST(ReportComparison, ASettingOfOneMethodIsNotSaidOfAll) {
  auto other = run_of("ditto", "1");
  other.label = "ditto:train.lr=0.1";
  other.meta.config.replace(other.meta.config.find("0.05"), 4, "0.1");
  const auto page =
      *compare_report("t", {run_of("fedavg", "1"), other},
                      json::array({row_of("fedavg", {"a"}, 0.5), row_of(other.label, {"b"}, 0.6)}));
  EXPECT_THAT(page, Not(HasSubstr("lr 0.05"))) << "the tile speaks for all";
  EXPECT_THAT(page, HasSubstr("train.lr = 0.05"));
  EXPECT_THAT(page, HasSubstr("train.lr = 0.1, lambda = 0.5"));
}

TEST(ReportComparison, LinksToItsRuns) {
  const auto page = comparison();
  EXPECT_THAT(page, HasSubstr("<a href=\"./fedavg-s1/report.html\">1</a>"));
  EXPECT_THAT(page, HasSubstr("<a href=\"./ditto-s1/report.html\">1</a>"));
  EXPECT_THAT(page, HasSubstr("<a href=\"./a%20b%22c-s2/report.html\">2</a>"));
  EXPECT_EQ(count_of(page, "<a href="), 4u);
}

TEST(ReportComparison, ARowThatFailedSaysWhy) {
  const auto page = comparison();
  EXPECT_THAT(page, ::testing::ContainsRegex("<td[^>]*>pfedme</td><td class=\"reason\" "
                                             "colspan=\"13\">failed: pfedme-s1: round 3: the loss "
                                             "is not finite &lt;&amp;&gt;</td>"));
  const auto left_out = *compare_report(
      "t", {},
      json::array({{{"method", "x"}, {"failed", "left out: no norm"}, {"left_out", true}}}));
  EXPECT_THAT(left_out, HasSubstr(">left out: no norm</td>"));
  const auto wrong = compare_report("t", {}, json::array({{{"method", "x"}, {"failed", 3}}}));
  EXPECT_FALSE(wrong.ok());
}

TEST(ReportComparison, SortsByAClickAndReadsWithoutScripts) {
  const auto page = comparison();
  ASSERT_EQ(count_of(page, "<script>"), 1u);
  const auto script = page.find("<script>");
  // Everything stands before the script, and nothing of it is hidden until it runs.
  for (const char* word : {">75.0", "failed: pfedme-s1", "Settings of all runs", "</table>"})
    EXPECT_LT(page.rfind(word), script) << word;
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("display:none")));
  EXPECT_THAT(page, Not(HasSubstr("<noscript")));
  // Sorted by numbers, not by how they are written.
  EXPECT_THAT(page, HasSubstr("<table class=\"sortable\">"));
  EXPECT_THAT(page, ::testing::ContainsRegex("<td class=\"number\" data-key=\"0.75\">75.0"));
  EXPECT_THAT(page, HasSubstr("<td data-key=\"ditto\">ditto</td>"));
  EXPECT_THAT(page.substr(script), HasSubstr("data-key"));
}

}  // namespace
}  // namespace tessera
