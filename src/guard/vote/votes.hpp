// The guard of answers `vote`: models that were each made of one part of a client's data answer
// together, so that no sample had a say in more than one of them (PATE: Papernot et al., ICLR 2017
// and 2018).
//
// With noise every answer has a price in differential privacy: a sample changes one vote, hence two
// of the counts by one. Laplace noise of scale 1/gamma costs epsilon 2 gamma, Gaussian noise of
// deviation sigma costs a/sigma² at Rényi order a, whatever the votes are. That holds for what the
// parts' models learned from a sample after they were parted, and no further: common start and
// private state have seen all of the client's data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "guard/answers.hpp"

namespace tessera {

struct Vote {
  size_t label = 0;
  std::vector<double> shares;  // of votes; of noised ones the nearest that are shares
};
/// One question: `said` are the probabilities of each model, all of the same classes. Without noise
/// the class with most votes; of several that with the larger sum of probabilities, then the first.
/// With noise the largest count, and nothing else is looked at.
Vote vote_on(const VoteAnswers& guard, const std::vector<std::vector<double>>& said, uint64_t key);

/// The same for inputs [n, …]. Throws std::logic_error unless there are guard.parts voters.
GuardedAnswers voted_answers(const VoteAnswers& guard, const Tensor& inputs, uint64_t key,
                             const std::vector<AskModel>& voters);

/// Of Gaussian noise, as PATE states it. Laplace noise needs none.
inline constexpr double kVoteDelta = 1e-5;
struct VoteCost {
  double epsilon = 0, delta = 0;
};
/// What so many answers cost. A mean over noised inputs asks for each of them, too. None without
/// votes, or without noise on them: then nothing is promised.
std::optional<VoteCost> vote_cost(const AnswerGuards& guards, int64_t answers);
/// The same in one sentence, also where nothing is promised; empty without votes.
std::string vote_cost_text(const AnswerGuards& guards, int64_t answers);

}  // namespace tessera
