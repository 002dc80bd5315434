#include <functional>
#include <numeric>

#include "export/backend.hpp"
#include "model/cbam.hpp"
#include "model/gru.hpp"
#include "model/vit.hpp"

namespace tessera {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// The stages in the order of model/sequential.cpp.
class SequentialWalk {
 public:
  SequentialWalk(const SequentialSpec& spec, Backend& backend) : spec_(spec), to_(backend) {}

  Value convolutions(const Value& x) {
    Value now = to_.reshaped(x, spec_.sample);
    const bool falls = spec_.activation == Activation::kGelu;
    for (size_t i = 0; i < spec_.convs.size(); ++i) {
      const auto& stage = spec_.convs[i];
      now = to_.conv(now, fmt::format("conv{}", i + 1), {stage.pad, stage.stride});
      if (stage.batch_norm) now = normed(now);
      if (falls) now = to_.activated(now, spec_.activation);
      if (stage.pool > 0) now = to_.max_pool(now, stage.pool, stage.pool_stride);
      if (!falls) now = to_.activated(now, spec_.activation);
    }
    return now;
  }

  Value linears(const Value& map) {
    Value now = to_.reshaped(map, {product(map.shape)});
    for (size_t i = 0; i < spec_.linears.size(); ++i) {
      const auto& stage = spec_.linears[i];
      const bool last = i + 1 == spec_.linears.size();
      now = to_.linear(now, last ? "head" : fmt::format("fc{}", i + 1));
      if (stage.batch_norm) now = normed(now);
      if (stage.relu) now = to_.activated(now, spec_.activation);
    }
    return now;
  }

 private:
  Value normed(const Value& x) { return to_.batch_norm(x, fmt::format("bn{}", ++norms_)); }

  const SequentialSpec& spec_;
  Backend& to_;
  int64_t norms_ = 0;
};

Value walk_sequential(const Sequential& model, const Value& x, Backend& to) {
  SequentialWalk walk(model.spec(), to);
  return walk.linears(model.spec().convs.empty() ? x : walk.convolutions(x));
}

Value walk_cbam(const Cbam& model, const Value& x, Backend& to) {
  SequentialWalk walk(model.base().spec(), to);
  return walk.linears(to.attended(walk.convolutions(x), "cbam", model.scale()));
}

Value walk_gru(const GruSpec& spec, const Value& x, Backend& to) {
  Value now = x;
  for (int64_t i = 0; i < spec.layers; ++i) now = to.gru(now, fmt::format("gru{}", i + 1));
  return to.linear(to.step(now, x.shape[0] - 1), "head");
}

Value walk_vit(const VitSpec& spec, const Value& x, Backend& to) {
  Value now = to.embedding(x, "embedding", spec.patch);
  for (int64_t i = 0; i < spec.depth; ++i) {
    const auto part = [&](const char* name) { return fmt::format("block{}.{}", i, name); };
    const Value seen = to.attention(to.layer_norm(now, part("attention.norm")),
                                    part("attention.to_qkv"), spec.heads);
    now = to.sum(now, to.linear(seen, part("attention.to_out")));
    const Value hidden = to.linear(to.layer_norm(now, part("mlp.norm")), part("mlp.fc1"));
    now = to.sum(now, to.linear(to.activated(hidden, Activation::kGelu), part("mlp.fc2")));
  }
  return to.linear(to.layer_norm(to.step(now, 0), "norm"), "head");
}

Status misfit(const std::vector<int64_t>& sample) {
  return fail(Error::kInvalid, "The network does not take samples of shape [{}].",
              fmt::join(sample, ", "));
}

/// Whether the network takes such samples.
bool fits(const Model& model, const std::vector<int64_t>& sample) {
  for (const int64_t size : sample)
    if (size < 1) return false;
  if (const auto* plain = dynamic_cast<const Sequential*>(&model))
    return product(sample) == product(plain->spec().sample);
  if (const auto* cbam = dynamic_cast<const Cbam*>(&model))
    return product(sample) == product(cbam->base().spec().sample);
  if (const auto* gru = dynamic_cast<const Gru*>(&model))
    return sample.size() == 2 && sample[1] == gru->spec().inputs;
  const auto* vit = dynamic_cast<const Vit*>(&model);
  if (!vit) return false;
  const auto& spec = vit->spec();
  return sample == std::vector<int64_t>{spec.channels, spec.height, spec.width};
}

}  // namespace

std::vector<int64_t> conv_shape(const std::vector<int64_t>& x, int64_t out, int64_t kernel,
                                const ConvPlace& place) {
  const auto side = [&](int64_t size) {
    return (size + 2 * place.pad - kernel) / place.stride + 1;
  };
  return {out, side(x[1]), side(x[2])};
}

std::vector<int64_t> pool_shape(const std::vector<int64_t>& x, int64_t window, int64_t stride) {
  return {x[0], (x[1] - window) / stride + 1, (x[2] - window) / stride + 1};
}

Result<Value> walk(const ExportedModel& exported, Backend& to) {
  const auto& model = exported.model;
  const auto* plain = dynamic_cast<const Sequential*>(&model);
  const auto* cbam = dynamic_cast<const Cbam*>(&model);
  const auto* gru = dynamic_cast<const Gru*>(&model);
  const auto* vit = dynamic_cast<const Vit*>(&model);
  if (!plain && !cbam && !gru && !vit)
    return fail(Error::kInvalid,
                "This kind of network cannot be written in this format; its weights can be had as "
                "safetensors or npz.");
  if (!fits(model, exported.sample_shape)) return misfit(exported.sample_shape);
  Value x{"x", exported.sample_shape};
  if (!exported.mean.empty()) x = to.scaled(x);
  const Value logits = plain  ? walk_sequential(*plain, x, to)
                       : cbam ? walk_cbam(*cbam, x, to)
                       : gru  ? walk_gru(gru->spec(), x, to)
                              : walk_vit(vit->spec(), x, to);
  const auto names = static_cast<int64_t>(exported.class_names.size());
  if (names != 0 && names != logits.shape[0])
    return fail(Error::kInvalid,
                "There are {} class names, but the network tells {} classes apart.", names,
                logits.shape[0]);
  return logits;
}

}  // namespace tessera
