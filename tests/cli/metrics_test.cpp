// What leads tables and what is best: --metric, eval.headline, eval.predictions.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "io/csv.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Metrics : public Playground {
 protected:
  Csv predictions(const std::string& out) {
    const auto text = slurp(path(out + "/predictions.csv"));
    auto csv = parse_csv(bytes_of(text), out);
    EXPECT_TRUE(csv.ok()) << csv.status();
    return csv.ok() ? *std::move(csv) : Csv();
  }
};

TEST_F(Metrics, AreAllInTheSummary) {
  ASSERT_EQ(run("a").code, 0);
  const auto s = json("a/summary.json");
  for (const char* key : {"balanced_accuracy", "auroc", "ece"}) {
    ASSERT_TRUE(s[key].is_number()) << key;
    EXPECT_GE(s[key].get<double>(), 0);
    EXPECT_LE(s[key].get<double>(), 1);
  }
  int64_t samples = 0, right = 0;
  for (size_t i = 0; i < 3; ++i)
    for (size_t k = 0; k < 3; ++k) {
      samples += s["confusion"][i][k].get<int64_t>();
      right += i == k ? s["confusion"][i][k].get<int64_t>() : 0;
    }
  EXPECT_EQ(samples, 4 * 12);
  EXPECT_NEAR(s["accuracy"]["micro"].get<double>(), static_cast<double>(right) / 48, 1e-12);
  EXPECT_EQ(s["recall"].size(), 3u);
}

TEST_F(Metrics, AnotherOneLeadsAndChangesNoNumber) {
  const auto plain = run("a");
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("accuracy %"));
  EXPECT_THAT(plain.out, HasSubstr("before personalization (leads)"));
  const auto led = run(
      "b", {"--metric", "auroc", "--set", "eval.headline=post", "--set", "output.model=headline"});
  ASSERT_EQ(led.code, 0) << led.err;
  EXPECT_THAT(led.out, HasSubstr("AUROC %"));
  EXPECT_THAT(led.out, HasSubstr("after personalization (leads)"));
  EXPECT_THAT(led.out, Not(HasSubstr("accuracy")));
  const auto a = json("a/summary.json"), b = json("b/summary.json");
  EXPECT_EQ(b["metric"], "auroc");
  EXPECT_EQ(b["headline"], "post");
  EXPECT_EQ(b["figures_digest"], a["figures_digest"]);
  EXPECT_EQ(b["accuracy_pre"], a["accuracy_pre"]);
  EXPECT_EQ(b["accuracy"], a["accuracy_post"]);
  EXPECT_THAT(slurp(path("b/report.html")), HasSubstr("AUROC"));
  const auto wrong = run("c", {"--metric", "beauty"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(error_lines(wrong), 1);
  EXPECT_THAT(wrong.err, HasSubstr("balanced_accuracy"));
  EXPECT_FALSE(exists("c"));
}

TEST_F(Metrics, AFinishedRunCanBeLookedAtByAnother) {
  ASSERT_EQ(run("a").code, 0);
  const auto before = slurp(path("a/summary.json"));
  const auto again = run("a", {"--resume", "--metric", "loss"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("loss"));
  EXPECT_THAT(again.out, Not(HasSubstr("accuracy")));
  EXPECT_EQ(slurp(path("a/summary.json")), before);
}

TEST_F(Metrics, LeadComparisonsWithoutRunningAgain) {
  const auto words = [&](const char* metric) {
    return std::vector<std::string>{"compare",      path("e.toml"), "--methods",
                                    "local,fedavg", "--quiet",      "--out",
                                    path("c"),      "--metric",     metric};
  };
  ASSERT_EQ(tessera(words("accuracy")).code, 0);
  const auto written = std::filesystem::last_write_time(path("c/fedavg-s1/summary.json"));
  const auto loss = tessera(words("loss"));
  ASSERT_EQ(loss.code, 0) << loss.err;
  EXPECT_EQ(std::filesystem::last_write_time(path("c/fedavg-s1/summary.json")), written);
  EXPECT_THAT(loss.out, HasSubstr("loss (± clients)"));
  EXPECT_THAT(loss.out, HasSubstr("the smaller the better"));
  const auto table = json("c/table.json");
  const auto local = json("c/local-s1/summary.json");
  EXPECT_EQ(table[0]["metric"], "loss");
  EXPECT_NEAR(table[0]["accuracy_mean"], local["loss"], 1e-12);
  // The baseline of each row is the other one with the least loss.
  for (const auto& row : table)
    for (const auto& other : table)
      if (other["method"] != row["method"])
        for (const auto& best : table)
          if (best["method"] == row["best_baseline"]) {
            EXPECT_LE(best["accuracy_mean"].get<double>(), other["accuracy_mean"].get<double>());
          }
  const auto mixed = tessera({"compare", path("e.toml"), "--methods",
                              "local,fedavg:eval.metric=ece", "--quiet", "--out", path("d")});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("a table has one; use --metric for all"));
}

TEST_F(Metrics, PredictionsOfEveryTestSample) {
  ASSERT_EQ(run("off").code, 0);
  EXPECT_FALSE(exists("off/predictions.csv"));
  const std::vector<std::string> on{"--set", "eval.predictions=true", "--threads"};
  auto one = on, four = on;
  one.emplace_back("1"), four.emplace_back("4");
  ASSERT_EQ(run("one", one).code, 0);
  ASSERT_EQ(run("four", four).code, 0);
  EXPECT_EQ(slurp(path("one/predictions.csv")), slurp(path("four/predictions.csv")));
  EXPECT_EQ(json("one/summary.json")["figures_digest"], json("off/summary.json")["figures_digest"]);
  const auto csv = predictions("one");
  ASSERT_EQ(csv.rows(), 4u * 12);
  EXPECT_EQ(csv.header().size(), 5u + 3);
  const auto clients = *csv.texts("client"), truth = *csv.texts("truth");
  const auto predicted = *csv.texts("predicted");
  int64_t right = 0;
  for (size_t i = 0; i < csv.rows(); ++i) {
    EXPECT_EQ(clients[i], std::string(1, static_cast<char>('a' + i / 12)));
    EXPECT_EQ(csv.cell(i, 2), std::to_string(i % 12));
    double sum = 0, top = 0;
    for (size_t k = 5; k < 8; ++k) {
      const double p = *csv.number(i, k);
      sum += p, top = std::max(top, p);
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_EQ(csv.number(i, *csv.column("p_" + predicted[i])), top);
    right += predicted[i] == truth[i];
  }
  EXPECT_NEAR(json("one/summary.json")["accuracy"]["micro"].get<double>(),
              static_cast<double>(right) / 48, 1e-12)
      << "of the headline view";
  ASSERT_EQ(run("one", {"--force"}).code, 0);
  EXPECT_FALSE(exists("one/predictions.csv")) << "of the run that is gone";
}

TEST_F(Metrics, PredictionsOverwriteNothingOfSomebodyElse) {
  ASSERT_EQ(run("a").code, 0);
  write("a/predictions.csv", "my own\n");
  EXPECT_EQ(run("a", {"--force"}).code, 0) << "not asked for, not in the way";
  const auto refused = run("a", {"--force", "--set", "eval.predictions=true"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("was not written by a run"));
  EXPECT_EQ(slurp(path("a/predictions.csv")), "my own\n");
  EXPECT_TRUE(exists("a/summary.json")) << "the old run is still there";
}

TEST_F(Metrics, ClassWeightsAreRefusedWhereAMethodCannotFollow) {
  const auto refused =
      run("rod", {"--set", "method.name=fedrod", "--set", "train.class_weights=balanced"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("train.class_weights = \"none\""));
  EXPECT_EQ(run("avg", {"--set", "train.class_weights=balanced"}).code, 0);
}

}  // namespace
}  // namespace tessera::testing
