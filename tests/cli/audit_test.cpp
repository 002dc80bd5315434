// audit and attack: what they take, what they print and what they leave behind.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "io/npy.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Auditing : public Playground {};

TEST_F(Auditing, AnExperimentGetsAPageAndAVerdictForEachWhoLooks) {
  const auto done =
      tessera({"audit", experiment("fedavg", 2), "--budget", "8s", "--out", path("found")});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("A curious server: "));
  EXPECT_THAT(done.out, HasSubstr("A curious client: "));
  EXPECT_THAT(done.out, HasSubstr("A user of the predictions: "));
  EXPECT_THAT(done.out, HasSubstr("not tried: samples are no pictures"));
  EXPECT_THAT(done.err, HasSubstr("to go"));  // progress, in plain lines
  EXPECT_THAT(slurp(path("found/audit.html")), HasSubstr("<h2>Exposure</h2>"));
  const auto found = json("found/audit.json");
  EXPECT_EQ(found["adversaries"].size(), 3U);
  EXPECT_EQ(found["method"], "fedavg");
}

TEST_F(Auditing, ARunIsAttackedWhereItStands) {
  const auto file = experiment("fedavg", 2);
  ASSERT_EQ(run("done").code, 0);
  const auto done = tessera(
      {"attack", "labels", path("done"), "--samples", "1", "--json", "--out", path("found")});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto found = nlohmann::json::parse(done.out);
  const auto& attack = found["adversaries"][0]["attacks"][0];
  EXPECT_EQ(attack["on"], "upload of round 3, one sample in one step");
  EXPECT_EQ(attack["figures"][0]["name"], "labels right");
  EXPECT_GT(attack["figures"][0]["value"].get<double>(), 0.9);
  const auto changed = tessera({"attack", "labels", path("done"), "--set", "train.lr=1"});
  EXPECT_EQ(changed.code, 2);
  EXPECT_THAT(changed.err, HasSubstr("is a run's directory"));
}

TEST_F(Auditing, TheListHasWhatEachNeeds) {
  const auto list = tessera({"attack", "--list"});
  EXPECT_EQ(list.code, 0);
  for (const char* name :
       {"labels", "first-layer", "trap", "dlg", "idlg", "geiping", "membership", "inversion"})
    EXPECT_THAT(list.out, HasSubstr(name));
  EXPECT_THAT(list.out, HasSubstr("needs pictures"));
  EXPECT_EQ(nlohmann::json::parse(tessera({"attack", "--list", "--json"}).out).size(), 11U);
}

TEST_F(Auditing, WrongWordsAreRefusedAtOnce) {
  const auto file = experiment();
  const auto refused = [&](const std::vector<std::string>& words, const std::string& text) {
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
  };
  refused({"attack", "gieping", file}, "did you mean 'geiping'?");
  refused({"attack", "geiping", file, "--against", "user"}, "is not for user");
  refused({"attack", "membership", file, "--samples", "1"}, "--samples is for attacks on uploads");
  refused({"attack", "labels", file, "--mislabel"}, "--mislabel is for gan-inversion");
  refused({"attack"}, "which attack");
  refused({"audit", file, "--against", "srever"}, "did you mean 'server'?");
  refused({"audit", file, "--budget", "soon"}, "a time like 90s, 5m or 2h");
  refused({"audit", path("thing.txt")},
          "an experiment (.toml), a run's directory, or an audit log");
  refused({"audit", file, "--method", "centralized"}, "nothing to attack");
}

void write_questions(const std::string& path) {
  std::vector<float> x;
  for (int i = 0; i < 60; ++i) x.push_back(static_cast<float>(i % 7) / 5 - 0.5F);
  Bytes bytes(x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  ASSERT_TRUE(write_npz(path, {{"x", Npy{DType::kF32, {10, 6}, bytes}}}).ok());
}

TEST_F(Auditing, AnswersTellLessAndNeverAnotherClass) {
  ASSERT_EQ(run("done").code, 0);
  write_questions(path("x.npz"));
  const auto ask = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"predict", path("done"),  "--client", "global",
                                   "--data",  path("x.npz"), "--proba",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 0) << done.err;
    return nlohmann::json::parse(done.out);
  };
  const auto plain = ask({});
  for (const char* guard : {"round:digits=1", "noise:scale=0.2", "aggregate:times=3", "topk:k=2"}) {
    const auto said = ask({"--guard", guard});
    EXPECT_EQ(said["labels"], plain["labels"]) << guard;
    EXPECT_NE(said["probabilities"], plain["probabilities"]) << guard;
    EXPECT_EQ(said, ask({"--guard", guard})) << "asking twice must not help";
  }
  EXPECT_TRUE(ask({"--guard", "topk"})["probabilities"][0][0].is_null());
  const auto wrong = tessera(
      {"predict", path("done"), "--client", "global", "--data", path("x.npz"), "--guard", "ruond"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'round'?"));
}

// What an experiment says of answers holds for its models, and changes no number of the run.
TEST_F(Auditing, ModelsRememberTheGuardsOfTheirAnswers) {
  ASSERT_EQ(run("plain").code, 0);
  const auto round = std::vector<std::string>{"--set", "guard.round.digits=1"};
  ASSERT_EQ(run("done", round).code, 0);
  for (const char* numbers : {"rounds_digest", "figures_digest"})
    EXPECT_EQ(json("done/summary.json")[numbers], json("plain/summary.json")[numbers]) << numbers;
  EXPECT_NE(digest("done"), digest("plain")) << "models' files name the guard, and so differ";
  write_questions(path("x.npz"));
  const auto ask = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> words{"predict", path(run),     "--client", "global",
                                   "--data",  path("x.npz"), "--proba",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return tessera(words);
  };
  const auto said = [&](const std::string& run, const std::vector<std::string>& more) {
    return nlohmann::json::parse(ask(run, more).out);
  };
  EXPECT_THAT(ask("done", {}).err, HasSubstr("answers go through round:digits=1"));
  EXPECT_EQ(said("done", {}), said("plain", {"--guard", "round:digits=1"}));
  EXPECT_EQ(said("done", {"--guard", "none"}), said("plain", {}));
  EXPECT_EQ(said("done", {"--guard", "round:digits=3"}),
            said("plain", {"--guard", "round:digits=3"}));
  EXPECT_EQ(said("done", {"--guard", "topk:k=2"})["guards"],
            nlohmann::json::array({"round:digits=1", "topk:k=2"}));
  const auto out = tessera(
      {"export", path("done"), "--client", "global", "--to", "npz", "--out", path("exported")});
  EXPECT_EQ(out.code, 0);
  EXPECT_THAT(out.err, HasSubstr("answers went through round:digits=1"));
}

TEST_F(Auditing, ModelsOfPartsAnswerByVoteAndSayWhatItCosts) {
  ASSERT_EQ(run("plain").code, 0);
  ASSERT_EQ(run("voted", {"--set", "guard.vote.parts=3"}).code, 0);
  for (const char* numbers : {"rounds_digest", "figures_digest"})
    EXPECT_EQ(json("voted/summary.json")[numbers], json("plain/summary.json")[numbers]) << numbers;
  write_questions(path("x.npz"));
  const auto ask = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> words{"predict", path(run),     "--client", "a",
                                   "--data",  path("x.npz"), "--proba",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return tessera(words);
  };
  const auto voted = ask("voted", {});
  ASSERT_EQ(voted.code, 0) << voted.err;
  EXPECT_THAT(voted.err, HasSubstr("votes without noise promise nothing"));
  const auto said = nlohmann::json::parse(voted.out);
  for (const auto& row : said["probabilities"])
    for (const double p : row) EXPECT_NEAR(p * 3, std::round(p * 3), 1e-5) << "no share of 3 votes";
  const auto noisy = ask("voted", {"--guard", "vote:parts=3:noise=laplace:gamma=0.5"});
  EXPECT_THAT(noisy.err, HasSubstr("10 answers by vote cost epsilon 10 "));
  EXPECT_EQ(noisy.out, ask("voted", {"--guard", "vote:parts=3:noise=laplace:gamma=0.5"}).out);
  EXPECT_THAT(ask("voted", {"--guard", "vote:parts=3:noise=gaussian"}).err,
              HasSubstr("at delta 1e-05"));
  // The voted class stands whatever else is done to the answer.
  const auto both = nlohmann::json::parse(ask("voted", {"--guard", "round:digits=0"}).out);
  EXPECT_EQ(both["labels"], said["labels"]);
  EXPECT_EQ(both["guards"][1], "round:digits=0");
  const auto refused = [&](const Finished& done, const std::string& why) {
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(why));
  };
  refused(ask("plain", {"--guard", "vote"}), "run its experiment with [[guard]] name = \"vote\"");
  refused(ask("voted", {"--guard", "vote:parts=4"}), "write vote:parts=3");
  EXPECT_EQ(ask("voted", {"--guard", "none"}).code, 0);
  const auto out =
      tessera({"export", path("voted"), "--client", "a", "--to", "npz", "--out", path("exported")});
  EXPECT_EQ(out.code, 0);
  EXPECT_THAT(out.err, HasSubstr("the models that vote were left behind"));
}

TEST_F(Auditing, CheckSaysWhatAnAnswerByVoteCosts) {
  const auto checked = [&](const std::string& noise) {
    const auto done = tessera({"check", experiment(), "--set", "guard.vote.noise=" + noise});
    EXPECT_EQ(done.code, 0) << done.err;
    return done.out;
  };
  EXPECT_THAT(checked("none"), HasSubstr("votes without noise promise nothing"));
  EXPECT_THAT(checked("none"), HasSubstr("a vote of models, each of a part of its data"));
  EXPECT_THAT(checked("laplace"), HasSubstr("an answer by vote costs epsilon 0.1 "));
  const auto done = tessera({"check", experiment(), "--json", "--set", "guard.vote.noise=laplace"});
  EXPECT_EQ(nlohmann::json::parse(done.out)["vote_cost"]["epsilon"], 0.1);
  const auto few = tessera({"check", experiment(), "--set", "guard.vote.parts=100"});
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("guard 'vote' needs a training sample for each of its 100 parts"));
}

TEST_F(Auditing, AnAuditMeetsTheExperimentsGuardsOfAnswers) {
  const auto file = experiment("fedavg", 1);
  const auto facts = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{
        "attack", "membership",           file,       "--against", "user",
        "--set",  "guard.round.digits=1", "--budget", "2s",        "--json",
        "--out",  path("found")};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = tessera(words);
    EXPECT_EQ(done.code, 0) << done.err;
    const auto found = nlohmann::json::parse(done.out);
    return found["facts"].dump() + found["exposure"].dump();
  };
  EXPECT_THAT(facts({}), HasSubstr("answers to users through round:digits=1"));
  EXPECT_THAT(facts({}), HasSubstr("; probabilities rounded"));
  EXPECT_THAT(facts({"--guard", "none"}), HasSubstr("answers to users as the models give them"));
}

TEST_F(Auditing, CheckRefusesGuardsOfAnswersThatDoNothing) {
  const auto named = tessera({"check", experiment(), "--set", "guard.topk.k=1"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("or the class alone"));
  const auto all = tessera({"check", experiment(), "--set", "guard.topk.k=99"});
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.err, HasSubstr("guard 'topk' does not go with k = 99"));
}

TEST_F(Auditing, CheckAndMethodsShowWhoSeesWhat) {
  const auto checked = tessera({"check", experiment("fedper")});
  ASSERT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("exposure    server  its trained base"));
  EXPECT_THAT(checked.out, HasSubstr("stays   its head"));
  const auto shown = nlohmann::json::parse(tessera({"methods", "fedham", "--json"}).out);
  EXPECT_EQ(shown["exposure"]["peers"], "single");
}

}  // namespace
}  // namespace tessera::testing
