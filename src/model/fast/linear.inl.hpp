// Fully connected layers on out×in weights as they are: nothing is packed but the batch.

// Results through references: vectors that the processor lacks are not returned.
TESSERA_INLINE void fold(const Vec<8>& v, Vec<8>& out) { out = v; }
TESSERA_INLINE void fold(const Vec<16>& v, Vec<8>& out) {
  out = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
        __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
template <class V>
TESSERA_INLINE float sum_of(const V& wide) {
  Vec<8> v;
  fold(wide, v);
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
/// Four such sums at once, in the same order of additions.
template <class V>
TESSERA_INLINE Vec4 sums_of(const V (&four)[4]) {
  Vec4 half[4], pair[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Vec<8> v;
    fold(four[i], v);
    half[i] = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    pair[i] = __builtin_shufflevector(half[2 * i], half[2 * i + 1], 0, 1, 4, 5) +
              __builtin_shufflevector(half[2 * i], half[2 * i + 1], 2, 3, 6, 7);
  return __builtin_shufflevector(pair[0], pair[1], 0, 2, 4, 6) +
         __builtin_shufflevector(pair[0], pair[1], 1, 3, 5, 7);
}

struct DotTile {
  int64_t in;
  const float* x;       // rows of `in` floats
  const float* weight;  // rows of `in` floats
  const float* bias;
  bool relu;
  float* y;  // first output
  int64_t y_row;
};

/// What the vectors leave of a dot product, the bias and ReLU.
template <int W>
TESSERA_INLINE float finished_dot(const DotTile& t, int b, int o, float sum) {
  for (int64_t k = t.in / W * W; k < t.in; ++k) sum += t.x[b * t.in + k] * t.weight[o * t.in + k];
  sum += t.bias[o];
  return t.relu && sum <= 0 ? 0.0f : sum;
}

/// B samples × O outputs, each a dot product along adjacent floats of both operands.
template <int W, int B, int O>
void dot_tile(const DotTile& t) {
  Vec<W> acc[B][O] = {};
  const int64_t in = t.in, whole = in / W * W;
  for (int64_t k = 0; k < whole; k += W) {
    Vec<W> x[B];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) x[b] = vec<W>(t.x + b * in + k);
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) {
      const Vec<W> w = vec<W>(t.weight + o * in + k);
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) acc[b][o] += x[b] * w;
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b) {
    float sums[4];
    if constexpr (O == 4) {
      *reinterpret_cast<Vec4At*>(sums) = sums_of(acc[b]);
    } else {
      for (int o = 0; o < O; ++o) sums[o] = sum_of(acc[b][o]);
    }
    for (int o = 0; o < O; ++o) t.y[b * t.y_row + o] = finished_dot<W>(t, b, o, sums[o]);
  }
}

template <int W, int O, int... B>
void dot_tile_of(int64_t samples, const DotTile& t, std::integer_sequence<int, B...>) {
  static constexpr void (*kTiles[])(const DotTile&) = {dot_tile<W, B + 1, O>...};
  kTiles[samples - 1](t);
}
template <int W>
void dot_tile_of(int64_t samples, int64_t outputs, const DotTile& t) {
  constexpr auto kSamples = std::make_integer_sequence<int, kDotRows>();
  if (outputs == 1) return dot_tile_of<W, 1>(samples, t, kSamples);
  if (outputs == 2) return dot_tile_of<W, 2>(samples, t, kSamples);
  if (outputs == 3) return dot_tile_of<W, 3>(samples, t, kSamples);
  dot_tile_of<W, 4>(samples, t, kSamples);
}

void linear_forward(int64_t n, int64_t in, int64_t out, const float* x, const float* weight,
                    const float* bias, bool relu, float* y) {
  constexpr int64_t kCache = 32 * 1024;  // floats of the batch that stay close while weights pass
  const Pieces blocks(n, std::max<int64_t>(4 * kDotRows, kCache / in)), outputs(out, 4);
  for (int64_t block = 0; block < blocks.count; ++block) {
    const Pieces samples(blocks.size(block), kDotRows);
    for (int64_t j = 0; j < outputs.count; ++j)
      for (int64_t i = 0; i < samples.count; ++i) {
        const int64_t b = blocks.begin(block) + samples.begin(i), o = outputs.begin(j);
        const DotTile t{in, x + b * in, weight + o * in, bias + o, relu, y + b * out + o, out};
        TESSERA_BY_WIDTH(in, dot_tile_of, samples.size(i), outputs.size(j), t);
      }
  }
}

void linear_weight_grad(int64_t n, int64_t in, int64_t out, const float* x, const float* y_grad,
                        float* scratch, float* weight_grad, float* bias_grad) {
  const int64_t whole = in / kVector * kVector;
  // Panels of the batch side by side: rows of x that are a power of two apart share a cache set.
  for (int64_t k = 0, width; k < whole; k += width) {
    width = panel_width(whole, k);
    for (int64_t b = 0; b < n; ++b)
      for (int64_t v = 0; v < width; v += kVector)
        vec<kVector>(scratch + k * n + b * width + v) = vec<kVector>(x + b * in + k + v);
  }
  const Pieces rows(out, whole == kVector ? kMostRows[1] : kMostRows[2]);
  for (int64_t i = 0; i < rows.count; ++i)
    for (int64_t k = 0, width; k < whole; k += width) {
      width = panel_width(whole, k);
      const Pieces parts(rows.size(i), most_rows(width));
      for (int64_t j = 0; j < parts.count; ++j) {
        const int64_t o = rows.begin(i) + parts.begin(j);
        tile_of(width, parts.size(j),
                ColumnTile{y_grad + o, 1, 0, 1, 0, n, out, scratch + k * n, width,
                           weight_grad + o * in + k, in, false});
      }
    }
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t k = whole; k < in; ++k) {
      float sum = 0;
      for (int64_t b = 0; b < n; ++b) sum += y_grad[b * out + o] * x[b * in + k];
      weight_grad[o * in + k] = sum;
    }
  }
  std::fill_n(bias_grad, out, 0.0f);
  for (int64_t b = 0; b < n; ++b)
    for (int64_t o = 0; o < out; ++o) bias_grad[o] += y_grad[b * out + o];
}

void linear_input_grad(int64_t n, int64_t in, int64_t out, const float* y_grad, const float* weight,
                       float* x_grad) {
  const int64_t whole = in / kVector * kVector;
  // 64 rows of weights at a time: what a panel has of them stays in the closest cache, and tiles
  // are long enough to pay for their start.
  const Pieces samples(n, kMostRows[2]), blocks(out, 64);
  for (int64_t block = 0; block < blocks.count; ++block) {
    const int64_t o = blocks.begin(block);
    RowTile t;
    t.runs = 1, t.run_length = blocks.size(block), t.run_stride = 0;
    t.b_row = in, t.add = block > 0;
    for (int64_t k = 0, width; k < whole; k += width) {
      width = panel_width(whole, k);
      t.b = weight + o * in + k;
      for (int64_t i = 0; i < samples.count; ++i) {
        const Pieces parts(samples.size(i), std::min<int64_t>(kMostRows[2], most_rows(width)));
        for (int64_t j = 0; j < parts.count; ++j) {
          const int64_t b = samples.begin(i) + parts.begin(j);
          for (int64_t r = 0; r < parts.size(j); ++r)
            t.a[r] = y_grad + (b + r) * out + o, t.c[r] = x_grad + (b + r) * in + k;
          tile_of(width, parts.size(j), t, out);
        }
      }
    }
  }
  for (int64_t b = 0; b < n; ++b)
    for (int64_t k = whole; k < in; ++k) {
      float sum = 0;
      for (int64_t o = 0; o < out; ++o) sum += y_grad[b * out + o] * weight[o * in + k];
      x_grad[b * in + k] = sum;
    }
}

void relu_backward(int64_t n, const float* activation, float* grad) {
  for (int64_t i = 0; i < n; ++i) grad[i] = activation[i] == 0 ? 0.0f : grad[i];
}
