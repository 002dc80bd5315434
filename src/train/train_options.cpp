#include "train/train_options.hpp"

#include <algorithm>

namespace tessera {

Loss TrainOptions::loss_on(const ClientData& data) const {
  Loss out = loss_kind();
  if (class_weights == "none") return out;
  const auto counts = data.class_counts(Part::kTrain);
  const auto present =
      counts.size() - static_cast<size_t>(std::count(counts.begin(), counts.end(), 0));
  std::vector<float> weights(counts.size(), 1.0F);
  for (size_t k = 0; k < counts.size(); ++k)
    if (counts[k] > 0)
      weights[k] =
          static_cast<float>(static_cast<double>(data.train_size()) /
                             static_cast<double>(present * static_cast<size_t>(counts[k])));
  out.weights = std::make_shared<const std::vector<float>>(std::move(weights));
  return out;
}

}  // namespace tessera
