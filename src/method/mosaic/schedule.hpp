// What a round of mosaic is for (docs/methods.md §12.2). Needs no torch.
//
// The contract has one exchange a round, so what is fitted once is spread over rounds: class
// moments, then temperatures, then Newton steps, each beside the ordinary upload. A round that
// fails is repeated: progress is counted by exchanges that came back, not by rounds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

/// What clients send besides their model. kClosing: moments instead of a model, in the last round,
/// so that they belong to the final one; and what a Newton step needs, if one is due.
enum class Exchange : int64_t { kNone, kMoments, kTemperatures, kNewton, kClosing };

/// Of a run of `rounds`. Shorter runs than kShortest are FedAvg beside models trained alone:
/// nothing is held out and nothing is fitted.
struct MosaicSchedule {
  static constexpr int64_t kShortest = 4;
  static constexpr int64_t kFitting = 5;  // rounds: moments, temperatures, three Newton steps
  int64_t rounds = 0;
  double fit_at = 0.75;  // share of the rounds before the fit, which kFitting may lower
  int64_t newton = 10;   // steps at most

  /// The last round in which rows are held out; 0: never.
  int64_t last_held() const {
    if (rounds < kShortest) return 0;
    const auto share = static_cast<int64_t>(fit_at * static_cast<double>(rounds) + 1e-9);
    return std::max<int64_t>(std::min(share, rounds - kFitting), 1);
  }
  bool holds(int64_t round) const { return round <= last_held(); }
  /// `done`: exchanges of the fit that have come back.
  Exchange due(int64_t round, int64_t done) const {
    if (rounds < kShortest || holds(round) || round > rounds) return Exchange::kNone;
    if (round == rounds) return Exchange::kClosing;
    if (done == 0) return Exchange::kMoments;
    if (done == 1) return Exchange::kTemperatures;
    return steps(done) ? Exchange::kNewton : Exchange::kNone;
  }
  /// Whether the exchange holds what a Newton step needs.
  bool weighs(Exchange exchange, int64_t done) const {
    return (exchange == Exchange::kNewton || exchange == Exchange::kClosing) && steps(done);
  }

 private:
  bool steps(int64_t done) const { return done >= 2 && done < 2 + newton; }
};

}  // namespace tessera
