// The batches of local training, one after the other.
#pragma once

#include "train/local_sgd.hpp"

namespace tessera {

/// A new random order every epoch; the last batch of one may be smaller. Endless: who uses it knows
/// how many batches it wants. The batches follow from the site's key, the part's size and `batch`
/// alone. Borrows `site`, which must outlive it. Not thread-safe.
class EpochStream {
 public:
  /// `batch` is at least 1; it may exceed the samples there are.
  EpochStream(const Site& site, Part part, int64_t batch)
      : site_(site), part_(part), n_(site.data.size(part)), batch_(batch), begin_(n_) {}

  /// Batches in an epoch; 0 for a part without samples, whose next() must not be asked for.
  int64_t per_epoch() const { return (n_ + batch_ - 1) / batch_; }

  /// The samples are copies: x [n, …] float32, y [n] int64, 1 ≤ n ≤ `batch`.
  struct Draw {
    Examples batch;
    uint64_t key;  // for dropout
  };
  /// Begins the next epoch where the last one is used up.
  Draw next();

 private:
  const Site& site_;
  Part part_;
  int64_t n_, batch_, begin_, epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace tessera
