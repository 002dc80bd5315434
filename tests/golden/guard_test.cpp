// Guards in a federation: what arrives, what it costs, what clients remember (docs/concepts.md).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/disjoint_parts.hpp"
#include "engine/voters.hpp"
#include "guard/change.hpp"
#include "guard/testing.hpp"
#include "io/testing.hpp"
#include "run/checkpoint.hpp"
#include "run/guard_sections.hpp"
#include "support/engines.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

using tessera::testing::smaller;

ToyOptions guarded(const std::string& method, GuardOptions guard) {
  auto out = noisy(method);
  out.guard = std::move(guard);
  return out;
}

const std::vector<GuardOptions>& all_guards() {
  static const std::vector<GuardOptions> out{smaller("fp16"), smaller("int8", 0.01, 3),
                                             smaller("topk", 0.1), smaller("topk", 0.01, 1),
                                             smaller("none", 0.01, 3)};
  return out;
}

std::string losses_of(const EvalReport& report) {
  std::string out;
  for (const auto& e : report.clients)
    out += fmt::format("{:a} {:a} ", e.pre_test.loss, e.post_test.loss);
  return out;
}

double mean_post_loss(const EvalReport& report) {
  double sum = 0;
  for (const auto& e : report.clients) sum += e.post_test.loss;
  return sum / static_cast<double>(report.clients.size());
}

Toy only_client(GuardOptions guard) {
  auto federation = toy_federation(1, 0, 40);
  auto net = *make_model("mlp100", {federation.sample_shape, federation.classes});
  return {std::move(federation), std::move(net), guarded("fedavg", std::move(guard))};
}

// With one client the new global model is what arrived of its upload.
TEST(Guards, Fp16IsTheRoundedChange) {
  auto plain = only_client({}), half = only_client(smaller("fp16"));
  const auto start = plain.server().at("g.w").clone();
  plain.play(1, 1), half.play(1, 1);
  const auto change = plain.server().at("g.w") - start;
  EXPECT_TRUE(at::equal(half.server().at("g.w"), start + change.to(at::kHalf).to(at::kFloat)));
  EXPECT_FALSE(at::equal(half.server().at("g.w"), plain.server().at("g.w")));
}

TEST(Guards, TopKIsTheLargestChangesAndTheClientKeepsTheRest) {
  auto plain = only_client({}), thin = only_client(smaller("topk", 0.1));
  const auto start = plain.server().at("g.w").clone();
  plain.play(1, 1), thin.play(1, 1);
  const auto change = plain.server().at("g.w") - start;
  const auto arrived = thin.server().at("g.w") - start;
  const auto left = thin.store->get(0)->at("guard/value.w");
  const int64_t d = change.numel(), k = (d + 9) / 10;
  EXPECT_EQ(left.count_nonzero().item<int64_t>(), (change != 0).sum().item<int64_t>() - k);
  EXPECT_TRUE(at::equal(left * (left - change), at::zeros({d}))) << "what was sent is forgotten";
  EXPECT_LE((arrived + left - change).abs().max().item<double>(), 1e-6);
  const auto least_sent = change.masked_select(left == 0).abs().topk(k);
  EXPECT_GE(std::get<0>(least_sent).min().item<double>(), left.abs().max().item<double>());
}

TEST(Guards, BytesAreCountedAsSealedAndAsEncoded) {
  auto plain = make_toy(noisy("fedavg"));
  const auto d = plain.model->layout().numel();
  const auto plain_report = plain.play(1, 1).at(0);
  EXPECT_EQ(plain_report.bytes_up, 4 * 4 * d);
  const std::vector<std::pair<GuardOptions, int64_t>> bytes{
      {smaller("fp16"), 2 * d},
      {smaller("int8"), d + 4 * ((d + 255) / 256)},
      {smaller("topk", 0.01), 8 * ((d + 99) / 100)},
      {smaller("none", 0.01, 3), 4 * d}};
  for (const auto& [guard, each] : bytes) {
    auto toy = make_toy(guarded("fedavg", guard));
    const auto report = toy.play(1, 1).at(0);
    EXPECT_EQ(report.bytes_up, 4 * each);
    EXPECT_EQ(report.bytes_down, plain_report.bytes_down);
    EXPECT_LT(report.wire_up, plain_report.wire_up);
    if (!guard.zstd) {
      EXPECT_GT(report.wire_up, report.bytes_up);
      EXPECT_EQ(report.wire_down, plain_report.wire_down);
    } else {
      EXPECT_LT(report.wire_down, plain_report.wire_down);
    }
  }
}

TEST(Guards, ZstdChangesNoNumber) {
  for (const char* compress : {"none", "topk"}) {
    auto plain = make_toy(guarded("fedper", smaller(compress)));
    auto framed = make_toy(guarded("fedper", smaller(compress, 0.01, 3)));
    plain.play(1, 3), framed.play(1, 3);
    EXPECT_EQ(fingerprint(plain), fingerprint(framed));
  }
}

TEST(Guards, NeitherThreadsNorTheWireChangeABit) {
  for (const auto& guard : all_guards()) {
    auto options = guarded("fedper", guard);
    auto one = make_toy(options);
    options.threads = 4, options.through_wire = true;
    auto four = make_toy(options);
    for (int64_t round = 1; round <= 3; ++round) {
      const auto a = one.play(round, round).at(0), b = four.play(round, round).at(0);
      EXPECT_EQ(a.wire_up, b.wire_up);
      EXPECT_EQ(a.wire_down, b.wire_down);
      EXPECT_EQ(losses_of(one.evaluate(round)), losses_of(four.evaluate(round)));
    }
    EXPECT_EQ(fingerprint(one), fingerprint(four));
  }
}

TEST(Guards, EvaluationLeavesNoTrace) {
  const auto options = guarded("fedavg", smaller("topk", 0.05));
  auto watched = make_toy(options), plain = make_toy(options);
  for (int64_t round = 1; round <= 3; ++round) {
    plain.play(round, round), watched.play(round, round);
    watched.evaluate(round);
  }
  EXPECT_EQ(fingerprint(plain), fingerprint(watched));
}

TEST(Guards, ResumedEqualsUninterrupted) {
  const auto options = guarded("fedper", smaller("topk", 0.05, 1));
  auto whole = make_toy(options);
  whole.play(1, 5);
  testing::TempDir dir;
  {
    auto first = make_toy(options);
    auto file = CheckpointFile::create(dir.path());
    ASSERT_TRUE(file.ok()) << message(file.status());
    first.play(1, 3);
    CheckpointChanges changes{first.driver->server(), {}};
    for (const ClientId id : first.store->ids())
      changes.clients.emplace_back(id, first.store->get(id));
    ASSERT_TRUE(file->save({3, "x", "", ""}, changes).ok());
  }
  auto loaded = CheckpointFile::open(dir.path());
  ASSERT_TRUE(loaded.ok()) << message(loaded.status());
  auto second = make_toy(options);
  ASSERT_TRUE(second.driver->restore(loaded->second.server).ok());
  for (auto& [id, state] : loaded->second.clients) {
    EXPECT_TRUE(state.contains("guard/value.base.w"));
    EXPECT_THAT(second.simulation->host().restore(id, state), testing::Succeeds());
  }
  second.play(4, 5);
  EXPECT_EQ(fingerprint(whole), fingerprint(second));
}

TEST(Guards, AStateWithAForgedMemoryIsRefused) {
  auto toy = make_toy(guarded("fedavg", smaller("topk")));
  auto& host = toy.simulation->host();
  EXPECT_THAT(host.restore(1, {{"guard/value.w", at::full({1003}, NAN)}}),
              testing::FailsWith(Error::kInvalid, "the state of client 1: the guard's memory"));
  auto off = make_toy(noisy("fedavg"));
  EXPECT_THAT(off.simulation->host().restore(1, {{"guard/value.w", at::zeros({1003})}}),
              testing::FailsWith(Error::kInvalid, "top-k, which is off"));
}

TEST(Guards, ARejectedUploadTakesTheMemoryBack) {
  constexpr ClientId kLiar = 2;
  const std::vector<std::function<void(Reply&)>> lies{
      [](Reply& r) { r.up.at("value.w/index")[0] = 1'000'000; },
      [](Reply& r) { r.up.at("value.w/value") = at::full_like(r.up.at("value.w/value"), NAN); },
      [](Reply& r) { r.up.erase("value.w/index"); },
      [](Reply& r) { r.up.emplace("zz", at::zeros({1})); },
      [](Reply& r) { r.status = fail(Error::kBusy, "lost"); }};
  std::string without;
  for (const auto& lie : lies) {
    const auto options = guarded("fedavg", smaller("topk", 0.05));
    auto toy = make_toy(options);
    toy.play(1, 1);
    const auto before = fingerprint(*toy.store->get(kLiar));
    MeddlingEngine engine(toy.simulation->engine());
    engine.on_reply = [&](Reply& reply) {
      if (reply.kind == TaskKind::kTrain && reply.client == kLiar) lie(reply);
    };
    Driver driver(*toy.session, options.federation, engine, &toy.federation.commons);
    ASSERT_TRUE(driver.restore(toy.server()).ok());
    const auto report = driver.play(2);
    ASSERT_TRUE(report.ok()) << message(report.status());
    EXPECT_TRUE(report->counted);
    ASSERT_EQ(report->problems.size(), 1U);
    EXPECT_EQ(report->problems[0].client, kLiar);
    EXPECT_EQ(fingerprint(*toy.store->get(kLiar)), before);
    if (without.empty()) without = fingerprint(driver.server());
    EXPECT_EQ(fingerprint(driver.server()), without) << report->problems[0].reason;
  }
}

TEST(Guards, AClientThatDivergedIsRejectedForTheSameReason) {
  for (const char* compress : {"none", "fp16", "int8", "topk"}) {
    auto options = guarded("fedavg", smaller(compress));
    auto toy = make_toy(options);
    MeddlingEngine engine(toy.simulation->engine());
    engine.on_task = [](Task& task) {
      if (task.kind == TaskKind::kTrain && task.client == 1) task.down["w"] = task.down["w"] * NAN;
    };
    Driver driver(*toy.session, options.federation, engine, &toy.federation.commons);
    ASSERT_TRUE(driver.begin().ok());
    const auto report = driver.play(1);
    ASSERT_TRUE(report.ok()) << message(report.status());
    ASSERT_EQ(report->problems.size(), 1U);
    EXPECT_EQ(report->problems[0].reason, "'value.w' is not finite") << compress;
  }
}

TEST(Guards, RoundedUploadsLearnWhatExactOnesDo) {
  for (const char* method : {"fedavg", "fedper", "fedsgd"}) {
    auto plain = make_toy(noisy(method));
    plain.play(1, 5);
    const double exact = mean_post_loss(plain.evaluate(5));
    for (const char* compress : {"fp16", "int8"}) {
      auto toy = make_toy(guarded(method, smaller(compress)));
      toy.play(1, 5);
      EXPECT_NEAR(mean_post_loss(toy.evaluate(5)), exact, 0.02) << method << " " << compress;
    }
  }
}

TEST(Guards, TopKLearnsToo) {
  for (const char* method : {"fedavg", "fedsgd"}) {
    auto options = guarded(method, smaller("topk", 0.1));
    options.rounds = 20;
    options.train.lr = 0.2, options.train.momentum = 0;
    auto toy = make_toy(options);
    const auto global_loss = [&](int64_t round) {
      double sum = 0;
      for (const auto& e : toy.evaluate(round).clients) sum += e.global_test->loss;
      return sum;
    };
    const double before = global_loss(0);
    toy.play(1, 20);
    EXPECT_LT(global_loss(20), 0.8 * before) << method;
  }
}

std::vector<std::pair<std::string, GuardOptions>> defences() {
  std::vector<std::pair<std::string, GuardOptions>> out(9);
  out[0].first = "clip", out[0].second.clip = ClipGuard{.bound = 0.5};
  out[1].first = "dp", out[1].second.dp = DpGuard{.bound = 0.5, .sigma = 0.1};
  out[2].first = "perturb", out[2].second.perturb = PerturbGuard{};
  out[3].first = "prune", out[3].second.prune = PruneGuard{};
  out[4].first = "reject", out[4].second.reject = RejectGuard{};
  out[5].first = "counts", out[5].second.counts = CountsGuard{.digits = 1};
  out[6].first = "secure-aggregation", out[6].second.secure = SecureAggregationGuard{};
  out[7].first = "dp-sgd", out[7].second.dp_sgd = DpSgdGuard{.sigma = 0.5};
  out[8].first = "transform", out[8].second.transform = TransformGuard{.iterations = 2};
  return out;
}

ToyOptions defended(const MethodInfo& info, const GuardOptions& guard) {
  ToyOptions options{.method = info.name};
  options.numbers = {{"p", 1}};
  options.train.batch = 8, options.train.lr = 0.05;
  options.guard = guard;
  return options;
}

/// Some need a bank of heads for newcomers, and then upload more: they play without newcomers.
Toy toy_of(const ToyOptions& options) {
  const bool banks = options.method.starts_with("fedmetaper") || options.method == "lgfedavg";
  if (!banks) return make_toy(options);
  auto federation = toy_federation(4, 0, 40);
  auto net = *make_model("mlp100", {federation.sample_shape, federation.classes});
  return {std::move(federation), std::move(net), options};
}

// Each either runs or says why it does not.
TEST(Guards, EveryMethodRunsBehindEveryDefenceOrSaysWhyNot) {
  std::vector<std::string> refused;
  for (const auto& info : methods()) {
    if (info.pooled) continue;
    for (const auto& [name, guard] : defences()) {
      if (!guard_conflicts(guard, info).empty()) {
        refused.push_back(info.name + " " + name);
        continue;
      }
      try {
        auto toy = toy_of(defended(info, guard));
        EXPECT_EQ(toy.play(1, 2).size(), 2U) << info.name << " " << name;
        for (const auto& e : toy.evaluate(2).clients)
          EXPECT_TRUE(std::isfinite(e.post_test.loss)) << info.name << " " << name;
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("guard '" + name + "' does not go with"));
        refused.push_back(info.name + " " + name);
      }
    }
  }
  std::vector<std::string> expected{
      // uploads with sums over samples
      "prior dp", "mosaic dp", "mosaic-groups dp", "ifca dp",
      // whole models beside changes, or instead of them
      "heurpfedla clip", "heurpfedla dp", "heurpfedla perturb", "heurpfedla prune",
      "heurpfedla reject", "fedpermeta clip", "fedpermeta dp", "fedpermeta perturb",
      "fedpermeta prune", "fedpermeta reject",
      // servers that need single uploads, or keep heads of all
      "fedham secure-aggregation", "aml1 secure-aggregation", "aml2 secure-aggregation",
      "fedacs secure-aggregation", "fedamp secure-aggregation", "pfedla secure-aggregation",
      "heurpfedla secure-aggregation", "pfedhn secure-aggregation", "pfedht secure-aggregation",
      "fedpermeta secure-aggregation", "pfedht-gan secure-aggregation",
      "mosaic-groups secure-aggregation", "ifca secure-aggregation",
      // nothing is uploaded
      "local secure-aggregation", "majority secure-aggregation", "persistence secure-aggregation",
      // a GAN beside the model, which is trained on virtual samples, too
      "pfedht-gan dp-sgd", "fedavg-gan dp-sgd"};
  // More than local SGD, or nothing of it.
  const std::vector<std::string> beyond{"local",
                                        "majority",
                                        "persistence",
                                        "fedsgd",
                                        "fedham",
                                        "aml1",
                                        "aml2",
                                        "fedmeta-maml",
                                        "fedmeta-metasgd",
                                        "fedmetaper-maml",
                                        "fedmetaper-metasgd",
                                        "fomaml",
                                        "imaml",
                                        "fed_t_a",
                                        "fedrep",
                                        "fedbn",
                                        "fedrod",
                                        "fedhealth",
                                        "peravg",
                                        "pfedme",
                                        "apfl",
                                        "ifca",
                                        "pfedgp",
                                        "prior",
                                        "mosaic",
                                        "mosaic-groups"};
  for (const auto& method : beyond)
    for (const char* guard : {" dp-sgd", " transform"}) expected.push_back(method + guard);
  EXPECT_THAT(refused, ::testing::UnorderedElementsAreArray(expected));
}

/// A network whose samples nobody sees but through clipped gradients, which it counts.
class Sealed final : public Model {
 public:
  explicit Sealed(std::shared_ptr<const Model> net) : net_(std::move(net)) {}
  const Layout& layout() const override { return net_->layout(); }
  const Layout& buffers() const override { return net_->buffers(); }
  Weights init(uint64_t key) const override { return net_->init(key); }
  Output forward(const Weights&, const Tensor&, const Pass&) const override { throw peeped(); }
  Tensor predict(const Weights&, const Tensor&) const override { throw peeped(); }
  bool value_and_grad(const Weights&, const Tensor&, const Tensor&, Loss, Tensor&,
                      double&) const override {
    throw peeped();
  }
  bool clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, Tensor& grad, std::vector<double>& norms,
                        double& value) const override {
    ++steps;
    return net_->clipped_gradient(at, x, y, loss, clip, grad, norms, value);
  }
  std::string no_clipping() const override { return ""; }
  mutable int64_t steps = 0;

 private:
  static std::logic_error peeped() { return std::logic_error("it looked at single samples"); }
  std::shared_ptr<const Model> net_;
};

// What the table declares of guards inside training, held to the methods themselves: an upload
// takes clipped gradients alone, and as many as are accounted for.
TEST(Guards, UploadsBehindDpSgdAreClippedGradientsAndAllAreCounted) {
  GuardOptions guard;
  guard.dp_sgd = DpSgdGuard{.sigma = 0};  // batches as ever: none is empty
  int64_t plain = 0;
  for (const auto& info : methods()) {
    if (!info.beyond_sgd.empty()) continue;
    ++plain;
    auto options = defended(info, guard);
    options.train.epochs = 3;
    auto toy = toy_of(options);
    toy.play(1, 1);
    const auto down = toy.download(toy.server(), 1, Why::kTrain, {}, 2);
    const Sealed sealed(toy.model);
    const auto& real = toy.federation.clients[1];
    const auto setup = toy.session->client_setup(2);
    const tessera::Setup watched{sealed,    setup.clients,   setup.rounds, setup.participation,
                                 setup.key, setup.newcomers, setup.round};
    const Local local{{sealed, real, 2, 42}, watched, 1};
    toy.method->local_update(toy.state(1), down, local);
    // Ditto's own model takes as many again, and stays where it is.
    const int64_t models = info.name == "ditto" ? 2 : 1;
    EXPECT_EQ(sealed.steps, models * toy.method->local_steps(real.train_size())) << info.name;
  }
  EXPECT_EQ(plain, 21);
}

// What does nothing changes nothing.
TEST(Guards, DpSgdWithoutNoiseAndClippingLeavesEveryBit) {
  GuardOptions idle;
  idle.dp_sgd = DpSgdGuard{.bound = 1e9, .sigma = 0};
  for (const char* method : {"fedavg", "fedper", "fedacs", "ditto", "fedbabu"}) {
    auto plain = make_toy(noisy(method)), guarded_by = make_toy(guarded(method, idle));
    plain.play(1, 3), guarded_by.play(1, 3);
    EXPECT_EQ(fingerprint(plain), fingerprint(guarded_by)) << method;
    EXPECT_EQ(losses_of(plain.evaluate(3)), losses_of(guarded_by.evaluate(3))) << method;
  }
}

// They act where somebody asks a model: no upload and no number of a run knows of them.
TEST(Guards, GuardsOfAnswersLeaveEveryBitOfEveryMethod) {
  GuardOptions answers;
  // Votes: below.
  answers.answers = {.aggregate = AggregateAnswers{},
                     .noise = NoiseAnswers{},
                     .round = RoundAnswers{},
                     .topk = TopkAnswers{.k = 2}};
  for (const auto& info : methods()) {
    if (info.pooled) continue;
    EXPECT_TRUE(guard_conflicts(answers, info).empty()) << info.name;
    auto plain = toy_of(defended(info, {})), guarded_by = toy_of(defended(info, answers));
    EXPECT_FALSE(guarded_by.session->guard().active()) << info.name;
    plain.play(1, 1), guarded_by.play(1, 1);
    EXPECT_EQ(fingerprint(plain), fingerprint(guarded_by)) << info.name;
  }
}

/// Predictions of those who vote for client 1 after two rounds, on its test samples.
std::vector<Tensor> votes_of(const Toy& toy, const ClientData& data) {
  const auto down = toy.download(toy.server(), 1, Why::kEvaluate, {}, 3);
  const auto local = toy.local(1, data, 3);
  const auto voters = make_voters(*toy.session, toy.state(1), down, local);
  const auto& own = toy.federation.clients[1];
  const auto test = own.range(Part::kTest, 0, own.size(Part::kTest));
  std::vector<Tensor> out;
  for (const auto& voter : voters.models) out.push_back(voter.predict(test.x));
  return out;
}

// Who votes has learned from its own part: other samples in another part change it, and none of the
// others by a bit.
TEST(Guards, EveryMethodVotesByPartsOrSaysWhyNot) {
  GuardOptions guard;
  guard.answers.vote = VoteAnswers{.parts = 3};
  std::vector<std::string> refused;
  for (const auto& info : methods()) {
    if (const auto conflicts = guard_conflicts(guard, info); !conflicts.empty()) {
      EXPECT_EQ(conflicts.front().first, "vote");
      EXPECT_THAT(conflicts.front().second, ::testing::HasSubstr(info.no_vote));
      refused.push_back(info.name);
      continue;
    }
    auto options = defended(info, guard);
    options.rounds = 2;
    auto toy = toy_of(options);
    toy.play(1, 2);
    const auto before = fingerprint(toy);
    const auto& own = toy.federation.clients[1];
    const auto parts = disjoint_parts(own, 3, derive(toy.session->seed(), Purpose::kGuard, 0, 1));
    auto pool = std::make_shared<Pool>(*own.pool);
    pool->x = own.pool->x.contiguous().clone();
    for (const int64_t row : parts[1].train) pool->x[row].mul_(-1).add_(0.5);
    auto other = own;
    other.pool = pool;
    const auto a = votes_of(toy, own), b = votes_of(toy, other);
    ASSERT_EQ(a.size(), 3U) << info.name;
    EXPECT_TRUE(at::equal(a[0], b[0])) << info.name;
    EXPECT_FALSE(at::equal(a[1], b[1])) << info.name << " has learned nothing from its part";
    EXPECT_TRUE(at::equal(a[2], b[2])) << info.name;
    EXPECT_FALSE(at::equal(a[0], a[2])) << info.name;
    EXPECT_EQ(before, fingerprint(toy)) << info.name;
  }
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("local", "centralized", "majority",
                                                       "persistence", "prior"));
}

// One step on all of a part: g − eta times its mean gradient.
TEST(Guards, WhoVotesHasTrainedFromTheCommonModelOnItsPart) {
  GuardOptions guard;
  guard.answers.vote = VoteAnswers{.parts = 4};
  ToyOptions options{.method = "fedavg"};
  options.train.epochs = 1, options.train.batch = 1000, options.train.lr = 0.1;
  options.guard = guard;
  auto toy = make_toy(options);
  toy.play(1, 1);
  const auto down = toy.download(toy.server(), 1, Why::kEvaluate, {}, 2);
  const auto voters = make_voters(*toy.session, toy.state(1), down, toy.local(1, 2));
  const Weights g{toy.server().at("g.w"), toy.server().at("g.b")};
  ASSERT_EQ(voters.models.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const auto mean =
        full_gradient(g, {*toy.model, voters.data[i], 2, 0}, Loss::kCrossEntropy, Part::kTrain);
    EXPECT_TRUE(at::allclose(voters.models[i].weights->w, g.w - 0.1 * mean.grad, 1e-4, 1e-6));
  }
}

TEST(Guards, VotesNeedASampleForEveryPart) {
  GuardOptions guard;
  guard.answers.vote = VoteAnswers{.parts = 100};
  auto toy = make_toy(guarded("fedavg", guard));
  const auto met = toy.driver->meet_clients();
  EXPECT_THAT(message(met), ::testing::HasSubstr("guard 'vote' needs a training sample for each of "
                                                 "its 100 parts"));
}

// Whether uploads are models or changes is declared; here it shows in their numbers.
TEST(Guards, UploadsAreWhatTheTableSays) {
  for (const auto& info : methods()) {
    if (info.pooled || !info.learns) continue;
    auto options = defended(info, {});
    options.train.lr = 1e-4;
    auto toy = toy_of(options);
    toy.play(1, 1);
    const auto down = toy.download(toy.server(), 1, Why::kTrain, {}, 2);
    const auto up = toy.method->local_update(toy.state(1), down, toy.local(1, 2)).upload;
    for (const auto& moved : trained_in(up, down, *toy.method->parts())) {
      if (!moved.from.defined()) continue;
      const double whole = norm_of(up, {{moved.name, {}}});
      EXPECT_LT(norm_of(up, {moved}), 0.5 * whole) << info.name << " " << moved.name;
    }
    // A change or a gradient is nowhere near the download.
    for (const auto& [name, tensor] : up) {
      const auto* part = toy.method->parts()->find(name);
      if (part->meaning != Meaning::kTrained) continue;
      if (part->before != Before::kChange && part->before != Before::kGradient) continue;
      for (const auto& [other, sent] : down)
        if (sent.sizes() == tensor.sizes() && tensor.dim() > 0) {
          EXPECT_GT(norm_of(up, {{name, sent}}), 0.5 * norm_of(up, {{name, {}}})) << info.name;
        }
    }
  }
}

// With times = 1 all go that are longer than the round's median: two of four. Which, is worked out
// from the method's own calls.
TEST(Guards, RejectLeavesOutWhatIsTooLong) {
  GuardOptions guard;
  guard.reject = RejectGuard{.times = 1};
  for (const char* method : {"fedavg", "fedper"}) {
    auto options = guarded(method, guard);
    options.federation.participation = 1, options.federation.drop_rate = 0;
    auto toy = make_toy(options);
    std::vector<std::pair<double, ClientId>> norms;
    for (ClientId id = 0; id < 4; ++id) {
      const auto down = toy.download(toy.server(), id, Why::kTrain, {0, 1, 2, 3});
      const auto key = derive(options.seed, Purpose::kLocal, 1, id);
      const auto up = toy.method->local_update(toy.fresh(id), down, toy.local(id, 1, key)).upload;
      norms.emplace_back(norm_of(up, trained_in(up, down, *toy.method->parts())), id);
    }
    std::sort(norms.begin(), norms.end());
    const auto report = toy.driver->play(1);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->counted);
    std::vector<ClientId> left_out;
    for (const auto& problem : report->problems) {
      left_out.push_back(problem.client);
      EXPECT_THAT(problem.reason, ::testing::HasSubstr("(guard 'reject')"));
    }
    EXPECT_THAT(left_out, ::testing::UnorderedElementsAre(norms[2].second, norms[3].second));
  }
}

TEST(Guards, DefencesAreTheSameOnEveryEngine) {
  for (const auto& [name, guard] : defences()) {
    auto options = guarded("fedper", guard);
    options.federation.participation = 0.75;
    auto one = make_toy(options);
    options.threads = 4, options.through_wire = true;
    auto four = make_toy(options);
    one.play(1, 3), four.play(1, 3);
    EXPECT_EQ(fingerprint(one), fingerprint(four)) << name;
  }
}

// Whatever a method uploads arrives in the form that it expects.
TEST(Guards, EveryMethodWorksBehindThem) {
  for (const auto& info : methods()) {
    if (info.pooled) continue;
    ToyOptions options{.method = info.name};
    // Newcomers need a bank, where there is one; FedHAM begins with a warm-up that is FedAvg.
    options.numbers = {{"head_bank", 1}, {"base_bank", 1}, {"p", 1}};
    options.train.batch = 8, options.train.lr = 0.05;
    const auto exact = make_toy(options).play(1, 1).at(0).bytes_up;
    for (const auto& guard : {smaller("int8", 0.01, 1), smaller("topk", 0.1)}) {
      options.guard = guard;
      auto toy = make_toy(options);
      const auto reports = toy.play(1, 2);  // fails the test if an upload is rejected
      ASSERT_EQ(reports.size(), 2U) << info.name;
      EXPECT_LE(reports[0].bytes_up, exact) << info.name;
      if (guard.compress->to == "int8" && exact > 0) {
        EXPECT_LT(reports[0].bytes_up, exact / 2) << info.name;
      }
      for (const auto& e : toy.evaluate(2).clients) EXPECT_TRUE(std::isfinite(e.post_test.loss));
    }
  }
}

}  // namespace
}  // namespace tessera::test
