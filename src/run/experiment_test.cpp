#include "run/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.hpp"
#include "run/toml_entries.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

Result<Experiment> parse(const std::string& text, Overrides overrides = {}) {
  return parse_experiment(text, "e.toml", overrides);
}

/// All lines of the message.
std::vector<std::string> errors(const std::string& text, Overrides overrides = {}) {
  const auto loaded = parse(text, std::move(overrides));
  std::vector<std::string> lines;
  if (loaded.ok()) return lines;
  EXPECT_EQ(error_of(loaded.status()), Error::kInvalid);
  std::istringstream in(message(loaded.status()));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The one and only error.
std::string error(const std::string& text, Overrides overrides = {}) {
  const auto lines = errors(text, std::move(overrides));
  EXPECT_EQ(lines.size(), 1u) << ::testing::PrintToString(lines);
  return lines.empty() ? "" : lines[0];
}

const std::string kMethod = "[method]\nname = \"fedavg\"\n";

TEST(Experiment, ReadsEverySection) {
  const auto e = parse(R"(name = "first"
seed = 7
rounds = 12
[data]
set = "mnist"
partition = "pathological"
clients = 10
classes = 3
[model]
name = "mlp100"
[train]
lr = 1            # a whole number is a number
epochs = 2
optimizer = "adam"
[federation]
participation = 0.5
[method]
name = "fedprox"
mu = 0.25
)");
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->run.name, "first");
  EXPECT_EQ(e->run.seed, 7);
  EXPECT_EQ(e->run.rounds, 12);
  EXPECT_EQ(e->data.set, "mnist");
  EXPECT_EQ(e->data.classes, 3);
  EXPECT_EQ(e->model.name, "mlp100");
  EXPECT_EQ(e->train.lr, 1.0);
  EXPECT_EQ(e->train.optimizer, "adam");
  EXPECT_EQ(e->federation.participation, 0.5);
  EXPECT_EQ(e->method.name, "fedprox");
  EXPECT_THAT(e->toml(), HasSubstr("\nname = \"fedprox\"\nmu = 0.25\n"));
}

TEST(Experiment, GuardsAreOffAndThenNoPartOfTheText) {
  const auto off = parse(kMethod);
  EXPECT_EQ(off->guard, GuardOptions());
  EXPECT_EQ(off->toml().find("guard"), std::string::npos) << "as versions wrote it that had none";
  const std::string two =
      "[[guard]]\nname = \"clip\"\nbound = 2.5\n[[guard]]\nname = \"compress\"\nto = \"topk\"\n";
  const auto on = parse(two + kMethod);
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_EQ(on->guard.clip, ClipGuard{.bound = 2.5});
  EXPECT_THAT(on->toml(),
              HasSubstr("\n[[guard]]\nname = \"clip\"\nbound = 2.5\n\n[[guard]]\nname = "
                        "\"compress\"\nto = \"topk\"\nshare = 0.01\n"));
  EXPECT_EQ(parse(on->toml())->toml(), on->toml());
  EXPECT_THAT(settings_of(*on), ::testing::Contains("guard.clip.bound = 2.5"));
  // The command line may add one, and change one of the file's.
  const auto more = parse(two + kMethod, {.sets = {"guard.zstd.level=5", "guard.clip.bound=3"}});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(more->guard.zstd, ZstdGuard{.level = 5});
  EXPECT_EQ(more->guard.clip, ClipGuard{.bound = 3});
}

TEST(Experiment, GuardsOfAnswersAreSectionsToo) {
  const auto e =
      parse("[[guard]]\nname = \"clip\"\n[[guard]]\nname = \"noise\"\nscale = 0.2\n" + kMethod,
            {.sets = {"guard.round.digits=1"}});
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->guard.answers.noise, NoiseAnswers{.scale = 0.2});
  EXPECT_EQ(e->guard.answers.round, RoundAnswers{.digits = 1});
  EXPECT_THAT(e->toml(),
              HasSubstr("\n[[guard]]\nname = \"noise\"\nscale = 0.2\n\n[[guard]]\nname = "
                        "\"round\"\ndigits = 1\n"));
  EXPECT_EQ(parse(e->toml())->guard, e->guard);
  EXPECT_THAT(settings_of(*e), ::testing::Contains("guard.round.digits = 1"));
}

TEST(Experiment, GuardsThatMakeNoSenseAreRefused) {
  const auto guard = [](const std::string& name) {
    return fmt::format("[[guard]]\nname = \"{}\"\n", name);
  };
  EXPECT_THAT(error(guard("compress") + "to = \"int4\"\n" + kMethod),
              HasSubstr("guard.compress.to = \"int4\" must be one of fp16, int8, topk"));
  for (const char* share : {"0", "0.6"})
    EXPECT_THAT(error(guard("compress") + fmt::format("share = {}\n", share) + kMethod),
                HasSubstr("must be a number > 0 and <= 0.5"));
  EXPECT_THAT(error(guard("clop") + kMethod),
              HasSubstr("unknown guard 'clop' (did you mean 'clip'?)"));
  EXPECT_THAT(error("[[guard]]\nbound = 1\n" + kMethod),
              HasSubstr(":1:1: guards are named: write [[guard]], and below it name = \"dp-sgd\""));
  EXPECT_THAT(error("[guard]\nclip = 1\n" + kMethod), HasSubstr("guards are named"));
  EXPECT_THAT(error(guard("clip") + guard("clip") + kMethod),
              HasSubstr("guard 'clip' is there twice"));
  EXPECT_THAT(error(guard("compress") + guard("clip") + kMethod),
              HasSubstr("guard 'clip' acts before 'compress'; write it before"));
  EXPECT_THAT(error(guard("clip") + "bund = 1\n" + kMethod),
              HasSubstr("unknown key 'guard.clip.bund' (did you mean 'bound'?)"));
  for (const char* other : {"reject", "clip", "perturb", "prune"})
    EXPECT_THAT(error(guard(other) + guard("dp") + kMethod),
                HasSubstr(fmt::format("guard '{}' does not go with 'dp'", other)));
  EXPECT_THAT(error(guard("dp") + guard("compress") + "to = \"topk\"\n" + kMethod),
              HasSubstr("guard 'compress' does not go with 'dp'"));
  EXPECT_THAT(error(guard("dp") + "[method]\nname = \"mosaic\"\n"),
              HasSubstr("guard 'dp' does not go with mosaic: its upload 'value.sums."));
  EXPECT_THAT(error(guard("dp-sgd") + "[method]\nname = \"peravg\"\n"),
              HasSubstr("guard 'dp-sgd' does not go with peravg, which takes its gradient after"));
  EXPECT_THAT(error(guard("dp-sgd") + "[train]\nclass_weights = \"balanced\"\n" + kMethod),
              HasSubstr("guard 'dp-sgd' does not go with train.class_weights"));
  EXPECT_THAT(error(guard("transform") + "[method]\nname = \"imaml\"\n"),
              HasSubstr("guard 'transform' does not go with imaml, which solves for a gradient"));
  EXPECT_THAT(error(guard("dp-sgd") + guard("transform") + kMethod),
              HasSubstr("guard 'transform' does not go with 'dp-sgd'"));
  EXPECT_THAT(error(guard("transform") + "when = \"step\"\n[train]\nbatch = 3\n" + kMethod),
              HasSubstr("guard 'transform' does not go with train.batch = 3"));
  EXPECT_THAT(error(guard("transform") + "batch = 3\n" + kMethod),
              HasSubstr("guard.transform.batch = 3 must be"));
  EXPECT_TRUE(
      parse(guard("dp-sgd") + guard("dp") + kMethod, {.sets = {"guard.dp-sgd.sigma=2"}}).ok());
  EXPECT_TRUE(parse(guard("dp") + guard("compress") + "to = \"int8\"\n" + kMethod).ok());
  for (const char* other : {"aggregate", "noise", "round"}) {
    EXPECT_THAT(error(guard(other) + guard("topk") + kMethod),
                HasSubstr(fmt::format("guard '{}' does not go with 'topk' with k = 1", other)));
    EXPECT_TRUE(parse(guard(other) + guard("topk") + "k = 2\n" + kMethod).ok());
    EXPECT_THAT(error(guard(other) + "[train]\nloss = \"multilabel\"\n" + kMethod),
                HasSubstr(fmt::format("guard '{}' does not go with one loss for each", other)));
  }
  EXPECT_THAT(error(guard("round") + guard("clip") + kMethod),
              HasSubstr("guard 'clip' acts before 'round'; write it before"));
  const auto secure = guard("secure-aggregation");
  EXPECT_THAT(error(guard("reject") + secure + kMethod),
              HasSubstr("guard 'reject' does not go with 'secure-aggregation'"));
  EXPECT_THAT(error(secure + guard("compress") + kMethod),
              HasSubstr("guard 'compress' does not go with 'secure-aggregation'"));
  EXPECT_THAT(
      error(secure + "[method]\nname = \"fedamp\"\n"),
      HasSubstr("guard 'secure-aggregation' does not go with fedamp: its server needs each"));
  const auto good = parse(guard("dp") + secure + "range = 4\nbits = 20\n" + kMethod);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(parse(good->toml())->guard, good->guard);
}

TEST(Experiment, VotesAreRefusedWhereNothingIsTrainedForThem) {
  const std::string vote = "[[guard]]\nname = \"vote\"\n";
  const auto e = parse(vote + "noise = \"laplace\"\n[[guard]]\nname = \"topk\"\n" + kMethod);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->guard.answers.vote, VoteAnswers{.noise = "laplace"});
  EXPECT_EQ(parse(e->toml())->guard, e->guard);
  EXPECT_THAT(error(vote + "parts = 1\n" + kMethod),
              HasSubstr(":3:9: guard.vote.parts = 1 must be"));
  EXPECT_THAT(error(vote + "parts = 101\n" + kMethod), HasSubstr("guard.vote.parts = 101 must be"));
  EXPECT_THAT(error(vote + "noise = \"gauss\"\n" + kMethod),
              HasSubstr("guard.vote.noise = \"gauss\" must be one of none, laplace, gaussian"));
  EXPECT_THAT(error(vote + "gama = 1\n" + kMethod),
              HasSubstr(":3:1: unknown key 'guard.vote.gama' (did you mean 'gamma'?)"));
  EXPECT_THAT(
      error(vote + "[method]\nname = \"persistence\"\n"),
      HasSubstr(":1:1: guard 'vote' does not go with persistence, which trains nothing; remove "
                "it, or choose another method"));
  EXPECT_THAT(error(vote + "[method]\nname = \"local\"\n"),
              HasSubstr("does not go with local, which answers with a model that it holds"));
  EXPECT_THAT(error("[[guard]]\nname = \"round\"\n" + vote + kMethod),
              HasSubstr("guard 'vote' acts before 'round'; write it before"));
  EXPECT_THAT(error(vote + "[train]\nloss = \"multilabel\"\n" + kMethod),
              HasSubstr("guard 'vote' does not go with one loss for each"));
  // FedAvg leads with the model before personalization, which has seen nobody's part alone.
  for (const char* model : {"pre", "headline"})
    EXPECT_THAT(error(vote + fmt::format("[output]\nmodel = \"{}\"\n", model) + kMethod),
                HasSubstr("set output.model = \"post\""));
  EXPECT_TRUE(parse(vote + "[output]\nmodel = \"headline\"\n[method]\nname = \"fedper\"\n").ok());
}

TEST(Experiment, DebugIsReadButIsNoPartOfTheExperiment) {
  const auto e = parse("[debug]\ndump = \"/tmp/d\"\n" + kMethod);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->debug.dump, "/tmp/d");
  EXPECT_EQ(e->toml(), parse(kMethod)->toml());
  EXPECT_EQ(error("[debug]\ndmup = \"d\"\n" + kMethod),
            "e.toml:2:1: unknown key 'debug.dmup' (did you mean 'dump'?)");
  EXPECT_EQ(error("[debug]\ndump = true\n" + kMethod),
            "e.toml:2:8: debug.dump must be text, not true or false");
}

TEST(Experiment, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(error("rounds = 3\n[train]\n  lrr = 0.1\n" + kMethod),
            "e.toml:3:3: unknown key 'train.lrr' (did you mean 'lr'?)");
  EXPECT_EQ(error("ruonds = 3\n" + kMethod),
            "e.toml:1:1: unknown key 'ruonds' (did you mean 'rounds'?)");
  EXPECT_EQ(error("train.batchs = 3\n" + kMethod),
            "e.toml:1:7: unknown key 'train.batchs' (did you mean 'batch'?)");
}

TEST(Experiment, KeyOfAnotherSectionSaysWhereItBelongs) {
  EXPECT_EQ(error("lr = 0.1\n" + kMethod),
            "e.toml:1:1: unknown key 'lr' ('lr' belongs in [train])");
  EXPECT_EQ(error("[train]\nrounds = 4\n" + kMethod),
            "e.toml:2:1: unknown key 'train.rounds' ('rounds' belongs at the top)");
  EXPECT_EQ(error(kMethod + "mu = 0.1\n"),
            "e.toml:3:1: unknown key 'method.mu' ('mu' is an option of fedprox; put it in "
            "[method.fedprox])");
}

TEST(Experiment, UnknownSections) {
  EXPECT_EQ(error("[trian]\nlr = 0.1\nbatch = 3\n" + kMethod),
            "e.toml:1:2: unknown section [trian] (did you mean [train]?)");
  EXPECT_EQ(error("[fedprox]\nmu = 0.1\n" + kMethod),
            "e.toml:1:2: unknown section [fedprox] (options of a method go in [method.fedprox])");
  EXPECT_EQ(error("[method.fedporx]\nmu = 0.1\n" + kMethod),
            "e.toml:1:9: [method.fedporx]: unknown method 'fedporx' (did you mean 'fedprox'?)");
  EXPECT_THAT(error("[zzzzzz]\n" + kMethod), HasSubstr("known: [data], [model], [train]"));
  EXPECT_EQ(error("data = \"mnist\"\n" + kMethod),
            "e.toml:1:1: 'data' is a section: write [data] and its keys below");
}

TEST(Experiment, WrongTypes) {
  EXPECT_EQ(error("[train]\nlr = \"0.1\"\n" + kMethod),
            "e.toml:2:6: train.lr must be a number, not text");
  EXPECT_EQ(error("rounds = 2.5\n" + kMethod),
            "e.toml:1:10: rounds must be a whole number, not a number");
  EXPECT_EQ(error("rounds = 1e3\n" + kMethod),
            "e.toml:1:10: rounds must be a whole number, not a number (write 1000)");
  EXPECT_EQ(error("name = 5\n" + kMethod), "e.toml:1:8: name must be text, not a whole number");
  EXPECT_EQ(error("[train]\nlr = [0.1]\n" + kMethod),
            "e.toml:2:6: train.lr must be a number, not a list of numbers");
  EXPECT_EQ(error("[data]\nset = \"mnistm\"\ngray = 1\n" + kMethod),
            "e.toml:3:8: data.gray must be true or false, not a whole number");
  EXPECT_EQ(error("[method]\nname = 3\n"),
            "e.toml:2:8: method.name must be text, not a whole number");
  EXPECT_EQ(error("[train.deep]\nlr.x = 1\n" + kMethod).substr(0, 33),
            "e.toml:1:8: unknown section [trai");
}

TEST(Experiment, OutOfRange) {
  EXPECT_EQ(error("[train]\nlr = 0\n" + kMethod),
            "e.toml:2:6: train.lr = 0.0 must be a number > 0");
  EXPECT_EQ(error("rounds = 0\n" + kMethod).substr(0, 50),
            "e.toml:1:10: rounds = 0 must be a whole number >= ");
  EXPECT_EQ(
      error("[train]\noptimizer = \"sdg\"\n" + kMethod),
      "e.toml:2:13: train.optimizer = \"sdg\" must be one of sgd, adam (did you mean 'sgd'?)");
  for (const char* number : {"inf", "-inf", "nan"})
    EXPECT_EQ(error(std::string("[federation]\nbandwidth = ") + number + "\n" + kMethod),
              "e.toml:2:13: federation.bandwidth must be a finite number");
}

TEST(Experiment, SyntaxErrorsAndDuplicatesHaveLineAndColumn) {
  EXPECT_THAT(error("rounds = \n"), HasSubstr("e.toml:1:10: not valid TOML: "));
  EXPECT_THAT(error("[train]\nlr = 0.1\nlr = 0.2\n"), HasSubstr("e.toml:3:"));
  EXPECT_THAT(error("name = \"\xff\"\n"), HasSubstr("e.toml:1:"));
}

TEST(Experiment, ImpossibleCombinations) {
  EXPECT_THAT(error("[train]\noptimizer = \"adam\"\nmomentum = 0.9\n" + kMethod),
              HasSubstr("e.toml:3:12: train.momentum = 0.9 does not go with"));
  EXPECT_THAT(error("[federation]\nparticipation = 1.5\n" + kMethod),
              HasSubstr("e.toml:2:17: federation.participation = 1.5 must be at most 1"));
  EXPECT_THAT(error("[federation]\ndrop_rate = 1\n" + kMethod),
              HasSubstr("e.toml:2:13: federation.drop_rate = 1 would lose every upload"));
  // 30 % of 7 clients, rounded up, is 3.
  EXPECT_THAT(
      error("[data]\nclients = 7\n[federation]\nparticipation = 0.3\nmin_replies = 4\n" + kMethod),
      HasSubstr("e.toml:5:15: federation.min_replies = 4 can never be reached: 3 of 7"));
  EXPECT_TRUE(
      parse("[data]\nclients = 7\n[federation]\nparticipation = 0.3\nmin_replies = 3\n" + kMethod)
          .ok());
  EXPECT_THAT(error("[model]\nname = \"gru64\"\n" + kMethod),
              HasSubstr("e.toml:2:8: Model 'gru64' takes sequences"));
  EXPECT_THAT(error("[data]\nset = \"air-bj\"\npartition = \"natural\"\n" + kMethod),
              HasSubstr("Model 'lenet' takes images"));
  EXPECT_THAT(error("[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"d\"\n"
                    "[model]\nname = \"lnet\"\n" +
                    kMethod),
              HasSubstr("e.toml:6:8: There is no model 'lnet' (did you mean 'lenet'?)"));
  EXPECT_THAT(error("name = \"a/b\"\n" + kMethod), HasSubstr("e.toml:1:8: name = "));
}

TEST(Experiment, DataCombinationsPointAtTheirKey) {
  EXPECT_THAT(error("[data]\npartition = \"iid\"\nalpha = 0.1\n" + kMethod),
              HasSubstr("e.toml:3:9: data.alpha = 0.1 does nothing"));
  EXPECT_THAT(error("[data]\nset = \"mnits\"\n" + kMethod),
              HasSubstr("e.toml:2:7: data.set = \"mnits\" is not known (did you mean 'mnist'?)"));
}

TEST(Experiment, ListsInTheFileAndOnTheCommandLine) {
  const auto e =
      parse("[model]\nname = \"cnn\"\nlayers = [\"conv 4 5\", \"linear 9\"]\n" + kMethod);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->model.layers, (std::vector<std::string>{"conv 4 5", "linear 9"}));
  EXPECT_THAT(e->toml(), HasSubstr("\nlayers = [\"conv 4 5\", \"linear 9\"]\n"));
  EXPECT_EQ(parse(e->toml())->toml(), e->toml());
  const auto set = parse(kMethod, {.sets = {"model.name=mlp", "model.hidden=[64, 32,8]"}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->model.hidden, (std::vector<int64_t>{64, 32, 8}));
  EXPECT_THAT(set->toml(), HasSubstr("\nhidden = [64, 32, 8]\n"));
  const auto none = parse(kMethod, {.sets = {"model.name=mlp", "model.hidden=[]"}});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->model.hidden.empty());
  EXPECT_EQ(parse("[model]\nname = \"cnn\"\nlayers = []\n" + kMethod)->model.layers.size(), 0u);
  const auto wrong = [](const std::string& line) {
    return error("[model]\nname = \"mlp\"\n" + line + "\n" + kMethod);
  };
  EXPECT_EQ(
      wrong("hidden = 64"),
      "e.toml:3:10: model.hidden must be a list of whole numbers, as in [64, 32], not a whole "
      "number");
  EXPECT_EQ(wrong("hidden = [64, \"32\"]"),
            "e.toml:3:10: model.hidden must be a list of whole numbers, as in [64, 32], not a list "
            "that mixes a whole number and text");
  EXPECT_EQ(wrong("hidden = [0.5]"),
            "e.toml:3:10: model.hidden must be a list of whole numbers, as in [64, 32], not a list "
            "of numbers");
  EXPECT_THAT(wrong("hidden = [\"a\"]"), HasSubstr("as in [64, 32], not a list of texts"));
  EXPECT_EQ(wrong("hidden = [64, 0]"),
            "e.toml:3:10: model.hidden = [64, 0] must be a list of whole numbers, each >= 1 and <= "
            "100000");
  EXPECT_EQ(
      wrong("layers = [1]"),
      "e.toml:3:10: model.layers must be a list of texts, as in [\"a\", \"b\"], not a list of "
      "whole numbers");
}

TEST(Experiment, NamesMayBeAListBecauseTheyMayHoldCommas) {
  const std::string own = "[data]\nset = \"own\"\npartition = \"natural\"\ndata_dir = \"d\"\n";
  const auto e = parse(own + R"(class_names = ["ill, treated", "well"]
categorical = ["sex"]
ignore = []
)" + kMethod);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(comma_list(e->data.class_names), (std::vector<std::string>{"ill, treated", "well"}));
  EXPECT_EQ(e->data.categorical, "sex");
  EXPECT_EQ(e->data.ignore, "");
  EXPECT_EQ(parse(e->toml())->toml(), e->toml());
  // The same names as text are the same experiment.
  EXPECT_EQ(parse(own + "class_names = \"no,yes\"\n" + kMethod)->toml(),
            parse(own + "class_names = [\"no\", \"yes\"]\n" + kMethod)->toml());
  EXPECT_EQ(parse(own + "class_names = [-1, 50000]\n" + kMethod)->data.class_names, "-1,50000");
  EXPECT_EQ(parse(own + kMethod, {.sets = {"data.class_names=[\"a,b\", \"c\"]"}})->data.class_names,
            "\"a,b\",c");
  EXPECT_EQ(error(own + "ignore = 3\n" + kMethod),
            "e.toml:5:10: data.ignore must be text or a list of texts, not a whole number");
  EXPECT_THAT(error(own + "ignore = [\"id\", \"\"]\n" + kMethod), HasSubstr("has an empty name"));
}

TEST(Experiment, OptionsOfTheModelAreCheckedTogether) {
  EXPECT_THAT(error("[model]\nname = \"cnn\"\nlayers = [\"conv 4 5\", \"pol 2\"]\n" + kMethod),
              HasSubstr("e.toml:3:10: model.layers: item 2 'pol 2' is not a layer"));
  EXPECT_THAT(error("[model]\nunits = 5\n" + kMethod),
              HasSubstr("e.toml:2:9: model.units = 5 does nothing with model 'lenet'; it is an "
                        "option of gru"));
  // Also where it is what it would be anyway: it was written to do something.
  EXPECT_THAT(error("[model]\nunits = 64\n" + kMethod),
              HasSubstr("e.toml:2:9: model.units = 64 does nothing with model 'lenet'"));
  EXPECT_THAT(error("[model]\nfile = \"/nonexistent/net.pt\"\n" + kMethod),
              HasSubstr("e.toml:2:8: model.file: /nonexistent/net.pt: "));
  EXPECT_THAT(error("[model]\nname = \"vit\"\npatch = 5\n" + kMethod),
              HasSubstr("e.toml:2:8: Model 'vit' cuts images into patches of 5×5"));
  EXPECT_EQ(parse("[model]\nname = \"lenet\"\n" + kMethod)->toml().find("hidden"),
            std::string::npos);
}

TEST(Experiment, UnknownMethod) {
  EXPECT_EQ(error("[method]\nname = \"fedagv\"\nmu = 1\n"),
            "e.toml:2:8: unknown method 'fedagv' (did you mean 'fedavg'?)");
  EXPECT_THAT(error("rounds = 3\n"), HasSubstr("e.toml: no method is chosen"));
}

TEST(Experiment, AllErrorsAtOnceInOrderOfPlace) {
  const auto lines = errors(R"(ruonds = 3
[data]
set = "mnits"
[train]
lr = "x"
batch = 0
[modle]
[method]
name = "fedprox"
muu = 1
)",
                            {.sets = {"train.epoch=2", "nonsense"}});
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_THAT(lines[0], HasSubstr("e.toml:1:1: unknown key 'ruonds'"));
  EXPECT_THAT(lines[1], HasSubstr("e.toml:3:7: data.set"));
  EXPECT_THAT(lines[2], HasSubstr("e.toml:5:6: train.lr must be a number"));
  EXPECT_THAT(lines[3], HasSubstr("e.toml:6:9: train.batch = 0 must be"));
  EXPECT_THAT(lines[4], HasSubstr("e.toml:7:2: unknown section [modle] (did you mean [model]?)"));
  EXPECT_THAT(lines[5], HasSubstr("e.toml:10:1: unknown key 'method.muu' (did you mean 'mu'?)"));
  EXPECT_EQ(lines[6], "--set nonsense: must be key=value, as in --set train.lr=0.1");
  EXPECT_EQ(lines[7], "--set train.epoch: unknown key 'train.epoch' (did you mean 'epochs'?)");
}

TEST(Experiment, SetOverrides) {
  const auto e = parse("rounds = 3\n[train]\nlr = 0.1\n[method.fedprox]\nmu = 0.5\n" + kMethod,
                       {.sets = {"rounds=9", "train.lr = 0.2", "data.set=mnist", "name=2024",
                                 "method.name=fedprox", "method.mu=0.75"}});
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->run.rounds, 9);
  EXPECT_EQ(e->train.lr, 0.2);
  EXPECT_EQ(e->data.set, "mnist");
  EXPECT_EQ(e->run.name, "2024");
  EXPECT_EQ(e->method.name, "fedprox");
  EXPECT_THAT(e->toml(), HasSubstr("mu = 0.75\n"));
}

TEST(Experiment, SetErrorsNameTheOverride) {
  EXPECT_EQ(error(kMethod, {.sets = {"train.lrr=1"}}),
            "--set train.lrr: unknown key 'train.lrr' (did you mean 'lr'?)");
  EXPECT_EQ(error(kMethod, {.sets = {"train.lr=fast"}}),
            "--set train.lr: train.lr must be a number, not text");
  EXPECT_EQ(error(kMethod, {.sets = {"train.lr=1\nrounds=3"}}),
            "--set train.lr: train.lr must be a number, not text");
  EXPECT_EQ(error(kMethod, {.sets = {"trian.lr=1"}}),
            "--set trian.lr: unknown section [trian] (did you mean [train]?)");
  EXPECT_EQ(error(kMethod, {.sets = {"=1"}}),
            "--set =1: must be key=value, as in --set train.lr=0.1");
  EXPECT_EQ(error(kMethod, {.sets = {"name=\"x"}}), "--set name: \"x is not a TOML value");
  EXPECT_EQ(error(kMethod, {.sets = {"method.mu=1"}}),
            "--set method.mu: unknown key 'method.mu' ('mu' is an option of fedprox; put it in "
            "[method.fedprox])");
}

TEST(Experiment, OneFileServesSeveralMethods) {
  const std::string file =
      "[method]\nname = \"fedprox\"\nmu = 0.5\n[method.fedper]\nhead = \"mean\"\n";
  const auto prox = parse(file);
  ASSERT_TRUE(prox.ok()) << prox.status();
  EXPECT_THAT(prox->toml(), HasSubstr("mu = 0.5\n"));
  const auto per = parse(file, {.method = "fedper", .seed = 5, .data_dir = "/d"});
  ASSERT_TRUE(per.ok()) << per.status();
  EXPECT_THAT(per->toml(), HasSubstr("head = \"mean\"\n"));
  EXPECT_EQ(per->run.seed, 5);
  EXPECT_EQ(per->data.data_dir, "/d");
  // Keys of methods that are not selected are held to the same rules.
  EXPECT_THAT(error(file + "[method.fedavg]\nmu = 1\n"), HasSubstr("e.toml:7:1: unknown key"));
  EXPECT_THAT(error(file + "[method.fedprox]\nmu = 1\n"),
              HasSubstr("e.toml:7:1: 'method.fedprox.mu' is already set in [method]"));
}

TEST(Experiment, ResolvedTomlLoadsBackToItself) {
  for (const auto& info : methods()) {
    const auto first = parse(
        "name = \"a \\\"b\\\" \\\\ ü\"\nseed = 9000000000000000\n[train]\nlr = "
        "0.1\nlr_decay = 0.333333333333333314\n[data]\ndata_dir = \"\"\n",
        {.method = info.name});
    ASSERT_TRUE(first.ok()) << first.status();
    const auto again = parse(first->toml());
    ASSERT_TRUE(again.ok()) << info.name << ": " << again.status();
    EXPECT_EQ(again->toml(), first->toml());
    EXPECT_EQ(again->run.name, "a \"b\" \\ ü");
    EXPECT_EQ(again->run.seed, 9000000000000000);
    EXPECT_EQ(again->train.lr_decay, first->train.lr_decay);
    EXPECT_EQ(again->method.name, info.name);
  }
}

// A simulation has the clients of the federation: who they are is part of the experiment.
TEST(Experiment, MembersOfOwnDataGoByName) {
  const std::string data = "[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"d\"\n";
  const auto with = [&](const std::string& more, const std::string& serve) {
    return data + more + kMethod + "[serve]\n" + serve;
  };
  const auto e = parse(with("", "members = \"c10,c9\"\nnewcomers = \"b\"\ndeadline = 7\n"));
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_EQ(e->data.member_names, (std::vector<std::string>{"c9", "c10"}));
  EXPECT_EQ(e->data.newcomer_names, std::vector<std::string>{"b"});
  EXPECT_THAT(e->toml(), HasSubstr("[serve]\nmembers = \"c10,c9\"\nnewcomers = \"b\"\n"));
  const auto back = parse(e->toml());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->toml(), e->toml());
  EXPECT_THAT(error(with("newcomers = 1\n", "members = \"a\"\n")),
              HasSubstr("e.toml:5:13: data.newcomers = 1 does not go with [serve] members"));
  EXPECT_THAT(error(with("", "members = \"a,b\"\nnewcomers = \"b\"\n")),
              HasSubstr("[serve] names 'b' twice"));
  // Public sets number their clients.
  const auto numbered =
      parse("[data]\nset = \"mnist\"\n" + kMethod + "[serve]\nmembers = \"0,1\"\n");
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_TRUE(numbered->data.member_names.empty());
}

TEST(Experiment, FilesThatCannotBeRead) {
  EXPECT_EQ(error_of(load_experiment("/nonexistent/x.toml", {}).status()), Error::kNotFound);
  const auto big = ::testing::TempDir() + "/big.toml";
  std::ofstream(big) << std::string((1 << 20) + 1, '#');
  EXPECT_EQ(error_of(load_experiment(big, {}).status()), Error::kInvalid);
}

TEST(TomlEntries, ControlCharactersAreRefused) {
  EXPECT_EQ(error("name = \"a\\u0007\"\n" + kMethod),
            "e.toml:1:8: name must not contain control characters");
}

}  // namespace
}  // namespace tessera
