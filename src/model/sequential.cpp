#include "model/sequential.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/key.hpp"
#include "model/fast/fast_net.hpp"
#include "model/fast/fold.hpp"
#include "model/fast/per_sample.hpp"
#include "model/layers.hpp"

namespace tessera {
namespace {

/// oneDNN is five times slower than im2col + GEMM on a single input channel.
Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvStage& stage) {
  const std::vector<int64_t> stride(2, stage.stride), pad(2, stage.pad);
  if (weight.size(1) > 1) return at::conv2d(x, weight, bias, stride, pad);
  return at::thnn_conv2d(x, weight, {weight.size(2), weight.size(3)}, bias, stride, pad);
}

Tensor activated(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
  }
  return x;
}

/// he0: N(0, 2/fan_in) with the deviation times `gain`, biases 0. torch: both ±1/sqrt(fan_in).
std::pair<Fill, Fill> weight_and_bias(Init init, int64_t fan_in, double gain) {
  const auto inputs = static_cast<double>(fan_in);
  if (init == Init::kTorch) {
    const Fill uniform{Fill::Kind::kUniform, 1.0 / std::sqrt(inputs)};
    return {uniform, uniform};
  }
  return {{Fill::Kind::kNormal, gain * std::sqrt(2.0 / inputs)}, {Fill::Kind::kConstant, 0.0}};
}

/// A sigmoid passes on a quarter of a slope at most: with ReLU's deviations next to nothing reaches
/// the first layers, and lenet-smooth stays at chance. Twice as large ones are enough.
double gain_of(Activation activation) { return activation == Activation::kSigmoid ? 2.0 : 1.0; }

/// Slices and their fills, in flat order.
struct Listing {
  double gain = 1.0;
  std::vector<Slice> slices, buffers;
  std::vector<Fill> fills, buffer_fills;

  void conv(const ConvStage& stage, size_t index, Init init) {
    const auto name = "conv" + std::to_string(index + 1);
    const int64_t k = stage.kernel;
    const auto [weight, bias] =
        weight_and_bias(init, stage.in * k * k, stage.pool > 0 ? gain / 1.5 : gain);
    slices.push_back({name + ".weight", {stage.out, stage.in, k, k}, Role::kBody, true});
    slices.push_back({name + ".bias", {stage.out}, Role::kBody, true});
    fills.insert(fills.end(), {weight, bias});
    if (stage.batch_norm) norm(stage.out, true);
  }

  void linear(const LinearStage& stage, size_t index, bool last, Init init) {
    const auto name = last ? "head" : "fc" + std::to_string(index + 1);
    const Role role = last ? Role::kHead : Role::kBody;
    const auto [weight, bias] = weight_and_bias(init, stage.in, last ? gain * 0.3 : gain);
    slices.push_back({name + ".weight", {stage.out, stage.in}, role, false});
    slices.push_back({name + ".bias", {stage.out}, role, false});
    fills.insert(fills.end(), {weight, bias});
    if (stage.batch_norm) norm(stage.out, false);
  }

  void norm(int64_t width, bool features) {
    const auto name = "bn" + std::to_string(buffers.size() / 2 + 1);
    const Fill zero{Fill::Kind::kConstant, 0.0};
    const Fill one{Fill::Kind::kConstant, 1.0};
    slices.push_back({name + ".weight", {width}, Role::kNorm, features});
    slices.push_back({name + ".bias", {width}, Role::kNorm, features});
    fills.insert(fills.end(), {one, zero});
    buffers.push_back({name + ".running_mean", {width}, Role::kNorm, features});
    buffers.push_back({name + ".running_var", {width}, Role::kNorm, features});
    buffer_fills.insert(buffer_fills.end(), {zero, one});
  }
};

/// A layer as a pass met it; a linear one has no stage.
struct LayerTrace {
  Tensor in, out;
  const ConvStage* conv;
};

/// [n]: squared norms of the gradients of a layer's weight and bias, sample by sample, from that of
/// what came out of it.
Tensor squares_of(const LayerTrace& layer, const Tensor& grad) {
  if (!layer.conv) return (layer.in.square().sum(1) + 1) * grad.square().sum(1);
  const std::vector<int64_t> kernel(2, layer.conv->kernel), pad(2, layer.conv->pad),
      stride(2, layer.conv->stride);
  const auto patches = at::im2col(layer.in, kernel, {1, 1}, pad, stride);  // [n, depth, pixels]
  const auto above = grad.flatten(2);
  return above.bmm(patches.transpose(1, 2)).square().sum({1, 2}) + above.sum(2).square().sum(1);
}

/// One pass over the layers in flat order.
class Walk {
 public:
  Walk(const Layout& layout, const Layout& buffers, const Weights& at, const Pass& pass)
      : views_(layout.views(at.w)), norms_(buffers, at.b, pass.train), pass_(pass) {}

  /// From now on, what goes into each layer and what comes out of it, before anything else.
  void trace(std::vector<LayerTrace>& into) { trace_ = &into; }

  Tensor convolutions(const SequentialSpec& spec, const Tensor& x) {
    std::vector<int64_t> batch{x.size(0)};
    batch.insert(batch.end(), spec.sample.begin(), spec.sample.end());
    Tensor now = x.to(views_.front().scalar_type()).reshape(batch);
    const bool falls = spec.activation == Activation::kGelu;
    for (size_t i = 0; i < spec.convs.size(); ++i) {
      const auto& stage = spec.convs[i];
      const Tensor& weight = next();
      const Tensor input = now;
      now = convolve(now, weight, next(), stage);
      if (trace_) trace_->push_back({input, now, &stage});
      if (stage.batch_norm) now = normed(now);
      if (falls) now = activated(spec.activation, now);
      if (stage.pool > 0) now = at::max_pool2d(now, stage.pool, stage.pool_stride);
      if (!falls) now = activated(spec.activation, now);
      if (stage.dropout > 0 && pass_.train)
        now = dropped(now, stage.dropout, derive(pass_.key, kConvDropout + i));
    }
    return now;
  }

  Output linears(const SequentialSpec& spec, const Tensor& map) {
    Tensor now = map.flatten(1), features;
    for (size_t i = 0; i < spec.linears.size(); ++i) {
      const auto& stage = spec.linears[i];
      features = now;
      const Tensor& weight = next();
      now = at::linear(now, weight, next());
      if (trace_) trace_->push_back({features, now, nullptr});
      if (stage.batch_norm) now = normed(now);
      if (stage.relu) now = activated(spec.activation, now);
      if (stage.dropout > 0 && pass_.train) now = dropped(now, stage.dropout, derive(pass_.key, i));
    }
    return {now, features, norms_.buffers()};
  }

 private:
  const Tensor& next() { return views_[next_++]; }
  Tensor normed(const Tensor& input) {
    const Tensor& weight = next();
    return norms_.apply(input, weight, next());
  }

  std::vector<Tensor> views_;
  size_t next_ = 0;
  BatchNorms norms_;
  Pass pass_;
  std::vector<LayerTrace>* trace_ = nullptr;
};

std::vector<int64_t> map_shape_of(const SequentialSpec& spec) {
  auto shape = spec.sample;
  for (const auto& stage : spec.convs) {
    shape[0] = stage.out;
    for (const size_t side : {1, 2}) {
      shape[side] = (shape[side] + 2 * stage.pad - stage.kernel) / stage.stride + 1;
      if (stage.pool > 0) shape[side] = (shape[side] - stage.pool) / stage.pool_stride + 1;
    }
  }
  return shape;
}

}  // namespace

Sequential::Sequential(SequentialSpec spec, Init init)
    : spec_(std::move(spec)), init_(init), map_shape_(map_shape_of(spec_)) {
  Listing list{gain_of(spec_.activation)};
  const auto& convs = spec_.convs;
  const auto& linears = spec_.linears;
  for (size_t i = 0; i < convs.size(); ++i) list.conv(convs[i], i, init);
  for (size_t i = 0; i < linears.size(); ++i) {
    list.linear(linears[i], i, i + 1 == linears.size(), init);
  }
  layout_ = Layout(std::move(list.slices));
  buffers_ = Layout(std::move(list.buffers));
  fills_ = std::move(list.fills);
  buffer_fills_ = std::move(list.buffer_fills);
  const auto varies = [](const auto& stage) { return stage.batch_norm || stage.dropout > 0; };
  same_in_training_ = std::ranges::none_of(convs, varies) && std::ranges::none_of(linears, varies);
  if (!FastNet::supports(spec_)) return;
  fast_ = std::make_unique<FastNet>(fast::without_norms(spec_));
  if (buffers_.numel() > 0) trained_ = std::make_unique<FastNet>(spec_);
}

Sequential::~Sequential() = default;

Weights Sequential::init(uint64_t key) const {
  return started({drawn(layout_, fills_, key), drawn(buffers_, buffer_fills_, key)});
}

Output Sequential::forward(const Weights& at, const Tensor& x, const Pass& pass) const {
  Walk walk(layout_, buffers_, at, pass);
  return walk.linears(spec_, walk.convolutions(spec_, x));
}

Output Sequential::forward_through(const MapHook& hook, const Weights& at, const Tensor& x,
                                   const Pass& pass) const {
  Walk walk(layout_, buffers_, at, pass);
  return walk.linears(spec_, hook(walk.convolutions(spec_, x)));
}

bool Sequential::by_hand(const Tensor& flat) const {
  return fast_ && flat.scalar_type() == at::kFloat && flat.is_contiguous() &&
         flat.numel() == layout_.numel();
}

bool Sequential::value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                                Tensor& grad, double& value) const {
  if (!same_in_training_ || !by_hand(at.w) || !by_hand(grad) || x.requires_grad()) return false;
  return fast_->value_and_grad(at.w.data_ptr<float>(), x, y, loss, grad.data_ptr<float>(), value);
}

bool Sequential::training_gradient(Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                                   uint64_t key, Tensor& grad, double& value) const {
  if (same_in_training_) return value_and_grad(at, x, y, std::move(loss), grad, value);
  if (!by_hand(at.w) || !by_hand(grad) || x.requires_grad()) return false;
  if (at.b.scalar_type() != at::kFloat || at.b.numel() != buffers_.numel()) return false;
  const Tensor running = at.b.clone(at::MemoryFormat::Contiguous);
  const FastNet::Training training{key, running.data_ptr<float>()};
  const auto& net = trained_ ? *trained_ : *fast_;
  if (!net.value_and_grad(at.w.data_ptr<float>(), x, y, std::move(loss), grad.data_ptr<float>(),
                          value, &training))
    return false;
  at.b = running;
  return true;
}

std::string Sequential::no_clipping() const {
  if (buffers_.numel() == 0) return "";
  return "its batch norms mix the samples of a batch, so none of them has a gradient of its own; "
         "use a network without batch norm";
}

// Without kernels of its own, by autograd: the norms from what goes into each layer and the
// gradient of what comes out of it, the sum from a second pass back over the same graph.
bool Sequential::clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                                  const Clip& clip, Tensor& grad, std::vector<double>& norms,
                                  double& value) const {
  const auto plain = [&](const Tensor& flat) {
    return flat.scalar_type() == at::kFloat && flat.is_contiguous() &&
           flat.numel() == layout_.numel();
  };
  if (buffers_.numel() > 0 || !plain(at.w) || !plain(grad) || x.size(0) < 1) return false;
  if (fast_)
    return fast_->clipped_gradient(at.w.data_ptr<float>(), x, y, loss, clip, grad.data_ptr<float>(),
                                   norms, value);
  const auto w = at.w.detach().requires_grad_(true);
  std::vector<LayerTrace> layers;
  Walk walk(layout_, buffers_, {w, at.b}, {true, clip.key});
  walk.trace(layers);
  const auto logits = walk.linears(spec_, walk.convolutions(spec_, x)).logits;
  const auto mean_loss = loss_value(loss, logits, y);
  std::vector<Tensor> outs;
  for (const auto& layer : layers) outs.push_back(layer.out);
  const auto grads = torch::autograd::grad({mean_loss}, outs, {}, /*retain_graph=*/true);
  const at::NoGradGuard no_grad;
  auto squares = at::zeros({x.size(0)}, at::kDouble);
  for (size_t i = 0; i < layers.size(); ++i) squares += squares_of(layers[i], grads[i]);
  norms = fast::norms_of({squares.data_ptr<double>(), squares.data_ptr<double>() + x.size(0)});
  auto rows = grads.back().contiguous().clone();
  fast::clip_rows(clip, x.size(0), x.size(0), rows.size(1), norms.data(), rows.data_ptr<float>());
  grad.copy_(torch::autograd::grad({logits}, {w}, {rows})[0]);
  value = mean_loss.item<double>();
  return true;
}

bool Sequential::hessian_times(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                               const Tensor& v, Tensor& product) const {
  if (!same_in_training_ || !by_hand(at.w) || !by_hand(v) || !by_hand(product)) return false;
  return fast_->hessian_times(at.w.data_ptr<float>(), x, y, loss, v.data_ptr<float>(),
                              product.data_ptr<float>());
}

Tensor Sequential::predict(const Weights& at, const Tensor& x) const {
  if (!fast_ || at.w.scalar_type() != at::kFloat) return Model::predict(at, x);
  Tensor logits = at::empty({x.size(0), fast_->classes()}, at::kFloat);
  fast_->predict(plain_weights(at).data_ptr<float>(), x.to(at::kFloat), logits.data_ptr<float>());
  return logits;
}

Tensor Sequential::maps(const Weights& at, const Tensor& x) const {
  if (!fast_ || at.w.scalar_type() != at::kFloat) {
    const at::NoGradGuard no_grad;
    return Walk(layout_, buffers_, at, Pass{}).convolutions(spec_, x);
  }
  std::vector<int64_t> shape{x.size(0)};
  shape.insert(shape.end(), map_shape_.begin(), map_shape_.end());
  Tensor out = at::empty(shape, at::kFloat);
  fast_->maps(plain_weights(at).data_ptr<float>(), x.to(at::kFloat), out.data_ptr<float>());
  return out;
}

Tensor Sequential::plain_weights(const Weights& at) const {
  const bool norms = buffers_.numel() > 0;
  return norms ? fast::folded(spec_, layout_, buffers_, at) : at.w.contiguous();
}

std::unique_ptr<Sequential> Sequential::upper() const {
  return std::make_unique<Sequential>(
      SequentialSpec{map_shape_, {}, spec_.linears, spec_.activation}, init_);
}

}  // namespace tessera
