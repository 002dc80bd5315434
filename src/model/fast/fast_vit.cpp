#include "model/fast/fast_vit.hpp"

#include <ATen/ATen.h>
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "model/fast/arena.hpp"
#include "model/fast/losses.hpp"
#include "model/fast/per_sample.hpp"
#include "model/layers.hpp"

namespace tessera {

static_assert(fast::kEpsilon == static_cast<float>(kNormEpsilon));

namespace {

using fast::Arena;
using fast::Cutter;

constexpr int64_t kTokensAtATime = 272;  // 16 samples of vit-s; 64 at once are slower by 6 %

/// Rows of a matrix: the first number and the floats from row to row.
template <class T>
struct Rows {
  T* first;
  int64_t row;
};

int to_int(int64_t value) { return static_cast<int>(value); }

struct LinearShape {
  int64_t rows, in, out;
};

/// x_grad = y_grad · weight, or x_grad += …
void linear_input_grad(const LinearShape& s, Rows<const float> y_grad, const float* weight,
                       Rows<float> x_grad, bool add) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, to_int(s.rows), to_int(s.in),
              to_int(s.out), 1.0f, y_grad.first, to_int(y_grad.row), weight, to_int(s.in),
              add ? 1.0f : 0.0f, x_grad.first, to_int(x_grad.row));
}

/// weight_grad += y_gradᵀ · x.
void linear_weight_grad(const LinearShape& s, Rows<const float> y_grad, Rows<const float> x,
                        float* weight_grad) {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, to_int(s.out), to_int(s.in), to_int(s.rows),
              1.0f, y_grad.first, to_int(y_grad.row), x.first, to_int(x.row), 1.0f, weight_grad,
              to_int(s.in));
}

}  // namespace

/// Of n samples; "asking" rows are all tokens, in the last block the class tokens alone.
struct FastVit::BlockBuffers {
  float* x;                 // [n·tokens, dim]: what comes in
  float *normed1, *stats1;  // [n·tokens, dim], [n·tokens, 2]
  float *qkv, *shares;      // [n·tokens, 3·inner], [n, shares_size]
  float *mixed, *middle;    // [asking, inner], [asking, dim]: x after attention
  float *normed2, *stats2;  // [asking, dim], [asking, 2]
  float *slope, *hidden;    // [asking, mlp]: of GELU, its output
};

struct FastVit::Buffers {
  float* packed;  // weights in the kernels' order, each where it is in the flat vector
  std::vector<BlockBuffers> blocks;
  float *patches, *embedded;                // [n·patches, patch_size], [n·patches, dim]
  float *last, *features, *stats, *logits;  // [n, …]: after the blocks
  float* scratch;                           // of attention
  float *grad, *branch;                     // [n·tokens, dim]: of x, of what branches off it
  float *wide, *qkv;  // gradients [n·tokens, mlp or inner], [n·tokens, 3·inner]
};

bool FastVit::supports(const VitSpec& spec, bool evaluation) {
  const auto whole = [](int64_t width) { return width > 0 && width % fast::kVector == 0; };
  return whole(spec.dim) && whole(spec.head_dim) && whole(spec.mlp) && spec.depth > 0 &&
         (spec.dropout == 0 || evaluation);
}

FastVit::FastVit(const VitSpec& spec, const Layout& layout)
    : FastVit(spec, layout, fast::kernels()) {}

FastVit::FastVit(const VitSpec& spec, const Layout& layout, const fast::Kernels& kernels)
    : spec_(spec), kernels_(kernels), parameters_(layout.numel()) {
  if (!supports(spec, true)) throw std::invalid_argument("FastVit: a network it does not support");
  size_t slice = 0;
  const auto next = [&] { return layout.offset(slice++); };
  weight_ = next(), bias_ = next(), class_token_ = next(), positions_ = next();
  for (int64_t i = 0; i < spec.depth; ++i) {
    blocks_.push_back(
        {next(), next(), next(), next(), next(), next(), next(), next(), next(), next(), next()});
  }
  norm_ = next(), norm_bias_ = next(), head_ = next(), head_bias_ = next();
}

fast::AttentionShape FastVit::attention(size_t block) const {
  const int64_t queries = block + 1 == blocks_.size() ? 1 : spec_.tokens();
  return {spec_.tokens(), queries, spec_.heads, spec_.head_dim};
}

// In evaluation all blocks share one set: a block's output may overwrite its input.
size_t FastVit::place(int64_t n, bool train, float* memory, Buffers& at) const {
  Cutter cut(memory);
  at.packed = cut.floats(parameters_);  // first: where it lies does not depend on n
  const int64_t tokens = n * spec_.tokens(), dim = spec_.dim, inner = spec_.inner();
  at.blocks.resize(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto& block = at.blocks[i];
    if (!train && i > 0) {
      block = at.blocks[0];
      continue;
    }
    const auto shape = attention(i);
    const int64_t asking = n * shape.queries;
    block.x = cut.floats(tokens * dim);
    block.normed1 = cut.floats(tokens * dim), block.stats1 = cut.floats(2 * tokens);
    block.qkv = cut.floats(tokens * 3 * inner), block.shares = cut.floats(n * shape.shares_size());
    block.mixed = cut.floats(asking * inner), block.middle = cut.floats(asking * dim);
    block.normed2 = cut.floats(asking * dim), block.stats2 = cut.floats(2 * asking);
    block.slope = cut.floats(asking * spec_.mlp), block.hidden = cut.floats(asking * spec_.mlp);
  }
  at.patches = cut.floats(n * spec_.patches() * spec_.patch_size());
  at.embedded = cut.floats(n * spec_.patches() * dim);
  at.last = cut.floats(n * dim), at.features = cut.floats(n * dim);
  at.stats = cut.floats(2 * n), at.logits = cut.floats(n * spec_.classes);
  at.scratch = cut.floats(attention(0).scratch_size());
  if (train) {
    at.grad = cut.floats(tokens * dim), at.branch = cut.floats(tokens * dim);
    at.wide = cut.floats(tokens * std::max(spec_.mlp, inner));
    at.qkv = cut.floats(tokens * 3 * inner);
  }
  return cut.used();
}

FastVit::Buffers FastVit::buffers_for(int64_t n, bool train) const {
  Buffers at{};
  auto& arena = Arena::of_thread();
  arena.reserve(place(n, train, nullptr, at));
  place(n, train, arena.data(), at);
  return at;
}

void FastVit::cut_patches(const float* x, int64_t n, float* patches) const {
  const int64_t side = spec_.patch;
  for (int64_t i = 0; i < n; ++i, x += sample_size())
    for (int64_t top = 0; top < spec_.height; top += side)
      for (int64_t left = 0; left < spec_.width; left += side)
        for (int64_t c = 0; c < spec_.channels; ++c)
          for (int64_t row = top; row < top + side; ++row, patches += side)
            std::copy_n(x + (c * spec_.height + row) * spec_.width + left, side, patches);
}

void FastVit::pack(const float* w, const Buffers& at) const {
  const int64_t dim = spec_.dim, inner = spec_.inner(), mlp = spec_.mlp;
  const auto one = [&](int64_t in, int64_t out, int64_t position) {
    kernels_.pack_linear(in, out, w + position, at.packed + position);
  };
  one(spec_.patch_size(), dim, weight_);
  for (const auto& p : blocks_) {
    one(dim, inner, p.qkv), one(dim, 2 * inner, p.qkv + inner * dim);
    one(inner, dim, p.out), one(dim, mlp, p.fc1), one(mlp, dim, p.fc2);
  }
}

void FastVit::embed(const float* w, const float* x, int64_t n, const Buffers& at) const {
  const int64_t dim = spec_.dim, patches = spec_.patches();
  cut_patches(x, n, at.patches);
  kernels_.packed_linear(n * patches, spec_.patch_size(), dim, at.patches, spec_.patch_size(),
                         at.packed + weight_, false, at.embedded, dim);
  const float* from = at.embedded;
  float* to = at.blocks[0].x;
  for (int64_t i = 0; i < n; ++i) {
    const float* position = w + positions_;
    kernels_.add_bias(1, dim, position, dim, w + class_token_, to);
    for (int64_t p = 0; p < patches; ++p, from += dim) {
      to += dim, position += dim;
      kernels_.add_bias(1, dim, from, dim, position, to);
      kernels_.add_rows(1, dim, w + bias_, to);
    }
    to += dim;
  }
}

void FastVit::forward_block(size_t block, const float* w, int64_t n, const Buffers& at) const {
  const auto& p = blocks_[block];
  const auto& b = at.blocks[block];
  const auto shape = attention(block);
  const bool last = block + 1 == blocks_.size();
  const int64_t dim = spec_.dim, inner = spec_.inner(), tokens = n * spec_.tokens();
  const int64_t asking = n * shape.queries, step = tokens / asking;

  kernels_.norm_forward(tokens, dim, b.x, w + p.norm1, w + p.norm1_bias, b.normed1, b.stats1);
  kernels_.packed_linear(asking, dim, inner, b.normed1, step * dim, at.packed + p.qkv, false, b.qkv,
                         step * 3 * inner);
  kernels_.packed_linear(tokens, dim, 2 * inner, b.normed1, dim, at.packed + p.qkv + inner * dim,
                         false, b.qkv + inner, 3 * inner);
  kernels_.attention_forward(shape, n, b.qkv, b.shares, b.mixed, at.scratch);
  kernels_.add_bias(asking, dim, b.x, step * dim, w + p.out_bias, b.middle);
  kernels_.packed_linear(asking, inner, dim, b.mixed, inner, at.packed + p.out, true, b.middle,
                         dim);

  kernels_.norm_forward(asking, dim, b.middle, w + p.norm2, w + p.norm2_bias, b.normed2, b.stats2);
  kernels_.packed_linear(asking, dim, spec_.mlp, b.normed2, dim, at.packed + p.fc1, false, b.slope,
                         spec_.mlp);
  kernels_.gelu_forward(asking, spec_.mlp, w + p.fc1_bias, b.slope, b.hidden);
  float* out = last ? at.last : at.blocks[block + 1].x;
  kernels_.add_bias(asking, dim, b.middle, dim, w + p.fc2_bias, out);
  kernels_.packed_linear(asking, spec_.mlp, dim, b.hidden, spec_.mlp, at.packed + p.fc2, true, out,
                         dim);
}

void FastVit::forward(const float* w, const float* x, int64_t n, const Buffers& at) const {
  embed(w, x, n, at);
  for (size_t i = 0; i < blocks_.size(); ++i) forward_block(i, w, n, at);
  kernels_.norm_forward(n, spec_.dim, at.last, w + norm_, w + norm_bias_, at.features, at.stats);
  kernels_.linear_forward(n, spec_.dim, spec_.classes, at.features, w + head_, w + head_bias_,
                          false, at.logits);
}

// at.grad [rows, dim] goes from the gradient of the block's output to that of `middle`.
void FastVit::backward_mlp(size_t block, const float* w, int64_t rows, const Buffers& at,
                           float* grad) const {
  const auto& p = blocks_[block];
  const auto& b = at.blocks[block];
  const int64_t dim = spec_.dim, mlp = spec_.mlp;
  const LinearShape fc1{rows, dim, mlp}, fc2{rows, mlp, dim};
  linear_weight_grad(fc2, {at.grad, dim}, {b.hidden, mlp}, grad + p.fc2);
  kernels_.add_rows(rows, dim, at.grad, grad + p.fc2_bias);
  linear_input_grad(fc2, {at.grad, dim}, w + p.fc2, {at.wide, mlp}, false);
  kernels_.gelu_backward(rows, mlp, b.slope, at.wide, grad + p.fc1_bias);
  linear_weight_grad(fc1, {at.wide, mlp}, {b.normed2, dim}, grad + p.fc1);
  linear_input_grad(fc1, {at.wide, mlp}, w + p.fc1, {at.branch, dim}, false);
  kernels_.norm_backward(rows, dim, b.middle, w + p.norm2, b.stats2, at.branch, at.grad,
                         grad + p.norm2, grad + p.norm2_bias);
}

// at.grad goes from the gradient of `middle` [asking, dim] to that of the block's input.
void FastVit::backward_attention(size_t block, const float* w, int64_t n, const Buffers& at,
                                 float* grad) const {
  const auto& p = blocks_[block];
  const auto& b = at.blocks[block];
  const auto shape = attention(block);
  const int64_t dim = spec_.dim, inner = spec_.inner(), tokens = n * spec_.tokens();
  const int64_t asking = n * shape.queries, step = tokens / asking;
  const LinearShape to_out{asking, inner, dim}, to_q{asking, dim, inner},
      to_kv{tokens, dim, 2 * inner};
  linear_weight_grad(to_out, {at.grad, dim}, {b.mixed, inner}, grad + p.out);
  kernels_.add_rows(asking, dim, at.grad, grad + p.out_bias);
  linear_input_grad(to_out, {at.grad, dim}, w + p.out, {at.wide, inner}, false);
  kernels_.attention_backward(shape, n, b.qkv, b.shares, at.wide, at.qkv, at.scratch);

  const Rows<const float> q{at.qkv, step * 3 * inner}, kv{at.qkv + inner, 3 * inner};
  linear_weight_grad(to_q, q, {b.normed1, step * dim}, grad + p.qkv);
  linear_weight_grad(to_kv, kv, {b.normed1, dim}, grad + p.qkv + inner * dim);
  linear_input_grad(to_kv, kv, w + p.qkv + inner * dim, {at.branch, dim}, false);
  linear_input_grad(to_q, q, w + p.qkv, {at.branch, step * dim}, true);
  if (step > 1) {  // only class tokens have come back so far: give each its place
    for (int64_t i = n; i-- > 0;) {
      std::copy_n(at.grad + i * dim, dim, at.grad + i * step * dim);
      std::fill_n(at.grad + (i * step + 1) * dim, (step - 1) * dim, 0.0f);
    }
  }
  kernels_.norm_backward(tokens, dim, b.x, w + p.norm1, b.stats1, at.branch, at.grad,
                         grad + p.norm1, grad + p.norm1_bias);
}

void FastVit::backward_embedding(int64_t n, const Buffers& at, float* grad) const {
  const int64_t dim = spec_.dim, patches = spec_.patches();
  const float* from = at.grad;
  for (int64_t i = 0; i < n; ++i, from += spec_.tokens() * dim) {
    kernels_.add_rows(1, dim, from, grad + class_token_);
    kernels_.add_rows(1, spec_.tokens() * dim, from, grad + positions_);
    std::copy_n(from + dim, patches * dim, at.embedded + i * patches * dim);
  }
  kernels_.add_rows(n * patches, dim, at.embedded, grad + bias_);
  linear_weight_grad({n * patches, spec_.patch_size(), dim}, {at.embedded, dim},
                     {at.patches, spec_.patch_size()}, grad + weight_);
}

// The logits have been replaced by their gradient.
void FastVit::backward(const float* w, int64_t n, const Buffers& at, float* grad) const {
  const LinearShape head{n, spec_.dim, spec_.classes};
  linear_weight_grad(head, {at.logits, spec_.classes}, {at.features, spec_.dim}, grad + head_);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < spec_.classes; ++c)
      grad[head_bias_ + c] += at.logits[i * spec_.classes + c];
  linear_input_grad(head, {at.logits, spec_.classes}, w + head_, {at.branch, spec_.dim}, false);
  std::fill_n(at.grad, n * spec_.dim, 0.0f);
  kernels_.norm_backward(n, spec_.dim, at.last, w + norm_, at.stats, at.branch, at.grad,
                         grad + norm_, grad + norm_bias_);
  for (size_t i = blocks_.size(); i-- > 0;) {
    backward_mlp(i, w, n * attention(i).queries, at, grad);
    backward_attention(i, w, n, at, grad);
  }
  backward_embedding(n, at, grad);
}

FastVit::Buffers FastVit::sample(const Buffers& at, int64_t i) const {
  Buffers out = at;
  const int64_t dim = spec_.dim, inner = spec_.inner(), tokens = i * spec_.tokens();
  for (size_t k = 0; k < blocks_.size(); ++k) {
    auto& block = out.blocks[k];
    const auto shape = attention(k);
    const int64_t asking = i * shape.queries;
    block.x += tokens * dim;
    block.normed1 += tokens * dim, block.stats1 += 2 * tokens;
    block.qkv += tokens * 3 * inner, block.shares += i * shape.shares_size();
    block.mixed += asking * inner, block.middle += asking * dim;
    block.normed2 += asking * dim, block.stats2 += 2 * asking;
    block.slope += asking * spec_.mlp, block.hidden += asking * spec_.mlp;
  }
  out.patches += i * spec_.patches() * spec_.patch_size();
  out.embedded += i * spec_.patches() * dim;
  out.last += i * dim, out.features += i * dim;
  out.stats += 2 * i, out.logits += i * spec_.classes;
  return out;
}

// Every weight is used by all tokens of a sample, so its gradient is formed as it is, sample by
// sample; activations stay what they were.
std::vector<double> FastVit::squares(const float* w, int64_t n, const Buffers& at,
                                     float* scratch) const {
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(scratch, parameters_, 0.0f);
    backward(w, 1, sample(at, i), scratch);
    out.push_back(fast::squares_of(scratch, parameters_));
  }
  return out;
}

bool FastVit::value_and_grad(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                             float* grad, double& value) const {
  std::vector<double> unused;
  return gradient(w, x, y, loss, nullptr, grad, unused, value);
}

bool FastVit::clipped_gradient(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                               const Clip& clip, float* grad, std::vector<double>& norms,
                               double& value) const {
  return gradient(w, x, y, loss, &clip, grad, norms, value);
}

bool FastVit::gradient(const float* w, const Tensor& x, const Tensor& y, const Loss& loss,
                       const Clip* clip, float* grad, std::vector<double>& norms,
                       double& value) const {
  if (x.dim() < 1 || x.size(0) < 1 || x.scalar_type() != at::kFloat) return false;
  const int64_t n = x.size(0);
  if (x.numel() != n * sample_size()) return false;
  if (y.scalar_type() != at::kLong || y.dim() != 1 || y.size(0) != n) return false;
  const Tensor samples = x.contiguous(), labels = y.contiguous();

  std::fill_n(grad, parameters_, 0.0f);
  std::vector<float> scratch(clip ? static_cast<size_t>(parameters_) : 0);
  norms.clear();
  value = 0;
  const int64_t group = std::max<int64_t>(1, kTokensAtATime / spec_.tokens());
  for (int64_t i = 0; i < n; i += group) {
    const int64_t some = std::min(group, n - i);
    const auto at = buffers_for(some, true);
    if (i == 0) pack(w, at);
    forward(w, samples.data_ptr<float>() + i * sample_size(), some, at);
    const double share = static_cast<double>(some) / static_cast<double>(n);
    value += share * fast::loss_and_grad(loss, some, spec_.classes, labels.data_ptr<int64_t>() + i,
                                         at.logits);
    for (int64_t k = 0; k < some * spec_.classes; ++k) at.logits[k] *= static_cast<float>(share);
    if (clip) {
      for (const double square : squares(w, some, at, scratch.data()))
        norms.push_back(static_cast<double>(n) * std::sqrt(square));
      fast::clip_rows(*clip, n, some, spec_.classes, norms.data() + i, at.logits);
    }
    backward(w, some, at, grad);
  }
  return true;
}

void FastVit::predict(const float* w, const Tensor& x, float* logits) const {
  if (x.dim() < 1 || x.scalar_type() != at::kFloat || x.numel() != x.size(0) * sample_size())
    throw std::invalid_argument("FastVit: samples must be float32 and of the network's size");
  const Tensor samples = x.contiguous();
  const int64_t n = x.size(0), group = std::max<int64_t>(1, kTokensAtATime / spec_.tokens());
  for (int64_t i = 0; i < n; i += group) {
    const int64_t some = std::min(group, n - i);
    const auto at = buffers_for(some, false);
    if (i == 0) pack(w, at);
    forward(w, samples.data_ptr<float>() + i * sample_size(), some, at);
    std::copy_n(at.logits, some * spec_.classes, logits + i * spec_.classes);
  }
}

}  // namespace tessera
