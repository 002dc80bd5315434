// How near reconstructions come to the originals. Pictures are pixels [n, C, H, W] and are clamped
// to [0, 1] first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tessera {

using at::Tensor;

/// Where two pictures do not differ in 32 bits; higher values are cut to it, so that means and
/// files stay finite.
inline constexpr double kMostPsnr = 150;

/// The Gaussian window of SSIM; `side` is odd. 11 is the usual one, 7 is acceptable for 28×28.
struct SsimWindow {
  int64_t side = 11;
  double sigma = 1.5;
};

/// Mean squared difference over all pixels of two tensors of one shape.
double image_mse(const Tensor& a, const Tensor& b);
/// 10 log10(1 / MSE) in dB, at most kMostPsnr.
double psnr_of_mse(double mse);
double psnr(const Tensor& a, const Tensor& b);
/// Structural similarity of two pictures [C, H, W]: K1 = 0.01, K2 = 0.03, L = 1, over the places
/// where the window lies inside, mean over channels. Throws std::invalid_argument where there is no
/// such place.
double ssim(const Tensor& a, const Tensor& b, const SsimWindow& window = {});

/// Which column each row takes, so that the sum of cost [rows, columns] is least and no column is
/// taken twice; −1 for rows that get none, where there are fewer columns. O(n³) (Hungarian method).
/// Costs must be finite, or std::invalid_argument.
std::vector<int64_t> least_cost_assignment(const Tensor& cost);

struct Likeness {
  double mse = 0, psnr = 0, ssim = 0;
};
/// One original and what was taken for it.
struct Match {
  int64_t original = 0, reconstruction = 0;
  Likeness likeness;
};
/// A batch: every original that has a partner. `best` is the picture that was hit best: the worst
/// case for its owner. Means over nothing are NaN.
struct BatchLikeness {
  std::vector<Match> matches;  // by original
  Likeness mean, best;

  /// The fraction of `originals` pictures that were recovered with more than `db`.
  double recall(int64_t originals, double db = 25) const;
};

/// Originals [n, C, H, W] against reconstructions [m, C, H, W], matched by least total MSE.
BatchLikeness compare_batches(const Tensor& originals, const Tensor& reconstructions,
                              const SsimWindow& window = {});

/// The picture of somebody who knows the data set but saw nothing: the mean of its pictures
/// [n, C, H, W].
Tensor mean_image(const Tensor& pictures);
/// What that picture [C, H, W] gets against each original.
BatchLikeness random_guess(const Tensor& originals, const Tensor& mean_picture,
                           const SsimWindow& window = {});
/// A defence works where the attack's mean PSNR is at most 1 dB above the random guess.
bool defence_effective(const BatchLikeness& attack, const BatchLikeness& guess);

}  // namespace tessera
