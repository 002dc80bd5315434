#include "run/summary.hpp"

#include <ATen/ATen.h>

#include <functional>

#include "io/file.hpp"
#include "io/testing.hpp"
#include "run/config_text.hpp"
#include "run/finished.hpp"
#include "run/saved_model.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Succeeds;
using testing::TempDir;

Federation three_clients_and_a_newcomer() {
  auto pool = std::make_shared<Pool>();
  pool->x = at::zeros({6, 5});
  pool->y = at::tensor({0, 1, 1, 2, 0, 2}, at::kLong);
  pool->classes = 3;
  Federation out;
  out.set = "npz", out.classes = 3, out.sample_shape = {5};
  out.digest = "dealt so", out.data_digest = "these data";
  for (const char* name : {"a", "b", "c"}) out.clients.push_back({name, pool, {0}, {1}, {2}, {}});
  out.newcomers = {{"late", pool, {2}, {}, {3}, {}}};
  return out;
}

Evaluation scored(ClientId client, int64_t correct) {
  const ClientMetrics m{10, correct, 0.5, 0.25, 0.75, 0.5};
  return {.client = client, .pre_test = m, .post_test = m, .pre_val = m, .post_val = m};
}

Problem not_finite(ClientId client) {
  return {Problem::Kind::kEvaluation, client, "the loss is not a finite number; lower train.lr"};
}

class Summaries : public ::testing::Test {
 protected:
  Summaries() : experiment_(*parse("train.lr=0.1")), federation_(three_clients_and_a_newcomer()) {
    model_ = *make_model("mlp100", {{5}, 3}, Init::kHe0);
  }
  static Result<Experiment> parse(const std::string& set) {
    return parse_experiment(
        "name = \"toy\"\nrounds = 4\n[data]\nset = \"npz\"\npartition = \"natural\"\n"
        "data_dir = \"d\"\nnewcomers = 1\n[model]\nname = \"mlp100\"\n[train]\nlr = 0.1\n"
        "[method]\nname = \"fedavg\"\n",
        "toy.toml", {.sets = {set}});
  }
  History history() {
    auto made = History::create(dir_.file("history.sqlite"),
                                run_facts(experiment_, federation_, *model_, experiment_.toml()),
                                federation_);
    EXPECT_THAT(made, Succeeds());
    return *std::move(made);
  }
  static void play(History& history, int64_t round, bool counted = true,
                   std::vector<Problem> problems = {}) {
    RoundReport report{.round = round, .cohort = 3, .counted = counted};
    report.problems = std::move(problems);
    ASSERT_THAT(history.append_round(report), Succeeds());
  }
  static void evaluate(History& history, int64_t round, std::vector<Evaluation> clients,
                       std::vector<Problem> problems = {}) {
    EvalReport report{.round = round, .clients = std::move(clients), .newcomers = {scored(3, 5)}};
    report.problems = std::move(problems);
    ASSERT_THAT(history.append_evaluation(report, 0.5), Succeeds());
  }
  // After one more round whose evaluation shows two numbers and a matrix.
  json summarized_with(History& history, int64_t round, double size) {
    play(history, round);
    EvalReport report{.round = round, .clients = {scored(0, 2)}};
    report.exhibits = {{"groups",
                        "Groups",
                        Exhibit::Kind::kMatrix,
                        at::tensor({size, std::nan("")}, at::kDouble).view({2, 1}),
                        {"size", "none"},
                        {"value"}},
                       {"matrix", "Matrix", Exhibit::Kind::kMatrix, at::ones({2, 2})}};
    EXPECT_THAT(history.append_evaluation(report, 0.5), Succeeds());
    return summary(history);
  }
  json summary(History& history, Awaited awaited = Awaited::kEverybody) {
    auto out = summarize_run(experiment_, federation_, *model_, history, awaited);
    EXPECT_THAT(out, Succeeds());
    return out.ok() ? *out : json::object();
  }

  TempDir dir_;
  Experiment experiment_;
  Federation federation_;
  std::unique_ptr<Model> model_;
};

TEST_F(Summaries, OfARunInWhichEverythingCounted) {
  auto h = history();
  for (int64_t round = 1; round <= 4; ++round) play(h, round);
  evaluate(h, 4, {scored(0, 2), scored(1, 4), scored(2, 9)});
  const auto s = summary(h);
  EXPECT_DOUBLE_EQ(s["accuracy"]["mean"], 0.5);
  EXPECT_DOUBLE_EQ(s["newcomers"]["accuracy"]["mean"], 0.5);
  EXPECT_EQ(s["rounds_counted"], 4);
  EXPECT_EQ(s["problems"], json::array());
  EXPECT_EQ(s["problems_total"], 0);
  EXPECT_TRUE(s["failed"].is_null());
  EXPECT_EQ(s["data_digest"], "these data");
  EXPECT_EQ(s["config_digest"], config_digest(experiment_.toml()));
  EXPECT_EQ(*h.get("data_digest"), "these data");
}

TEST_F(Summaries, SayWhoseEvaluationFailed) {
  auto h = history();
  for (int64_t round = 1; round <= 3; ++round) play(h, round);
  evaluate(h, 3, {scored(0, 2), scored(1, 4)}, {not_finite(2)});
  play(h, 4);
  evaluate(h, 4, {scored(0, 2)}, {not_finite(1), not_finite(2)});
  const auto s = summary(h);
  EXPECT_EQ(s["failed"],
            "the evaluation of 2 clients failed, first client c after round 3: the loss is not a "
            "finite number; lower train.lr");
  EXPECT_DOUBLE_EQ(s["accuracy"]["mean"], 0.2) << "of those that have numbers";
  ASSERT_EQ(s["problems"].size(), 2U);
  EXPECT_EQ(s["problems"][0]["client"], "b");
  EXPECT_EQ(s["problems"][1], (json{{"client", "c"},
                                    {"id", 2},
                                    {"kind", "evaluation"},
                                    {"count", 2},
                                    {"round", 3},
                                    {"reason", not_finite(2).reason}}));
  EXPECT_EQ(s["problems_total"], 3);
  auto served = summary(h, Awaited::kAnybody);
  EXPECT_TRUE(served["failed"].is_null()) << "who lies or is not there fails itself";
  served["failed"] = s["failed"];
  EXPECT_EQ(served, s);
}

TEST_F(Summaries, NumbersOfNobodyAreNull) {
  auto h = history();
  for (int64_t round = 1; round <= 3; ++round) play(h, round);
  evaluate(h, 3, {scored(0, 2), scored(1, 4), scored(2, 9)});
  play(h, 4);
  EvalReport nobody{.round = 4};
  for (int64_t id = 0; id < 4; ++id) nobody.problems.push_back(not_finite(id));
  ASSERT_THAT(h.append_evaluation(nobody, 0), Succeeds());
  const auto s = summary(h);
  for (const auto& block : {s, s["newcomers"]}) {
    for (const char* name : {"accuracy", "accuracy_pre", "accuracy_post"})
      EXPECT_TRUE(block[name]["mean"].is_null()) << "not that of an earlier round";
    EXPECT_TRUE(block["loss"].is_null());
    EXPECT_TRUE(block["global_accuracy"].is_null());
  }
  EXPECT_DOUBLE_EQ(s["last5_mean"], 0.5) << "of the evaluation that has numbers";
  EXPECT_EQ(s["best"]["round"], 3);
  EXPECT_THAT(s["failed"], HasSubstr("of 4 clients failed, first client a after round 4"));
  EXPECT_EQ(summary(h, Awaited::kAnybody), s);
}

TEST_F(Summaries, OfARunThatNeverHadNumbers) {
  auto h = history();
  for (int64_t round = 1; round <= 4; ++round) play(h, round);
  EXPECT_THAT(summarize_run(experiment_, federation_, *model_, h),
              FailsWith(Error::kInternal, "no evaluation"));
  EvalReport nobody{.round = 4};
  nobody.problems = {not_finite(1)};
  ASSERT_THAT(h.append_evaluation(nobody, 0), Succeeds());
  const auto s = summary(h);
  EXPECT_TRUE(s["accuracy"]["mean"].is_null());
  EXPECT_TRUE(s["last5_mean"].is_null());
  EXPECT_TRUE(s["best"].is_null());
  EXPECT_THAT(s["failed"], HasSubstr("the evaluation of a client failed, first client b"));
}

TEST_F(Summaries, SayThatNoRoundCounted) {
  auto h = history();
  for (int64_t round = 1; round <= 3; ++round) play(h, round, false);
  play(h, 4, false, {{Problem::Kind::kUpload, 1, "g.w is not finite; lower train.lr"}});
  evaluate(h, 4, {scored(0, 2), scored(1, 4), scored(2, 9)});
  EXPECT_EQ(summary(h)["failed"],
            "no round counted: client b in round 4: g.w is not finite; lower train.lr");
  EXPECT_EQ(summary(h)["rounds_counted"], 0);
}

TEST_F(Summaries, SayThatTooFewUploadsArrived) {
  auto h = history();
  play(h, 1, false);
  evaluate(h, 1, {scored(0, 2)});
  EXPECT_THAT(summary(h)["failed"], HasSubstr("fewer than federation.min_replies = 1 uploads"));
}

TEST_F(Summaries, RejectedUploadsAndNewcomersAloneAreNoFailure) {
  auto h = history();
  play(h, 1, true, {{Problem::Kind::kUpload, 1, "late"}});
  evaluate(h, 1, {scored(0, 2)}, {{Problem::Kind::kJoin, 3, "late"}});
  const auto s = summary(h);
  EXPECT_TRUE(s["failed"].is_null());
  EXPECT_EQ(s["problems"].size(), 2U);
}

TEST_F(Summaries, ListOfProblemsIsShortAndAlwaysText) {
  auto h = history();
  federation_.clients.resize(150, federation_.clients.front());
  std::vector<Problem> many;
  for (int64_t id = 0; id < 150; ++id)
    many.push_back({Problem::Kind::kUpload, id, "file \xFF\xFE is gone"});
  play(h, 1, true, many);
  play(h, 2, true, many);
  evaluate(h, 2, {scored(0, 2)}, {{Problem::Kind::kEvaluation, 7, "\xC3"}});
  const auto s = summary(h);
  EXPECT_EQ(s["problems"].size(), 100U);
  EXPECT_EQ(s["problems_total"], 301);
  EXPECT_NO_THROW(s.dump());
}

/// Accuracy says one thing, AUROC the other; the confusions are of ten test samples.
Evaluation measured(ClientId client, int64_t correct, double auroc, int64_t val_correct,
                    double val_auroc) {
  auto out = scored(client, correct);
  for (auto* m : {&out.pre_test, &out.post_test})
    m->balanced_accuracy = 0.5, m->auroc = auroc, m->ece = 0.125;
  for (auto* m : {&out.pre_val, &out.post_val}) m->correct = val_correct, m->auroc = val_auroc;
  out.pre_confusion = {3, {correct, 10 - correct, 0, 0, 0, 0, 0, 0, 0}};
  out.post_confusion = {3, {0, 10 - correct, 0, 0, correct, 0, 0, 0, 0}};
  return out;
}

TEST_F(Summaries, HaveEveryMetricAndWhatWasTakenForWhat) {
  auto h = history();
  play(h, 1);
  const double none = std::nan("");
  evaluate(h, 1, {measured(0, 2, 0.75, 5, none), measured(1, 4, none, 5, none)});
  const auto s = summary(h);
  EXPECT_EQ(s["metric"], "accuracy");
  EXPECT_EQ(s["class_names"], (json{"0", "1", "2"}));
  EXPECT_DOUBLE_EQ(s["balanced_accuracy"], 0.5);
  EXPECT_DOUBLE_EQ(s["auroc"], 0.75) << "of the client that has one";
  EXPECT_DOUBLE_EQ(s["ece"], 0.125);
  EXPECT_EQ(s["confusion"], (json{{6, 14, 0}, {0, 0, 0}, {0, 0, 0}}));
  EXPECT_DOUBLE_EQ(s["recall"]["0"], 0.3);
  EXPECT_TRUE(s["recall"]["1"].is_null()) << "it does not occur";
  EXPECT_DOUBLE_EQ(s["precision"]["0"], 1);
  EXPECT_DOUBLE_EQ(s["precision"]["1"], 0);
  EXPECT_TRUE(s["precision"]["2"].is_null());
  EXPECT_TRUE(s["newcomers"]["confusion"].is_null());
  EXPECT_DOUBLE_EQ(s["score"]["mean"], 0.3);
  EXPECT_EQ(s["score_pre"]["worst10"], s["accuracy_pre"]["worst10"]);
}

// Client 0 has 30 test samples, the others 10: 27 + 1 + 2 of 50, and (0.9 + 0.1 + 0.2) / 3.
TEST_F(Summaries, PooledAccuracyMayLead) {
  auto h = history();
  play(h, 1);
  auto large = scored(0, 0);
  for (auto* part : {&large.pre_test, &large.post_test, &large.pre_val, &large.post_val})
    part->n = 30, part->correct = 27;
  evaluate(h, 1, {large, scored(1, 1), scored(2, 2)});
  EXPECT_DOUBLE_EQ(summary(h)["score"]["mean"], 0.4);
  experiment_ = *parse("eval.metric=acc_micro");
  const auto s = summary(h);
  EXPECT_DOUBLE_EQ(s["score"]["mean"], 0.6);
  EXPECT_DOUBLE_EQ(s["score_post"]["mean"], 0.6);
  EXPECT_DOUBLE_EQ(s["score"]["min"], 0.1) << "of a client: its accuracy";
  EXPECT_DOUBLE_EQ(s["best"]["score"], 0.6);
  EXPECT_DOUBLE_EQ(s["best_post"]["validation"], 0.6);
  EXPECT_DOUBLE_EQ(s["last5_score"], 0.6);
  EXPECT_DOUBLE_EQ(s["last5_micro"], 0.6);
  EXPECT_DOUBLE_EQ(s["last5_mean"], 0.4);
}

TEST_F(Summaries, LastFiveAreTheLastFive) {
  auto h = history();
  for (int64_t round = 1; round <= 7; ++round) {
    play(h, round);
    evaluate(h, round, {scored(0, round), scored(1, round)});
  }
  EXPECT_DOUBLE_EQ(summary(h)["last5_mean"], 0.5);  // 0.3 … 0.7; of all seven 0.4
}

TEST_F(Summaries, EachViewHasItsBestRound) {
  auto h = history();
  auto first = scored(0, 2), second = scored(0, 5);
  first.post_val.correct = 9, first.post_test.correct = 8;
  play(h, 1), evaluate(h, 1, {first});
  play(h, 2), evaluate(h, 2, {second});
  const auto s = summary(h);
  EXPECT_EQ(s["best_pre"]["round"], 2);
  EXPECT_EQ(s["best_post"]["round"], 1);
  EXPECT_DOUBLE_EQ(s["best_post"]["accuracy"]["mean"], 0.8);
  EXPECT_EQ(s["best"], s["best_pre"]) << "fedavg's headline";
}

// Exhibits with one column are figures: the last evaluation's are in the summary.
TEST_F(Summaries, SmallExhibitsAreFigures) {
  auto h = history();
  EXPECT_EQ(summarized_with(h, 1, 2.5)["inside"],
            (json{{"groups", {{"size", 2.5}, {"none", nullptr}}}}));
  EXPECT_EQ(summarized_with(h, 2, 3.5)["inside"]["groups"]["size"], 3.5);
}

TEST_F(Summaries, TheMetricAndTheHeadlineChooseWhatLeads) {
  auto h = history();
  play(h, 1);
  evaluate(h, 1, {measured(0, 2, 0.5, 9, 0.25), measured(1, 4, 0.75, 9, 0.25)});
  play(h, 2);
  evaluate(h, 2, {measured(0, 5, 0.25, 3, 0.75), measured(1, 5, 0.75, 3, 0.75)});
  EXPECT_EQ(summary(h)["best"]["round"], 1);
  EXPECT_DOUBLE_EQ(summary(h)["best"]["validation"], 0.9);
  const auto before = *h.figures_digest();
  experiment_ = *parse("eval.metric=auroc");
  auto s = summary(h);
  EXPECT_EQ(s["metric"], "auroc");
  EXPECT_EQ(s["best"]["round"], 2);
  EXPECT_DOUBLE_EQ(s["best"]["validation"], 0.75);
  EXPECT_DOUBLE_EQ(s["best"]["score"], 0.5);
  EXPECT_DOUBLE_EQ(s["score"]["mean"], 0.5);
  EXPECT_DOUBLE_EQ(s["score"]["std"], 0.25);
  EXPECT_DOUBLE_EQ(s["score"]["worst10"], 0.25);
  EXPECT_DOUBLE_EQ(s["accuracy"]["mean"], 0.5) << "beside it";
  EXPECT_EQ(s["headline"], "pre") << "fedavg's own";
  EXPECT_EQ(s["confusion"][0][0], 10);
  experiment_ = *parse("eval.headline=post");
  s = summary(h);
  EXPECT_EQ(s["headline"], "post");
  EXPECT_EQ(s["confusion"][1][1], 10);
  EXPECT_EQ(s["figures_digest"], before) << "numbers do not depend on how they are looked at";
}

TEST(ConfigText, AnotherMetricIsNoOtherExperiment) {
  const std::string text = "seed = 1\n[eval]\nmetric = \"auroc\"\nheadline = \"pre\"\n[method]\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    auto out = text;
    return out.replace(out.find(from), from.size(), to);
  };
  EXPECT_EQ(config_digest(with("auroc", "loss")), config_digest(text));
  EXPECT_NE(config_digest(with("pre", "post")), config_digest(text));
  EXPECT_NE(config_digest(text + "metric = \"l1\"\n"), config_digest(text + "metric = \"l2\"\n"))
      << "an option of a method";
}

TEST_F(Summaries, AHeadlineOfNobodyIsNotANumber) {
  EXPECT_TRUE(std::isnan(headline_of({}, View::kPre).mean));
}

TEST(ConfigText, OnlyThePlaceOfTheDataMayDiffer) {
  const std::string text = "seed = 1\ndata_dir = \"a\"\nlr = 0.1";
  EXPECT_EQ(config_digest(text), config_digest("seed = 1\ndata_dir = \"b\"\nlr = 0.1"));
  EXPECT_NE(config_digest(text), config_digest("seed = 1\ndata_dir = \"a\"\nlr = 0.2"));
  EXPECT_THAT(same_config("d", text, "seed = 1\nlr = 0.1"), Succeeds());
  EXPECT_THAT(same_config("d", "seed = 1\nlr = 0.\x1b[2J\n", "seed = 1\nlr = 0.1\n"),
              FailsWith(Error::kInvalid, "here 'lr = 0.1'; choose another --out"));
  EXPECT_THAT(message(same_config("d", "seed = 1\nlr = 0.\x1b[2J\n", "seed = 2\n")),
              ::testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(same_config("d", "", text), FailsWith(Error::kInvalid, "another configuration;"));
}

class FinishedRuns : public Summaries {
 protected:
  void SetUp() override {
    auto h = history();
    for (int64_t round = 1; round <= 4; ++round) play(h, round);
    evaluate(h, 4, {scored(0, 2), scored(1, 4), scored(2, 9)});
    ASSERT_THAT(make_dirs(dir_.file("models")), Succeeds());
    for (const char* name : {"a", "b", "late"}) {
      SavedModel saved{.client = name, .method = "fedavg", .view = "pre", .round = 4};
      saved.options = experiment_.model, saved.shape = {{5}, 3};
      saved.class_names = {"x", "y", "z"};
      saved.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), model_.get());
      saved.weights = model_->init(7);
      ASSERT_THAT(save_model(dir_.file("models"), saved), Succeeds());
    }
    auto s = summary(h);
    s["history_digest"] = *full_digest(h, dir_.path()), s["peak_rss_bytes"] = 7;
    ASSERT_THAT(h.set("summary", s.dump()), Succeeds());
    ASSERT_THAT(h.set("state", "finished"), Succeeds());
    h.settle();
    testing::put(dir_.file("config.toml"), experiment_.toml());
    testing::put(dir_.file("summary.json"), s.dump(2) + "\n");
    written_ = s;
  }
  Result<json> read() { return read_finished(dir_.path(), experiment_.toml()); }
  void refused(const std::string& text) {
    EXPECT_THAT(read(), FailsWith(Error::kInvalid, text));
    EXPECT_THAT(read(), FailsWith(Error::kInvalid, "--force"));
  }
  /// In summary.json, or there and in the history.
  void edit(const std::function<void(json&)>& change, bool both) {
    auto s = written_;
    change(s);
    testing::put(dir_.file("summary.json"), s.dump());
    if (!both) return;
    auto database = Database::open(dir_.file("history.sqlite"), Database::Mode::kReadWrite);
    auto update = database->prepare("UPDATE meta SET value = ? WHERE key = 'summary'");
    update->bind_all(s.dump());
    ASSERT_THAT(update->run(), Succeeds());
  }
  void change(const std::string& sql) {
    auto database = Database::open(dir_.file("history.sqlite"), Database::Mode::kReadWrite);
    ASSERT_THAT(database->execute(sql), Succeeds());
  }

  json written_;
};

TEST_F(FinishedRuns, AreReadBack) {
  const auto s = read();
  ASSERT_THAT(s, Succeeds());
  EXPECT_EQ(*s, written_);
  fs::remove(dir_.file("config.toml"));
  EXPECT_THAT(read(), Succeeds()) << "the summary knows its configuration";
}

TEST_F(FinishedRuns, SummariesThatAreNone) {
  for (const char* text : {"", "{", "[]", "null", "7", "\"x\"", "{}"}) {
    testing::put(dir_.file("summary.json"), text);
    refused("summary.json: ");
  }
  for (const auto& [key, value] : written_.items()) {
    if (key == "newcomers" || key == "onboarding" || key == "peak_rss_bytes") continue;
    edit([&](json& s) { s.erase(key); }, true);
    refused(fmt::format("'{}' is missing", key));
    edit([&](json& s) { s[key] = json::array({json::object()}); }, true);
    if (key != "problems") refused(fmt::format("'{}' is missing", key));
  }
}

TEST_F(FinishedRuns, EditedSummaries) {
  edit([](json& s) { s["accuracy"]["mean"] = 0.99; }, false);
  refused("is not the summary that the history");
  edit([](json& s) { s["newcomers"]["accuracy"]["mean"] = 0.99; }, false);
  refused("is not the summary that the history");
  edit([](json& s) { s["failed"] = "no"; }, false);
  refused("is not the summary that the history");
  edit([](json& s) { s["history_digest"] = std::string(64, '0'); }, true);
  refused("were changed after it was finished");
  edit([](json& s) { s["config_digest"] = std::string(64, '0'); }, true);
  refused("another configuration");
  edit([](json&) {}, true);
  EXPECT_THAT(read(), Succeeds());
  change("DELETE FROM meta WHERE key = 'summary'");
  refused("is not the summary that the history");
}

TEST_F(FinishedRuns, OfAnotherConfigurationNameTheLine) {
  EXPECT_THAT(read_finished(dir_.path(), parse("train.lr=0.25")->toml()),
              FailsWith(Error::kInvalid, "there 'lr = 0.1', here 'lr = 0.25'"));
  EXPECT_THAT(read_finished(dir_.path(), parse("data.data_dir=moved")->toml()), Succeeds())
      << "data may have moved";
  fs::remove(dir_.file("config.toml"));
  EXPECT_THAT(read_finished(dir_.path(), parse("train.lr=0.25")->toml()),
              FailsWith(Error::kInvalid, "another configuration"));
}

TEST_F(FinishedRuns, ChangedFigures) {
  for (const char* sql : {"UPDATE client_evals SET auroc = 0.99 WHERE client = 1 AND view = 'pre'",
                          "UPDATE evals SET ece = 0.5 WHERE part = 'test'",
                          "INSERT INTO confusions VALUES (4, 0, 'pre', 0, 0, 1)"}) {
    fs::remove(dir_.file("history.sqlite"));
    SetUp();
    ASSERT_THAT(read(), Succeeds());
    change(sql);
    refused("were changed after it was finished");
  }
}

TEST_F(FinishedRuns, ChangedHistories) {
  change("UPDATE client_evals SET correct = correct + 1 WHERE client = 1 AND view = 'pre'");
  refused("were changed after it was finished");
  fs::remove(dir_.file("history.sqlite"));
  refused("missing, though there is a summary");
  testing::put(dir_.file("history.sqlite"), std::string(8192, 'x'));
  refused("history.sqlite");
}

TEST_F(FinishedRuns, ChangedModels) {
  const auto file = dir_.file("models/client-b.safetensors");
  const auto whole = testing::get(file);
  auto flipped = whole;
  flipped.back() ^= 1;
  testing::put(file, flipped);
  refused("client-b.safetensors: damaged");
  testing::put(file, testing::get(dir_.file("models/client-a.safetensors")));
  refused("were changed after it was finished");
  fs::remove(file);
  refused("were changed after it was finished");
  testing::put(file, whole);
  EXPECT_THAT(read(), Succeeds());
  testing::put(dir_.file("models/client-c.safetensors"), whole);
  refused("were changed after it was finished");
}

}  // namespace
}  // namespace tessera
