#include "model/hypernet.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

#include "model/fill.hpp"

namespace tessera {
namespace {

constexpr double kSpread = 0.1;  // how far clients start apart, in units of the target's scale

int64_t input_width(const HypernetSpec& spec) {
  return spec.embed + (spec.depths > 1 ? kDepthCode : 0);
}

std::vector<Slice> slices_of(const HypernetSpec& spec) {
  std::vector<Slice> out;
  if (spec.depths > 1) out.push_back({"depth.code", {spec.depths, kDepthCode}});
  const auto linear = [&](const std::string& name, int64_t in, int64_t width) {
    out.push_back({name + ".weight", {width, in}});
    out.push_back({name + ".bias", {width}});
  };
  linear("in", input_width(spec), spec.hidden);
  for (int64_t i = 0; i < spec.layers; ++i)
    linear("hidden" + std::to_string(i + 1), spec.hidden, spec.hidden);
  linear("out", spec.hidden, spec.target / spec.depths);
  return out;
}

}  // namespace

int64_t hypernet_numel(const HypernetSpec& spec) {
  int64_t total = 0;
  for (const auto& slice : slices_of(spec)) total += slice.numel();
  return total;
}

Hypernet::Hypernet(const HypernetSpec& spec) : spec_(spec), first_linear_(spec.depths > 1 ? 1 : 0) {
  if (spec.depths < 1 || spec.target % spec.depths != 0)
    throw std::invalid_argument("hypernetwork: the target is not a whole number of equal depths");
  layout_ = Layout(slices_of(spec));
}

Tensor Hypernet::init(const Tensor& first, const Tensor& scale, uint64_t key) const {
  const size_t count = layout_.slices().size();
  const size_t out = count - 2;
  std::vector<Fill> fills(count, {Fill::Kind::kConstant, 0.0});
  if (first_linear_ > 0) fills[0] = {Fill::Kind::kNormal, 1.0};
  for (size_t i = first_linear_; i <= out; i += 2) {
    const auto fan_in = static_cast<double>(layout_.slices()[i].shape[1]);
    // Features of variance 1: what follows a ReLU makes up for the half that it removes.
    const bool rectified = i > first_linear_ && i < out;
    fills[i] = {Fill::Kind::kNormal, std::sqrt((rectified ? 2.0 : 1.0) / fan_in)};
  }
  const auto phi = drawn(layout_, fills, key);
  const auto parts = layout_.views(phi);
  const int64_t each = spec_.target / spec_.depths;
  parts[out].mul_(scale.narrow(0, 0, each).unsqueeze(1)).mul_(kSpread);
  parts[out + 1].copy_(first.narrow(0, 0, each));
  return phi;
}

// What each linear layer reads, for k·depths rows: the depths of an embedding follow each other.
std::vector<Tensor> Hypernet::inputs(const std::vector<Tensor>& parts, const Tensor& z) const {
  Tensor x = z;
  if (spec_.depths > 1) {
    const int64_t k = z.size(0), n = spec_.depths;
    x = at::cat({z.unsqueeze(1).expand({k, n, spec_.embed}),
                 parts[0].unsqueeze(0).expand({k, n, kDepthCode})},
                2)
            .view({k * n, input_width(spec_)});
  }
  std::vector<Tensor> out{x};
  for (int64_t i = 0; i <= spec_.layers; ++i) {
    const size_t at = first_linear_ + 2 * static_cast<size_t>(i);
    auto y = at::addmm(parts[at + 1], out.back(), parts[at].t());
    if (i < spec_.layers) y.clamp_min_(0);
    out.push_back(y);
  }
  return out;
}

Tensor Hypernet::generate(const Tensor& phi, const Tensor& z) const {
  const auto parts = layout_.views(phi);
  const auto features = inputs(parts, z).back();
  const auto &weight = parts[parts.size() - 2], &bias = parts.back();
  // One embedding is the common case, and a matrix–vector product reads the weights at the speed
  // of memory.
  if (features.size(0) == 1) return at::addmv(bias, weight, features[0]).unsqueeze(0);
  return at::addmm(bias, features, weight.t()).view({z.size(0), spec_.target});
}

// Returns the gradient into the inputs of the first layer; writes that into phi if asked for.
Tensor Hypernet::backward(const Tensor& phi, const Tensor& z, const Tensor& delta,
                          Tensor* grad) const {
  const auto parts = layout_.views(phi);
  const auto read = inputs(parts, z);
  std::vector<Tensor> into;
  if (grad != nullptr) into = layout_.views(*grad);
  auto flow = delta.reshape({-1, spec_.target / spec_.depths});
  for (size_t i = read.size(); i-- > 0;) {
    const size_t at = first_linear_ + 2 * i;
    if (grad != nullptr) {
      at::mm_out(into[at], flow.t(), read[i]);
      at::sum_out(into[at + 1], flow, 0);
    }
    flow = flow.mm(parts[at]);
    const bool rectified = i > 0 && i + 1 < read.size();
    if (rectified) flow.mul_(read[i] > 0);
  }
  flow = flow.view({z.size(0), spec_.depths, input_width(spec_)});
  if (grad != nullptr && spec_.depths > 1)
    into[0].copy_(flow.narrow(2, spec_.embed, kDepthCode).sum(0));
  return flow.narrow(2, 0, spec_.embed).sum(1);
}

Hypernet::Pull Hypernet::pull_back(const Tensor& phi, const Tensor& z, const Tensor& delta) const {
  auto grad = at::empty_like(phi);
  auto into_z = backward(phi, z, delta, &grad);
  return {grad, into_z};
}

Tensor Hypernet::pull_back_embedding(const Tensor& phi, const Tensor& z,
                                     const Tensor& delta) const {
  return backward(phi, z, delta, nullptr);
}

Tensor slice_scale(const Layout& layout, const Tensor& w) {
  std::vector<Tensor> out;
  for (const auto& part : layout.views(w))
    out.push_back(part.std(/*unbiased=*/false).expand({part.numel()}));
  return at::cat(out);
}

}  // namespace tessera
