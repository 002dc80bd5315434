// The meta-learning family on a model whose derivatives fit on a napkin (docs/methods.md §6).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/toy.hpp"

namespace tessera::test {
namespace {

struct Point {
  double body, head;
};
struct Data {
  std::vector<float> x;
  std::vector<int64_t> y;
  Data cut(size_t begin, size_t end) const {
    return {{x.begin() + static_cast<int64_t>(begin), x.begin() + static_cast<int64_t>(end)},
            {y.begin() + static_cast<int64_t>(begin), y.begin() + static_cast<int64_t>(end)}};
  }
};
// A fifth is support: one sample of five, two of ten.
const Data kMetaA{{1.0F, 2.0F, -1.0F, 0.5F, 3.0F}, {0, 1, 0, 0, 1}};
const Data kMetaB{{2.0F, -1.0F, 0.5F, 1.0F, -2.0F, 1.5F, 0.2F, -0.7F, 1.1F, 0.9F},
                  {1, 0, 0, 1, 1, 0, 1, 0, 1, 1}};
constexpr Point kStart{0.5, -0.25};
constexpr double kInnerLr = 0.4, kOuterLr = 0.3;

double share0(Point w, double x) { return 1 / (1 + std::exp(-(w.body - w.head) * x)); }

Point slope(Point w, const Data& data) {
  Point g{0, 0};
  for (size_t i = 0; i < data.x.size(); ++i) {
    const double p0 = share0(w, data.x[i]), n = static_cast<double>(data.x.size());
    g.body += (p0 - (data.y[i] == 0)) * data.x[i] / n;
    g.head += ((1 - p0) - (data.y[i] == 1)) * data.x[i] / n;
  }
  return g;
}
// The Hessian is curvature · [[1, −1], [−1, 1]].
double curvature(Point w, const Data& data) {
  double sum = 0;
  for (const float x : data.x) sum += share0(w, x) * (1 - share0(w, x)) * x * x;
  return sum / static_cast<double>(data.x.size());
}
Point step(Point w, Point rate, Point g) {
  return {w.body - rate.body * g.body, w.head - rate.head * g.head};
}

struct Meta {
  Point w, alpha;
};
// One inner step: d/dw L_q(w − α∘g) = (I − H α) ∇L_q, d/dα = −g ∘ ∇L_q.
Meta meta_slope(Point w, Point alpha, const Data& data) {
  const size_t n = data.x.size() / 5;
  const Data support = data.cut(0, n), query = data.cut(n, data.x.size());
  const Point g = slope(w, support), q = slope(step(w, alpha, g), query);
  const double c = curvature(w, support) * (alpha.body * q.body - alpha.head * q.head);
  return {{q.body - c, q.head + c}, {-g.body * q.body, -g.head * q.head}};
}

Toy napkin(const std::string& method, ToyOptions options = {}, int64_t batch = 100) {
  options.method = method;
  options.train.batch = batch;
  options.numbers.insert(options.numbers.begin(), {{"alpha", kInnerLr}, {"beta", kOuterLr}});
  options.words.insert(options.words.begin(), {"outer", "sgd"});
  Federation data;
  data.sample_shape = {1};
  data.classes = 2;
  data.clients = {napkin_client(kMetaA.x, kMetaA.y), napkin_client(kMetaB.x, kMetaB.y)};
  return Toy(std::move(data), std::make_shared<NapkinModel>(), options);
}

double number(const TensorDict& dict, const std::string& name, int64_t i) {
  return dict.at(name)[i].item<float>();
}

TEST(FedMeta, MamlByHandCountsClientsByTheirQuerySamples) {
  auto toy = napkin("fedmeta-maml");
  toy.play(1, 1);
  const auto a = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaA).w;
  const auto b = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaB).w;
  const auto server = toy.server();
  EXPECT_NEAR(number(server, "g.w", 0), kStart.body - kOuterLr * (4 * a.body + 8 * b.body) / 12,
              1e-6);
  EXPECT_NEAR(number(server, "g.w", 1), kStart.head - kOuterLr * (4 * a.head + 8 * b.head) / 12,
              1e-6);
}

TEST(FedMeta, FirstOrderLeavesTheHessianOut) {
  auto toy = napkin("fomaml");
  toy.play(1, 1);
  const auto flat = [](const Data& data) {
    const size_t n = data.x.size() / 5;
    const auto moved_to = step(kStart, {kInnerLr, kInnerLr}, slope(kStart, data.cut(0, n)));
    return slope(moved_to, data.cut(n, data.x.size()));
  };
  const auto a = flat(kMetaA), b = flat(kMetaB);
  EXPECT_NEAR(number(toy.server(), "g.w", 0),
              kStart.body - kOuterLr * (4 * a.body + 8 * b.body) / 12, 1e-6);
  auto same = napkin("fedmeta-maml", {.words = {{"order", "first"}}});
  same.play(1, 1);
  EXPECT_EQ(fingerprint(toy), fingerprint(same));
}

// Client A has one support sample; B has two: an inner step each, or one for both.
TEST(FedMeta, InnerStepsArePerBatchOrOne) {
  const auto body = [](const std::string& inner) {
    ToyOptions options{.words = {{"inner", inner}}};
    auto toy = napkin("fedmeta-maml", options, 1);
    toy.play(1, 1);
    return number(toy.server(), "g.w", 0);
  };
  const auto a = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaA).w;
  const auto b = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaB).w;
  const double one = kStart.body - kOuterLr * (4 * a.body + 8 * b.body) / 12;
  EXPECT_NEAR(body("one_step"), one, 1e-6);
  EXPECT_GT(std::abs(body("per_batch") - one), 1e-4);
}

TEST(FedMeta, MetaSgdLearnsARatePerCoordinate) {
  auto toy = napkin("fedmeta-metasgd");
  toy.play(1, 1);
  const auto a = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaA);
  const auto b = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaB);
  const auto server = toy.server();
  const auto mean = [](double p, double q) { return kOuterLr * (4 * p + 8 * q) / 12; };
  ASSERT_EQ(server.at("g.w").numel(), 4);
  EXPECT_NEAR(number(server, "g.w", 0), kStart.body - mean(a.w.body, b.w.body), 1e-6);
  EXPECT_NEAR(number(server, "g.w", 1), kStart.head - mean(a.w.head, b.w.head), 1e-6);
  EXPECT_NEAR(number(server, "g.w", 2), kInnerLr - mean(a.alpha.body, b.alpha.body), 1e-6);
  EXPECT_NEAR(number(server, "g.w", 3), kInnerLr - mean(a.alpha.head, b.alpha.head), 1e-6);
}

// The first step of a fresh Adam: beta · sign. Weights are averaged, not gradients.
TEST(FedMeta, AdamMovesEveryCoordinateByBeta) {
  auto toy = napkin("fedmeta-metasgd", {.words = {{"outer", "adam"}}});
  toy.play(1, 1);
  const auto a = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaA);
  const auto b = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaB);
  const auto moved = [](double from, double p, double q) {
    const auto sign = [](double v) { return v > 0 ? 1 : -1; };
    return from - kOuterLr * (4 * sign(p) + 8 * sign(q)) / 12;
  };
  const auto server = toy.server();
  ASSERT_LT(a.w.body * b.w.body, 0) << "the clients agree; the test could not tell the two apart";
  EXPECT_NEAR(number(server, "g.w", 0), moved(kStart.body, a.w.body, b.w.body), 1e-5);
  EXPECT_NEAR(number(server, "g.w", 1), moved(kStart.head, a.w.head, b.w.head), 1e-5);
  EXPECT_NEAR(number(server, "g.w", 2), moved(kInnerLr, a.alpha.body, b.alpha.body), 1e-5);
  EXPECT_NEAR(number(server, "g.w", 3), moved(kInnerLr, a.alpha.head, b.alpha.head), 1e-5);
}

TEST(FedMeta, OuterRateDecaysByRound) {
  ToyOptions options{.words = {{"outer", "adam"}}};
  options.train.lr_decay = 0.5;
  auto toy = napkin("fedmeta-maml", options);
  const auto from = toy.server();
  const auto local = toy.local(0, 3, 42);
  const auto up = toy.method->local_update({}, toy.download(from, 0), local).upload;
  EXPECT_NEAR(std::abs(number(up, "value.w", 0) - kStart.body), kOuterLr / 4, 1e-5);
}

TEST(FedMeta, EvaluatesBeforeAndAfterAdaptation) {
  auto toy = napkin("fedmeta-maml");
  auto data = napkin_client(kMetaA.x, kMetaA.y);
  data.support = {1, 2};
  const auto local = toy.local(0, data);
  const auto down = toy.download(toy.server(), 0);
  const auto pre = toy.personal({}, down, local, View::kPre).weights->w;
  const auto post = toy.personal({}, down, local, View::kPost).weights->w;
  const auto moved_to = step(kStart, {kInnerLr, kInnerLr}, slope(kStart, kMetaA.cut(1, 3)));
  EXPECT_EQ(pre[0].item<float>(), 0.5F);
  EXPECT_NEAR(post[0].item<float>(), moved_to.body, 1e-6);
  EXPECT_NEAR(post[1].item<float>(), moved_to.head, 1e-6);
}

TEST(FedMetaPer, BasesAreAveragedAndHeadsStay) {
  auto toy = napkin("fedmetaper-metasgd");
  toy.play(1, 1);
  const auto a = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaA);
  const auto b = meta_slope(kStart, {kInnerLr, kInnerLr}, kMetaB);
  const auto server = toy.server();
  ASSERT_EQ(server.at("shared.w").numel(), 2);  // the base and its rate
  const auto mean = [](double p, double q) { return kOuterLr * (4 * p + 8 * q) / 12; };
  EXPECT_NEAR(number(server, "shared.w", 0), kStart.body - mean(a.w.body, b.w.body), 1e-6);
  EXPECT_NEAR(number(server, "shared.w", 1), kInnerLr - mean(a.alpha.body, b.alpha.body), 1e-6);
  for (ClientId i = 0; i < 2; ++i) {
    const auto& by = i == 0 ? a : b;
    EXPECT_NEAR(number(toy.state(i), "head", 0), kStart.head - kOuterLr * by.w.head, 1e-6);
    EXPECT_NEAR(number(toy.state(i), "head", 1), kInnerLr - kOuterLr * by.alpha.head, 1e-6);
  }
  // The second round starts from the client's own head: its upload shows it.
  const auto own = toy.state(1);
  const auto up = toy.method->local_update(own, toy.download(server, 1), toy.local(1, 2)).upload;
  ASSERT_EQ(up.at("value.shared.w").numel(), 2);
  EXPECT_FALSE(up.contains("value.head"));
  const Point w{number(server, "shared.w", 0), number(own, "head", 0)};
  const Point alpha{number(server, "shared.w", 1), number(own, "head", 1)};
  EXPECT_NEAR(number(up, "value.shared.w", 0),
              w.body - kOuterLr * meta_slope(w, alpha, kMetaB).w.body, 1e-6);
}

TEST(FedMetaPer, FirstHeadMayBeTheServersMean) {
  ToyOptions options{.words = {{"head_init", "server_mean"}}};
  auto toy = napkin("fedmetaper-maml", options);
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_up, 2 * 2 * 4);  // whole models
  const auto server = toy.server();
  const auto down = toy.download(server, 0);
  const Point mean{number(server, "shared.w", 0), number(server, "shared.w", 1)};
  const auto local = toy.local(0, 2, 42);
  // A client without a head of its own (here: none yet) starts from the mean, one with it does not.
  const auto fresh = toy.method->local_update({}, down, local).next;
  EXPECT_NEAR(number(fresh, "head", 0),
              mean.head - kOuterLr * meta_slope(mean, {kInnerLr, kInnerLr}, kMetaA).w.head, 1e-6);
  const auto own = toy.state(0);
  const Point mine{mean.body, number(own, "head", 0)};
  EXPECT_NEAR(number(toy.method->local_update(own, down, local).next, "head", 0),
              mine.head - kOuterLr * meta_slope(mine, {kInnerLr, kInnerLr}, kMetaA).w.head, 1e-6);
}

/// A newcomer who has seen x = 1 labelled 1, and heads to choose from; the base is 0.
struct Choice {
  Toy toy;
  ClientData data = napkin_client({1.0F}, {1});
  TensorDict down;
  explicit Choice(const std::string& select, const std::vector<float>& heads, double alpha = 0.01)
      : toy(napkin("fedmetaper-maml", {.numbers = {{"head_bank", 1}, {"alpha", alpha}},
                                       .words = {{"select", select}}})) {
    const auto n = static_cast<int64_t>(heads.size());
    down = {{"shared.w", at::zeros({1})},
            {"shared.b", at::empty({0})},
            {"heads", at::tensor(heads).view({n, 1})}};
  }
  Personal personal(View view) const {
    return toy.personal(toy.fresh(9), down, toy.local(9, data), view);
  }
};

TEST(FedMetaPer, NewcomerTakesTheHeadThatFits) {
  for (const char* select : {"during", "support_post"}) {
    const Choice choice(select, {-3, 2, 0.5});
    EXPECT_EQ(choice.personal(View::kPre).weights->w[1].item<float>(), 2) << select;
    EXPECT_NEAR(choice.personal(View::kPost).weights->w[1].item<float>(), 2, 0.05) << select;
  }
}

// Before a step of rate 10 the head 1 is better (loss 0.3); after it −3, which has learned more.
TEST(FedMetaPer, LossDuringAndAfterAdaptationMayDisagree) {
  EXPECT_EQ(Choice("during", {1, -3}, 10).personal(View::kPre).weights->w[1].item<float>(), 1);
  EXPECT_EQ(Choice("support_post", {1, -3}, 10).personal(View::kPre).weights->w[1].item<float>(),
            -3);
}

TEST(FedMetaPer, EnsembleAveragesProbabilities) {
  const Choice choice("ensemble", {-3, 2});  // owns the model that predicts
  const auto personal = choice.personal(View::kPre);
  EXPECT_FALSE(personal.weights);
  const double p = (share0({0, -3}, 1.5) + share0({0, 2}, 1.5)) / 2;
  const auto logits = personal.predict(at::tensor({1.5F}).view({1, 1}));
  EXPECT_NEAR(logits[0][0].item<float>(), std::log(p), 1e-5);
  EXPECT_NEAR(logits[0][1].item<float>(), std::log(1 - p), 1e-5);
}

TEST(FedMetaPer, BankHoldsTheHeadsOfThoseWhoTookPart) {
  ToyOptions options{.numbers = {{"head_bank", 1}}};
  options.federation.participation = 0.5;  // one of two
  auto toy = napkin("fedmetaper-maml", options);
  const auto before = toy.download_guest(toy.server(), std::nullopt, 9);
  EXPECT_EQ(before.at("heads").size(0), 0);
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_down, 4);
  EXPECT_EQ(report.bytes_up, 4 * 2);  // d_B and, for the bank, d_P
  const auto guest = toy.download_guest(toy.server(), std::nullopt, 9);
  ASSERT_EQ(guest.at("heads").size(0), 1);
  const auto trained = cohort_of(options.seed, 1, 2, 0.5).at(0);
  EXPECT_TRUE(at::equal(guest.at("heads")[0], toy.state(trained).at("head")));
  EXPECT_FALSE(toy.download(toy.server(), trained, Why::kEvaluate).contains("heads"));
}

TEST(FedMetaPer, RefusesNewcomersWithoutABank) {
  auto toy = napkin("fedmetaper-maml");
  EXPECT_TRUE(toy.method->check(toy.setup()).ok());
  auto setup = toy.setup();
  setup.newcomers = 1;
  const auto refused = toy.method->check(setup);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(message(refused).find("method.head_bank"), std::string::npos);
  auto banked = napkin("fedmetaper-maml", {.numbers = {{"head_bank", 1}}});
  EXPECT_TRUE(banked.method->check(setup).ok());
}

TEST(FedMetaPer, ARestoredHeadHasTheSizeOfAHead) {
  for (const char* head_init : {"seed", "server_mean"}) {
    auto toy = napkin("fedmetaper-metasgd", {.words = {{"head_init", head_init}}});
    toy.play(1, 1);
    const auto refused = [&](const TensorDict& state) {
      try {
        toy.method->check_client(state, toy.local(0));
      } catch (const std::invalid_argument&) {
        return true;
      }
      return false;
    };
    EXPECT_FALSE(refused(toy.state(0))) << head_init;
    EXPECT_FALSE(refused(toy.fresh(0))) << head_init;
    EXPECT_TRUE(refused({{"head", at::zeros({3})}})) << head_init;
    EXPECT_EQ(refused({}), head_init == std::string("seed"));
  }
}

TEST(MetaFamily, RefusesClientsThatCannotBeCut) {
  for (const char* method : {"fedmeta-maml", "fedmeta-metasgd", "fedmetaper-maml",
                             "fedmetaper-metasgd", "fomaml", "imaml"}) {
    auto toy = napkin(method);
    EXPECT_TRUE(toy.method->check(napkin_client({1, 2}, {0, 1})).ok()) << method;
    EXPECT_FALSE(toy.method->check(napkin_client({1}, {0})).ok()) << method;
  }
}

TEST(FedAvgMeta, IsFedAvgTunedOnSupport) {
  ToyOptions options;
  options.train.lr = 0.2;
  auto meta = napkin("fedavgmeta", options), plain = napkin("fedavg", options);
  meta.play(1, 2), plain.play(1, 2);
  EXPECT_EQ(fingerprint(meta), fingerprint(plain));
  auto data = napkin_client(kMetaA.x, kMetaA.y);
  data.support = {1, 2};
  const auto down = meta.download(meta.server(), 0);
  const auto post = meta.personal({}, down, meta.local(0, data), View::kPost).weights->w;
  const Point g{number(down, "w", 0), number(down, "w", 1)};
  EXPECT_NEAR(post[0].item<float>(), step(g, {0.2, 0.2}, slope(g, kMetaA.cut(1, 3))).body, 1e-6);
}

TEST(FedPerMeta, StartsFromTheMeanHead) {
  ToyOptions options;
  options.train.lr = 0.2;
  auto meta = napkin("fedpermeta", options);
  auto plain = napkin("fedper", {.words = {{"head", "mean"}}, .train = options.train});
  meta.play(1, 2), plain.play(1, 2);
  EXPECT_EQ(fingerprint(meta), fingerprint(plain));
  auto data = napkin_client(kMetaA.x, kMetaA.y);
  data.support = {1, 2};
  const auto server = meta.server();
  const Point w{number(server, "base.w", 0), number(server, "mean_head", 0)};
  const auto own = meta.state(0);
  ASSERT_NE(number(own, "head", 0), w.head);
  const auto down = meta.download(server, 0, Why::kEvaluate);
  const auto post = meta.personal(own, down, meta.local(0, data), View::kPost).weights->w;
  const auto moved_to = step(w, {0.2, 0.2}, slope(w, kMetaA.cut(1, 3)));
  EXPECT_NEAR(post[0].item<float>(), moved_to.body, 1e-6);
  EXPECT_NEAR(post[1].item<float>(), moved_to.head, 1e-6);
}

}  // namespace
}  // namespace tessera::test
