#include "audit/audit.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <set>

#include "data/testing.hpp"
#include "train/local_sgd.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Experiment experiment(
    const std::string& method, const std::string& more = "",
    const std::string& data =
        "set = \"synthetic\"\npartition = \"natural\"\nclients = 4\nleast = 20\nmost = 30\n") {
  const auto text =
      "name = \"audit\"\nrounds = 2\n[data]\n" + data +
      "[model]\nname = \"mlp100\"\n[train]\nlr = 0.1\nbatch = 10\n[method]\nname = \"" + method +
      "\"\n" + more;
  auto out = parse_experiment(text, "test", {});
  if (!out.ok()) throw std::runtime_error(message(out.status()));
  return *std::move(out);
}

std::unique_ptr<Scene> scene(const Experiment& experiment) {
  auto out = Scene::of_experiment(experiment, {});
  if (!out.ok()) throw std::runtime_error(message(out.status()));
  return *std::move(out);
}

double figure(const AuditAttack& attack, const std::string& name) {
  for (const auto& one : attack.figures)
    if (one.name == name) return one.value;
  ADD_FAILURE() << attack.name << " has no " << name << "; " << attack.skipped;
  return NAN;
}

const std::string kMnist =
    "set = \"mnist\"\nclients = 4\nsamples = 20\ntrain_samples = 400\ntest_samples = 200\n";

TEST(Scene, AnUploadOfOneStepIsTheGradient) {
  const auto here = scene(experiment("fedavg"));
  const auto exchange = here->exchange(1, {1});
  ASSERT_TRUE(exchange.ok()) << message(exchange.status());
  const auto seen = seen_in(*here, *exchange);
  ASSERT_TRUE(seen.ok()) << message(seen.status());
  // The same by another path.
  auto at = here->start();
  auto gradient = at::empty_like(at.w);
  const auto sample = here->federation().client(1).range(Part::kTrain, 0, 1);
  batch_gradient(here->session().model(), at, sample, Loss::kCrossEntropy, 0, gradient);
  EXPECT_TRUE(at::allclose(seen->change, 0.1 * gradient, 1e-3, 1e-6));
  EXPECT_TRUE(seen->uploaded.all().item<bool>());
  EXPECT_FALSE(seen->guessed);
  ASSERT_TRUE(seen->model);
  EXPECT_TRUE(at::allclose(seen->model->w, at.w - 0.1 * gradient, 1e-4, 1e-6));
}

TEST(Scene, AStepOnLaterSamples) {
  const auto here = scene(experiment("fedavg"));
  const auto seen = seen_in(*here, *here->exchange(1, {.samples = 2, .first = 5}));
  ASSERT_TRUE(seen.ok()) << message(seen.status());
  auto at = here->start();
  auto gradient = at::empty_like(at.w);
  batch_gradient(here->session().model(), at,
                 here->federation().client(1).range(Part::kTrain, 5, 7), Loss::kCrossEntropy, 0,
                 gradient);
  EXPECT_TRUE(at::allclose(seen->change, 0.1 * gradient, 1e-3, 1e-6));
}

TEST(Scene, WhatIsPlantedIsTrainedOn) {
  const auto here = scene(experiment("fedavg"));
  const auto own = here->federation().client(1);
  const auto more = own.range(Part::kTrain, 0, 3);
  here->plant(1, {more.x * 2, 1 - more.y.clamp(0, 1)});
  const auto& now = here->federation().client(1);
  EXPECT_EQ(now.train_size(), own.train_size() + 3);
  const int64_t n = own.train_size();
  EXPECT_TRUE(now.range(Part::kTrain, n, n + 3).x.equal(more.x * 2));
  EXPECT_TRUE(now.range(Part::kTrain, 0, n).x.equal(own.range(Part::kTrain, 0, n).x));
  // The upload says how many there are, and the rounds to come see them.
  EXPECT_EQ(here->exchange(1, {})->up.at("weight").item<double>(), static_cast<double>(n + 3));
  const auto other = scene(experiment("fedavg"));
  ASSERT_TRUE(here->play().ok() && other->play().ok());
  EXPECT_FALSE(
      here->download(0, Why::kTrain).at("w").equal(other->download(0, Why::kTrain).at("w")));
}

TEST(Scene, LookingChangesNothing) {
  const auto here = scene(experiment("fedper")), other = scene(experiment("fedper"));
  ASSERT_TRUE(here->exchange(0, {1}).ok());
  ASSERT_TRUE(here->exchange(0, {}).ok());
  ASSERT_TRUE(here->play().ok());
  ASSERT_TRUE(other->play().ok());
  EXPECT_TRUE(at::equal(here->download(0, Why::kTrain).at("base.w"),
                        other->download(0, Why::kTrain).at("base.w")));
}

TEST(Scene, WhatStaysIsNotSeen) {
  const auto here = scene(experiment("fedper"));
  const auto seen = seen_in(*here, *here->exchange(0, {1}));
  ASSERT_TRUE(seen.ok());
  const auto head = here->session().model().layout().trailing(1);
  EXPECT_FALSE(seen->uploaded.index_select(0, head).any().item<bool>());
  EXPECT_EQ(seen->uploaded.sum().item<int64_t>(), seen->uploaded.numel() - head.numel());
  EXPECT_TRUE(seen->guessed);
  EXPECT_FALSE(seen->model);
  // The head that nobody trains is known to all.
  const auto babu = scene(experiment("fedbabu"));
  EXPECT_FALSE(seen_in(*babu, *babu->exchange(0, {1}))->guessed);
  const auto nothing = scene(experiment("local"));
  EXPECT_FALSE(seen_in(*nothing, *nothing->exchange(0, {1})).ok());
}

TEST(Scene, PooledDataAreRefused) {
  const auto refused = Scene::of_experiment(experiment("centralized"), {});
  EXPECT_THAT(message(refused.status()), HasSubstr("nothing to attack"));
}

TEST(Attacks, LabelsOfSingleSamplesAreReadOff) {
  const auto here = scene(experiment("fedavg"));
  Attacker attacker(*here);
  const auto found = attacker.run("labels", Adversary::kServer, {1}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(figure(*found, "labels right"), 1);
  const auto private_head = scene(experiment("fedper"));
  const auto none = Attacker(*private_head).run("labels", Adversary::kServer, {1}, {});
  EXPECT_EQ(none->skipped, "the last layer stays with the client");
  const auto no_pictures = attacker.run("geiping", Adversary::kServer, {1}, {});
  EXPECT_THAT(no_pictures->skipped, HasSubstr("no pictures"));
}

TEST(Attacks, OneSampleOfMlp100ComesBackExactlyUnlessNoiseIsAdded) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto plain = scene(experiment("fedavg", "", kMnist + place));
  const auto found = Attacker(*plain).run("first-layer", Adversary::kServer, {1}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_GT(figure(*found, "PSNR, mean"), 60) << found->skipped;
  EXPECT_EQ(figure(*found, "recovered above 25 dB"), 1);
  EXPECT_EQ(found->pictures.size(), 4U);
  // An active server gets several of a batch.
  const auto trapped = Attacker(*plain).run("trap", Adversary::kServer, {8}, {});
  ASSERT_TRUE(trapped.ok());
  EXPECT_GT(figure(*trapped, "recovered above 25 dB"), 0.2) << trapped->skipped;
  const auto noisy =
      scene(experiment("fedavg", "[[guard]]\nname = \"perturb\"\nscale = 1.0\n", kMnist + place));
  const auto hidden = Attacker(*noisy).run("first-layer", Adversary::kServer, {1}, {});
  ASSERT_TRUE(hidden.ok());
  EXPECT_EQ(figure(*hidden, "recovered above 25 dB"), 0);
}

const std::string kSmallGan = "[federation]\nparticipation = 1.0\n";

// What clients upload, averaged here by their samples, is what the server sends next.
TEST(Attacks, GeneratorsAreFoundInMessages) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto here = scene(experiment("fedavg-gan", kSmallGan, kMnist + place));
  Tensor mean;
  double weight = 0;
  for (ClientId id = 0; id < here->clients(); ++id) {
    const auto own = generator_in(*here, here->exchange(id, {})->up);
    ASSERT_TRUE(own);
    const auto n = static_cast<double>(here->federation().client(id).train_size());
    mean = mean.defined() ? mean + *own * n : *own * n;
    weight += n;
  }
  ASSERT_TRUE(here->play().ok());
  const auto sent = generator_in(*here, here->download(0, Why::kTrain));
  ASSERT_TRUE(sent);
  EXPECT_TRUE(at::allclose(*sent, mean / weight, 1e-4, 1e-6));
  const auto plain = scene(experiment("fedavg", "", kMnist + place));
  EXPECT_FALSE(generator_in(*plain, plain->download(0, Why::kTrain)));
}

TEST(Attacks, GeneratorsAreComparedWithAClientAndTheOthers) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto here = scene(experiment("fedavg-gan", kSmallGan, kMnist + place));
  Attacker attacker(*here);
  std::vector<double> seen;
  std::set<std::pair<double, double>> references;
  for (const auto by : {Adversary::kServer, Adversary::kClient}) {
    const auto found = attacker.run("generator", by, {}, {20, nullptr});
    ASSERT_TRUE(found.ok()) << message(found.status());
    EXPECT_EQ(found->skipped, "");
    EXPECT_THAT(found->target,
                HasSubstr(by == Adversary::kServer ? "as it is uploaded" : "common generator"));
    const double victim = figure(*found, "distance to the client's pictures");
    EXPECT_NEAR(figure(*found, "nearer to the client than to others by"),
                figure(*found, "distance to others' of the same classes") - victim, 1e-6 * victim);
    seen.push_back(victim);
    // Real pictures are as far apart whatever generator is looked at, and noise as far off.
    references.insert(
        {figure(*found, "the client's to others', both real"), found->figures.front().reference});
    EXPECT_FALSE(found->pictures.empty());
  }
  EXPECT_EQ(references.size(), 1U);
  EXPECT_NE(seen[0], seen[1]);
  const auto plain = scene(experiment("fedavg", "", kMnist + place));
  EXPECT_EQ(Attacker(*plain).run("generator", Adversary::kServer, {}, {})->skipped,
            "the method trains no common generator");
}

TEST(Attacks, AGanLearnsFromWhatUploadsGiveAway) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto plain = scene(experiment("fedavg", "", kMnist + place));
  const auto found = Attacker(*plain).run("extraction", Adversary::kServer, {1}, {10, nullptr});
  ASSERT_TRUE(found.ok()) << message(found.status());
  EXPECT_EQ(found->skipped, "");
  // A client's 20 samples come back one by one in closed form.
  EXPECT_THAT(found->target, StartsWith("each of 20 uploads: first upload, one sample"));
  EXPECT_THAT(found->remark, HasSubstr("by first-layer"));
  const auto& distance = found->figures.front();
  EXPECT_LT(distance.value, distance.reference);
  EXPECT_EQ(found->figures.back().name, "the client's pictures among the pairs");
  EXPECT_EQ(found->figures.back().value, 1) << "every upload has another one";
}

TEST(Attacks, AParticipantWatchesRoundByRound) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto file = experiment("fedavg", "", kMnist + place);
  AuditRequest request;
  request.against = {Adversary::kClient}, request.only = {"gan-inversion"};
  request.after = 2, request.budget = 10, request.lies = true;
  const auto here = scene(file), other = scene(file);
  const auto report = audit(*here, request);
  ASSERT_TRUE(report.ok()) << message(report.status());
  const auto& found = report->adversaries.front().attacks.front();
  EXPECT_THAT(found.remark, HasSubstr("2 models"));
  EXPECT_GT(figure(found, "distance to the nearest sample"), 0);
  EXPECT_LE(found.pictures.size(), 4U);
  // Between the two rounds it planted 8 wrong samples for each of its classes.
  const auto n = std::ssize(found.pictures);
  EXPECT_EQ(here->federation().client(1).train_size(),
            other->federation().client(1).train_size() + 8 * n);
  EXPECT_EQ(here->federation().client(0).train_size(), other->federation().client(0).train_size());
  const auto alone = scene(experiment("local", "", kMnist + place));
  EXPECT_EQ(Attacker(*alone).run("gan-inversion", Adversary::kClient, {}, {})->skipped,
            "nothing of others is sent to a client");
}

TEST(Attacks, LiesCallOneClassAnother) {
  TESSERA_NEED_SET("mnist");
  const auto place = fmt::format("data_dir = \"{}\"\n", test_data_dir());
  const auto here = scene(experiment("fedavg", "", kMnist + place));
  Attacker attacker(*here);
  EXPECT_EQ(attacker.lies().size(), 0);
  attacker.watch({1, nullptr});
  const auto lies = attacker.lies();
  const auto theirs = here->federation().client(0).class_counts(Part::kTrain);
  for (int64_t i = 0; i < lies.size(); ++i) {
    const auto wrong = lies.y[i].item<int64_t>();
    EXPECT_GT(theirs[static_cast<size_t>((wrong + 9) % 10)], 0) << wrong;
  }
  // Inputs as the network takes them: of black and white pixels.
  const auto& x = here->federation().client(0).pool->x;
  EXPECT_GE(lies.x.min().item<float>(), x.min().item<float>() - 1e-4F);
  EXPECT_LE(lies.x.max().item<float>(), x.max().item<float>() + 1e-4F);
}

TEST(Audit, FindsVerdictsWithinItsBudget) {
  auto here = scene(experiment("fedavg"));
  AuditRequest request;
  request.budget = 10;
  std::vector<std::string> stages;
  request.on_progress = [&](const AuditProgress& progress) { stages.push_back(progress.stage); };
  const auto report = audit(*here, request);
  ASSERT_TRUE(report.ok()) << message(report.status());
  ASSERT_EQ(report->adversaries.size(), 3U);
  EXPECT_THAT(report->adversaries[0].verdict, HasSubstr("labels were read off"));
  EXPECT_THAT(report->adversaries[2].verdict, HasSubstr("in the training"));
  EXPECT_EQ(here->round(), 2);
  EXPECT_THAT(stages, ::testing::Contains("round 2 of 2"));
}

TEST(Attacks, UsersOfVotesAreToldWhatVotingCosts) {
  const auto place = "[[guard]]\nname = \"vote\"\nparts = 3\n";
  const auto quiet = scene(experiment("fedavg", place));
  ASSERT_TRUE(quiet->play().ok());
  const auto found = Attacker(*quiet).run("membership", Adversary::kUser, {}, {5});
  ASSERT_TRUE(found.ok() && found->skipped.empty()) << found->skipped;
  EXPECT_THAT(found->target, HasSubstr("votes of models"));
  // The same by another path.
  int64_t n = 0, single = 0, vote = 0;
  for (ClientId id = 0; id < 4; ++id) {
    const auto& data = quiet->federation().client(id);
    const auto test = data.range(Part::kTest, 0, data.size(Part::kTest));
    n += test.size();
    quiet->with_personal(id, View::kPost, [&](const Personal& own) {
      single += (own.predict(test.x).argmax(1) == test.y).sum().item<int64_t>();
    });
    auto counts = at::zeros({test.size(), quiet->federation().classes}, at::kDouble);
    auto sums = at::zeros_like(counts);
    for (const auto& voter : quiet->voters(id).models) {
      const auto p = at::softmax(voter.predict(test.x).to(at::kDouble), 1);
      counts += at::one_hot(p.argmax(1), counts.size(1)), sums += p;
    }
    vote += ((counts + sums / 100).argmax(1) == test.y).sum().item<int64_t>();
  }
  EXPECT_DOUBLE_EQ(figure(*found, "test accuracy, single"), static_cast<double>(single) / n);
  EXPECT_DOUBLE_EQ(figure(*found, "test accuracy, vote"), static_cast<double>(vote) / n);
  for (const auto& one : found->figures) EXPECT_NE(one.name, "test accuracy, noisy vote");
  const auto noisy = scene(experiment("fedavg", place + std::string("noise = \"laplace\"\n")));
  ASSERT_TRUE(noisy->play().ok());
  const auto loud = Attacker(*noisy).run("membership", Adversary::kUser, {}, {5});
  EXPECT_EQ(figure(*loud, "test accuracy, vote"), figure(*found, "test accuracy, vote"));
  EXPECT_LT(figure(*loud, "test accuracy, noisy vote"), 1);
  // Who has the upload has no need to ask.
  const auto server = Attacker(*quiet).run("membership", Adversary::kServer, {}, {5});
  for (const auto& one : server->figures) EXPECT_THAT(one.name, ::testing::Not(HasSubstr("vote")));
}

TEST(Scene, VotesOnTheCommandLineNeedAMethodThatTrainsForThem) {
  const auto refused = Scene::of_experiment(experiment("local"), {.answers = {"vote"}});
  EXPECT_THAT(message(refused.status()), HasSubstr("guard 'vote' does not go with local"));
  EXPECT_TRUE(Scene::of_experiment(experiment("fedper"), {.answers = {"vote:parts=2"}}).ok());
}

TEST(Audit, StopsWhenItIsTold) {
  auto here = scene(experiment("fedavg"));
  const std::atomic<bool> stop{true};
  AuditRequest request;
  request.stop = &stop, request.against = {Adversary::kUser};
  const auto report = audit(*here, request);
  EXPECT_EQ(error_of(report.status()), Error::kInterrupted);
}

TEST(Audit, VerdictsFollowTheFigures) {
  const auto with = [](double psnr, double auc) {
    AuditAdversary out{"server", "", "", {}};
    out.attacks.push_back({.name = "geiping",
                           .target = "first upload as the experiment sends it",
                           .figures = {{"PSNR, mean", "dB", psnr, 10}}});
    out.attacks.push_back({.name = "membership",
                           .target = "",
                           .figures = {{"AUC, loss", "", auc, 0.5, 3}},
                           .remark = "± 0.030"});
    return verdict_of(out);
  };
  EXPECT_THAT(with(10.5, 0.55), StartsWith("From uploads as they are sent no picture came back"));
  EXPECT_THAT(with(13, 0.55), HasSubstr("something of the pictures"));
  EXPECT_THAT(with(26, 0.55), HasSubstr("almost as they are"));
  EXPECT_THAT(with(10.5, 0.55), HasSubstr("could not be told"));  // within two standard errors
  EXPECT_THAT(with(10.5, 0.57), HasSubstr("better than by chance"));
}

TEST(Audit, VerdictsOfGeneratorsGiveTheirReferences) {
  AuditAdversary out{"server", "", "", {}};
  for (const double distance : {80.0, 40.0})
    out.attacks.push_back({.name = "extraction",
                           .target = "",
                           .figures = {{"distance to the client's pictures", "", distance, 300},
                                       {"the client's to others', both real", "", 12, NAN}}});
  EXPECT_EQ(verdict_of(out),
            "Pictures made by a GAN on what came back from uploads are 40 from the client's, where "
            "noise is 300 and other clients' real ones are 12.");
}

TEST(Audit, VerdictsOfModelsGiveTheBestOfBothInversions) {
  AuditAdversary out{"client", "", "", {}};
  for (const double right : {0.25, 0.5})
    out.attacks.push_back({.name = right < 0.3 ? "inversion" : "gan-inversion",
                           .target = "",
                           .figures = {{"recognised by another model", "", right, 0.1, 2}}});
  EXPECT_EQ(verdict_of(out),
            "Of pictures made from models alone another model recognises 50 % (a guess has 10 %).");
}

TEST(Audit, ErrorOfAnAucByHand) {
  // Q1 = 1/3, Q2 = 1/3 at 0.5: (0.25 + 2 · 99 (1/3 − 1/4)) / 10⁴.
  EXPECT_NEAR(auc_error(0.5, 100, 100), std::sqrt((0.25 + 198 * (1.0 / 12)) / 1e4), 1e-12);
}

}  // namespace
}  // namespace tessera
