// What stands between a model and those who ask it: answers that tell less of how sure it is, and
// but for votes never another class.
//
// The class that is said is the same with and without them, so accuracy is, too; where models vote
// (guard/vote/votes.hpp), it is the one that was voted for. They act in the order of
// AnswerGuards::each. The same question gets the same answer: who asks twice learns nothing more,
// so noise cannot be averaged away.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "guard/options.hpp"

namespace tessera {

using at::Tensor;

/// "round:digits=2", one each: it takes the place of the guard of its name in `usual`, or comes
/// beside the others there; "none" leaves all of `usual` out. kInvalid begins with `place`.
Result<AnswerGuards> parse_answer_guards(const std::vector<std::string>& words,
                                         AnswerGuards usual = {},
                                         const std::string& place = "--guard");
/// The same as such words, every option written out, in the order in which they act.
std::vector<std::string> answer_words(AnswerGuards guards);

/// Probabilities [n, classes] of inputs [n, …].
using AskModel = std::function<Tensor(const Tensor&)>;

/// Probabilities [n, classes] in fp64; those that are withheld are NaN. Labels int64 [n].
struct GuardedAnswers {
  Tensor labels, probabilities;
};
/// From inputs [n, …] as the network takes them. `ask` gives probabilities that sum to 1. With
/// guards.vote the voters are asked instead, as many as it has parts. The noise follows from `key`
/// and what is asked. Throws std::logic_error if a class were to change, or voters are missing.
GuardedAnswers guarded_answers(const AnswerGuards& guards, const Tensor& inputs, uint64_t key,
                               const AskModel& ask, const std::vector<AskModel>& voters = {});
/// What somebody makes of them who wants a distribution: what is withheld, spread evenly.
Tensor filled_in(const GuardedAnswers& answers);

/// The key of a question, a row of inputs.
uint64_t question_key(uint64_t key, const float* input, int64_t size);
/// The first of the largest.
size_t top_of(const std::vector<double>& p);
/// Single rows: the entry `top`, one of the largest, becomes the only largest.
std::vector<double> rounded_answer(std::vector<double> p, int64_t digits, size_t top);
std::vector<double> noised_answer(const std::vector<double>& p, double scale, uint64_t key,
                                  size_t top);
inline std::vector<double> rounded_answer(const std::vector<double>& p, int64_t digits) {
  return rounded_answer(p, digits, top_of(p));
}
/// The nearest point whose entries are at least 0 and sum to 1.
std::vector<double> on_simplex(std::vector<double> p);

}  // namespace tessera
