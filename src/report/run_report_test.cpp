#include "report/run_report.hpp"

#include <gmock/gmock.h>

#include "report/compare_report.hpp"
#include "report/test_markup.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kEvil = "<script>alert('x')</script>";

// Two clients and a newcomer, rounds 0, 1, 2; validation is best at round 1.
RunHistory small_run() {
  RunHistory run;
  run.meta.name = "toy", run.meta.method = "FedACS", run.meta.dataset = "cifar10";
  run.meta.model = "lenet", run.meta.seed = "7", run.meta.headline = "post";
  run.meta.state = "finished", run.meta.clients = 2, run.meta.rounds = 2;
  run.meta.class_names = {"cat", "dog"};
  run.meta.config = "[run]\nname = \"a<b\"\n";
  run.clients = {{0, kEvil, false, 40, 5, 10, {{"train", {{0, 40}}}}},
                 {1, "", false, 20, 5, 10, {{"train", {{0, 10}, {1, 10}}}}},
                 {2, "late", true, 20, 5, 10, {{"train", {{7, 20}}}}}};
  for (int64_t round = 1; round <= 2; ++round)
    run.rounds.push_back(
        {round, 2, 0, 0, 1.0 / static_cast<double>(round), 3000, 1000, 3100, 1100, 60, 2, 1});
  const double test[] = {0.1, 0.625, 0.7}, val[] = {0.1, 0.8, 0.6};
  for (int64_t round = 0; round <= 2; ++round) {
    run.evals.push_back({round, "clients", "post", "val", val[round], 0.1});
    run.evals.push_back({round, "clients", "post", "test", test[round], 0.125});
    run.evals.back().worst10 = 0.5;
    run.evals.push_back({round, "clients", "pre", "test", test[round] - 0.1, 0.1});
    run.evals.push_back({round, "newcomers", "post", "test", 0.3, 0.0});
  }
  run.meta.newcomers = 1;
  run.eval_traffic = {{2, 800, 12, 2, 70, 30}};
  for (const char* view : {"pre", "post"}) {
    const int64_t more = view == std::string("post") ? 2 : 0;
    run.client_evals.push_back({2, 0, view, "test", 10, 5 + more});
    run.client_evals.push_back({2, 1, view, "test", 10, 4 + more});
  }
  return run;
}

json table_row(const std::string& method, double accuracy) {
  return {{"method", method},    {"seeds", 1},        {"accuracy_mean", accuracy},
          {"difference", -0.02}, {"p_value", 0.0004}, {"best_baseline", "FedAMP"}};
}

TEST(RunReport, ShowsTheLastRoundAndTheBestOnValidation) {
  const auto page = run_report(small_run());
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, HasSubstr("70.0 ± 12.5\u00a0%"));
  EXPECT_THAT(*page, HasSubstr("<span class=\"value\">62.5\u00a0%</span>"));
  EXPECT_THAT(*page, HasSubstr("2 of 2 rounds"));
  EXPECT_THAT(*page, HasSubstr("best on validation: round 1"));
  EXPECT_THAT(*page, HasSubstr("<title>FedACS · cifar10 · lenet</title>"));
  EXPECT_THAT(*page, HasSubstr("Personalization helps 2 of 2 clients."));
  EXPECT_THAT(*page, HasSubstr("8.00 kB"));  // two rounds of 3000 down and 1000 up
  EXPECT_THAT(*page, HasSubstr("6.00 kB down, 2.00 kB up"));
  EXPECT_THAT(*page, HasSubstr("2 min 00 s"));
  EXPECT_THAT(*page, HasSubstr("<td>client 1</td>")) << "a client without a name";
  EXPECT_THAT(*page, HasSubstr("<title>client 1, dog: 10</title>"));
  EXPECT_THAT(*page, HasSubstr("<title>late, 7: 20</title>")) << "a class without a name";
  EXPECT_THAT(*page, HasSubstr("newcomers: 30.0"));
}

TEST(RunReport, NewcomersAndTrafficHaveTheirOwnFigures) {
  auto run = small_run();
  const auto page = *run_report(run);
  EXPECT_THAT(page, HasSubstr("<dt>Newcomers</dt><dd><span class=\"value\">30.0\u00a0%</span>"));
  EXPECT_THAT(page, HasSubstr("<td>newcomers</td><td>after</td><td class=\"number\">30.0"));
  EXPECT_THAT(page, HasSubstr("<td>clients</td><td>before</td><td class=\"number\">60.0"));
  const auto row = [](const char* name, const char* down, const char* up, const char* sum) {
    return fmt::format(
        "<td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
        "<td class=\"number\">{}</td>",
        name, down, up, sum);
  };
  EXPECT_THAT(page, HasSubstr(row("Training, 2 rounds", "6.00 kB", "2.00 kB", "8.00 kB")));
  EXPECT_THAT(page, HasSubstr(row("Evaluating all clients once", "800 B", "12 B", "812 B")));
  EXPECT_THAT(page, HasSubstr(row("Getting a newcomer its model, 2 exchanges before it", "70 B",
                                  "30 B", "100 B")));
  run.meta.newcomers = 0;
  EXPECT_THAT(*run_report(run), Not(HasSubstr("Getting a newcomer")));
}

TEST(RunReport, IsWellFormedSelfContainedAndEscaped) {
  const auto page = *run_report(small_run());
  EXPECT_EQ(markup_error(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(page, HasSubstr("name = &quot;a&lt;b&quot;"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("href=")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr(">nan")));
  EXPECT_EQ(count_of(page, "<figure>"), count_of(page, "<figcaption>"));
}

TEST(RunReport, SaysWhatPrivacyCost) {
  auto run = small_run();
  EXPECT_THAT(*run_report(run), Not(HasSubstr("Differential privacy")));
  run.meta.privacy = {"epsilon 120 at delta 1e-02 for a whole client; < nothing", "epsilon 3"};
  const auto page = *run_report(run);
  EXPECT_EQ(markup_error(page), "");
  EXPECT_THAT(page, HasSubstr("<h2>Differential privacy</h2>"));
  EXPECT_THAT(page, HasSubstr("for a whole client; &lt; nothing"));
  EXPECT_THAT(page, HasSubstr("epsilon 3<"));
}

TEST(RunReport, WorksBeforeTheFirstEvaluation) {
  auto run = small_run();
  run.evals.clear(), run.client_evals.clear(), run.rounds.clear();
  run.meta.state = "running";
  const auto page = run_report(run);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(markup_error(*page), "");
  EXPECT_THAT(*page, HasSubstr("running · round 0 of 2"));
  EXPECT_THAT(*page, HasSubstr("not evaluated yet"));
}

TEST(RunReport, AnEmptyHistoryIsAnError) {
  RunHistory run;
  run.meta.name = "toy";
  const auto page = run_report(run);
  ASSERT_FALSE(page.ok());
  EXPECT_THAT(message(page.status()), HasSubstr("run 'toy' has no clients"));
}

TEST(RunReport, AThousandClientsStayLegible) {
  auto run = small_run();
  run.clients.clear(), run.client_evals.clear();
  for (int64_t i = 0; i < 1000; ++i) {
    run.clients.push_back({i, fmt::format("client {}", i), false, 9, 1, 9, {{"train", {{0, 9}}}}});
    run.client_evals.push_back({2, i, "post", "test", 9, i % 10});
  }
  const auto page = *run_report(run);
  EXPECT_EQ(markup_error(page), "");
  // Names in all charts together; of the thousand the worst ten stand in a table.
  EXPECT_LT(count_of(page, "<text"), 300u);
  EXPECT_EQ(count_of(page, "<td>client "), 10u);
  EXPECT_THAT(page, HasSubstr("<td>client 90</td>")) << "the tenth of those with none right";
}

TEST(CompareReport, TableAndChartsOfTwoMethods) {
  auto first = small_run(), second = small_run(), third = small_run();
  second.meta.seed = "8";
  second.evals[9].mean = 0.8;  // its test accuracy at round 2
  third.label = "Fed<AMP>";
  const auto page =
      compare_report("few & small", {first, second, third},
                     json::array({table_row("Fed<AMP>", 0.64), table_row("FedACS", 0.675)}));
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(markup_error(*page), "");
  EXPECT_THAT(*page, HasSubstr("2 methods · 3 runs"));
  EXPECT_THAT(*page, HasSubstr("<tr class=\"bold\"><td data-key=\"FedACS\">FedACS</td>"));
  EXPECT_THAT(*page, HasSubstr(">−2.0</td>"));
  const auto table =
      page->substr(page->find("<thead>"), page->find("</table>") - page->find("<thead>"));
  EXPECT_EQ(count_of(table, "</td>"), 2 * count_of(table, "</th>")) << "a cell under every heading";
  EXPECT_THAT(*page, HasSubstr("&lt; 0.001"));
  // Seeds 0.7 and 0.8: mean 0.75, deviation 0.1 / √2.
  EXPECT_THAT(*page, HasSubstr("75.0 ± 7.1"));
  EXPECT_THAT(*page, HasSubstr("<title>FedACS, seed 8: 80.0\u00a0%</title>"));
  EXPECT_THAT(*page, Not(HasSubstr("<AMP>")));
  EXPECT_EQ(count_of(*page, "<title>FedACS, late"), 0u) << "newcomers are not averaged in";
}

TEST(CompareReport, ATableAloneIsEnough) {
  const auto page = compare_report("t", {}, json::array({table_row("A", 0.5), {{"method", "B"}}}));
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(markup_error(*page), "");
  EXPECT_THAT(*page, HasSubstr("<tr><td data-key=\"B\">B</td><td class=\"number\">–</td>"));
}

TEST(CompareReport, WrongTablesAreNamed) {
  const auto error = [](const json& table) {
    const auto page = compare_report("t", {}, table);
    return page.ok() ? "no error" : message(page.status());
  };
  EXPECT_THAT(error(json::object()), HasSubstr("an array of rows"));
  EXPECT_THAT(error(json::array()), HasSubstr("neither runs nor table rows"));
  EXPECT_THAT(error(json::array({{{"seeds", 3}}})), HasSubstr("row 0 has no text 'method'"));
  EXPECT_THAT(error(json::array({{{"method", "A"}, {"worst10", "low"}}})),
              HasSubstr("'worst10' of row 0 (A) is not a number"));
}

}  // namespace
}  // namespace tessera
