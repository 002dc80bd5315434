#include "guard/answers.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/key.hpp"

namespace tessera {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AnswerGuards guards(const std::vector<std::string>& words) {
  const auto out = parse_answer_guards(words);
  EXPECT_TRUE(out.ok()) << message(out.status());
  return *out;
}

TEST(Answers, RoundingByHand) {
  EXPECT_THAT(rounded_answer({0.634, 0.361, 0.005}, 1),
              ElementsAre(DoubleNear(0.6, 1e-12), DoubleNear(0.4, 1e-12), DoubleNear(0, 1e-12)));
  // A tie: the true top is raised by a unit, then all are divided by 1.1.
  EXPECT_THAT(rounded_answer({0.49, 0.51}, 1),
              ElementsAre(DoubleNear(0.5 / 1.1, 1e-12), DoubleNear(0.6 / 1.1, 1e-12)));
  EXPECT_THAT(rounded_answer({0.3, 0.4, 0.3}, 0), ElementsAre(0, 1, 0));
}

TEST(Answers, ProjectionByHand) {
  EXPECT_THAT(on_simplex({0.9, 0.5}), ElementsAre(DoubleNear(0.7, 1e-12), DoubleNear(0.3, 1e-12)));
  EXPECT_THAT(on_simplex({2, 0, -1}), ElementsAre(1, 0, 0));
  EXPECT_THAT(on_simplex({0.2, 0.8}), ElementsAre(DoubleNear(0.2, 1e-12), DoubleNear(0.8, 1e-12)));
}

/// A network whose answers are close calls.
Tensor close_call(const Tensor& x) { return at::softmax(x.to(at::kDouble).mul(0.2), 1); }

Tensor questions(int64_t n) {
  auto out = at::empty({n, 5});
  Rng rng(3);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  return out;
}

TEST(Answers, WordsGoThereAndBack) {
  const auto all =
      guards({"topk:k=3", "aggregate:times=7:scale=0.25", "round", "noise:scale=1e-3"});
  const auto words = answer_words(all);
  EXPECT_THAT(words, ElementsAre("aggregate:times=7:scale=0.25", "noise:scale=0.001",
                                 "round:digits=2", "topk:k=3"));
  EXPECT_EQ(guards(words), all);
  EXPECT_TRUE(answer_words({}).empty());
}

TEST(Answers, WordsGoOverWhatIsUsual) {
  const auto usual = guards({"round:digits=1", "noise:scale=0.3"});
  const auto over = [&](const std::vector<std::string>& words) {
    return answer_words(*parse_answer_guards(words, usual));
  };
  EXPECT_THAT(over({}), ElementsAre("noise:scale=0.3", "round:digits=1"));
  EXPECT_THAT(over({"round:digits=3", "topk:k=2"}),
              ElementsAre("noise:scale=0.3", "round:digits=3", "topk:k=2"));
  EXPECT_THAT(over({"noise"}), ElementsAre("noise:scale=0.05", "round:digits=1"));
  EXPECT_TRUE(over({"none"}).empty());
  EXPECT_THAT(over({"topk", "none"}), ElementsAre("topk:k=1"));
  EXPECT_THAT(message(parse_answer_guards({"round", "round"}, usual).status()),
              HasSubstr("is given twice"));
  EXPECT_EQ(message(parse_answer_guards({"rond"}, {}, "m.safetensors").status()),
            "m.safetensors: unknown guard of answers 'rond' (did you mean 'round'?)");
}

// Accuracy cannot change where no class does.
TEST(Answers, NoGuardChangesAClass) {
  const auto x = questions(200);
  const auto labels = close_call(x).argmax(1);
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"round:digits=0"},
                                             {"round:digits=1"},
                                             {"noise:scale=0.3"},
                                             {"aggregate:scale=2"},
                                             {"topk:k=2"},
                                             {"aggregate", "noise", "round", "topk:k=3"}}) {
    const auto said = guarded_answers(guards(words), x, 7, close_call);
    EXPECT_TRUE(at::equal(said.labels, labels)) << words.front();
    const auto filled = filled_in(said);
    EXPECT_TRUE(at::equal(filled.argmax(1), labels)) << words.front();
    EXPECT_TRUE(at::allclose(filled.sum(1), at::ones({200}, at::kDouble))) << words.front();
    EXPECT_FALSE(at::allclose(filled, close_call(x))) << words.front() << " does nothing";
  }
}

TEST(Answers, TheSameQuestionGetsTheSameAnswerWhoeverElseAsks) {
  const auto x = questions(3);
  const auto all = guarded_answers(guards({"noise", "aggregate"}), x, 7, close_call);
  const auto one = guarded_answers(guards({"noise", "aggregate"}), x.slice(0, 2, 3), 7, close_call);
  EXPECT_TRUE(at::equal(all.probabilities[2], one.probabilities[0]));
  const auto other = guarded_answers(guards({"noise", "aggregate"}), x, 8, close_call);
  EXPECT_FALSE(at::equal(all.probabilities, other.probabilities));
}

TEST(Answers, TopKTellsTheBestAndOfOneTheClassAlone) {
  const auto x = questions(4);
  const auto two = guarded_answers(guards({"topk:k=2"}), x, 7, close_call);
  EXPECT_EQ(at::isnan(two.probabilities).sum().item<int64_t>(), 4 * 3);
  const auto one = guarded_answers(guards({"topk"}), x, 7, close_call);
  EXPECT_TRUE(at::isnan(one.probabilities).all().item<bool>());
}

TEST(Answers, WrongWordsAreNamed) {
  const auto refused = [](const std::string& word) {
    return message(parse_answer_guards({word}).status());
  };
  EXPECT_THAT(refused("ruond"), HasSubstr("did you mean 'round'?"));
  EXPECT_THAT(refused("round:digit=2"), HasSubstr("did you mean 'digits'?"));
  EXPECT_THAT(refused("round:digits=-1"), HasSubstr("digits = -1"));
  EXPECT_THAT(refused("round:digits=x"), HasSubstr("no number"));
  EXPECT_THAT(refused("round:digits"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(message(parse_answer_guards({"round", "round"}).status()), HasSubstr("twice"));
}

}  // namespace
}  // namespace tessera
