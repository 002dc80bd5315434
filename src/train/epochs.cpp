#include "train/epochs.hpp"

#include <algorithm>

#include "base/key.hpp"

namespace tessera {

EpochStream::Draw EpochStream::next() {
  if (begin_ >= n_) {
    order_ = Rng(derive(site_.key, ++epoch_)).permutation(n_);
    begin_ = 0;
  }
  const int64_t begin = begin_, size = std::min(batch_, n_ - begin);
  begin_ += size;
  return {site_.data.take(part_, std::span(order_).subspan(static_cast<size_t>(begin),
                                                           static_cast<size_t>(size))),
          derive(site_.key, epoch_, begin)};
}

}  // namespace tessera
