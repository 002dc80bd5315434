// FedACS on models of two numbers, whose cosines are those of angles; one test per resolution of
// docs/methods.md §5.2 that bites, and the limits of §10.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/key.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

double cosine(double degrees) { return std::cos(degrees * std::numbers::pi / 180); }

Weights arrow(double degrees, double length = 1) {
  return {at::tensor({length * cosine(degrees), length * cosine(90 - degrees)}, at::kFloat),
          at::empty({0})};
}

/// Σ weight · w / Σ weight, in float64.
Tensor blend(const std::vector<std::pair<double, Weights>>& parts) {
  auto sum = at::zeros({2}, at::kDouble);
  double total = 0;
  for (const auto& [weight, part] : parts) sum += weight * part.w.to(at::kDouble), total += weight;
  return sum / total;
}

/// A server of FedACS that gets its uploads from the test.
struct AcsDesk {
  Toy toy;
  TensorDict server;

  AcsDesk(int64_t clients, ToyOptions options)
      : toy(data(clients), std::make_shared<NapkinModel>(), named(options)), server(toy.server()) {}
  static ToyOptions named(ToyOptions options) {
    options.method = "fedacs";
    // As published, unless a test says otherwise.
    options.numbers.insert(options.numbers.begin(), {"min_group", 1});
    return options;
  }
  static Federation data(int64_t clients) {
    Federation out;
    out.sample_shape = {1};
    out.classes = 2;
    for (int64_t i = 0; i < clients; ++i) out.clients.push_back(napkin_client({1.0F}, {0}));
    return out;
  }
  void upload(const std::vector<std::pair<ClientId, Weights>>& models) {
    std::vector<Received<TensorDict>> uploads;
    for (const auto& [id, w] : models) uploads.push_back({id, pack(w)});
    server = toy.aggregate(server, uploads);
  }
  Tensor u(ClientId id, const std::vector<ClientId>& ids = {0, 1, 2}) const {
    return toy.download(server, id, Why::kTrain, ids).at("w");
  }
  /// By name; these clients evaluated.
  Tensor exhibit(const std::string& name, const std::vector<ClientId>& ids = {0, 1, 2},
                 int64_t round = 1) const {
    for (const auto& one : toy.exhibits(server, {ids, {}}, round))
      if (one.name == name) return one.value;
    ADD_FAILURE() << "no exhibit " << name;
    return {};
  }
};

#define EXPECT_CLOSE(a, b) EXPECT_TRUE(at::allclose((a).to(at::kDouble), b, 0, 1e-6)) << (a)

// Pairs: cos 20 = 0.94, cos 60 = 0.5, cos 80 = 0.17. Lengths must not matter to the cosines.
const Weights kArrowA = arrow(0, 2), kArrowB = arrow(20), kArrowC = arrow(80, 0.5);

AcsDesk three_arrows(std::vector<std::pair<std::string, double>> numbers,
                     std::vector<std::pair<std::string, std::string>> words = {}) {
  AcsDesk desk(3, {.numbers = std::move(numbers), .words = std::move(words)});
  desk.upload({{0, kArrowA}, {1, kArrowB}, {2, kArrowC}});
  return desk;
}

// Resolutions 1 (the pair that is the threshold itself passes), 2 (over pairs) and 5 (u_i replaces
// w_i: no step size between them).
TEST(FedAcs, MixesTheModelsThatAreSimilarEnough) {
  const auto desk = three_arrows({{"p", 0.5}});  // threshold: cos 60
  EXPECT_CLOSE(desk.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}}));
  EXPECT_CLOSE(desk.u(1), blend({{cosine(20), kArrowA}, {1, kArrowB}, {cosine(60), kArrowC}}));
  EXPECT_CLOSE(desk.u(2), blend({{cosine(60), kArrowB}, {1, kArrowC}}));
}

// Theorem 2.1: (1 − alpha) w_i + alpha times the mixture; the group is the same.
TEST(FedAcs, AlphaIsAStepTowardsTheMixture) {
  const auto desk = three_arrows({{"p", 0.5}, {"alpha", 0.25}});
  const auto whole = blend({{cosine(20), kArrowA}, {1, kArrowB}, {cosine(60), kArrowC}});
  EXPECT_CLOSE(desk.u(1), 0.75 * kArrowB.w.to(at::kDouble) + 0.25 * whole);
  EXPECT_NEAR(desk.exhibit("threshold")[1].item<double>(), 7.0 / 3, 1e-12);
  EXPECT_NEAR(desk.exhibit("collaboration")[1][1].item<double>(),
              0.75 + 0.25 / (1 + cosine(20) + cosine(60)), 1e-6);
  EXPECT_TRUE(three_arrows({{"p", 0}, {"alpha", 0}}).u(1).equal(kArrowB.w)) << "alone";
}

// Resolution 1: with p = 1 only the most similar pair is left, and nobody without itself.
TEST(FedAcs, EverybodyIsInItsOwnGroup) {
  const auto desk = three_arrows({{"p", 1}});
  EXPECT_CLOSE(desk.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}}));
  EXPECT_TRUE(desk.u(2).equal(kArrowC.w));
  // The printed quantile is then 1, which nothing exceeds.
  const auto literal = three_arrows({{"p", 0.9}}, {{"quantile", "all"}});
  EXPECT_TRUE(literal.u(0).equal(kArrowA.w));
  EXPECT_TRUE(literal.u(1).equal(kArrowB.w));
  EXPECT_TRUE(literal.u(2).equal(kArrowC.w));
}

// Resolutions 1 and 6: equal models have cosines 1 up to rounding, and all collaborate at any p.
TEST(FedAcs, EqualModelsStayAsTheyAre) {
  for (const double p : {0.0, 0.5, 1.0})
    for (const char* quantile : {"offdiag", "all"}) {
      AcsDesk desk(3, {.numbers = {{"p", p}}, .words = {{"quantile", quantile}}});
      const Weights w{at::tensor({0.1F, 0.7F}), at::empty({0})};
      desk.upload({{0, w}, {1, w}, {2, w}});
      for (ClientId id = 0; id < 3; ++id) EXPECT_TRUE(at::allclose(desk.u(id), w.w, 0, 1e-7));
      EXPECT_EQ(desk.exhibit("threshold")[1].item<double>(), 3);
    }
}

// Resolution 2: the whole matrix has its diagonal and every pair twice.
TEST(FedAcs, QuantileOfAllEntriesIsAnotherThreshold) {
  const auto desk = three_arrows({{"p", 0.5}}, {{"quantile", "all"}});  // 0.17² 0.5² 0.94² 1³: 0.94
  EXPECT_NEAR(desk.exhibit("threshold")[0].item<double>(), cosine(20), 1e-6);
  EXPECT_CLOSE(desk.u(1), blend({{cosine(20), kArrowA}, {1, kArrowB}}));
  // p (n − 1)/n is its equivalent of p over pairs.
  const auto equivalent = three_arrows({{"p", 0.5 * 2 / 3}}, {{"quantile", "all"}});
  EXPECT_CLOSE(equivalent.u(1),
               blend({{cosine(20), kArrowA}, {1, kArrowB}, {cosine(60), kArrowC}}));
}

// Resolution 3: a negative weight would subtract a model, and 1 + cos 180 divide by 0.
TEST(FedAcs, OppositesDoNotCollaborate) {
  AcsDesk desk(3, {.numbers = {{"p", 0}}});
  desk.upload({{0, arrow(0)}, {1, arrow(130)}, {2, arrow(50)}});
  EXPECT_CLOSE(desk.u(0), blend({{1, arrow(0)}, {cosine(50), arrow(50)}}));
  desk.upload({{1, arrow(180)}, {2, arrow(180)}});
  EXPECT_TRUE(desk.u(0).equal(arrow(0).w));
}

// Resolution 4: the limit of all clients is p = 0, with cosines for weights.
TEST(FedAcs, WithoutThresholdEverybodyCollaborates) {
  const auto desk = three_arrows({{"p", 0}});
  EXPECT_CLOSE(desk.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}, {cosine(80), kArrowC}}));
  EXPECT_CLOSE(desk.u(2), blend({{cosine(80), kArrowA}, {cosine(60), kArrowB}, {1, kArrowC}}));
  EXPECT_EQ(desk.exhibit("threshold")[1].item<double>(), 3);
}

// Resolutions 1 and 6: round 1 has no server step, and one start for all.
TEST(FedAcs, EverybodyStartsFromTheSameModel) {
  const AcsDesk desk(3, {});
  const auto w0 = desk.toy.model->init(desk.toy.setup().key).w;
  for (ClientId id = 0; id < 3; ++id) {
    EXPECT_TRUE(desk.u(id).equal(w0));
    EXPECT_TRUE(desk.toy.fresh(id).empty()) << "what a client has is what it is sent";
  }
  EXPECT_TRUE(desk.toy.exhibits(desk.server, {{0, 1, 2}, {}}).empty());
}

// After s full-batch steps of a client with x = 1, y = 0: each adds lr (1 − p0) (1, −1).
Tensor stepped(double lr, int64_t steps) {
  double a = 0.5, b = -0.25;
  for (int64_t i = 0; i < steps; ++i) {
    const double step = lr * (1 - 1 / (1 + std::exp(b - a)));
    a += step, b -= step;
  }
  return at::tensor({a, b}, at::kDouble);
}

// Resolution 7: epochs, or as many steps as asked for (1 is the printed form).
TEST(FedAcs, TrainsForEpochsOrSteps) {
  const auto uploaded = [](double steps) {
    ToyOptions options{.numbers = {{"steps", steps}}};
    options.train.epochs = 2;
    options.train.lr = 0.3;
    AcsDesk desk(1, options);
    desk.toy.play(1, 1);
    return desk.toy.server().at("latest@0.w");
  };
  EXPECT_CLOSE(uploaded(0), stepped(0.3, 2));
  EXPECT_CLOSE(uploaded(1), stepped(0.3, 1));
  EXPECT_CLOSE(uploaded(5), stepped(0.3, 5));
}

// Resolution 8: seen from 0 models near w_0 are all alike; seen from w_0 they are not.
TEST(FedAcs, SpaceDelta0ComparesChanges) {
  const auto w0 = NapkinModel().init(0).w;
  const auto moved = [&](float x, float y) {
    return Weights{w0 + at::tensor({x, y}), at::empty({0})};
  };
  const auto a = moved(0.01F, 0), b = moved(0, 0.01F), c = moved(0.01F, 0.01F);
  AcsDesk changes(3, {.numbers = {{"p", 0}}, .words = {{"space", "delta0"}}});
  changes.upload({{0, a}, {1, b}, {2, c}});
  EXPECT_CLOSE(changes.u(0), blend({{1, a}, {std::sqrt(0.5), c}}));  // b stands at right angles
  AcsDesk plain_cosines(3, {.numbers = {{"p", 0}}});
  plain_cosines.upload({{0, a}, {1, b}, {2, c}});
  EXPECT_NEAR(plain_cosines.exhibit("similarity").min().item<double>(), 1, 1e-3);
}

TEST(FedAcs, SpaceCentredComparesFromTheMean) {
  const auto at_place = [](float x, float y) {
    return Weights{at::tensor({5 + x, 3 + y}), at::empty({0})};
  };
  const std::vector<Weights> w{at_place(1, 0.2F), at_place(1, -0.2F), at_place(-1, 0.2F),
                               at_place(-1, -0.2F)};
  AcsDesk desk(4, {.numbers = {{"p", 0}}, .words = {{"space", "centred"}}});
  desk.upload({{0, w[0]}, {1, w[1]}, {2, w[2]}, {3, w[3]}});
  const double near = 0.96 / 1.04;
  EXPECT_CLOSE(desk.u(0, {0, 1, 2, 3}), blend({{1, w[0]}, {near, w[1]}}));
  // The mean is that of the participants: two of them are always opposites.
  EXPECT_TRUE(desk.u(0, {0, 1}).equal(w[0].w));
  EXPECT_TRUE(desk.u(0, {0}).equal(w[0].w));
}

TEST(FedAcs, GroupsOfTwoAreFilledUpAndWhoIsAloneStaysAlone) {
  // The threshold is the largest similarity: A and B would be two, C is alone.
  const auto two = three_arrows({{"p", 1}});
  EXPECT_CLOSE(two.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}}));
  const auto desk = three_arrows({{"p", 1}, {"min_group", 3}});
  EXPECT_CLOSE(desk.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}, {cosine(80), kArrowC}}));
  EXPECT_TRUE(desk.u(2).equal(kArrowC.w));
}

TEST(FedAcs, GroupsLargerThanARoundAreRefused) {
  ToyOptions options{.method = "fedacs", .numbers = {{"min_group", 3}}};
  options.federation.participation = 0.5;
  const AcsDesk desk(4, options);
  const auto status = desk.toy.method->check(desk.toy.setup());
  EXPECT_EQ(error_of(status), Error::kInvalid);
  EXPECT_NE(message(status).find("min_group is 3, but only 2 of 4"), std::string::npos)
      << message(status);
}

// By the round that comes next, however many rounds before it failed.
TEST(FedAcs, DynamicPFallsInTheFirstTenth) {
  AcsDesk desk(3, {.numbers = {{"p", 0.5}, {"dynamic", 1}}, .rounds = 40});
  desk.upload({{0, kArrowA}, {1, kArrowB}, {2, kArrowC}});
  int64_t round = 2;
  for (const double p : {0.99 - 0.49 / 4, 0.99 - 0.49 / 2, 0.99 - 0.49 * 3 / 4, 0.5, 0.5}) {
    EXPECT_NEAR(desk.exhibit("threshold", {0, 1, 2}, round)[2].item<double>(), p, 1e-12);
    ++round;
  }
  EXPECT_EQ(desk.exhibit("threshold", {0, 1, 2}, 1)[2].item<double>(), 0.99);
  // The downloads follow it too: client 2 mixes at p = 0.5, not yet in round 2.
  const auto sent = [&](int64_t at) {
    return desk.toy.download(desk.server, 2, Why::kTrain, {0, 1, 2}, at).at("w");
  };
  EXPECT_TRUE(sent(2).equal(kArrowC.w));
  EXPECT_CLOSE(sent(5), blend({{cosine(60), kArrowB}, {1, kArrowC}}));
}

// Similarities only among those who take part, by models that may be many rounds old.
TEST(FedAcs, ParticipantsMixStaleModels) {
  auto desk = three_arrows({{"p", 0}});
  desk.upload({{0, arrow(30)}});
  desk.upload({{0, arrow(40)}});
  EXPECT_CLOSE(desk.u(0, {0, 2}), blend({{1, arrow(40)}, {cosine(40), kArrowC}}));
  EXPECT_CLOSE(desk.u(1, {1, 2}), blend({{1, kArrowB}, {cosine(60), kArrowC}}));
  const auto seen = desk.exhibit("similarity", {0, 2});
  EXPECT_NEAR(seen[0][2].item<double>(), cosine(40), 1e-6);
  EXPECT_EQ(at::isnan(seen).sum().item<int64_t>(), 5);  // row and column of client 1
}

TEST(FedAcs, WhoNeverUploadedStartsFromTheMeanOfAll) {
  AcsDesk desk(3, {.numbers = {{"p", 0}}});
  desk.upload({{0, kArrowA}, {1, kArrowB}});
  EXPECT_CLOSE(desk.u(2), blend({{1, kArrowA}, {1, kArrowB}}));
  EXPECT_CLOSE(desk.u(0), blend({{1, kArrowA}, {cosine(20), kArrowB}}));  // w_0 is nobody's model
}

TEST(FedAcs, UploadsAreKeptNotCopied) {
  const auto desk = three_arrows({});
  EXPECT_EQ(desk.server.at("latest@1.w").data_ptr(), kArrowB.w.data_ptr());
  EXPECT_EQ(desk.u(1, {1}).data_ptr(), kArrowB.w.data_ptr());
}

TEST(FedAcs, ExhibitsAreTheGroups) {
  const auto desk = three_arrows({{"p", 0.5}});
  const auto facts = desk.exhibit("threshold");
  EXPECT_NEAR(facts[0].item<double>(), cosine(60), 1e-6);
  EXPECT_NEAR(facts[1].item<double>(), 7.0 / 3, 1e-12);  // groups of 2, 3 and 2
  EXPECT_EQ(facts[2].item<double>(), 0.5);
  const auto shares = desk.exhibit("collaboration");
  EXPECT_CLOSE(shares.sum(1), at::ones({3}, at::kDouble));
  EXPECT_NEAR(shares[0][1].item<double>(), cosine(20) / (1 + cosine(20)), 1e-6);
  EXPECT_EQ(shares[0][2].item<double>(), 0);
  EXPECT_NEAR(desk.exhibit("similarity")[2][0].item<double>(), cosine(80), 1e-6);
}

TEST(FedAcs, NewcomersGetAMixtureOfAllModels) {
  const auto desk = three_arrows({{"p", 0.5}});  // threshold: cos 60
  const auto& toy = desk.toy;
  EXPECT_EQ(toy.method->exchanges(), 1);
  const auto mean = blend({{1, kArrowA}, {1, kArrowB}, {1, kArrowC}});
  EXPECT_CLOSE(toy.download_guest(desk.server, std::nullopt, 3, {0, 1, 2}).at("w"), mean);
  EXPECT_CLOSE(toy.download_guest(desk.server, std::nullopt, 3).at("w"), mean);
  const auto own = arrow(65, 3);
  const auto known = toy.learn(desk.server, std::nullopt, pack(own));
  EXPECT_CLOSE(toy.download_guest(desk.server, known, 3, {0, 1, 2}).at("w"),
               blend({{cosine(45), kArrowB}, {cosine(15), kArrowC}, {1, own}}));
  // The threshold is that of those who are evaluated with it; the models are everybody's.
  EXPECT_CLOSE(toy.download_guest(desk.server, known, 3, {0, 1}).at("w"),
               blend({{cosine(15), kArrowC}, {1, own}}));
}

TEST(FedAcs, NewcomersTrainOneEpochBeforeTheyUpload) {
  ToyOptions options;
  options.train.epochs = 4;
  options.train.lr = 0.3;
  const AcsDesk desk(2, options);
  const auto down = pack(desk.toy.model->init(0));
  const auto data = napkin_client({1.0F}, {0});
  auto local = desk.toy.local(2, data);
  local.why = Why::kJoin;
  const auto state = desk.toy.method->init_client(local);
  const auto step = desk.toy.method->local_update(state, down, local);
  EXPECT_CLOSE(step.upload.at("w"), stepped(0.3, 1));
  EXPECT_CLOSE(desk.toy.personal(state, down, local, View::kPost).weights->w, stepped(0.3, 4));
  EXPECT_TRUE(desk.toy.personal(state, down, local, View::kPre).weights->w.equal(down.at("w")));
}

// docs/methods.md §0.2: running statistics follow the weights; variances stay at 1e-5 or more.
TEST(FedAcs, MixesRunningStatistics) {
  auto model = *make_model("lenet16-bn", {{3, 32, 32}, 10});
  auto draft = find_method("fedacs")->draft();
  for (auto& option : draft->options())
    if (option.spec.key == "min_group") **std::get_if<int64_t*>(&option.target) = 1;
  const auto method = draft->build({});
  const tessera::Setup setup{*model, 2, 5, 1.0, 3, 0, 1};  // gtest has a Setup too
  const auto w0 = model->init(3);
  const auto filled = [&](double mean, double variance) {
    Weights out = w0.clone();
    const auto views = model->buffers().views(out.b);
    for (size_t i = 0; i < views.size(); ++i) views[i].fill_(i % 2 == 0 ? mean : variance);
    return out;
  };
  const auto mixed = [&](const Weights& a, const Weights& b, ClientId alone) {
    const auto server =
        method->aggregate(*method->init_server(setup), {{0, 1}, {pack(a), pack(b)}}, setup);
    std::vector<Ask<TensorDict>> asks{{std::max<ClientId>(alone, 0), Why::kTrain}};
    if (alone < 0) asks.push_back({1, Why::kTrain});
    TensorDict first;
    method->broadcast(*server, asks, setup, [&](const auto& ask, TensorDict down) {
      if (ask.client == asks[0].client) first = std::move(down);
    });
    return model->buffers().views(first.at("b"));
  };
  const auto plain_mix = mixed(filled(-4, 1), filled(-2, 3), -1);
  EXPECT_NEAR(plain_mix[0].mean().item<double>(), -3, 1e-6);
  EXPECT_NEAR(plain_mix[1].mean().item<double>(), 2, 1e-6);
  const auto dead = mixed(filled(-4, 0), filled(-2, 1e-7), -1);
  EXPECT_FLOAT_EQ(dead[1].min().item<float>(), 1e-5F);
  EXPECT_NEAR(dead[0].mean().item<double>(), -3, 1e-6);
  const auto alone = mixed(filled(-4, 0), filled(-2, 3), 0);  // nothing is mixed
  EXPECT_EQ(alone[1].max().item<float>(), 0);
}

TEST(FedAcs, OneClientIsLocalTraining) {
  auto options = noisy("local");
  options.numbers = {{"patience", 0}};
  auto alone = make_toy(options, 1, 0);
  alone.play(1, 4);
  const auto own = alone.state(0).at("w.w");
  for (const char* space : {"weights", "delta0", "centred"})
    for (const char* quantile : {"offdiag", "all"}) {
      options = noisy("fedacs");
      options.words = {{"space", space}, {"quantile", quantile}};
      auto acs = make_toy(options, 1, 0);
      acs.play(1, 4);
      EXPECT_TRUE(acs.server().at("latest@0.w").equal(own)) << space << quantile;
      EXPECT_TRUE(acs.download(acs.server(), 0, Why::kEvaluate, {}, 5).at("w").equal(own));
    }
}

// The post view is what the client would upload next, and the server step before it is real.
TEST(FedAcs, PostViewIsTheNextUpload) {
  auto toy = make_toy(noisy("fedacs"), 4, 0);
  toy.play(1, 2);
  std::vector<Tensor> pre, post;
  for (ClientId id = 0; id < 4; ++id) {
    const auto down = toy.download(toy.server(), id, Why::kEvaluate, {0, 1, 2, 3}, 3);
    const auto local = toy.local(id, 3, derive(7, Purpose::kLocal, 3, id));
    pre.push_back(toy.personal(toy.state(id), down, local, View::kPre).weights->w);
    post.push_back(toy.personal(toy.state(id), down, local, View::kPost).weights->w);
  }
  EXPECT_FALSE(pre[0].equal(toy.server().at("latest@0.w")));
  EXPECT_FALSE(pre[0].equal(pre[1]));
  toy.play(3, 3);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(toy.server().at(fmt::format("latest@{}.w", i)).equal(post[i]));
}

TEST(FedAcs, EvaluationShowsWhoWorksTogether) {
  auto options = noisy("fedacs");
  options.numbers = {{"min_group", 1}};
  options.federation.participation = 0.5;
  auto toy = make_toy(options, 4, 1);
  EXPECT_TRUE(toy.evaluate(0).exhibits.empty());
  toy.play(1, 1);
  const auto report = toy.evaluate(1);
  ASSERT_EQ(report.exhibits.size(), 3U);
  EXPECT_EQ(report.exhibits[0].name, "similarity");
  EXPECT_EQ(at::isfinite(report.exhibits[0].value).sum().item<int64_t>(), 4);  // 2 of 4 uploaded
  EXPECT_EQ(report.exchanges, 1);
  const int64_t d = toy.model->layout().numel();
  EXPECT_EQ(report.onboard_down, 2 * 4 * d);  // the mean, then the mixture
  EXPECT_EQ(report.onboard_up, 4 * d);
}

}  // namespace
}  // namespace tessera::test
