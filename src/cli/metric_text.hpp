// Figures by name, as exhibits ask for them: "accuracy", "micro/last5", "rounds_to@0.98*FTL".
#pragma once

#include <string>

#include "run/paper_exhibit.hpp"

namespace tessera {

/// NAME[/HOW] or NAME@TARGET.
///   accuracy, micro, std, worst10, precision_macro, f1_macro, f1_remap, balanced_accuracy, auroc
///     of the last evaluation; /last5: mean of the last five; /best: of the round that is best on
///     validation data; /peak: the greatest; /wobble20: deviation over the last 20 rounds
///   rounds_to, time_to (simulated s), traffic_to (models there and back per client)
///     until the accuracy first reaches @80 (per cent) or @0.98*ROW, a share of a row's last
///   ratio@ROW  accuracy over that of a row, in per cent
///   overhead   traffic_to of the whole run
///   shown@NAME, shown_first@NAME  mean of what the method showed in the row or column NAME of a
///     matrix, at the last or first evaluation that had it
///   within@4,3, within_first@4,3  mean attention inside groups of 4 and 3 clients, in their order,
///     over that between groups
///   got@NAME: FIGURE, guess@NAME: FIGURE   what the exhibit's attack NAME came to, and somebody
///   who
///     saw nothing; FIGURE as `tessera attack` prints it ("PSNR, mean"), or AUC: the largest
///   epsilon    of differential privacy
///   clients, samples, samples_mean, samples_std, samples_min, samples_max   of the data
struct MetricSpec {
  enum class Kind { kCurve, kTarget, kRatio, kOverhead, kData, kShown, kWithin, kAttack, kEpsilon };
  Kind kind = Kind::kCurve;
  std::string name, how;        // how: "", last5, best, peak, wobble
  double span = 0;              // of wobble, rounds
  double target = 0;            // per cent, or the share of `row`
  std::string row;              // of a share or ratio; what is shown; of which attack
  std::string figure;           // of an attack
  std::vector<int64_t> groups;  // of within: how many clients in each
  bool first() const { return name.ends_with("_first"); }
  bool smaller_is_better() const;
  /// For a heading: "rounds to 80 %".
  std::string title() const;
};

/// kInvalid begins with `place`.
Result<MetricSpec> metric_spec(const std::string& text, const PaperExhibit& exhibit,
                               const std::string& place);

}  // namespace tessera
