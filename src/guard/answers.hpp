// What stands between a model and those who ask it: answers that tell less of how sure it is, and
// never another class.
//
// The class that is said is the same with and without them, so accuracy is, too. They act in the
// order of AnswerGuards::each. The same question gets the same answer: who asks twice learns
// nothing more, so noise cannot be averaged away.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"

namespace tessera {

using at::Tensor;

/// The mean of answers to slightly noised inputs.
struct AggregateAnswers {
  int64_t times = 5;
  double scale = 0.1;
  static void options(auto& o, auto&& f) {
    f(between("times", 2, 1000, "how many noised copies of an input are asked about"), o.times);
    f(above("scale", 0, "deviation of that noise, in those of scaled inputs"), o.scale);
  }
};
struct NoiseAnswers {
  double scale = 0.05;
  static void options(auto& o, auto&& f) {
    f(above("scale", 0, "deviation of the noise on every probability"), o.scale);
  }
};
struct RoundAnswers {
  int64_t digits = 2;
  static void options(auto& o, auto&& f) {
    f(between("digits", 0, 9, "decimals that are kept"), o.digits);
  }
};
struct TopkAnswers {
  int64_t k = 1;
  static void options(auto& o, auto&& f) {
    f(between("k", 1, 1e6, "classes whose probability is told; 1: the class alone"), o.k);
  }
};

struct AnswerGuards {
  std::optional<AggregateAnswers> aggregate;
  std::optional<NoiseAnswers> noise;
  std::optional<RoundAnswers> round;
  std::optional<TopkAnswers> topk;

  /// f("name", optional guard), in the order in which they act.
  static void each(auto& o, auto&& f) {
    f("aggregate", o.aggregate), f("noise", o.noise), f("round", o.round), f("topk", o.topk);
  }
  bool any() const { return aggregate || noise || round || topk; }
};
/// "round:digits=2", one each. kInvalid names what is wrong.
Result<AnswerGuards> parse_answer_guards(const std::vector<std::string>& words);

/// Probabilities [n, classes] in fp64; those that are withheld are NaN. Labels int64 [n].
struct GuardedAnswers {
  Tensor labels, probabilities;
};
/// From inputs [n, …] as the network takes them. `ask` gives probabilities that sum to 1. The noise
/// follows from `key` and what is asked. Throws std::logic_error if a class were to change.
GuardedAnswers guarded_answers(const AnswerGuards& guards, const Tensor& inputs, uint64_t key,
                               const std::function<Tensor(const Tensor&)>& ask);
/// What somebody makes of them who wants a distribution: what is withheld, spread evenly.
Tensor filled_in(const GuardedAnswers& answers);

/// Single rows, for tests: the largest entry stays the largest.
std::vector<double> rounded_answer(std::vector<double> p, int64_t digits);
std::vector<double> noised_answer(const std::vector<double>& p, double scale, uint64_t key);
/// The nearest point whose entries are at least 0 and sum to 1.
std::vector<double> on_simplex(std::vector<double> p);

}  // namespace tessera
