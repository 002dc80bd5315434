// Local training on virtual samples (guard 'transform'; train/transform.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "train/epochs.hpp"
#include "train/transform.hpp"

namespace tessera {

/// What the transformations of a run achieved, and virtual samples that are made once. Thread-safe.
class TransformLog {
 public:
  struct Totals {
    int64_t batches = 0;
    double gradient_distance = 0, worst_gradient_distance = 0;  // mean and most of |G' − G| / |G|
    double pixel_distance = 0;                                  // mean of |X' − X| / √P
    double label_term = 0;                                      // mean
  };

  /// Of one call of local_sgd, by its site's key; again for the same key replaces.
  void note(uint64_t key, const Totals& sums);
  /// In the order of keys, so that threads change no bit; none before the first.
  std::optional<Totals> totals() const;
  /// make() at the first call for a name, the same thing later.
  std::shared_ptr<const ClientData> once(const std::string& name,
                                         const std::function<ClientData()>& make);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Totals> calls_;  // sums, not means
  std::map<std::string, std::shared_ptr<const ClientData>> rows_;
};

/// What the guard asks of local training.
struct VirtualTraining {
  /// At the model that training starts from; at every step's own; at the common initial one.
  enum class When { kRound, kStep, kOnce };
  When when = When::kRound;
  TransformOptions options = {};
  uint64_t initial = 0;  // key of the common initial model
  std::shared_ptr<TransformLog> log = std::make_shared<TransformLog>();
};

/// A part of a client's samples, transformed, as the training part of data that local_sgd takes as
/// they are: labels are shares. Made at `at`, or once for a run where the guard says so. Throws
/// std::invalid_argument for samples whose pixels are not known, or fewer than 4 of them.
std::shared_ptr<const ClientData> virtual_pairs(const Weights& at, const Site& site, Part part,
                                                const VirtualTraining& training);

/// The gradients of one call of local_sgd. Borrows `site`. Not thread-safe.
class VirtualSteps {
 public:
  /// Transforms all samples, unless that is done at every step. Throws as virtual_pairs().
  VirtualSteps(const Weights& start, const Site& site, Part part, const TrainOptions& options);
  ~VirtualSteps();

  /// Fills g [d] for the next step; returns the loss to report, of virtual labels. Batches hold the
  /// samples that those of `stream` hold; with kStep an epoch's last one of fewer than 4 is drawn
  /// anew from all.
  double gradient(EpochStream& stream, Weights& at, Tensor& g);

 private:
  Examples virtual_batch(const Weights& at, Examples batch, uint64_t key);

  const Site& site_;
  Part part_;
  int64_t n_, batch_;
  const VirtualTraining& training_;
  TransformLog::Totals sums_;
  std::shared_ptr<const ClientData> rows_;
  std::optional<Site> virtual_site_;
  std::optional<EpochStream> virtual_stream_;
};

}  // namespace tessera
