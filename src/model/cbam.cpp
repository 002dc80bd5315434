#include "model/cbam.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/key.hpp"

namespace tessera {
namespace {

constexpr uint64_t kModule = 0xcba;  // keeps the module's stream apart from the base's

// Order of the module's slices.
enum Part : size_t { kW0, kW1, kChannelBias, kSpatial, kSpatialBias };

Layout module_layout(const std::vector<int64_t>& map, const CbamOptions& options, int64_t kernel) {
  const int64_t channels = map[0], units = std::max<int64_t>(1, channels / options.reduction);
  return Layout({{"cbam.w0", {units, channels}},
                 {"cbam.w1", {channels, units}},
                 {"cbam.channel_bias", {channels}},
                 {"cbam.spatial", {1, 2, kernel, kernel}},
                 {"cbam.spatial_bias", {1}}});
}

Layout joined(const Layout& base, const Layout& own) {
  auto slices = base.slices();
  slices.insert(slices.end(), own.slices().begin(), own.slices().end());
  return Layout(std::move(slices));
}

Tensor channel_gate(const std::vector<Tensor>& own, const Tensor& map) {
  const auto scores = [&](const Tensor& pooled) {
    return at::linear(at::relu(at::linear(pooled, own[kW0])), own[kW1]);
  };
  return at::sigmoid(scores(map.mean({2, 3})) + scores(map.amax({2, 3})) + own[kChannelBias]);
}

Tensor spatial_gate(const std::vector<Tensor>& own, const Tensor& map) {
  const Tensor seen = at::cat({map.mean(1, true), map.amax(1, true)}, 1);
  const int64_t pad = own[kSpatial].size(2) / 2;
  return at::sigmoid(at::conv2d(seen, own[kSpatial], own[kSpatialBias], {1, 1}, {pad, pad}));
}

Tensor gated(const Tensor& map, const Tensor& channel) {
  return map * channel.unsqueeze(2).unsqueeze(3);
}

}  // namespace

int64_t kernel_for(const std::vector<int64_t>& map_shape) {
  const int64_t side = std::min(map_shape.at(1), map_shape.at(2));
  return std::min<int64_t>(side < 7 ? 5 : 7, 2 * side - 1);
}

Cbam::Cbam(std::shared_ptr<const Sequential> base, const CbamOptions& options)
    : base_(std::move(base)), options_(options) {
  if (options.neutral) options_.bias = 0;
  scale_ = std::pow(1 + std::exp(-options_.bias), 2);
  const auto& map = base_->map_shape();
  if (map.size() != 3) throw std::invalid_argument("attention needs maps [C, H, W]");
  const int64_t kernel = options.kernel > 0 ? options.kernel : kernel_for(map);
  if (kernel % 2 == 0 || kernel > 2 * std::min(map[1], map[2]) - 1)
    throw std::invalid_argument(
        fmt::format("a spatial kernel of {} does not fit maps of {} x {}", kernel, map[1], map[2]));
  own_ = module_layout(map, options, kernel);
  layout_ = joined(base_->layout(), own_);
  const Fill weight{Fill::Kind::kNormal, options.std}, bias{Fill::Kind::kConstant, options_.bias};
  const Fill last = options.neutral ? Fill{Fill::Kind::kConstant, 0} : weight;
  fills_ = {weight, last, bias, last, bias};
}

Weights Cbam::inserted(const Weights& base, uint64_t key) const {
  const Tensor own = drawn(own_, fills_, derive(key, kModule));
  return {at::cat({base.w, own.to(base.w.scalar_type())}), base.b};
}

std::vector<Tensor> Cbam::own_views(const Weights& at) const {
  return own_.views(at.w.narrow(0, base_->layout().numel(), own_.numel()));
}

Output Cbam::forward(const Weights& at, const Tensor& x, const Pass& pass) const {
  const auto own = own_views(at);
  const auto attended = [&](const Tensor& map) {
    const Tensor chosen = gated(map, channel_gate(own, map));
    return chosen * (scale_ * spatial_gate(own, chosen));
  };
  const Weights below{at.w.narrow(0, 0, base_->layout().numel()), at.b};
  return base_->forward_through(attended, below, x, pass);
}

Cbam::Gates Cbam::gates(const Weights& at, const Tensor& x) const {
  const at::NoGradGuard no_grad;
  const auto own = own_views(at);
  const Tensor map = base_->maps({at.w.narrow(0, 0, base_->layout().numel()), at.b}, x);
  const Tensor channel = channel_gate(own, map);
  return {channel, spatial_gate(own, gated(map, channel))};
}

}  // namespace tessera
