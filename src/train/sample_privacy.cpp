#include "train/sample_privacy.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/key.hpp"
#include "privacy/draws.hpp"

namespace tessera {
namespace {

/// Of a site's key; the numbers of epochs never get there.
constexpr uint64_t kPrivateStream = 0x6470'7367'6400'0000;

Draws draws_of(const SamplePrivacy& privacy, uint64_t key) {
  return privacy.system ? Draws::of_system() : Draws(key);
}

}  // namespace

PrivateSteps::PrivateSteps(const Site& site, Part part, const TrainOptions& options)
    : site_(site),
      part_(part),
      n_(site.data.size(part)),
      expected_(static_cast<double>(std::min(options.batch, n_))),
      privacy_(options.privacy.value()),
      loss_(options.loss_on(site.data)) {
  if (const auto why = site.model.no_clipping(); !why.empty())
    throw std::invalid_argument("guard 'dp-sgd' does not go with this network: " + why);
}

std::vector<int64_t> PrivateSteps::drawn() {
  auto draws = draws_of(privacy_, derive(site_.key, kPrivateStream, step_, 0));
  const double q = expected_ / static_cast<double>(n_);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n_; ++i)
    if (draws.uniform() < q) out.push_back(i);
  return out;
}

double PrivateSteps::clipped(Weights& at, const Examples& batch, double count, uint64_t key,
                             Tensor& g) {
  double value = 0;
  const Clip clip{privacy_.bound, count, key};
  if (!site_.model.clipped_gradient(at, batch.x, batch.y, loss_, clip, g, norms_, value))
    throw std::logic_error("a model refuses a clipped gradient that it said it has");
  return value;
}

double PrivateSteps::gradient(EpochStream& stream, Weights& at, Tensor& g) {
  if (privacy_.sigma == 0) {
    const auto [batch, key] = stream.next();
    return clipped(at, batch, static_cast<double>(batch.size()), key, g);
  }
  const auto rows = drawn();
  if (rows.empty())
    g.zero_();
  else
    clipped(at, site_.data.take(part_, rows), expected_,
            derive(site_.key, kPrivateStream, step_, 2), g);
  draws_of(privacy_, derive(site_.key, kPrivateStream, step_, 1))
      .add_normal({g.data_ptr<float>(), static_cast<size_t>(g.numel())},
                  privacy_.sigma * privacy_.bound / expected_);
  ++step_;
  return std::nan("");
}

}  // namespace tessera
