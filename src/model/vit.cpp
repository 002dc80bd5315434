#include "model/vit.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "base/key.hpp"
#include "model/fast/fast_vit.hpp"
#include "model/layers.hpp"

namespace tessera {
namespace {

constexpr double kDeviation = 0.02;  // of initial weights, class token and positions

/// Slices and their fills, in flat order.
struct VitListing {
  Init init;
  std::vector<Slice> slices;
  std::vector<Fill> fills;

  void add(const std::string& name, std::vector<int64_t> shape, Role role, bool features,
           Fill fill) {
    slices.push_back({name, std::move(shape), role, features});
    fills.push_back(fill);
  }
  void linear(const std::string& name, int64_t in, int64_t out, Role role, bool features,
              bool bias) {
    const Fill uniform{Fill::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))};
    const bool torch = init == Init::kTorch;
    add(name + ".weight", {out, in}, role, features,
        torch ? uniform : Fill{Fill::Kind::kTruncated, kDeviation});
    if (bias) add(name + ".bias", {out}, role, features, torch ? uniform : Fill{});
  }
  void norm(const std::string& name, int64_t width, bool features) {
    add(name + ".weight", {width}, Role::kLayerNorm, features, {Fill::Kind::kConstant, 1.0});
    add(name + ".bias", {width}, Role::kLayerNorm, features, {});
  }
  void block(const std::string& name, const VitSpec& spec) {
    norm(name + ".attention.norm", spec.dim, true);
    linear(name + ".attention.to_qkv", spec.dim, 3 * spec.inner(), Role::kAttention, true, false);
    linear(name + ".attention.to_out", spec.inner(), spec.dim, Role::kBody, true, true);
    norm(name + ".mlp.norm", spec.dim, true);
    linear(name + ".mlp.fc1", spec.dim, spec.mlp, Role::kBody, true, true);
    linear(name + ".mlp.fc2", spec.mlp, spec.dim, Role::kBody, true, true);
  }
};

/// [n, channels, height, width] to [n, patches, patch_size].
Tensor patches_of(const Tensor& x, const VitSpec& s) {
  const Tensor cut =
      x.reshape({x.size(0), s.channels, s.height / s.patch, s.patch, s.width / s.patch, s.patch});
  return cut.permute({0, 2, 4, 1, 3, 5}).reshape({x.size(0), s.patches(), s.patch_size()});
}

/// One pass over one batch: the layers' views in flat order, taken one after the other.
class VitWalk {
 public:
  VitWalk(const VitSpec& spec, const std::vector<Tensor>& views, const Pass& pass)
      : spec_(spec), next_(views.begin()), pass_(pass) {}

  Tensor embedding(const Tensor& x) {
    const Tensor patches = linear(patches_of(x, spec_));
    const Tensor first = take().expand({x.size(0), 1, spec_.dim});
    return drop(at::cat({first, patches}, 1) + take());
  }
  Tensor block(const Tensor& x) {
    const Tensor mixed = x + drop(linear(attention(norm(x))));
    const Tensor hidden = drop(at::gelu(linear(norm(mixed))));
    return mixed + drop(linear(hidden));
  }
  Tensor norm(const Tensor& x) {
    const Tensor& weight = take();
    return at::layer_norm(x, {spec_.dim}, weight, take(), kNormEpsilon);
  }
  Tensor linear(const Tensor& x) {
    const Tensor& weight = take();
    return at::linear(x, weight, take());
  }

 private:
  const Tensor& take() { return *next_++; }
  Tensor drop(const Tensor& x) {
    if (!pass_.train || spec_.dropout == 0) return x;
    return dropped(x, spec_.dropout, derive(pass_.key, drops_++));
  }
  Tensor attention(const Tensor& x) {
    const auto parts = at::linear(x, take())
                           .view({x.size(0), x.size(1), 3, spec_.heads, spec_.head_dim})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);  // queries, keys, values [n, heads, tokens, head_dim]
    const Tensor scores = parts[0].matmul(parts[1].transpose(2, 3));
    const Tensor shares = at::softmax(scores / std::sqrt(spec_.head_dim), 3);
    return shares.matmul(parts[2]).transpose(1, 2).reshape({x.size(0), x.size(1), spec_.inner()});
  }

  const VitSpec& spec_;
  std::vector<Tensor>::const_iterator next_;
  Pass pass_;
  int64_t drops_ = 0;
};

}  // namespace

Vit::Vit(VitSpec spec, Init init) : spec_(spec) {
  VitListing list{init, {}, {}};
  const Fill small{Fill::Kind::kNormal, kDeviation};
  list.linear("embedding", spec.patch_size(), spec.dim, Role::kBody, true, true);
  list.add("embedding.class_token", {spec.dim}, Role::kBody, true, small);
  list.add("embedding.positions", {spec.tokens(), spec.dim}, Role::kBody, true, small);
  for (int64_t i = 0; i < spec.depth; ++i) list.block("block" + std::to_string(i), spec);
  list.norm("norm", spec.dim, false);
  list.linear("head", spec.dim, spec.classes, Role::kHead, false, true);
  layout_ = Layout(std::move(list.slices));
  fills_ = std::move(list.fills);
  fast_gradient_ = FastVit::supports(spec_, false);
  if (FastVit::supports(spec_, true)) fast_ = std::make_unique<FastVit>(spec_, layout_);
}

Vit::~Vit() = default;

Weights Vit::init(uint64_t key) const {
  return started({drawn(layout_, fills_, key), at::empty({0}, at::kFloat)});
}

Output Vit::forward(const Weights& at, const Tensor& x, const Pass& pass) const {
  const auto views = layout_.views(at.w);
  VitWalk walk(spec_, views, pass);
  Tensor tokens = walk.embedding(x.to(at.w.scalar_type()));
  for (int64_t i = 0; i < spec_.depth; ++i) tokens = walk.block(tokens);
  const Tensor features = walk.norm(tokens.select(1, 0));
  return {walk.linear(features), features, at.b.detach()};
}

bool Vit::value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                         Tensor& grad, double& value) const {
  const auto plain = [&](const Tensor& v) {
    return v.scalar_type() == at::kFloat && v.is_contiguous() && v.numel() == layout_.numel();
  };
  if (!fast_gradient_ || !plain(at.w) || !plain(grad) || x.requires_grad()) return false;
  return fast_->value_and_grad(at.w.data_ptr<float>(), x, y, loss, grad.data_ptr<float>(), value);
}

bool Vit::clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                           const Clip& clip, Tensor& grad, std::vector<double>& norms,
                           double& value) const {
  const auto plain = [&](const Tensor& v) {
    return v.scalar_type() == at::kFloat && v.is_contiguous() && v.numel() == layout_.numel();
  };
  if (!fast_gradient_ || !plain(at.w) || !plain(grad) || x.requires_grad()) return false;
  return fast_->clipped_gradient(at.w.data_ptr<float>(), x, y, loss, clip, grad.data_ptr<float>(),
                                 norms, value);
}

std::string Vit::no_clipping() const {
  if (fast_gradient_) return "";
  if (spec_.dropout > 0)
    return "a Transformer with dropout has no gradients of single samples; use vit with dropout "
           "= 0";
  return "a Transformer has gradients of single samples only where width, head_width and twice "
         "the width are multiples of 8; choose such sizes";
}

Tensor Vit::predict(const Weights& at, const Tensor& x) const {
  if (!fast_ || at.w.scalar_type() != at::kFloat) return Model::predict(at, x);
  const Tensor w = at.w.contiguous();
  Tensor logits = at::empty({x.size(0), spec_.classes}, at::kFloat);
  fast_->predict(w.data_ptr<float>(), x.to(at::kFloat), logits.data_ptr<float>());
  return logits;
}

}  // namespace tessera
