#include "optim/transfer.hpp"

#include <ATen/ATen.h>

#include <numeric>

namespace tessera {

const Sequential* convolutional(const Model& model) {
  const auto* net = dynamic_cast<const Sequential*>(&model);
  return net && !net->spec().convs.empty() ? net : nullptr;
}

ClientData training_maps(const Sequential& net, const Weights& at, const ClientData& data) {
  constexpr int64_t kChunk = 256;  // the samples themselves are gathered piecewise
  const int64_t n = data.train_size();
  std::vector<int64_t> shape{n};
  shape.insert(shape.end(), net.map_shape().begin(), net.map_shape().end());
  auto pool = std::make_shared<Pool>();
  pool->x = at::empty(shape, at::kFloat);
  pool->y = at::empty({n}, at::kLong);
  pool->classes = data.classes();
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t size = std::min(kChunk, n - begin);
    const auto some = data.range(Part::kTrain, begin, begin + size);
    pool->x.narrow(0, begin, size).copy_(net.maps(at, some.x));
    pool->y.narrow(0, begin, size).copy_(some.y);
  }
  ClientData out;
  out.name = data.name;
  out.pool = std::move(pool);
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  return out;
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

Trained train_upper(const Weights& start, const Local& local, const TrainOptions& options,
                    const ModelGradient& gradient) {
  const auto job_of = [&](const Model& model) {
    Job job;
    if (gradient)
      job.gradient = [&](Weights& at, const Examples& batch, uint64_t key, Tensor& grad) {
        return gradient(model, at, batch, key, grad);
      };
    return job;
  };
  if (const auto* net = convolutional(local.model)) {
    const auto upper = net->upper();
    const auto data = training_maps(*net, start, local.data);
    const auto [below, above] = cut(*net, start);
    auto trained = local_sgd(above, {*upper, data, local.round, local.key, local.newcomer}, options,
                             job_of(*upper));
    trained.weights = joined(below, trained.weights);
    return trained;
  }
  // Other networks have no batch norm below, so to train nothing there is to freeze it.
  const auto& layout = local.model.layout();
  const auto features = layout.positions([](const Slice& slice) { return slice.features; });
  auto job = job_of(local.model);
  job.only = at::ones({layout.numel()}, at::kBool).index_fill_(0, features, false);
  return local_sgd(start, local, options, job);
}

}  // namespace tessera
