#include <ATen/ATen.h>

#include "attack/labels.hpp"
#include "audit/attack_parts.hpp"
#include "base/key.hpp"

namespace tessera {

Attacker::ReadLabels Attacker::read_labels(const Victim& victim) const {
  const auto& model = scene_.session().model();
  const auto head = linear_head(model.layout());
  if (!head) return {{}, {}, "the network does not end in a linear layer"};
  if (scene_.session().loss() != Loss::kCrossEntropy)
    return {{}, {}, "the loss is not cross-entropy"};
  const auto& up = victim.seen.uploaded;
  if (!up.narrow(0, head->begin, head->numel()).any().item<bool>())
    return {{}, {}, "the last layer stays with the client"};
  const auto slope = head_bias_gradient(*head, victim.gradient());
  const int64_t m = victim.truth.size();
  ReadLabels out;
  if (m == 1) {
    if (const auto label = label_by_sign(slope)) {
      out.counts.assign(static_cast<size_t>(head->classes), 0);
      out.counts[static_cast<size_t>(*label)] = 1;
    }
  }
  if (out.counts.empty()) {
    const auto pbar = mean_probabilities(model, victim.seen.at, scene_.federation().sample_shape,
                                         256, derive(key_, 1));
    out.counts = whole_counts(estimated_counts(slope, pbar, m), m);
  }
  out.labels = labels_of_counts(out.counts);
  return out;
}

Result<AuditAttack> Attacker::labels(AuditAttack out, const VictimWork& work) const {
  TESSERA_ASSIGN(const auto all, victims(work, 20));
  std::vector<double> accuracy, guess, l1, guess_l1;
  for (const auto& one : all) {
    const auto read = read_labels(one);
    if (!read.trouble.empty()) {
      out.skipped = read.trouble;
      return out;
    }
    const int64_t m = one.truth.size(), classes = std::ssize(read.counts);
    const auto score = score_labels(read.counts, one.truth.y);
    const std::vector<double> even(static_cast<size_t>(classes),
                                   static_cast<double>(m) / static_cast<double>(classes));
    const auto blind = score_labels(whole_counts(even, m), one.truth.y);
    accuracy.push_back(score.accuracy), l1.push_back(score.l1 / static_cast<double>(m));
    // One sample has no even share: any class is as good a guess as another.
    guess.push_back(m == 1 ? 1.0 / static_cast<double>(classes) : blind.accuracy);
    guess_l1.push_back(m == 1 ? 2 * (1 - guess.back()) : blind.l1 / static_cast<double>(m));
  }
  out.figures = {{"labels right", "", mean_of(accuracy), mean_of(guess), 2},
                 {"error of class counts, a sample", "", mean_of(l1), mean_of(guess_l1), 2}};
  out.remark = fmt::format("{} clients; reference: equal shares", all.size());
  return out;
}

}  // namespace tessera
