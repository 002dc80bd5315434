#include "guard/vote/votes.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "base/key.hpp"
#include "privacy/accountant.hpp"

namespace tessera {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AnswerGuards voting(const std::vector<std::string>& words) {
  const auto out = parse_answer_guards(words);
  EXPECT_TRUE(out.ok()) << message(out.status());
  return *out;
}

TEST(Votes, SharesAndClassByHand) {
  const auto vote = vote_on(
      {.parts = 5},
      {{0.6, 0.3, 0.1}, {0.1, 0.8, 0.1}, {0.4, 0.5, 0.1}, {0.2, 0.3, 0.5}, {0.3, 0.4, 0.3}}, 1);
  EXPECT_EQ(vote.label, 1U);
  EXPECT_THAT(vote.shares, ElementsAre(0.2, 0.6, 0.2));
}

TEST(Votes, OfSeveralTheOneWithMoreProbabilityThenTheFirst) {
  // Two votes each for 0 and 2; sums 1.3 and 1.7.
  const auto sums = vote_on(
      {.parts = 5},
      {{0.5, 0.1, 0.4}, {0.6, 0.3, 0.1}, {0.1, 0.1, 0.8}, {0.1, 0.5, 0.4}, {0.2, 0.1, 0.7}}, 1);
  EXPECT_EQ(sums.label, 2U);
  EXPECT_THAT(sums.shares, ElementsAre(0.4, 0.2, 0.4));
  EXPECT_EQ(vote_on({.parts = 2}, {{0.25, 0.75}, {0.75, 0.25}}, 1).label, 0U);
  // A model that is torn votes for the first.
  EXPECT_THAT(vote_on({.parts = 2}, {{0.5, 0.5}, {0.5, 0.5}}, 1).shares, ElementsAre(1, 0));
}

/// Three networks that disagree.
std::vector<AskModel> panel() {
  std::vector<AskModel> out;
  for (const double at : {0.0, 0.7, -0.7})
    out.emplace_back([at](const Tensor& x) {
      return at::softmax(x.to(at::kDouble) + at * at::arange(x.size(1), at::kDouble), 1);
    });
  return out;
}

Tensor asked(int64_t n) {
  auto out = at::empty({n, 4});
  Rng rng(5);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  return out;
}

TEST(Votes, LittleNoiseIsThePlainVote) {
  const auto x = asked(100);
  const auto plain = guarded_answers(voting({"vote:parts=3"}), x, 7, nullptr, panel());
  for (const char* word :
       {"vote:parts=3:noise=laplace:gamma=1e9", "vote:parts=3:noise=gaussian:sigma=1e-9"}) {
    const auto noisy = guarded_answers(voting({word}), x, 7, nullptr, panel());
    EXPECT_TRUE(at::allclose(noisy.probabilities, plain.probabilities, 0, 1e-6)) << word;
    const auto clear = plain.probabilities.amax(1) > 0.5;  // a tie goes to noise
    EXPECT_TRUE(at::equal(noisy.labels.masked_select(clear), plain.labels.masked_select(clear)));
    EXPECT_GT(clear.sum().item<int64_t>(), 50);
  }
}

TEST(Votes, EqualModelsSayWhatOneSays) {
  const auto x = asked(50);
  const auto one = panel().front();
  const auto said = guarded_answers(voting({"vote:parts=4"}), x, 7, nullptr, {one, one, one, one});
  EXPECT_TRUE(at::equal(said.labels, one(x).argmax(1)));
  EXPECT_TRUE(at::equal(said.probabilities, at::one_hot(said.labels, 4).to(at::kDouble)));
}

// Ties too: of 3 models that all disagree each class has a third.
TEST(Votes, NoOtherGuardChangesTheVotedClass) {
  const auto x = asked(200);
  const auto plain = guarded_answers(voting({"vote:parts=3"}), x, 7, nullptr, panel());
  EXPECT_GT((plain.probabilities.amax(1) < 0.5).sum().item<int64_t>(), 0) << "no tie is tested";
  for (const char* vote : {"vote:parts=3", "vote:parts=3:noise=laplace:gamma=1"}) {
    const auto before = guarded_answers(voting({vote}), x, 7, nullptr, panel());
    for (const char* more :
         {"round:digits=0", "round", "noise:scale=0.3", "aggregate", "topk:k=2"}) {
      const auto said = guarded_answers(voting({vote, more}), x, 7, nullptr, panel());
      EXPECT_TRUE(at::equal(said.labels, before.labels)) << vote << " " << more;
      const auto filled = filled_in(said);
      const auto told = filled.gather(1, said.labels.unsqueeze(1)).squeeze(1);
      EXPECT_TRUE(told.ge(filled.amax(1)).all().item<bool>()) << vote << " " << more;
    }
  }
}

TEST(Votes, TheSameQuestionGetsTheSameNoise) {
  const auto x = asked(3);
  const auto guard = voting({"vote:parts=3:noise=gaussian:sigma=1"});
  const auto all = guarded_answers(guard, x, 7, nullptr, panel());
  const auto one = guarded_answers(guard, x.slice(0, 2, 3), 7, nullptr, panel());
  EXPECT_TRUE(at::equal(all.probabilities[2], one.probabilities[0]));
  EXPECT_FALSE(
      at::equal(all.probabilities, guarded_answers(guard, x, 8, nullptr, panel()).probabilities));
}

// Of noise on (5, 0) the first stays ahead by P(difference of two draws < 5): for Laplace noise of
// scale b that is 1 − (1 + 5/(2b)) e^(−5/b) / 2, for Gaussian Φ(5 / (σ √2)).
TEST(Votes, NoiseHasTheScaleThatWasAskedFor) {
  const std::vector<std::vector<double>> said(5, {0.9, 0.1});
  const auto ahead = [&](const VoteAnswers& guard) {
    int first = 0;
    for (uint64_t key = 0; key < 20000; ++key) first += vote_on(guard, said, key).label == 0;
    return first / 20000.0;
  };
  EXPECT_NEAR(ahead({.noise = "laplace", .gamma = 0.2}), 1 - 1.5 * std::exp(-1.0) / 2, 0.01);
  EXPECT_NEAR(ahead({.noise = "gaussian", .sigma = 5}), 0.5 * std::erfc(-0.5), 0.01);
}

TEST(Votes, MissingVotersAreAnError) {
  EXPECT_THROW(guarded_answers(voting({"vote"}), asked(1), 7, nullptr, panel()), std::logic_error);
}

TEST(Votes, WordsGoThereAndBackAndActFirst) {
  const auto both = voting({"round", "vote:noise=laplace:gamma=0.1"});
  const auto words = answer_words(both);
  EXPECT_THAT(words,
              ElementsAre("vote:parts=5:noise=laplace:gamma=0.1:sigma=40.0", "round:digits=2"));
  EXPECT_EQ(voting(words), both);
  const auto refused = [](const std::string& word) {
    return message(parse_answer_guards({word}).status());
  };
  EXPECT_THAT(refused("vote:parts=1"), HasSubstr("parts = 1 must be"));
  EXPECT_THAT(refused("vote:noise=laplas"), HasSubstr("did you mean 'laplace'?"));
  EXPECT_THAT(refused("vote:gamma=0"), HasSubstr("gamma = 0"));
}

TEST(Votes, PricesByFormula) {
  EXPECT_FALSE(vote_cost({}, 10));
  EXPECT_FALSE(vote_cost(voting({"vote"}), 10));
  EXPECT_THAT(vote_cost_text(voting({"vote"}), 10), HasSubstr("promise nothing"));
  EXPECT_EQ(vote_cost_text({}, 10), "");
  const auto laplace = voting({"vote:noise=laplace"});
  EXPECT_DOUBLE_EQ(vote_cost(laplace, 10)->epsilon, 1);  // 10 · 2 · 0.05
  EXPECT_EQ(vote_cost(laplace, 10)->delta, 0);
  EXPECT_THAT(vote_cost_text(laplace, 1), HasSubstr("an answer by vote costs epsilon 0.1 for"));
  EXPECT_THAT(vote_cost_text(laplace, 10), HasSubstr("10 answers by vote cost epsilon 1 for"));
  // R(a) = 100 a / 40², and the smallest R(a) + log((a−1)/a) − (log delta + log a)/(a−1).
  double best = INFINITY;
  for (const int a : renyi_orders())
    best = std::min(best, 100.0 * a / 1600 + std::log((a - 1.0) / a) -
                              (std::log(1e-5) + std::log(a)) / (a - 1.0));
  const auto gaussian = vote_cost(voting({"vote:noise=gaussian"}), 100);
  EXPECT_NEAR(gaussian->epsilon, best, 1e-9);
  EXPECT_EQ(gaussian->delta, 1e-5);
  // Each of 5 noised inputs is a question, too.
  EXPECT_DOUBLE_EQ(vote_cost(voting({"vote:noise=laplace", "aggregate"}), 10)->epsilon, 6);
}

}  // namespace
}  // namespace tessera
