#include "run/policy_check.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.hpp"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// What docs/deploy.md plays.
Offer clinics() {
  Offer out;
  out.server = "fed.example", out.experiment = "clinics", out.digest = std::string(64, 'a');
  out.method = "fedper";
  out.told = {{.tensor = "value.w", .words = "its trained base"}};
  out.seen = "its trained base", out.stays = "its head";
  out.largest_upload = 40'000;
  out.sample_shape = {4}, out.classes = 2;
  out.columns = {{"age"}, {"sex", 2, true}, {"pulse"}};
  return out;
}
Policy named_policy() {
  Policy out;
  out.name = "p.toml";
  return out;
}
std::string why_here(const PolicyVerdict& verdict) { return verdict ? verdict->here : "allowed"; }
std::string why_there(const PolicyVerdict& verdict) { return verdict ? verdict->there : "allowed"; }

Reply evaluated() {
  Reply out;
  out.kind = TaskKind::kEvaluate, out.round = 6;
  out.evaluation.emplace();
  return out;
}
Confusion two_classes() { return {.classes = 2, .counts = {3, 1, 0, 4}}; }

TEST(PolicyOffer, TheDefaultAllowsAnOrdinaryFederation) {
  EXPECT_EQ(why_here(check_offer(Policy(), clinics())), "allowed");
  EXPECT_TRUE(status_here(std::nullopt).ok());
  EXPECT_TRUE(status_there(std::nullopt).ok());
}

TEST(PolicyOffer, Servers) {
  auto policy = named_policy();
  policy.servers = {"fed.example"};
  auto offer = clinics();
  offer.server = "FED.example.";
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
  offer.server = "evil.example";
  const auto no = check_offer(policy, offer);
  EXPECT_EQ(why_here(no), "p.toml: server.names has no 'evil.example' (it has 'fed.example')");
  EXPECT_EQ(why_there(no), "p.toml: server.names does not have this server");
  EXPECT_EQ(error_of(status_here(no)), Error::kInvalid);
  EXPECT_EQ(message(status_there(no)), no->there);
}

TEST(PolicyOffer, ExperimentsByNameAndDigest) {
  auto policy = named_policy();
  policy.experiments = {"clinics"}, policy.digests = {std::string(64, 'a')};
  EXPECT_EQ(why_here(check_offer(policy, clinics())), "allowed");
  auto offer = clinics();
  offer.experiment = "other";
  EXPECT_EQ(why_there(check_offer(policy, offer)), "p.toml: experiment.names has no 'other'");
  offer = clinics(), offer.digest = std::string(64, 'b');
  EXPECT_THAT(why_here(check_offer(policy, offer)),
              StartsWith("p.toml: experiment.digests does not have bbbb"));
  offer.digest.clear();
  EXPECT_NE(why_here(check_offer(policy, offer)), "allowed") << "one that is not told is none";
}

TEST(PolicyOffer, Methods) {
  auto policy = named_policy();
  policy.methods = {"fedavg", "fedper"};
  EXPECT_EQ(why_here(check_offer(policy, clinics())), "allowed");
  policy.methods = {"fedavg"};
  EXPECT_EQ(why_here(check_offer(policy, clinics())),
            "p.toml: method.allow has no 'fedper' (it has 'fedavg')");
  EXPECT_EQ(why_there(check_offer(policy, clinics())), "p.toml: method.allow has no 'fedper'");
}

TEST(PolicyOffer, SamplesLeaveUnderNoPolicy) {
  auto offer = clinics();
  offer.told.push_back({.tensor = "x", .what = Tells::kData, .words = "all of its samples"});
  EXPECT_THAT(why_here(check_offer(Policy(), offer)),
              HasSubstr("no policy lets samples leave, and method 'fedper' sends them"));
}

TEST(PolicyOffer, ClassCountsAndLossesOfUploads) {
  auto policy = named_policy();
  auto offer = clinics();
  offer.method = "prior";
  offer.told.push_back({.tensor = "value.b", .what = Tells::kStatistics, .words = "class shares"});
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
  policy.class_counts = false;
  EXPECT_EQ(why_here(check_offer(policy, offer)),
            "p.toml: send.class_counts = false does not allow what method 'prior' sends: class "
            "shares");
  offer.told.back().tensor = "loss";
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed") << "that is for send.losses to say";
  policy.losses = false;
  EXPECT_THAT(why_here(check_offer(policy, offer)), HasSubstr("send.losses = false does not"));
}

TEST(PolicyOffer, LossesNeedAGuard) {
  auto policy = named_policy();
  policy.losses = false;
  auto offer = clinics();
  EXPECT_THAT(why_there(check_offer(policy, offer)),
              StartsWith("p.toml: send.losses = false, and in this experiment every client"));
  offer.tells_loss = false;
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
}

TEST(PolicyOffer, GuardsThatMustBeOn) {
  auto policy = named_policy();
  policy.guards = {"clip", "secure-aggregation"};
  auto offer = clinics();
  offer.guards = {"clip"};
  EXPECT_EQ(why_there(check_offer(policy, offer)),
            "p.toml: guards.require has 'secure-aggregation', which the experiment does not have; "
            "it needs [[guard]] name = \"secure-aggregation\"");
  offer.guards = {"clip", "secure-aggregation"};
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
}

TEST(PolicyOffer, Epsilons) {
  auto policy = named_policy();
  policy.max_epsilon = 8;
  auto offer = clinics();
  EXPECT_EQ(why_here(check_offer(policy, offer)),
            "p.toml: guards.max_epsilon = 8 asks for a promise to a client towards the server, and "
            "the experiment gives none; it needs guard 'dp'");
  offer.epsilon = INFINITY;
  EXPECT_THAT(why_here(check_offer(policy, offer)), HasSubstr("gives none"));
  offer.epsilon = NAN;
  EXPECT_THAT(why_here(check_offer(policy, offer)), HasSubstr("gives none"));
  offer.epsilon = 8.5;
  EXPECT_THAT(why_here(check_offer(policy, offer)),
              HasSubstr("guards.max_epsilon = 8 is below what the experiment promises to a client "
                        "towards the server: epsilon 8.5"));
  offer.epsilon = 8;
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
  policy.max_sample_epsilon = 1;
  EXPECT_THAT(why_here(check_offer(policy, offer)), HasSubstr("guards.max_sample_epsilon = 1"));
  offer.sample_epsilon = 0.5;
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
}

TEST(PolicyOffer, NamesOfColumnsThatMayNotBeToldAreNotToldByTheRefusal) {
  auto policy = named_policy();
  policy.columns = {"age", "sex", "pulse", "weight"};
  EXPECT_EQ(why_here(check_offer(policy, clinics())), "allowed");
  policy.columns = {"age"};
  const auto no = check_offer(policy, clinics());
  EXPECT_EQ(why_here(no),
            "p.toml: send.columns has no 'sex', 'pulse'; take the column out of the "
            "table, or add it there");
  EXPECT_EQ(why_there(no),
            "p.toml: send.columns does not allow 2 of the 3 columns of this client's table");
  EXPECT_THAT(leaving_words(policy, clinics()), Each(Not(HasSubstr("pulse"))));
}

TEST(PolicyOffer, ValuesThatTheExperimentDoesNotDeclare) {
  auto policy = named_policy();
  auto offer = clinics();
  offer.columns.push_back({"patient", 240, false});
  EXPECT_EQ(why_there(check_offer(policy, offer)),
            "p.toml: send.categories has no 'patient', whose values would be told because the "
            "experiment does not declare them; declare them there, or have the owner add it");
  policy.categories = {"patient"};
  const auto many = check_offer(policy, offer);
  EXPECT_EQ(why_here(many),
            "p.toml: send.most_categories = 100 is below the 240 values of column 'patient'");
  EXPECT_THAT(why_there(many), Not(HasSubstr("240")));
  policy.most_categories = 240;
  EXPECT_EQ(why_here(check_offer(policy, offer)), "allowed");
}

TEST(PolicyOffer, UploadsThatAreTooLarge) {
  auto policy = named_policy();
  policy.largest_sent = 39'999;
  EXPECT_EQ(
      why_here(check_offer(policy, clinics())),
      "p.toml: send.largest_message = 40.0 kB is below an upload of method 'fedper', 40.0 kB");
  policy.largest_sent = 40'000;
  EXPECT_EQ(why_here(check_offer(policy, clinics())), "allowed");
}

TEST(PolicyTask, SizesAndEvaluations) {
  auto policy = named_policy();
  policy.largest_received = 2000;
  const Task train{.kind = TaskKind::kTrain, .round = 3};
  EXPECT_EQ(why_here(check_task(policy, train, 2000)), "allowed");
  EXPECT_EQ(why_here(check_task(policy, train, 2100)),
            "p.toml: receive.largest_message = 2.00 kB is below the task 'train' of round 3, 2.10 "
            "kB");
  Task evaluate{.kind = TaskKind::kEvaluate, .round = 4};
  EXPECT_EQ(why_here(check_task(policy, evaluate, 10)), "allowed");
  policy.evaluation = false;
  EXPECT_THAT(why_there(check_task(policy, evaluate, 10)),
              StartsWith("p.toml: send.evaluation = false: no figures of this client leave"));
  evaluate.last = true;
  EXPECT_EQ(why_here(check_task(policy, evaluate, 10)), "allowed") << "its model is kept by it";
  EXPECT_EQ(why_here(check_task(policy, train, 10)), "allowed");
}

TEST(PolicyReply, Sizes) {
  auto policy = named_policy();
  policy.largest_sent = 5000;
  Reply reply;
  reply.kind = TaskKind::kTrain, reply.round = 2;
  EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 5000)), "allowed");
  EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 5100)),
            "p.toml: send.largest_message = 5.00 kB is below the answer to 'train' of round 2, "
            "5.10 kB");
}

TEST(PolicyReply, Losses) {
  auto policy = named_policy();
  Reply reply;
  reply.kind = TaskKind::kTrain, reply.loss = 0.7;
  EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 10)), "allowed");
  policy.losses = false;
  EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 10)),
            "p.toml: send.losses = false: the answer holds a training loss");
  for (const double kept_back : {0.0, std::nan("")}) {
    reply.loss = kept_back;
    EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 10)), "allowed");
  }
}

TEST(PolicyReply, Evaluations) {
  auto policy = named_policy();
  EXPECT_EQ(why_here(check_reply(policy, clinics(), evaluated(), 10)), "allowed");
  policy.evaluation = false;
  EXPECT_EQ(why_here(check_reply(policy, clinics(), evaluated(), 10)),
            "p.toml: send.evaluation = false: no figures of this client leave");
  auto failed = evaluated();
  failed.status = fail(Error::kInvalid, "why not");
  EXPECT_EQ(why_here(check_reply(policy, clinics(), failed, 10)), "allowed")
      << "of a failed one only the sentence leaves";
}

TEST(PolicyReply, ConfusionTablesAreLeftOutWhole) {
  auto reply = evaluated();
  reply.evaluation->pre_test.correct = 7;
  reply.evaluation->pre_confusion = reply.evaluation->post_confusion = two_classes();
  auto policy = named_policy();
  EXPECT_TRUE(stripped(policy, clinics(), reply).evaluation->pre_confusion);
  EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 10)), "allowed");
  for (auto* key : {&policy.confusion, &policy.class_counts}) {
    policy.confusion = policy.class_counts = true;
    *key = false;
    EXPECT_EQ(why_here(check_reply(policy, clinics(), reply, 10)),
              fmt::format("p.toml: send.{} = false: the answer holds confusion tables",
                          policy.confusion ? "class_counts" : "confusion"));
    const auto less = stripped(policy, clinics(), reply);
    EXPECT_FALSE(less.evaluation->pre_confusion || less.evaluation->post_confusion);
    EXPECT_EQ(less.evaluation->pre_test.correct, 7) << "no number changes";
    EXPECT_EQ(why_here(check_reply(policy, clinics(), less, 10)), "allowed");
  }
}

TEST(PolicyReply, NotesAsLargeAsASampleAreLeftOut) {
  auto offer = clinics();
  offer.sample_shape = {1, 28, 28};
  auto numbers = evaluated(), pictures = evaluated();
  numbers.evaluation->notes = {{"alpha", at::zeros({783})}};
  pictures.evaluation->notes = {{"a", at::zeros({392})}, {"b", at::zeros({14, 28})}};
  auto policy = named_policy();
  policy.exhibits = Exhibits::kNumbers;
  EXPECT_EQ(why_here(check_reply(policy, offer, numbers, 10)), "allowed");
  EXPECT_EQ(why_here(check_reply(policy, offer, pictures, 10)),
            "p.toml: send.exhibits = \"numbers\": the answer holds notes of 784 numbers");
  EXPECT_EQ(stripped(policy, offer, numbers).evaluation->notes.size(), 1u);
  EXPECT_TRUE(stripped(policy, offer, pictures).evaluation->notes.empty());
  auto unknown = offer;
  unknown.sample_shape.clear();
  EXPECT_NE(why_here(check_reply(policy, unknown, numbers, 10)), "allowed");
  policy.exhibits = Exhibits::kNone;
  EXPECT_EQ(why_here(check_reply(policy, offer, numbers, 10)),
            "p.toml: send.exhibits = \"none\": the answer holds notes of 783 numbers");
  EXPECT_TRUE(stripped(policy, offer, numbers).evaluation->notes.empty());
  policy.exhibits = Exhibits::kAll;
  EXPECT_EQ(why_here(check_reply(policy, offer, pictures, 10)), "allowed");
  EXPECT_EQ(stripped(policy, offer, pictures).evaluation->notes.size(), 2u);
}

TEST(PolicyWords, SayWhatLeavesAndWhatStays) {
  auto policy = named_policy();
  EXPECT_THAT(join(leaving_words(policy, clinics()), "\n"),
              HasSubstr("; all that the method notes"));
  policy.exhibits = Exhibits::kNumbers;
  const auto words = join(leaving_words(policy, clinics()), "\n");
  EXPECT_EQ(words,
            "policy: p.toml; to server 'fed.example', experiment 'clinics', SHA-256 " +
                std::string(64, 'a') +
                "\nleaves at enrolment: the client's name, the shape of a sample [4], 2 class "
                "names, the names of 3 columns: 'age', 'sex', 'pulse'; of 'sex' (2) the "
                "experiment's own values, how many samples it has for training, validation and "
                "test, SHA-256 of the model's layout and of the data"
                "\nleaves in every round: its trained base (method 'fedper'), its weight (a number "
                "of samples), its mean training loss, CPU seconds; no message above 1.07 GB"
                "\nleaves at evaluations: numbers of samples and of right answers, loss and scores "
                "on its validation and test samples; at the last one which class was taken for "
                "which, and with it how often each class occurs in its test samples; what the "
                "method notes, if it is less than one sample"
                "\nstays: samples, its head, notes as large as a sample");
}

TEST(PolicyWords, OfAStrictPolicy) {
  auto policy = named_policy();
  policy.evaluation = policy.class_counts = policy.data_digest = policy.losses = false;
  policy.exhibits = Exhibits::kNone;
  auto offer = clinics();
  offer.tells_loss = false, offer.guards = {"dp-sgd", "zstd"};
  const auto words = join(leaving_words(policy, offer), "\n");
  EXPECT_THAT(words, HasSubstr("SHA-256 of the model's layout\n"));
  EXPECT_THAT(words, HasSubstr("(method 'fedper', guards dp-sgd, zstd), its weight (a number of "
                               "samples), CPU seconds"));
  EXPECT_THAT(words, HasSubstr("leaves at evaluations: nothing"));
  EXPECT_THAT(words, HasSubstr("stays: samples, its head, its training loss, class counts, figures "
                               "of evaluations, what the method notes for the report, the digest "
                               "of the data"));
}

TEST(PolicyWords, OfARefusal) {
  auto policy = named_policy();
  policy.methods = {"fedavg"};
  const auto words = leaving_words(policy, clinics());
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1],
            "leaves: nothing but one sentence, why not: p.toml: method.allow has no 'fedper'");
}

TEST(PolicyOffer, OfAnExperiment) {
  const auto experiment = parse_experiment(
      "name = \"e\"\n[method]\nname = \"fedper\"\n[[guard]]\nname = \"dp-sgd\"\n", "e.toml", {});
  ASSERT_TRUE(experiment.ok()) << experiment.status();
  const auto offer = offer_of(*experiment, "host");
  EXPECT_EQ(offer.server, "host");
  EXPECT_EQ(offer.experiment, "e");
  EXPECT_EQ(offer.method, "fedper");
  EXPECT_THAT(offer.guards, ::testing::ElementsAre("dp-sgd"));
  EXPECT_FALSE(offer.told.empty());
  EXPECT_FALSE(offer.seen.empty());
  EXPECT_FALSE(offer.tells_loss);
  const auto plain = parse_experiment("[method]\nname = \"fedavg\"\n", "e.toml", {});
  EXPECT_TRUE(offer_of(*plain, "host").tells_loss);
}

TEST(PolicyOffer, ColumnsOfASchema) {
  const InputSchema schema{.sample_shape = {3}, .columns = {{"age", {}}, {"sex", {"f", "m"}}}};
  const auto columns = offered_columns(schema, {"sex"});
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].values, 0);
  EXPECT_EQ(columns[1].values, 2);
  EXPECT_TRUE(columns[1].declared);
  EXPECT_FALSE(offered_columns(schema, {})[1].declared);
}

}  // namespace
}  // namespace tessera
