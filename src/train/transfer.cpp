#include "train/transfer.hpp"

#include <ATen/ATen.h>

#include "train/derived_data.hpp"

namespace tessera {

const Sequential* convolutional(const Model& model) {
  const auto* net = dynamic_cast<const Sequential*>(&model);
  return net && !net->spec().convs.empty() ? net : nullptr;
}

ClientData training_maps(const Sequential& net, const Weights& at, const ClientData& data) {
  return mapped_training(data, net.map_shape(), [&](const Tensor& x) { return net.maps(at, x); });
}

Cut cut(const Sequential& net, const Weights& whole) {
  int64_t w = 0, b = 0;
  for (const auto& slice : net.layout().slices()) w += slice.features ? slice.numel() : 0;
  for (const auto& slice : net.buffers().slices()) b += slice.features ? slice.numel() : 0;
  return {{whole.w.slice(0, 0, w), whole.b.slice(0, 0, b)},
          {whole.w.slice(0, w), whole.b.slice(0, b)}};
}

Weights joined(const Weights& below, const Weights& above) {
  return {at::cat({below.w, above.w}), at::cat({below.b, above.b})};
}

Tensor all_but_first(const Layout& layout) {
  const auto first = layout.slices().front().block();
  const auto frozen = layout.positions([&](const Slice& s) { return s.block() == first; });
  return at::ones({layout.numel()}, at::kBool).index_fill_(0, frozen, false);
}

SgdResult train_upper(const Weights& start, const Site& site, const TrainOptions& options,
                      const ModelGradient& gradient, bool first_too) {
  const auto job_of = [&](const Model& model) {
    Job job;
    if (gradient)
      job.gradient = [&](Weights& at, const Examples& batch, uint64_t key, Tensor& grad) {
        return gradient(model, at, batch, key, grad);
      };
    return job;
  };
  if (const auto* net = convolutional(site.model)) {
    const auto upper = net->upper();
    const auto data = training_maps(*net, start, site.data);
    const auto [below, above] = cut(*net, start);
    auto job = job_of(*upper);
    if (!first_too) job.only = all_but_first(upper->layout());
    auto trained = local_sgd(above, {*upper, data, site.round, site.key}, options, job);
    trained.weights = joined(below, trained.weights);
    return trained;
  }
  // Other networks have no batch norm below, so to train nothing there is to freeze it.
  const auto& layout = site.model.layout();
  const auto features = layout.positions([](const Slice& slice) { return slice.features; });
  auto job = job_of(site.model);
  job.only = at::ones({layout.numel()}, at::kBool).index_fill_(0, features, false);
  return local_sgd(start, site, options, job);
}

}  // namespace tessera
