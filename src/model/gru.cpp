#include "model/gru.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <span>
#include <stdexcept>

#include "model/fast/fast_gru.hpp"

namespace tessera {
namespace {

/// One layer's weight_ih, weight_hh, bias_ih, bias_hh over x [steps, n, inputs]: the state after
/// each step.
std::vector<Tensor> states(std::span<const Tensor> layer, const Tensor& x) {
  const int64_t hidden = layer[1].size(1);
  const std::vector<int64_t> gates{2 * hidden, hidden};
  // All that does not depend on the state is one product for all steps.
  const auto inputs = at::linear(x, layer[0], layer[2]).split_with_sizes(gates, 2);
  const auto inputs_rz = inputs[0].unbind(0);
  const auto inputs_n = inputs[1].unbind(0);
  const Tensor recurrent = layer[1].t();
  Tensor state = at::zeros({x.size(1), hidden}, x.options());
  std::vector<Tensor> all;
  all.reserve(inputs_n.size());
  for (size_t t = 0; t < inputs_n.size(); ++t) {
    const auto from_state = at::addmm(layer[3], state, recurrent).split_with_sizes(gates, 1);
    const auto rz = at::sigmoid(inputs_rz[t] + from_state[0]).split(hidden, 1);
    const Tensor proposal = at::tanh(at::addcmul(inputs_n[t], rz[0], from_state[1]));
    state = at::lerp(proposal, state, rz[1]);
    all.push_back(state);
  }
  return all;
}

}  // namespace

Gru::Gru(GruSpec spec, Init init)
    : spec_(spec), fast_(std::make_unique<FastGru>(spec, fast::kernels())) {
  using Kind = Fill::Kind;
  const auto h = static_cast<double>(spec.hidden);
  const Fill zero{Kind::kConstant, 0.0};
  const Fill uniform{Kind::kUniform, 1.0 / std::sqrt(h)};  // torch's default for every tensor
  const bool he0 = init == Init::kHe0;
  std::vector<Slice> slices;
  for (int64_t i = 0; i < spec.layers; ++i) {
    const auto name = "gru" + std::to_string(i + 1);
    const int64_t inputs = i == 0 ? spec.inputs : spec.hidden;
    const bool first = i == 0;
    slices.push_back({name + ".weight_ih_l0", {3 * spec.hidden, inputs}, Role::kBody, first});
    slices.push_back({name + ".weight_hh_l0", {3 * spec.hidden, spec.hidden}, Role::kBody, first});
    slices.push_back({name + ".bias_ih_l0", {3 * spec.hidden}, Role::kBody, first});
    slices.push_back({name + ".bias_hh_l0", {3 * spec.hidden}, Role::kBody, first});
    // Xavier and orthogonality hold for each gate, which is a map of its own.
    const Fill xavier{Kind::kUniform, std::sqrt(6.0 / (static_cast<double>(inputs) + h))};
    const Fill orthogonal{Kind::kOrthogonal, 1.0};
    fills_.insert(fills_.end(), {he0 ? xavier : uniform, he0 ? orthogonal : uniform,
                                 he0 ? zero : uniform, he0 ? zero : uniform});
  }
  slices.push_back({"head.weight", {spec.classes, spec.hidden}, Role::kHead, false});
  slices.push_back({"head.bias", {spec.classes}, Role::kHead, false});
  const Fill head{Kind::kNormal, 0.3 * std::sqrt(2.0 / h)};
  fills_.insert(fills_.end(), {he0 ? head : uniform, he0 ? zero : uniform});
  layout_ = Layout(std::move(slices));
}

Gru::~Gru() = default;

Weights Gru::init(uint64_t key) const {
  return started({drawn(layout_, fills_, key), at::empty({0}, at::kFloat)});
}

void Gru::check(const Tensor& x) const {
  if (x.dim() != 3 || x.size(1) < 1 || x.size(2) != spec_.inputs) {
    throw std::invalid_argument("a GRU takes a batch of shape [n, steps, features]");
  }
}

Output Gru::forward(const Weights& at, const Tensor& x, const Pass& /*pass*/) const {
  check(x);
  const auto views = layout_.views(at.w);
  Tensor now = x.to(at.w.scalar_type()).transpose(0, 1).contiguous();
  Tensor last;
  for (int64_t i = 0; i < spec_.layers; ++i) {
    const auto all = states(std::span(views).subspan(static_cast<size_t>(4 * i), 4), now);
    last = all.back();
    if (i + 1 < spec_.layers) now = at::stack(all);
  }
  const size_t head = views.size() - 2;
  return {at::linear(last, views[head], views[head + 1]), last, at.b.detach()};
}

bool Gru::value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                         Tensor& grad, double& value) const {
  std::vector<double> unused;
  return gradient(at, x, y, loss, nullptr, grad, unused, value);
}

bool Gru::clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                           const Clip& clip, Tensor& grad, std::vector<double>& norms,
                           double& value) const {
  return gradient(at, x, y, loss, &clip, grad, norms, value);
}

bool Gru::gradient(const Weights& at, const Tensor& x, const Tensor& y, const Loss& loss,
                   const Clip* clip, Tensor& grad, std::vector<double>& norms,
                   double& value) const {
  check(x);
  const bool plain = at.w.scalar_type() == at::kFloat && at.w.is_contiguous() &&
                     grad.scalar_type() == at::kFloat && grad.is_contiguous();
  if (!plain || x.size(0) == 0 || y.scalar_type() != at::kLong) return false;
  const Tensor samples = x.detach().to(at::kFloat).contiguous(), labels = y.contiguous();
  const FastGru::Batch batch{samples.data_ptr<float>(), x.size(0), x.size(1),
                             labels.data_ptr<int64_t>()};
  if (clip)
    fast_->clipped_gradient(at.w.data_ptr<float>(), batch, loss, *clip, grad.data_ptr<float>(),
                            norms, value);
  else
    fast_->value_and_grad(at.w.data_ptr<float>(), batch, loss, grad.data_ptr<float>(), value);
  return true;
}

Tensor Gru::predict(const Weights& at, const Tensor& x) const {
  check(x);
  if (at.w.scalar_type() != at::kFloat || !at.w.is_contiguous()) return Model::predict(at, x);
  const Tensor samples = x.detach().to(at::kFloat).contiguous();
  Tensor out = at::empty({x.size(0), spec_.classes}, at::kFloat);
  fast_->predict(at.w.data_ptr<float>(), samples.data_ptr<float>(), x.size(0), x.size(1),
                 out.data_ptr<float>());
  return out;
}

}  // namespace tessera
