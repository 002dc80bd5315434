#include "method/fedham/ham_mixer.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/key.hpp"
#include "method/fedham/sketch.hpp"

namespace tessera {
namespace {

constexpr double kTiny = 1e-12;

std::vector<Block> groups_of(const Layout& layout, const HamShape& shape) {
  if (shape.by_block) return layout.blocks();
  return {{"model", 0, layout.numel()}};
}

Tensor unit(const Tensor& rows) { return rows / rows.norm(2, -1, true).clamp_min(kTiny); }

// Sketches [n, blocks, r] divided by the root mean square over rows of each block's norm, as
// [groups, n, R].
Tensor scaled(const Tensor& sketches, bool by_block) {
  const auto size = sketches.square().sum(2).mean(0).sqrt() + kTiny;
  const auto even = sketches / size.view({1, -1, 1});
  return by_block ? even.transpose(0, 1).contiguous() : even.flatten(1).unsqueeze(0);
}

// One row of numbers per group, cut into what they are for.
struct Parts {
  Tensor kap1, kap2, beta;  // [groups, 1], [groups, 1], [groups, 3]
  Tensor u[4], v[4];        // [groups, R, rank]

  Parts(const Tensor& theta, int64_t rank) {
    const int64_t groups = theta.size(0), block = (theta.size(1) - 5) / 8;
    std::vector<int64_t> sizes{1, 1, 3};
    sizes.resize(11, block);
    const auto cut = theta.split_with_sizes(sizes, 1);
    kap1 = cut[0], kap2 = cut[1], beta = cut[2];
    for (size_t i = 0; i < 4; ++i) {
      u[i] = cut[3 + 2 * i].reshape({groups, block / rank, rank});
      v[i] = cut[4 + 2 * i].reshape({groups, block / rank, rank});
    }
  }
  // (I + U Vᵀ) x for every row x of [groups, n, R].
  Tensor project(size_t i, const Tensor& rows) const {
    return at::baddbmm(rows, rows.bmm(v[i]), u[i].transpose(1, 2));
  }
  // Inner products of the projected query [groups, 1, R] and keys [groups, n, R]: [groups, n].
  Tensor match(size_t layer, const Tensor& query, const Tensor& keys) const {
    return project(2 * layer, query).bmm(project(2 * layer + 1, keys).transpose(1, 2)).squeeze(1);
  }
};

Tensor differences(const Tensor& own, std::span<const Weights> others,
                   const std::optional<Weights>& global, Tensor Weights::*field) {
  std::vector<Tensor> rows;
  for (const auto& other : others) rows.push_back(other.*field);
  if (global) rows.push_back((*global).*field);
  if (rows.empty()) return at::empty({0, own.numel()}, own.options());
  return at::stack(rows).sub_(own);
}

}  // namespace

Tensor ham_start(const Layout& layout, const HamShape& shape, uint64_t key) {
  const auto blocks = static_cast<int64_t>(layout.blocks().size());
  const int64_t groups = shape.by_block ? blocks : 1;
  const int64_t width = shape.by_block ? shape.width : blocks * shape.width;
  auto theta = at::zeros({groups, 5 + 8 * width * shape.rank}, at::kDouble);
  Rng rng(key);
  for (int64_t group = 0; group < groups; ++group) {
    double* row = theta.data_ptr<double>() + group * theta.size(1);
    row[0] = shape.sharpness, row[1] = 1;
    for (int64_t matrix = 0; matrix < 4; ++matrix)  // U only: with V = 0, M = I
      for (int64_t i = 0; i < width * shape.rank; ++i)
        row[5 + 2 * matrix * width * shape.rank + i] =
            rng.normal() / std::sqrt(static_cast<double>(width));
  }
  return theta;
}

HamMixer::HamMixer(const Model& model, const HamShape& shape, const Weights& own,
                   std::span<const Weights> others, const std::optional<Weights>& global)
    : model_(model),
      shape_(shape),
      own_(own),
      others_(static_cast<int64_t>(others.size())),
      differences_(differences(own.w, others, global, &Weights::w)),
      buffer_differences_(differences(own.b, others, global, &Weights::b)),
      parts_(groups_of(model.layout(), shape)) {
  const auto first = sketch(own.w.unsqueeze(0), model.layout(), shape.width, shape.basis);
  const auto rest = sketch(differences_, model.layout(), shape.width, shape.basis);
  features(first, rest);
  const double no = -std::numeric_limits<double>::infinity();
  const bool attends = others_ > 0 && shape.layers != HamLayers::kSecond;
  const bool first_only = shape.layers == HamLayers::kFirst;
  closed_ = at::tensor(
      {first_only && attends ? no : 0.0, attends ? 0.0 : no, global && !first_only ? 0.0 : no},
      at::kDouble);
}

// From the sketches of the own model [1, blocks, r] and of the differences to it: a sketch is
// linear, and centring does not see a common shift.
void HamMixer::features(const Tensor& own, const Tensor& differences) {
  const auto cluster = at::cat(
      {at::zeros_like(own), differences.narrow(0, 0, others_)});  // own first; without global
  centred_ = unit(scaled(cluster - cluster.mean(0, true), shape_.by_block));
  raw_ = scaled(at::cat({own, own + differences}), shape_.by_block);
}

HamScores HamMixer::scores(const Tensor& theta) const {
  const Parts parts(theta, shape_.rank);
  const auto own = [](const Tensor& rows) { return rows.narrow(1, 0, 1); };
  HamScores out;
  out.a =
      at::softmax(parts.kap1 * parts.match(0, own(centred_), centred_.narrow(1, 1, others_)), 1);
  if (shape_.layers == HamLayers::kFirst) {
    out.b = at::softmax(closed_, 0).expand({theta.size(0), 3});
    return out;
  }
  const auto attended = out.a.unsqueeze(1).bmm(raw_.narrow(1, 1, others_));
  const auto global = raw_.narrow(1, raw_.size(1) - 1, 1);  // closed where it is not the global one
  const auto query = unit(own(raw_));
  const auto slots = at::cat({query, unit(attended), unit(global)}, 1);
  auto e = parts.kap2 * parts.match(1, query, slots);
  if (shape_.slot_bias) e = e + parts.beta;
  out.b = at::softmax(e + closed_, 1);
  return out;
}

Tensor HamMixer::coefficients(const HamScores& scores) const {
  const auto attended = scores.b.narrow(1, 1, 1) * scores.a;
  if (differences_.size(0) == others_) return attended;
  return at::cat({attended, scores.b.narrow(1, 2, 1)}, 1);
}

Weights HamMixer::mix(const HamScores& scores) const {
  const at::NoGradGuard no_grad;
  const auto c = coefficients(scores).to(own_.w.scalar_type());
  Weights out = own_.clone();
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto& part = parts_[i];
    out.w.narrow(0, part.begin, part.size)
        .addmv_(differences_.narrow(1, part.begin, part.size).t(), c[static_cast<int64_t>(i)]);
  }
  const auto& slices = model_.buffers().slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto at = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const Block& b) { return b.name == slices[i].block(); });
    const auto group = shape_.by_block ? at - parts_.begin() : 0;
    const int64_t begin = model_.buffers().offset(i), size = slices[i].numel();
    out.b.narrow(0, begin, size).addmv_(buffer_differences_.narrow(1, begin, size).t(), c[group]);
  }
  if (!slices.empty()) out.b = at::maximum(out.b, least_buffers(model_));
  return out;
}

Tensor HamMixer::gradient(const HamScores& scores, const Tensor& theta, const Tensor& v) const {
  // Short pieces of float32, summed in float64: d can be millions.
  constexpr int64_t kPiece = 8192;
  std::vector<Tensor> slopes;  // s_m = <v, w_m − w_i>, group by group
  for (const auto& part : parts_) {
    auto sum = at::zeros({differences_.size(0)}, at::kDouble);
    for (int64_t begin = 0; begin < part.size; begin += kPiece) {
      const int64_t size = std::min(kPiece, part.size - begin);
      sum.add_(differences_.narrow(1, part.begin + begin, size)
                   .mv(v.narrow(0, part.begin + begin, size)));
    }
    slopes.push_back(sum);
  }
  const auto c = coefficients(scores);
  if (!c.requires_grad()) return at::zeros_like(theta);  // nothing to choose between
  return torch::autograd::grad({(c * at::stack(slopes)).sum()}, {theta})[0];
}

Tensor HamMixer::own_share(const HamScores& scores) const {
  const auto own = scores.b.detach().narrow(1, 0, 1).to(own_.w.scalar_type());
  std::vector<Tensor> out;
  for (size_t i = 0; i < parts_.size(); ++i) out.push_back(own[static_cast<int64_t>(i)]);
  if (parts_.size() == 1) return out[0];
  for (size_t i = 0; i < parts_.size(); ++i) out[i] = out[i].expand({parts_[i].size});
  return at::cat(out);
}

}  // namespace tessera
