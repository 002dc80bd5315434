// V-MNIST: six variants of MNIST, three clients each. Needs no torch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/images.hpp"

namespace tessera {

inline constexpr int64_t kVariantClients = 3;
inline constexpr std::array kVariants{"mnist", "fashion", "rotated",
                                      "noise", "photo",   "rotated-photo"};

/// How many images each of the 18 clients gets, variant by variant. shrink divides all counts.
std::vector<int64_t> vmnist_counts(bool balanced, int64_t shrink);

/// The digit turned about its centre by the angle (radians, counter-clockwise), bilinear, black
/// outside. 28×28 bytes to 28×28 bytes.
void rotate_digit(const uint8_t* from, double angle, uint8_t* to);

/// Images of all clients one after the other (client k has counts[k]), all in the training pool.
/// No source image is used twice. photos: one-channel images for backgrounds.
ImageSet build_vmnist(const ImageSet& mnist, const ImageSet& fashion, const ImageSet& photos,
                      const std::vector<int64_t>& counts, uint64_t key);

}  // namespace tessera
