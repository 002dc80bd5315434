#include "audit/audit.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

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

TEST(Audit, ErrorOfAnAucByHand) {
  // Q1 = 1/3, Q2 = 1/3 at 0.5: (0.25 + 2 · 99 (1/3 − 1/4)) / 10⁴.
  EXPECT_NEAR(auc_error(0.5, 100, 100), std::sqrt((0.25 + 198 * (1.0 / 12)) / 1e4), 1e-12);
}

}  // namespace
}  // namespace tessera
