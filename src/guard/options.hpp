// Sections [[guard]]: what becomes of an upload between a method and the wire, and of an answer
// between a model and who asks it. None by default.
//
// Each guard is there once at most. They act in the order of GuardOptions::each, which is the only
// one that makes sense: what is clipped after it was rounded would not be bounded any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/options.hpp"

namespace tessera {

/// Differential privacy of single samples, inside local training (train/sample_privacy.hpp).
struct DpSgdGuard {
  double bound = 1;
  double sigma = 1;
  double delta = 0;
  std::string entropy = "seed";
  static void options(auto& o, auto&& f) {
    f(above("bound", 0, "longest gradient (Euclidean norm) of a sample"), o.bound);
    f(at_least("sigma", 0,
               "standard deviation of the noise, in bounds; 0: gradients are only clipped"),
      o.sigma);
    auto delta = at_least("delta", 0, "of the guarantee; 0: 1e-5, at most 1 / (10 samples)");
    delta.max = 0.5;
    f(delta, o.delta);
    f(one_of("entropy", {"seed", "system"},
             "where samples and noise are drawn from: the run's seed, so that the run can be "
             "repeated, or the system, so that nobody can subtract it"),
      o.entropy);
  }
  bool operator==(const DpSgdGuard&) const = default;
};

/// Local training on virtual samples with virtual labels (train/transform.hpp). No guarantee.
struct TransformGuard {
  std::string when = "round";
  double distance = 0.3, gradient = 0.1;
  double distance_weight = 1, label_weight = 0.5, gradient_weight = 10;
  int64_t iterations = 300, batch = 8;
  static void options(auto& o, auto&& f) {
    f(one_of("when", {"round", "step", "once"},
             "samples are replaced at each received model, at every step (exact, and slow), or "
             "once, at the initial model"),
      o.when);
    f(between("distance", 0, 1, "root mean square of a pixel's change, of 1, at least"),
      o.distance);
    f(at_least("gradient", 0,
               "distance of the virtual samples' gradient, relative to the true one's, at most"),
      o.gradient);
    f(at_least("distance_weight", 0, "of the distance in what is minimised"), o.distance_weight);
    f(at_least("label_weight", 0, "of the true class's share in it"), o.label_weight);
    f(at_least("gradient_weight", 0, "of the gradients' distance in it"), o.gradient_weight);
    f(between("iterations", 1, 1e6, "steps of the search for a batch"), o.iterations);
    f(between("batch", 4, 1e6,
              "samples that are replaced together, at least; fewer than 4 would be found out"),
      o.batch);
  }
  bool operator==(const TransformGuard&) const = default;
};

/// On the server: uploads whose change is longer than `times` the round's median are rejected.
struct RejectGuard {
  double times = 10;
  static void options(auto& o, auto&& f) {
    f(at_least("times", 1, "a change longer than so many times the round's median is rejected"),
      o.times);
  }
  bool operator==(const RejectGuard&) const = default;
};

/// How many samples a client has is rounded.
struct CountsGuard {
  int64_t digits = 2;
  static void options(auto& o, auto&& f) {
    f(between("digits", 1, 9, "digits of a client's number of samples that are sent"), o.digits);
  }
  bool operator==(const CountsGuard&) const = default;
};

struct ClipGuard {
  double bound = 1;
  static void options(auto& o, auto&& f) {
    f(above("bound", 0, "longest change (Euclidean norm) that a client may send"), o.bound);
  }
  bool operator==(const ClipGuard&) const = default;
};

struct PerturbGuard {
  std::string noise = "normal";
  double scale = 0.1;
  static void options(auto& o, auto&& f) {
    f(one_of("noise", {"normal", "laplace"}, "what is added to every number of a change"), o.noise);
    f(at_least("scale", 0, "its size, relative to the root mean square of the change"), o.scale);
  }
  bool operator==(const PerturbGuard&) const = default;
};

struct PruneGuard {
  double share = 0.1;
  bool sign = false;
  static void options(auto& o, auto&& f) {
    auto share = above("share", 0, "share of a change's numbers, the largest, that are sent");
    share.max = 1;
    f(share, o.share);
    f(any("sign", "of those only the sign, all with their mean size"), o.sign);
  }
  bool operator==(const PruneGuard&) const = default;
};

/// Differential privacy of clients (DP-FedAvg): changes are clipped and noise is added, to the sum
/// where the server needs no more than it, else to every upload.
struct DpGuard {
  double bound = 1;
  double sigma = 1;
  double delta = 0;
  std::string entropy = "seed";
  static void options(auto& o, auto&& f) {
    f(above("bound", 0, "longest change (Euclidean norm) that a client may send"), o.bound);
    f(at_least("sigma", 0, "standard deviation of the noise, in bounds"), o.sigma);
    auto delta = at_least("delta", 0, "of the guarantee; 0: 1 / clients^1.1");
    delta.max = 0.5;
    f(delta, o.delta);
    f(one_of("entropy", {"seed", "system"},
             "where the noise comes from: the run's seed, so that the run can be repeated, or the "
             "system, so that nobody can subtract it"),
      o.entropy);
  }
  bool operator==(const DpGuard&) const = default;
};

/// Uploads reach the server only as their sum (guard/secure_aggregation/sum/secure_sum.hpp): for
/// methods whose server needs no more. Numbers travel as fixed point, so that masks can hide them.
struct SecureAggregationGuard {
  double range = 65536;
  int64_t bits = 24;
  static void options(auto& o, auto&& f) {
    auto range = at_least("range", 1,
                          "largest number that an upload may hold; one that holds a "
                          "larger one is not sent");
    range.max = 0x1p30;
    f(range, o.range);
    f(between("bits", 8, 40, "binary places of a number that are kept"), o.bits);
  }
  bool operator==(const SecureAggregationGuard&) const = default;
};

/// Uploads in fewer bytes (guard/guard.hpp says which of their numbers).
struct CompressGuard {
  std::string to = "fp16";
  double share = 0.01;
  static void options(auto& o, auto&& f) {
    f(one_of("to", {"fp16", "int8", "topk"},
             "uploads of a round in 2 bytes a number, in 1, or only the largest changes, the rest "
             "later"),
      o.to);
    // Above a half it would send more bytes than the tensor has.
    auto share = above("share", 0, "to = \"topk\": share of the numbers that is sent");
    share.max = 0.5;
    f(share, o.share);
  }
  bool operator==(const CompressGuard&) const = default;
};

struct ZstdGuard {
  int64_t level = 3;
  static void options(auto& o, auto&& f) {
    f(between("level", 1, 19, "of lossless compression of a round's messages, both ways"), o.level);
  }
  bool operator==(const ZstdGuard&) const = default;
};

/// Models of disjoint parts of a client's data vote (guard/vote/votes.hpp).
struct VoteAnswers {
  int64_t parts = 5;
  std::string noise = "none";
  double gamma = 0.05, sigma = 40;
  static void options(auto& o, auto&& f) {
    f(between("parts", 2, 100, "of a client's data, each with a model of its own that has a vote"),
      o.parts);
    f(one_of("noise", {"none", "laplace", "gaussian"},
             "on the numbers of votes; without it nothing is promised"),
      o.noise);
    f(above("gamma", 0, "noise = \"laplace\": it has the scale 1 / gamma"), o.gamma);
    f(above("sigma", 0, "noise = \"gaussian\": its deviation"), o.sigma);
  }
  bool operator==(const VoteAnswers&) const = default;
};

/// The mean of answers to slightly noised inputs.
struct AggregateAnswers {
  int64_t times = 5;
  double scale = 0.1;
  static void options(auto& o, auto&& f) {
    f(between("times", 2, 1000, "how many noised copies of an input are asked about"), o.times);
    f(above("scale", 0, "deviation of that noise, in those of scaled inputs"), o.scale);
  }
  bool operator==(const AggregateAnswers&) const = default;
};

struct NoiseAnswers {
  double scale = 0.05;
  static void options(auto& o, auto&& f) {
    f(above("scale", 0, "deviation of the noise on every probability"), o.scale);
  }
  bool operator==(const NoiseAnswers&) const = default;
};

struct RoundAnswers {
  int64_t digits = 2;
  static void options(auto& o, auto&& f) {
    f(between("digits", 0, 9, "decimals that are kept"), o.digits);
  }
  bool operator==(const RoundAnswers&) const = default;
};

struct TopkAnswers {
  int64_t k = 1;
  static void options(auto& o, auto&& f) {
    f(between("k", 1, 1e6, "classes whose probability is told; 1: the class alone"), o.k);
  }
  bool operator==(const TopkAnswers&) const = default;
};

/// Between a model and those who ask it (guard/answers.hpp); uploads never meet them.
struct AnswerGuards {
  std::optional<VoteAnswers> vote = std::nullopt;
  std::optional<AggregateAnswers> aggregate;
  std::optional<NoiseAnswers> noise;
  std::optional<RoundAnswers> round;
  std::optional<TopkAnswers> topk;

  /// f("name", optional guard), in the order in which they act.
  static void each(auto& o, auto&& f) {
    f("vote", o.vote), f("aggregate", o.aggregate), f("noise", o.noise), f("round", o.round);
    f("topk", o.topk);
  }
  bool any() const { return *this != AnswerGuards(); }
  bool operator==(const AnswerGuards&) const = default;
};

struct GuardOptions {
  std::optional<DpSgdGuard> dp_sgd;
  std::optional<TransformGuard> transform;
  std::optional<RejectGuard> reject;
  std::optional<CountsGuard> counts;
  std::optional<ClipGuard> clip;
  std::optional<PerturbGuard> perturb;
  std::optional<PruneGuard> prune;
  std::optional<DpGuard> dp;
  std::optional<SecureAggregationGuard> secure;
  std::optional<CompressGuard> compress;
  std::optional<ZstdGuard> zstd;
  AnswerGuards answers;

  /// f("name", optional guard) for every guard there is, in the order in which they act on a
  /// client, and then on its model's answers.
  static void each(auto& o, auto&& f) {
    f("dp-sgd", o.dp_sgd), f("transform", o.transform);
    f("reject", o.reject), f("counts", o.counts), f("clip", o.clip), f("perturb", o.perturb);
    f("prune", o.prune), f("dp", o.dp), f("secure-aggregation", o.secure);
    f("compress", o.compress), f("zstd", o.zstd);
    AnswerGuards::each(o.answers, f);
  }
  bool operator==(const GuardOptions&) const = default;
};

}  // namespace tessera
