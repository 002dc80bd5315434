#include "attack/membership.hpp"

#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::made;

Answers answers(std::vector<double> p, std::vector<int64_t> y) {
  const auto n = static_cast<int64_t>(y.size());
  return {at::tensor(p, at::kDouble).view({n, -1}), at::tensor(y, at::kLong)};
}

TEST(Membership, SignalsByHand) {
  const auto two = answers({0.7, 0.2, 0.1, 0.25, 0.25, 0.5}, {1, 2});
  const auto loss = membership_scores(MembershipSignal::kLoss, two);
  EXPECT_NEAR(loss[0], std::log(0.2), 1e-12);
  EXPECT_NEAR(loss[1], std::log(0.5), 1e-12);
  EXPECT_NEAR(membership_scores(MembershipSignal::kConfidence, two)[0], 0.7, 1e-12);
  EXPECT_NEAR(membership_scores(MembershipSignal::kEntropy, two)[1],
              0.5 * std::log(0.25) + 0.5 * std::log(0.5), 1e-12);
  EXPECT_NEAR(membership_scores(MembershipSignal::kModifiedEntropy, two)[0],
              0.8 * std::log(0.2) + 0.7 * std::log(0.3) + 0.1 * std::log(0.9), 1e-12);
  EXPECT_NEAR(logit_confidences(two)[0], std::log(0.2 / 0.8), 1e-12);
  EXPECT_NEAR(logit_confidences(two)[1], 0, 1e-12);
  for (const auto signal : {MembershipSignal::kLoss, MembershipSignal::kConfidence,
                            MembershipSignal::kEntropy, MembershipSignal::kModifiedEntropy}) {
    const auto sure = membership_scores(signal, answers({1, 0, 1, 0}, {0, 1}));
    EXPECT_TRUE(std::isfinite(sure[0]) && std::isfinite(sure[1])) << name_of(signal);
    EXPECT_GE(sure[0], sure[1]) << name_of(signal);
  }
  // Near 1 the digits of 1 − p are in the other classes.
  EXPECT_NEAR(logit_confidences(answers({1, 1e-20}, {0}))[0], -std::log(1e-20), 1e-9);
}

TEST(Membership, MetricsOfASmallExample) {
  // Members 5 3 3 1, others 4 3 2 0: of 16 pairs members win 4 + 2 + 2 + 1 = 9, two are ties.
  const std::vector<double> in{5, 3, 3, 1}, out{4, 3, 2, 0};
  const auto got = measure_membership(in, out);
  EXPECT_NEAR(got.auc, (9 + 0.5 * 2) / 16, 1e-12);
  // At 5: 1/4 and 0; at 3: 3/4 and 2/4; at 1: 1 and 3/4.
  EXPECT_NEAR(got.advantage, 0.25, 1e-12);
  EXPECT_NEAR(got.balanced_accuracy, 0.625, 1e-12);
  EXPECT_NEAR(got.tpr_at_low_fpr, 0.25, 1e-12);
  const auto perfect = measure_membership(std::vector<double>{2, 3}, std::vector<double>{0, 1});
  EXPECT_EQ(perfect.auc, 1);
  EXPECT_EQ(perfect.advantage, 1);
  EXPECT_EQ(perfect.tpr_at_low_fpr, 1);
  const auto same = measure_membership(std::vector<double>(3, 1.0), std::vector<double>(5, 1.0));
  EXPECT_EQ(same.auc, 0.5);
  EXPECT_EQ(same.advantage, 0);
  EXPECT_EQ(same.tpr_at_low_fpr, 0);
  EXPECT_TRUE(std::isnan(measure_membership(in, {}).auc));
}

// One in a hundred others may be accused, two may not.
TEST(Membership, TheLowRateIsOnePercent) {
  std::vector<double> out(200, 0.0), in{1.5, 2.5, 3.5, 4.5};
  out[0] = 4, out[1] = 3, out[2] = 2;
  EXPECT_NEAR(measure_membership(in, out).tpr_at_low_fpr, 0.75, 1e-12);
}

// U = R − m (m + 1) / 2 with the sum R of the members' ranks, AUC = U / (m n).
TEST(Membership, AreaByRanks) {
  Rng rng(5);
  std::vector<double> in, out;
  for (int i = 0; i < 40; ++i) in.push_back(std::round(4 * (rng.normal() + 0.5)));
  for (int i = 0; i < 55; ++i) out.push_back(std::round(4 * rng.normal()));
  std::vector<double> all(in);
  all.insert(all.end(), out.begin(), out.end());
  double ranks = 0;
  for (const double value : in) {
    double below = 0, equal = 0;
    for (const double other : all) below += other < value, equal += other == value;
    ranks += below + (equal + 1) / 2;
  }
  const auto m = static_cast<double>(in.size()), n = static_cast<double>(out.size());
  EXPECT_NEAR(measure_membership(in, out).auc, (ranks - m * (m + 1) / 2) / (m * n), 1e-12);
}

// At the minimum the slope is zero; worked out anew in each coefficient.
TEST(Membership, LogisticRegressionIsAtItsMinimum) {
  const auto x = at::cat({2 * testing::normal({60, 2}, 1) + 3, at::ones({60, 1}, at::kDouble)}, 1);
  std::vector<bool> positive;
  Rng rng(2);
  for (int64_t i = 0; i < 60; ++i)
    positive.push_back(x[i][0].item<double>() - 3 + 2 * rng.normal() > 0);
  const auto rule = fit_logistic(x, positive, 0.5);
  EXPECT_GT(rule.coefficients[0], 0.5);
  EXPECT_EQ(rule.coefficients[2], 0);  // never varied
  double offset = 0, first = 0.5 * rule.coefficients[0];
  for (int64_t i = 0; i < 60; ++i) {
    const std::vector<double> row{x[i][0].item<double>(), x[i][1].item<double>(), 1};
    const double wrong =
        testing::sigmoid(rule.score(row)) - (positive[static_cast<size_t>(i)] ? 1 : 0);
    offset += wrong, first += wrong * (row[0] - rule.mean[0]) * rule.scale[0];
  }
  EXPECT_NEAR(offset, 0, 1e-6);
  EXPECT_NEAR(first, 0, 1e-6);
  // All of one kind, and cleanly parted ones, still have an end.
  EXPECT_TRUE(std::isfinite(fit_logistic(x, std::vector<bool>(60, true)).offset));
  EXPECT_THROW(fit_logistic(x, {true}), std::invalid_argument);
}

TEST(Membership, LikelihoodRatiosByHand) {
  // Means 1 and 5, variances 2 and 8; pooled 5.
  const std::vector<std::vector<double>> shadows{{0, 3}, {2, 7}};
  const auto pooled = likelihood_ratios(std::vector<double>{3, 4}, shadows);
  EXPECT_NEAR(pooled[0], 2 / std::sqrt(5.0), 1e-9);
  EXPECT_NEAR(pooled[1], -1 / std::sqrt(5.0), 1e-9);
  const auto own = likelihood_ratios(std::vector<double>{3, 4}, shadows, true);
  EXPECT_NEAR(own[0], 2 / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(own[1], -1 / std::sqrt(8.0), 1e-9);
  EXPECT_THROW(likelihood_ratios(std::vector<double>{3}, shadows), std::invalid_argument);
  EXPECT_THROW(likelihood_ratios(std::vector<double>{3, 4}, {{0, 3}}), std::invalid_argument);
}

/// Somebody with `train` digits from `begin` on and as many others behind them.
ClientData owner(int64_t begin, int64_t train) {
  const auto both = testing::digits(2 * train, begin);
  ClientData out;
  out.pool = std::make_shared<Pool>(Pool{both.x, both.y, 10});
  for (int64_t i = 0; i < train; ++i) out.train.push_back(i), out.test.push_back(train + i);
  return out;
}

/// Twice n digits from `begin` on, dealt into two halves by lot. Nothing less will do: of MNIST's
/// training digits the even ones are harder than the odd ones (an AUC of 0.41 between them), which
/// would look like membership.
std::pair<Examples, Examples> halves(int64_t begin, int64_t n) {
  const auto all = testing::digits(2 * n, begin);
  const auto order = at::tensor(Rng(11).permutation(2 * n), at::kLong);
  const auto half = [&](int64_t from) {
    const auto rows = order.narrow(0, from, n);
    return Examples{all.x.index_select(0, rows), all.y.index_select(0, rows)};
  };
  return {half(0), half(n)};
}

TrainOptions overfitting() {
  TrainOptions out;
  out.epochs = 40, out.batch = 10, out.lr = 0.1, out.loss = "ce";
  return out;
}

TEST(Membership, AModelThatNeverSawTheMembersTellsNothing) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("mlp100", kDigits);
  const auto data = owner(0, 100);
  const auto shadow = train_shadow({*model, data, 1, 3}, overfitting());
  const auto [first, second] = halves(1000, 6000);
  const auto in = answers_of(*model, shadow.model, first);
  const auto out = answers_of(*model, shadow.model, second);
  for (const auto signal : {MembershipSignal::kLoss, MembershipSignal::kConfidence,
                            MembershipSignal::kEntropy, MembershipSignal::kModifiedEntropy}) {
    const auto got =
        measure_membership(membership_scores(signal, in), membership_scores(signal, out));
    EXPECT_NEAR(got.auc, 0.5, 0.02) << name_of(signal);
    EXPECT_NEAR(got.tpr_at_low_fpr, 0.01, 0.01) << name_of(signal);
    RecordProperty(name_of(signal), fmt::format("{:.4f}", got.auc));
  }
}

TEST(Membership, AnOverfittedModelTellsMuch) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("mlp100", kDigits);
  constexpr int64_t kOwn = 100, kShadows = 4;
  const auto victim = owner(0, kOwn);
  const auto target = train_shadow({*model, victim, 1, 3}, overfitting());
  std::vector<Shadow> shadows;
  std::vector<std::vector<double>> of_members, of_others;
  for (int64_t i = 0; i < kShadows; ++i) {
    const auto data = owner(2000 + 2 * kOwn * i, kOwn);
    shadows.push_back(
        train_shadow({*model, data, 1, 30 + static_cast<uint64_t>(i)}, overfitting()));
    const auto& weights = shadows.back().model;
    const auto asked = [&](Part part) {
      return logit_confidences(answers_of(*model, weights, victim.range(part, 0, kOwn)));
    };
    of_members.push_back(asked(Part::kTrain)), of_others.push_back(asked(Part::kTest));
  }
  const auto loss = measure_membership(membership_scores(MembershipSignal::kLoss, target.members),
                                       membership_scores(MembershipSignal::kLoss, target.others));
  const ShadowAttack attack(shadows);
  const auto shadow =
      measure_membership(attack.scores(target.members), attack.scores(target.others));
  const auto ratio =
      measure_membership(likelihood_ratios(logit_confidences(target.members), of_members),
                         likelihood_ratios(logit_confidences(target.others), of_others));
  EXPECT_GT(loss.auc, 0.6);
  EXPECT_GT(shadow.auc, 0.6);
  EXPECT_GT(ratio.auc, loss.auc);
  EXPECT_GT(ratio.tpr_at_low_fpr, 0.05);
  RecordProperty("auc", fmt::format("loss {:.3f}, shadow {:.3f}, ratio {:.3f} (TPR {:.2f})",
                                    loss.auc, shadow.auc, ratio.auc, ratio.tpr_at_low_fpr));
  // The same attacks on the same model know nothing of samples that it never saw, half of which are
  // called members. One model: two would differ in how sure they are of anything.
  const auto unseen = halves(20000, 3000);
  std::vector<std::vector<double>> of_first, of_second;
  for (const auto& other : shadows) {
    of_first.push_back(logit_confidences(answers_of(*model, other.model, unseen.first)));
    of_second.push_back(logit_confidences(answers_of(*model, other.model, unseen.second)));
  }
  const auto first = answers_of(*model, target.model, unseen.first);
  const auto second = answers_of(*model, target.model, unseen.second);
  const auto blind = measure_membership(attack.scores(first), attack.scores(second));
  const auto blind_ratio =
      measure_membership(likelihood_ratios(logit_confidences(first), of_first),
                         likelihood_ratios(logit_confidences(second), of_second));
  EXPECT_NEAR(blind.auc, 0.5, 0.03);  // four standard errors
  EXPECT_NEAR(blind_ratio.auc, 0.5, 0.03);
  RecordProperty("blind", fmt::format("{:.4f}, ratio {:.4f}", blind.auc, blind_ratio.auc));
}

}  // namespace
}  // namespace tessera
