// Image sets as bytes, before any scaling. Needs no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/find.hpp"
#include "data/partition.hpp"

namespace tessera {

/// pixels: [training images, then test images] of channels × height × width, 0 … 255, numbered
/// through as in PoolLabels. pixels.size() = count() · image_size().
struct ImageSet {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;
  PoolLabels labels;
  std::vector<std::string> notes;  // where from, how many

  int64_t image_size() const { return channels * height * width; }
  int64_t count() const { return static_cast<int64_t>(labels.train.size() + labels.test.size()); }
  /// image_size() bytes, valid as long as `pixels` is. 0 ≤ row < count().
  const uint8_t* image(int64_t row) const { return pixels.data() + row * image_size(); }
};

/// mnist, fmnist, cifar10 (as many batches as there are), cifar100. Files may be plain, .gz or .xz.
/// `data_dir` empty: the usual places (find_set). kNotFound names the places; kInvalid names the
/// file that is damaged or does not fit.
Result<ImageSet> load_images(const std::string& set, const std::string& data_dir,
                             Direct direct = Direct::kAllowed);

/// The real MNIST-M records, their middle 28×28; every fifth is a test image. 3 channels, 10
/// classes; errors as load_images.
Result<ImageSet> load_mnistm(const std::string& data_dir);
/// MNIST digits over random crops of photographs: |crop − digit| (training digits over training
/// photographs, test over test). A pure function of its arguments; labels are those of `mnist`.
/// Needs 1×28×28 digits, 3×32×32 photographs, and photographs in both pools.
ImageSet build_mnistm(const ImageSet& mnist, const ImageSet& cifar, uint64_t key);
/// Luminance (ITU-R BT.601) of three-channel images, one channel. Labels and notes stay.
ImageSet to_gray(const ImageSet& colour);

/// One a class; numbers from "0" where the set has no words for them.
std::vector<std::string> class_names_of(const std::string& set, int64_t classes);

/// The set's published mean and standard deviation per channel (of 0…1), for scale = global.
struct Moments {
  std::vector<double> mean, std;
};
/// For mnist, fmnist, cifar10 and cifar100.
Moments published_moments(const std::string& set);

}  // namespace tessera
