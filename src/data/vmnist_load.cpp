#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "base/key.hpp"
#include "data/sources.hpp"
#include "data/vmnist.hpp"

namespace tessera {
namespace {

// Rows first … first+count−1, in random order already: 70 % to train on, 10 % to validate.
ClientRows split_rows(int64_t first, int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  const auto train = rows.begin() + count * 7 / 10, val = rows.begin() + count * 8 / 10;
  return {{rows.begin(), train}, {train, val}, {val, rows.end()}, {}};
}

Moments training_moments(const ImageSet& images, const std::vector<ClientRows>& holders) {
  uint64_t sum = 0, squares = 0, n = 0;
  for (const auto& own : holders) {
    for (const int64_t row : own.train) {
      const auto* from = images.image(row);
      for (int64_t i = 0; i < images.image_size(); ++i) {
        const uint64_t v = from[i];
        sum += v, squares += v * v, ++n;
      }
    }
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(n);
  const double variance = static_cast<double>(squares) / static_cast<double>(n) - mean * mean;
  return {{mean / 255.0}, {std::sqrt(variance) / 255.0}};
}

}  // namespace

Result<Federation> load_vmnist(const DataOptions& options, uint64_t key) {
  const auto counts = vmnist_counts(options.balanced, options.shrink);
  TESSERA_ASSIGN(const auto picked, pick_clients(counts.size(), options, key));
  if (*std::min_element(counts.begin(), counts.end()) < 10)
    return fail(Error::kInvalid, "shrink = {} leaves a client fewer than 10 images; use less",
                options.shrink);
  const auto& dir = options.data_dir;
  TESSERA_ASSIGN(const auto mnist, load_images("mnist", dir, Direct::kForbidden));
  TESSERA_ASSIGN(const auto fashion, load_images("fmnist", dir, Direct::kForbidden));
  TESSERA_ASSIGN(auto cifar, load_images("cifar10", dir, Direct::kForbidden));
  cifar.pixels.resize(cifar.labels.train.size() * static_cast<size_t>(cifar.image_size()));
  cifar.labels.test.clear();  // backgrounds come from training photographs
  const auto images = build_vmnist(mnist, fashion, to_gray(cifar), counts, key);

  std::vector<ClientRows> holders;
  for (int64_t k = 0, first = 0; k < static_cast<int64_t>(counts.size()); ++k) {
    holders.push_back(split_rows(first, counts[static_cast<size_t>(k)]));
    first += counts[static_cast<size_t>(k)];
  }
  std::vector<int64_t> rows(static_cast<size_t>(images.count()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const auto pool =
      std::make_shared<const Pool>(make_pool(images, rows, training_moments(images, holders)));

  Federation out;
  out.set = options.set;
  out.sample_shape = {1, images.height, images.width};
  out.classes = images.labels.classes;
  out.class_names = class_names_of(options.set, out.classes);
  for (const ImageSet* set : {&mnist, &fashion, &std::as_const(cifar)})
    out.notes.insert(out.notes.end(), set->notes.begin(), set->notes.end());
  const auto add = [&](const std::vector<size_t>& which, std::vector<ClientData>& to) {
    for (const size_t k : which)
      to.push_back(natural_client(
          fmt::format("{}-{}", kVariants[k / kVariantClients], k % kVariantClients + 1), pool,
          holders[k], 0.0, options.samples, derive(key, Purpose::kPartition, k)));
  };
  add(picked.clients, out.clients);
  add(picked.newcomers, out.newcomers);
  out.digest = digest_of(out);
  return out;
}

}  // namespace tessera
