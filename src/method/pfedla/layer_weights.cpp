#include "method/pfedla/layer_weights.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/key.hpp"
#include "model/fill.hpp"

namespace tessera {

Layout LayerWeights::layout(int64_t clients, int64_t blocks) const {
  const int64_t outputs = blocks * clients;
  return Layout({{"embedding.z", {embed}},
                 {"in.weight", {hidden, embed}},
                 {"in.bias", {hidden}},
                 {"hidden.weight", {hidden, hidden}},
                 {"hidden.bias", {hidden}},
                 {"heads.weight", {outputs, hidden}},
                 {"heads.bias", {outputs}}});
}

Tensor LayerWeights::init(int64_t client, int64_t clients, int64_t blocks, uint64_t key) const {
  const auto he = [](int64_t fan_in) {
    return Fill{Fill::Kind::kNormal, std::sqrt(2.0 / static_cast<double>(fan_in))};
  };
  const Fill zero{}, one{Fill::Kind::kNormal, 1.0}, half{Fill::Kind::kUniform, 0.5};
  const auto names = layout(clients, blocks);
  const auto out =
      drawn(names, {one, he(embed), zero, he(hidden), zero, half, half}, derive(key, client));
  const auto parts = names.views(out);
  parts[5].add_(0.5), parts[6].add_(0.5);
  return out;
}

Tensor LayerWeights::shares(const Tensor& theta, int64_t client, int64_t clients,
                            int64_t blocks) const {
  const auto parts = layout(clients, blocks).views(theta);
  const auto inside = at::relu(at::linear(parts[0], parts[1], parts[2]));
  const auto features = at::relu(at::linear(inside, parts[3], parts[4]));
  const auto raw = at::relu(at::linear(features, parts[5], parts[6])).view({blocks, clients});
  const auto total = raw.sum(1, true);
  const auto own = at::zeros_like(raw).index_fill_(1, at::tensor({client}, at::kLong), 1);
  const auto none = total <= 0;
  return at::where(none, own, raw / total.masked_fill(none, 1));
}

Tensor LayerWeights::stepped(const Tensor& theta, int64_t client, const Tensor& slope) const {
  const auto at = theta.detach().clone().requires_grad_(true);
  const auto a = shares(at, client, slope.size(1), slope.size(0));
  const auto g = torch::autograd::grad({(a * slope.to(a.scalar_type())).sum()}, {at})[0];
  return theta - server_lr * g;
}

}  // namespace tessera
