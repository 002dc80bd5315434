// FedAMP on models of two numbers: shares by hand, and what public code gets wrong (docs/methods.md
// §5.1: shares that underflow, a proximal term that does nothing, negative shares).

#include <gtest/gtest.h>

#include <cmath>

#include "support/quadratic.hpp"

namespace tessera::test {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;
using Words = std::vector<std::pair<std::string, std::string>>;

Weights model_at(double x, double y) {
  return {at::tensor({static_cast<float>(x), static_cast<float>(y)}), at::empty({0})};
}

/// A server of FedAMP that gets its uploads from the test.
struct AmpDesk {
  Toy toy;
  TensorDict server;

  AmpDesk(int64_t clients, Numbers numbers, Words words)
      : toy(quadratic_toy(std::vector<std::vector<Pair>>(static_cast<size_t>(clients), {kSampleA}),
                          {.method = "fedamp", .numbers = numbers, .words = words})),
        server(toy.server()) {}
  void upload(const std::vector<std::pair<ClientId, Weights>>& models) {
    std::vector<Received<TensorDict>> uploads;
    for (const auto& [id, w] : models) uploads.push_back({id, pack(w)});
    server = toy.aggregate(server, uploads);
  }
  TensorDict down(ClientId id, const std::vector<ClientId>& ids = {0, 1, 2}) const {
    return toy.download(server, id, Why::kTrain, ids);
  }
  Tensor shares(const std::vector<ClientId>& ids = {0, 1, 2}) const {
    const auto exhibits = toy.exhibits(server, {ids, {}});
    EXPECT_EQ(exhibits.size(), 1U);
    EXPECT_EQ(exhibits.at(0).name, "collaboration");
    return exhibits.at(0).value;
  }
};

AmpDesk three(const Weights& a, const Weights& b, const Weights& c, Numbers numbers = {},
              Words words = {{"mode", "exact"}}) {
  AmpDesk desk(3, std::move(numbers), std::move(words));
  desk.upload({{0, a}, {1, b}, {2, c}});
  return desk;
}
double share(const Tensor& shares, int64_t i, int64_t j) { return shares[i][j].item<double>(); }

// Squared distances 1, 4, 9; sigma is their median, 4. The middle one has the most of others.
TEST(FedAmp, SharesByDistance) {
  const auto desk = three(model_at(0, 7), model_at(1, 7), model_at(3, 7));
  const double one = std::exp(-0.25), four = std::exp(-1), nine = std::exp(-2.25);
  const double scale = 0.9 / (one + four);
  const auto shares = desk.shares();
  EXPECT_NEAR(share(shares, 1, 0), scale * one, 1e-6);
  EXPECT_NEAR(share(shares, 1, 2), scale * four, 1e-6);
  EXPECT_NEAR(share(shares, 1, 1), 0.1, 1e-6);
  EXPECT_NEAR(share(shares, 0, 1), scale * one, 1e-6);
  EXPECT_NEAR(share(shares, 0, 2), scale * nine, 1e-6);
  EXPECT_NEAR(share(shares, 0, 0), 1 - scale * (one + nine), 1e-6);
  expect_close(desk.down(1).at("u.w"), {scale * four * 3 + 0.1, 7});
  // alpha_t / sigma is the scale; the pull is lambda / alpha_t, but prox at most.
  const auto free = three(model_at(0, 7), model_at(1, 7), model_at(3, 7), {{"prox", 5}});
  EXPECT_NEAR(free.down(1).at("pull").item<double>(), 1 / (4 * scale), 1e-5);
  EXPECT_EQ(desk.down(1).at("pull").item<double>(), 0.1);
}

TEST(FedAmp, GivenSigmaAndAlphaAreTaken) {
  const auto desk = three(model_at(0, 7), model_at(1, 7), model_at(3, 7),
                          {{"sigma", 2}, {"alpha", 0.5}, {"lambda", 0.3}});
  const auto shares = desk.shares();
  EXPECT_NEAR(share(shares, 0, 1), 0.25 * std::exp(-0.5), 1e-6);
  EXPECT_NEAR(share(shares, 2, 1), 0.25 * std::exp(-2), 1e-6);
  EXPECT_NEAR(desk.down(0).at("pull").item<double>(), 0.6, 1e-6);
}

// With sigma fixed at 1 exp(−|w_i − w_j|²) is 0 for any real network: local training unawares.
TEST(FedAmp, SharesDoNotUnderflow) {
  for (const double size : {1e-3, 1.0, 1e3, 1e6}) {
    const auto desk = three(model_at(0, 0), model_at(size, 0), model_at(3 * size, 0));
    const double most = (1 - desk.shares().diagonal()).max().item<double>();
    EXPECT_NEAR(most, 0.9, 1e-6) << size;
  }
  // Even then the nearest get what the others leave.
  const auto fixed =
      three(model_at(0, 0), model_at(1e3, 0), model_at(3e3, 0), {{"sigma", 1}}).shares();
  EXPECT_NEAR(share(fixed, 0, 1), 0.9, 1e-6);
  EXPECT_EQ(share(fixed, 2, 2), 1);
}

TEST(FedAmp, NoShareIsNegative) {
  const auto shares =
      three(model_at(0, 7), model_at(1, 7), model_at(3, 7), {{"alpha", 1e6}}).shares();
  EXPECT_GE(shares.min().item<double>(), 0);
  EXPECT_NEAR(shares.diagonal().min().item<double>(), 0.1, 1e-6);
  EXPECT_TRUE(at::allclose(shares.sum(1), at::ones({3}, at::kDouble), 0, 1e-12));
}

// Three directions from the mean, at 0, 90 and about 225 degrees: cosines 0, −1/√2 and −1/√2.
TEST(FedAmp, SharesByCosineFromTheMean) {
  const auto a = model_at(51, 20), b = model_at(50, 21), c = model_at(49, 19);  // mean (50, 20)
  const double down = std::exp(-10 / std::sqrt(2.0));
  const auto desk = three(a, b, c, {}, {{"mode", "heur"}});
  const auto shares = desk.shares();
  EXPECT_NEAR(share(shares, 0, 0), 1.0 / 3, 1e-6);
  EXPECT_NEAR(share(shares, 0, 1), 2.0 / 3 / (1 + down), 1e-6);
  EXPECT_NEAR(share(shares, 0, 2), 2.0 / 3 * down / (1 + down), 1e-6);
  EXPECT_NEAR(share(shares, 2, 0), 1.0 / 3, 1e-5);
  EXPECT_EQ(desk.down(0).at("pull").item<double>(), 0.1);
  const auto chosen = three(a, b, c, {{"x0", 0.4}, {"s", 0}, {"prox", 0.7}}, {{"mode", "heur"}});
  EXPECT_NEAR(share(chosen.shares(), 0, 0), 0.4, 1e-12);
  EXPECT_NEAR(share(chosen.shares(), 0, 2), 0.3, 1e-12);
  EXPECT_EQ(chosen.down(0).at("pull").item<double>(), 0.7);
}

TEST(FedAmp, EqualModelsStayAsTheyAre) {
  const auto w = model_at(0.1, 0.7);
  for (const char* mode : {"exact", "heur"}) {
    const auto desk = three(w, w, w, {}, {{"mode", mode}});
    for (ClientId id = 0; id < 3; ++id) {
      EXPECT_TRUE(at::allclose(desk.down(id).at("u.w"), w.w, 0, 1e-7)) << mode;
    }
    EXPECT_TRUE(at::isfinite(desk.shares()).all().item<bool>()) << mode;
  }
  // Two equal of three: the median of the pairs is not 0, and neither is anything a NaN.
  const auto two = three(w, w, model_at(2, 2));
  EXPECT_GT(share(two.shares(), 0, 1), share(two.shares(), 0, 2));
  // Three equal of four: it is.
  AmpDesk four(4, {}, {{"mode", "exact"}});
  four.upload({{0, w}, {1, w}, {2, w}, {3, model_at(2, 2)}});
  const auto shares = four.shares({0, 1, 2, 3});
  EXPECT_TRUE(at::isfinite(shares).all().item<bool>());
  EXPECT_NEAR(share(shares, 0, 0), 0.1, 1e-6);
}

// The client ends where L + pull/2 |w − u|² is least. A pull of detached tensors ends at its data.
TEST(FedAmp, ThePullActsOnTheGradient) {
  for (const char* start : {"u", "w"}) {
    ToyOptions options{.method = "fedamp",
                       .numbers = {{"prox", 0.7}},
                       .words = {{"mode", "heur"}, {"start", start}}};
    options.train.lr = 0.1;
    options.train.epochs = 400;
    auto toy = quadratic_toy({{kSampleA}, {kSampleB}, {kSampleA}}, options);
    auto u = std::vector<Pair>(3, kFirst);
    for (int64_t round = 1; round <= 3; ++round) {
      toy.play(round, round);
      for (size_t i = 0; i < 3; ++i) {
        const auto w = toy.server().at(fmt::format("latest@{}.w", i));
        expect_close(w, proximal_point(i == 1 ? kSampleB : kSampleA, u[i], 0.7));
        EXPECT_TRUE(toy.state(static_cast<ClientId>(i)).at("w.w").equal(w));
      }
      for (ClientId i = 0; i < 3; ++i)
        u[static_cast<size_t>(i)] =
            pair_of(toy.download(toy.server(), i, Why::kTrain, {0, 1, 2}, round + 1).at("u.w"));
    }
  }
}

TEST(FedAmp, StartsFromTheMixtureOrTheOwnModel) {
  for (const char* start : {"u", "w"}) {
    AmpDesk desk(1, {{"prox", 0.7}}, {{"mode", "heur"}, {"start", start}});
    const auto data = quadratic_client({kSampleA});
    const auto local = desk.toy.local(0, data);
    TensorDict down = desk.down(0, {0});
    down["u.w"] = model_at(3, -2).w;
    const TensorDict me{{"w.w", model_at(1, 1).w}, {"w.b", at::empty({0})}};
    const auto w = desk.toy.method->local_update(me, down, local).upload.at("w");
    const Pair from = *start == 'u' ? Pair{3, -2} : Pair{1, 1};
    const auto s = slope_at(from, kSampleA);  // lr 0.01
    expect_close(w, {from[0] - 0.01 * (s[0] + 0.7 * (from[0] - 3)),
                     from[1] - 0.01 * (s[1] + 0.7 * (from[1] + 2))});
    const auto pre = desk.toy.personal(me, down, local, View::kPre);
    expect_close(pre.weights->w, {1, 1});
  }
}

// Near models make a small alpha; lambda / alpha would hold them together for good.
TEST(FedAmp, AutomaticPullDoesNotGrowAsModelsMeet) {
  for (const double size : {1.0, 1e-3, 1e-6, 0.0}) {
    const auto desk = three(model_at(0, 0), model_at(size, 0), model_at(3 * size, 0));
    EXPECT_EQ(desk.down(1).at("pull").item<double>(), 0.1);
  }
  const auto off = three(model_at(0, 0), model_at(0, 0), model_at(0, 0), {{"lambda", 0}});
  EXPECT_EQ(off.down(1).at("pull").item<double>(), 0);
}

TEST(FedAmp, RefusesAPullThatSwings) {
  const auto sentence = [](const char* mode, Numbers numbers) {
    const AmpDesk desk(3, std::move(numbers), {{"mode", mode}});  // lr 0.01
    return message(desk.toy.method->check(desk.toy.setup()));
  };
  EXPECT_EQ(sentence("heur", {{"prox", 199}}), "");
  EXPECT_NE(sentence("heur", {{"prox", 300}}).find("train.lr times method.prox is 3"),
            std::string::npos);
  EXPECT_NE(sentence("exact", {{"prox", 300}}), "");
  EXPECT_EQ(sentence("exact", {{"alpha", 0.01}, {"prox", 300}}), "");
  EXPECT_NE(sentence("auto", {{"alpha", 1e-3}}).find("method.lambda / method.alpha is 10"),
            std::string::npos);
}

TEST(FedAmp, ModeFollowsTheSizeOfTheNetwork) {
  const auto pull = [](const char* name, std::vector<int64_t> sample, const char* mode) {
    auto model = *make_model(name, {std::move(sample), 10});
    auto draft = find_method("fedamp")->draft();
    for (auto& option : draft->options())
      if (option.spec.key == "mode")
        **std::get_if<std::string*>(&option.target) = mode;
      else if (option.spec.key == "lambda")
        **std::get_if<double*>(&option.target) = 0;
    const auto method = draft->build({});
    const tessera::Setup setup{*model, 2, 5, 1.0, 3, 0, 1};  // gtest has a Setup too
    const std::vector<Ask<TensorDict>> asks{{0, Why::kTrain}, {1, Why::kTrain}};
    std::vector<double> pulls;
    method->broadcast(*method->init_server(setup), asks, setup, [&](const auto&, TensorDict down) {
      pulls.push_back(down.at("pull").item<double>());
    });
    return pulls.at(0);
  };
  // Only mode exact knows lambda, which is 0 here.
  EXPECT_EQ(pull("mlp100", {784}, "auto"), 0);
  EXPECT_EQ(pull("mlp100", {784}, "heur"), 0.1);
  EXPECT_EQ(pull("mlp100", {3, 32, 32}, "auto"), 0.1);
  EXPECT_EQ(pull("mlp100", {3, 32, 32}, "exact"), 0);
}

TEST(FedAmp, OneClientWithoutPullIsLocalTraining) {
  auto options = noisy("local");
  options.numbers = {{"patience", 0}};
  auto alone = make_toy(options, 1, 0);
  alone.play(1, 4);
  const auto own = alone.state(0).at("w.w");
  for (const char* mode : {"exact", "heur"})
    for (const char* start : {"u", "w"}) {
      options = noisy("fedamp");
      options.words = {{"mode", mode}, {"start", start}};
      options.numbers = {{"lambda", 0}, {"prox", 0}};
      auto amp = make_toy(options, 1, 0);
      amp.play(1, 4);
      EXPECT_TRUE(amp.server().at("latest@0.w").equal(own)) << mode << start;
    }
}

TEST(FedAmp, PostViewIsTheNextUpload) {
  for (const char* mode : {"exact", "heur"}) {
    auto options = noisy("fedamp");
    options.words = {{"mode", mode}};
    auto toy = make_toy(options, 4, 0);
    toy.play(1, 2);
    const auto views = views_of(toy, 2);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(views.pre[i].w.equal(toy.server().at(fmt::format("latest@{}.w", i))));
    }
    toy.play(3, 3);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(views.post[i].w.equal(toy.server().at(fmt::format("latest@{}.w", i))));
    }
  }
}

TEST(FedAmp, OnlyParticipantsAreMixedAndStrangersStartFromTheMean) {
  AmpDesk desk(3, {{"x0", 0.25}}, {{"mode", "heur"}});
  const auto a = model_at(0, 0), b = model_at(4, 8);
  desk.upload({{0, a}, {1, b}});
  expect_close(desk.down(2).at("u.w"), {2, 4});
  expect_close(desk.down(0).at("u.w"), {3, 6});
  EXPECT_TRUE(desk.down(0, {0, 2}).at("u.w").equal(a.w));
  EXPECT_EQ(at::isnan(desk.shares()).sum().item<int64_t>(), 5);  // row and column of client 2
}

TEST(FedAmp, UploadsAreKeptNotCopied) {
  const auto b = model_at(1, 7);
  const auto desk = three(model_at(0, 7), b, model_at(3, 7));
  EXPECT_EQ(desk.server.at("latest@1.w").data_ptr(), b.w.data_ptr());
  EXPECT_EQ(desk.down(1, {1}).at("u.w").data_ptr(), b.w.data_ptr());
}

TEST(FedAmp, NewcomersTrainARoundFromTheMeanAndJoin) {
  const auto a = model_at(0, 7), b = model_at(1, 7), c = model_at(3, 7);
  for (const bool exact : {true, false}) {
    const auto desk = three(a, b, c, {}, {{"mode", exact ? "exact" : "heur"}});
    const auto& toy = desk.toy;
    EXPECT_EQ(toy.method->exchanges(), 1);
    expect_close(toy.download_guest(desk.server, std::nullopt, 3, {0, 1, 2}).at("u.w"),
                 {4.0 / 3, 7});
    const auto own = model_at(5, 7);
    const auto known = toy.learn(desk.server, std::nullopt, pack(own));
    const auto u = toy.download_guest(desk.server, known, 3, {0, 1, 2}).at("u.w");
    if (exact) {  // distances 25, 16, 4 by the sigma (4) and alpha of the others
      const double scale = 0.9 / (std::exp(-0.25) + std::exp(-1));
      const double sa = scale * std::exp(-6.25), sb = scale * std::exp(-4),
                   sc = scale * std::exp(-1);
      expect_close(u, {sb + 3 * sc + 5 * (1 - sa - sb - sc), 7});
    } else {  // from the mean 4/3 the others lie at −, −, +
      const double away = std::exp(-20), total = 1 + 2 * away;
      expect_close(u, {0.75 * (3 + away) / total + 0.25 * 5, 7});
    }
  }
}

// In its exchange a newcomer is asked alone; its pull is that of everybody all the same.
TEST(FedAmp, NewcomersAskedAloneArePulledLikeEverybody) {
  const auto desk = three(model_at(0, 7), model_at(1, 7), model_at(3, 7), {{"prox", 5}});
  const double together = desk.down(1).at("pull").item<double>();
  EXPECT_LT(together, 5);
  const auto stranger = desk.toy.download_guest(desk.server, std::nullopt, 3);
  EXPECT_EQ(stranger.at("pull").item<double>(), together);
  expect_close(stranger.at("u.w"), {4.0 / 3, 7});
  // Members without a model are no reason to ask everybody.
  AmpDesk other(4, {{"prox", 5}}, {{"mode", "exact"}});
  other.upload({{0, model_at(0, 7)}, {1, model_at(1, 7)}, {2, model_at(3, 7)}});
  EXPECT_EQ(other.down(3, {3}).at("pull").item<double>(), 5);
}

// A model of another shape would be trained from.
TEST(FedAmp, ForgedClientStatesAreRefused) {
  const AmpDesk desk(1, {}, {{"mode", "heur"}});
  const auto local = desk.toy.local(0);
  const auto with = [](Tensor w) { return TensorDict{{"w.w", w}, {"w.b", at::empty({0})}}; };
  EXPECT_NO_THROW(desk.toy.method->check_client({}, local));
  EXPECT_NO_THROW(desk.toy.method->check_client(with(model_at(1, 1).w), local));
  for (const auto& w : {at::zeros({3}), at::zeros({2}, at::kDouble), at::zeros({1, 2})})
    EXPECT_THROW(desk.toy.method->check_client(with(w), local), std::invalid_argument);
}

// The machinery around: one exchange, whose trained model the newcomer then holds.
TEST(FedAmp, EvaluationOnboardsNewcomers) {
  auto options = noisy("fedamp");
  options.words = {{"mode", "heur"}};
  auto toy = make_toy(options, 4, 1);
  toy.play(1, 2);
  const auto report = toy.evaluate(2);
  EXPECT_EQ(report.exchanges, 1);
  const int64_t d = toy.model->layout().numel();
  EXPECT_EQ(report.onboard_down, 2 * 4 * d);  // the mean, then the mixture
  EXPECT_EQ(report.onboard_up, 4 * d);
  const auto views = views_of(toy, 2);
  const auto stranger = toy.download_guest(toy.server(), std::nullopt, 4, {0, 1, 2, 3}, 3);
  EXPECT_FALSE(views.pre[4].w.equal(stranger.at("u.w")));
}

}  // namespace
}  // namespace tessera::test
