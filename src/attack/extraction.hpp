// What a generator gives away: an attacker's own, trained on what it reconstructed, or the
// federation's common one. Measured by how near its pictures are to somebody's real ones, as an
// evaluator trained elsewhere sees them. Pictures are pixels [n, C, H, W] in 0 … 1.
#pragma once

#include <cstdint>
#include <vector>

#include "attack/model_inversion.hpp"
#include "train/gan_training.hpp"

namespace tessera {

/// Mean [k] and covariance [k, k] of features, in fp64.
struct FeatureStatistics {
  Tensor mean, covariance;
};
/// Of rows [n, k]; around their mean and divided by n − 1. Throws std::invalid_argument for fewer
/// than two.
FeatureStatistics statistics_of(const Tensor& features);
/// Of what the evaluator's last layer sees of pictures; with `lenet` 84 numbers.
FeatureStatistics feature_statistics(const InvertedModel& evaluator, const Tensor& pictures);

/// |m_a − m_b|² + tr(C_a + C_b − 2 (C_a^½ C_b C_a^½)^½), by eigenvalues in fp64: the squared
/// Fréchet distance of two normal distributions, as FID. It grows as there are fewer pictures:
/// compare only what was made of equal numbers.
double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b);

/// The attacker's GAN after training on pairs it reconstructed: pixels in 0 … 1 and labels.
GanWeights extract_by_gan(const Gan& gan, const Examples& reconstructed, const GanTraining& options,
                          uint64_t key);

/// How near a generator's pictures are to whom: distances of as many made pictures, of the victim's
/// classes, as the smallest of both sets has. A generator that shows the victim's own pictures is
/// nearer to them than to another client's of the same distribution, by more than `apart` explains.
struct GeneratorLeak {
  double victim = 0, other = 0;  // made pictures to the victim's, to the other's
  double apart = 0;              // the victim's to the other's: what chance alone gives
  double noise = 0;              // uniform noise to the victim's: what knowing nothing gives
  std::vector<double> accuracy;  // by class: what the evaluator takes for what was wanted; NaN:
                                 // the victim has none of it
  double mean_accuracy = 0;      // over all made pictures
};
GeneratorLeak generator_leak(const Gan& gan, const Tensor& generator,
                             const InvertedModel& evaluator, const Examples& victim,
                             const Examples& other, uint64_t key);

/// A malicious participant's generator against the model it is sent (Hitaj et al., CCS 2017): the
/// model is the discriminator.
struct GanInversionOptions {
  int64_t steps = 100, batch = 32;
  double lr = 2e-4, tv = 1e-2;
  static void options(auto& o, auto&& f) {
    f(between("steps", 1, 1e6, "Adam steps of the generator in a round"), o.steps);
    f(between("batch", 1, 1e6, "pictures per step"), o.batch);
    f(above("lr", 0, "learning rate of the generator"), o.lr);
    f(at_least("tv", 0, "weight of the total variation"), o.tv);
  }
};
/// The generator after one round: −log p_label of its pictures + tv TV is made small by Adam. Call
/// it with every model that arrives; `generator` is left as it is.
Tensor invert_by_generator(const InvertedModel& target, const Gan& gan, const Tensor& generator,
                           int64_t label, const GanInversionOptions& options, uint64_t key);
/// What such a participant trains on besides: n pictures of `label` called `wrong`, so that those
/// who have the class must make it plainer.
Examples mislabelled(const Gan& gan, const Tensor& generator, int64_t label, int64_t wrong,
                     int64_t n, uint64_t key);

}  // namespace tessera
