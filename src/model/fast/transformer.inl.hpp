// Layer norm, GELU and attention; every width is a multiple of 8.

/// e^x to about one part in 10⁷ (Cephes' polynomial); beyond ±87 as at the edge, NaN stays NaN.
template <int W>
TESSERA_INLINE void exponential(Vec<W>& x) {
  constexpr float kRound =
      12582912.0f;  // 1.5·2²³: adding it leaves the nearest integer in the bits
  const Vec<W> most = Vec<W>{} + 87.0f;
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Vec<W> shifted = x * 1.44269504f + kRound;
  const Vec<W> power = shifted - kRound;
  const Vec<W> r =
      (x - power * 0.693359375f) + power * 2.12194440e-4f;  // x − power·ln 2 in two steps
  Vec<W> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const VecInt<W> exponent = (VecInt<W>)shifted - 0x4b400000 + 127;
  x = p * (Vec<W>)(exponent << 23);
}

template <int W>
void norm_forward_by(int64_t rows, int64_t width, const float* x, const float* weight,
                     const float* bias, float* y, float* stats) {
  const float share = 1.0f / static_cast<float>(width);
  for (int64_t i = 0; i < rows; ++i, x += width, y += width, stats += 2) {
    Vec<W> sum{}, square{};
    for (int64_t k = 0; k < width; k += W) sum += vec<W>(x + k);
    const float mean = sum_of(sum) * share;
    for (int64_t k = 0; k < width; k += W) {
      const Vec<W> off = vec<W>(x + k) - mean;
      square += off * off;
    }
    const float scale = 1.0f / __builtin_sqrtf(sum_of(square) * share + kEpsilon);
    for (int64_t k = 0; k < width; k += W)
      vec<W>(y + k) = (vec<W>(x + k) - mean) * scale * vec<W>(weight + k) + vec<W>(bias + k);
    stats[0] = mean, stats[1] = scale;
  }
}
void norm_forward(int64_t rows, int64_t width, const float* x, const float* weight,
                  const float* bias, float* y, float* stats) {
  TESSERA_BY_WIDTH(width, norm_forward_by, rows, width, x, weight, bias, y, stats);
}

template <int W>
void norm_backward_by(int64_t rows, int64_t width, const float* x, const float* weight,
                      const float* stats, const float* y_grad, float* x_grad, float* weight_grad,
                      float* bias_grad) {
  const float share = 1.0f / static_cast<float>(width);
  for (int64_t i = 0; i < rows; ++i, x += width, y_grad += width, x_grad += width, stats += 2) {
    const float mean = stats[0], scale = stats[1];
    Vec<W> plain{}, along{};
    for (int64_t k = 0; k < width; k += W) {
      const Vec<W> unit = (vec<W>(x + k) - mean) * scale, grad = vec<W>(y_grad + k);
      vec<W>(bias_grad + k) += grad;
      vec<W>(weight_grad + k) += grad * unit;
      const Vec<W> inner = grad * vec<W>(weight + k);
      plain += inner, along += inner * unit;
    }
    const float a = sum_of(plain) * share, b = sum_of(along) * share;
    for (int64_t k = 0; k < width; k += W) {
      const Vec<W> unit = (vec<W>(x + k) - mean) * scale;
      vec<W>(x_grad + k) += scale * (vec<W>(y_grad + k) * vec<W>(weight + k) - a - b * unit);
    }
  }
}
void norm_backward(int64_t rows, int64_t width, const float* x, const float* weight,
                   const float* stats, const float* y_grad, float* x_grad, float* weight_grad,
                   float* bias_grad) {
  TESSERA_BY_WIDTH(width, norm_backward_by, rows, width, x, weight, stats, y_grad, x_grad,
                   weight_grad, bias_grad);
}

// The normal distribution's tail is Abramowitz and Stegun's 7.1.26, to 1e-7; it shares its
// exponential with the slope.
template <int W>
void gelu_forward_by(int64_t rows, int64_t width, const float* bias, float* x, float* y) {
  for (int64_t i = 0; i < rows; ++i, x += width, y += width)
    for (int64_t k = 0; k < width; k += W) {
      const Vec<W> v = vec<W>(x + k) + vec<W>(bias + k);
      Vec<W> bell = -0.5f * v * v;
      exponential<W>(bell);
      const Vec<W> size = v < 0 ? -v : v;
      const Vec<W> t = 1.0f / (1.0f + 0.2316418882f * size);  // 0.3275911 / √2
      Vec<W> p = t * 0.5307027145f - 0.7265760135f;           // the table's five, halved
      p = p * t + 0.7107068705f;
      p = p * t - 0.142248368f;
      p = p * t + 0.127414796f;
      const Vec<W> tail = p * t * bell;
      const Vec<W> below = v < 0 ? tail : 1.0f - tail;
      vec<W>(y + k) = v * below;
      vec<W>(x + k) = below + 0.3989422804f * v * bell;
    }
}
void gelu_forward(int64_t rows, int64_t width, const float* bias, float* x, float* y) {
  TESSERA_BY_WIDTH(width, gelu_forward_by, rows, width, bias, x, y);
}

template <int W>
void gelu_backward_by(int64_t rows, int64_t width, const float* slope, float* grad,
                      float* bias_grad) {
  for (int64_t i = 0; i < rows; ++i, slope += width, grad += width)
    for (int64_t k = 0; k < width; k += W) {
      vec<W>(grad + k) *= vec<W>(slope + k);
      vec<W>(bias_grad + k) += vec<W>(grad + k);
    }
}
void gelu_backward(int64_t rows, int64_t width, const float* slope, float* grad, float* bias_grad) {
  TESSERA_BY_WIDTH(width, gelu_backward_by, rows, width, slope, grad, bias_grad);
}

template <int W>
void add_rows_by(int64_t rows, int64_t width, const float* x, float* sums) {
  for (int64_t i = 0; i < rows; ++i, x += width)
    for (int64_t k = 0; k < width; k += W) vec<W>(sums + k) += vec<W>(x + k);
}
void add_rows(int64_t rows, int64_t width, const float* x, float* sums) {
  TESSERA_BY_WIDTH(width, add_rows_by, rows, width, x, sums);
}

template <int W>
void add_bias_by(int64_t rows, int64_t width, const float* x, int64_t x_row, const float* bias,
                 float* y) {
  for (int64_t i = 0; i < rows; ++i, x += x_row, y += width)
    for (int64_t k = 0; k < width; k += W) vec<W>(y + k) = vec<W>(x + k) + vec<W>(bias + k);
}
void add_bias(int64_t rows, int64_t width, const float* x, int64_t x_row, const float* bias,
              float* y) {
  TESSERA_BY_WIDTH(width, add_bias_by, rows, width, x, x_row, bias, y);
}

/// A small matrix: its first number and the floats from row to row.
template <class T>
struct Matrix {
  T* first;
  int64_t row;
};

/// c [rows, columns] = a [rows, depth] · b [depth, columns], or that added to it.
inline void product(int64_t rows, int64_t depth, int64_t columns, Matrix<const float> a,
                    Matrix<const float> b, Matrix<float> c, bool add = false) {
  for (int64_t begin = 0, width; begin < columns; begin += width) {
    width = panel_width(columns, begin);
    const Pieces parts(rows, most_rows(width));
    for (int64_t j = 0; j < parts.count; ++j) {
      RowTile t;
      t.runs = 1, t.run_length = depth, t.run_stride = 0;
      t.b = b.first + begin, t.b_row = b.row, t.add = add;
      for (int64_t r = 0, i = parts.begin(j); r < parts.size(j); ++r, ++i)
        t.a[r] = a.first + i * a.row, t.c[r] = c.first + i * c.row + begin;
      tile_of(width, parts.size(j), t, a.row);
    }
  }
}

void pack_linear(int64_t in, int64_t out, const float* weight, float* packed) {
  for (int64_t begin = 0, width; begin < out; begin += width) {
    width = panel_width(out, begin);
    transpose(width, in, weight + begin * in, in, packed + begin * in, width);
  }
}

void packed_linear(int64_t rows, int64_t in, int64_t out, const float* x, int64_t x_row,
                   const float* packed, bool add, float* y, int64_t y_row) {
  for (int64_t begin = 0, width; begin < out; begin += width) {
    width = panel_width(out, begin);
    product(rows, in, width, {x, x_row}, {packed + begin * in, width}, {y + begin, y_row}, add);
  }
}

/// c [rows, columns] = aᵀ · b with a [depth, rows] and b [depth, columns].
inline void product_of_transposed(int64_t rows, int64_t depth, int64_t columns,
                                  Matrix<const float> a, Matrix<const float> b, Matrix<float> c) {
  for (int64_t begin = 0, width; begin < columns; begin += width) {
    width = panel_width(columns, begin);
    const Pieces parts(rows, most_rows(width));
    for (int64_t j = 0; j < parts.count; ++j) {
      const int64_t i = parts.begin(j);
      tile_of(width, parts.size(j),
              ColumnTile{a.first + i, 1, 0, 1, 0, depth, a.row, b.first + begin, b.row,
                         c.first + i * c.row + begin, c.row, false});
    }
  }
}

/// e^(scale·row) over its sum, for the first `tokens` numbers; the padding to a whole vector is 0.
template <int W>
TESSERA_INLINE void softmax(int64_t tokens, float scale, float* row) {
  const int64_t last = lanes_of(tokens) - W;
  const VecInt<W> real = Lanes<W>::kIndex < static_cast<int32_t>(tokens - last);
  const Vec<W> lowest = Vec<W>{} - 3.4e38f;
  Vec<W> top = real ? vec<W>(row + last) : lowest;
  for (int64_t k = 0; k < last; k += W) top = vec<W>(row + k) > top ? vec<W>(row + k) : top;
  float most = top[0];
  for (int i = 1; i < W; ++i) most = std::max(most, top[i]);
  Vec<W> sum{};
  for (int64_t k = 0; k <= last; k += W) {
    Vec<W> e = (vec<W>(row + k) - most) * scale;
    exponential<W>(e);
    if (k == last) e = real ? e : Vec<W>{};
    vec<W>(row + k) = e;
    sum += e;
  }
  const float share = 1.0f / sum_of(sum);
  for (int64_t k = 0; k <= last; k += W) vec<W>(row + k) *= share;
}

/// The rows of one head of one sample in a buffer of queries, keys and values.
template <class T>
struct Head {
  Matrix<T> q, k, v;
  Head(const AttentionShape& s, T* qkv, int64_t sample, int64_t head) {
    const int64_t inner = s.inner();
    T* first = qkv + sample * s.tokens * 3 * inner + head * s.head_dim;
    q = {first, 3 * inner}, k = {first + inner, 3 * inner}, v = {first + 2 * inner, 3 * inner};
  }
};

void attention_forward(const AttentionShape& s, int64_t samples, const float* qkv, float* shares,
                       float* mixed, float* scratch) {
  const int64_t lanes = s.lanes(), inner = s.inner();
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.head_dim));
  std::fill_n(scratch, s.head_dim * lanes, 0.0f);
  for (int64_t n = 0; n < samples; ++n, mixed += s.queries * inner)
    for (int64_t h = 0; h < s.heads; ++h, shares += s.queries * lanes) {
      const Head<const float> at(s, qkv, n, h);
      transpose(s.tokens, s.head_dim, at.k.first, at.k.row, scratch, lanes);
      product(s.queries, s.head_dim, lanes, at.q, {scratch, lanes}, {shares, lanes});
      for (int64_t i = 0; i < s.queries; ++i)
        TESSERA_BY_WIDTH(lanes, softmax, s.tokens, scale, shares + i * lanes);
      product(s.queries, s.tokens, s.head_dim, {shares, lanes}, at.v,
              {mixed + h * s.head_dim, inner});
    }
}

/// From the gradient of a row of softmax to that of what went into it, in place.
template <int W>
TESSERA_INLINE void softmax_backward(int64_t lanes, float scale, const float* share, float* grad) {
  Vec<W> along{};
  for (int64_t k = 0; k < lanes; k += W) along += vec<W>(share + k) * vec<W>(grad + k);
  const float mean = sum_of(along);
  for (int64_t k = 0; k < lanes; k += W)
    vec<W>(grad + k) = vec<W>(share + k) * (vec<W>(grad + k) - mean) * scale;
}

void attention_backward(const AttentionShape& s, int64_t samples, const float* qkv,
                        const float* shares, const float* mixed_grad, float* qkv_grad,
                        float* scratch) {
  const int64_t lanes = s.lanes(), inner = s.inner();
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.head_dim));
  float* score_grad = scratch + s.head_dim * lanes;
  std::fill_n(scratch, s.head_dim * lanes, 0.0f);
  for (int64_t n = 0; n < samples; ++n, mixed_grad += s.queries * inner)
    for (int64_t h = 0; h < s.heads; ++h, shares += s.queries * lanes) {
      const Head<const float> at(s, qkv, n, h);
      const Head<float> grad(s, qkv_grad, n, h);
      const Matrix<const float> above{mixed_grad + h * s.head_dim, inner}, score{score_grad, lanes};
      product_of_transposed(s.tokens, s.queries, s.head_dim, {shares, lanes}, above, grad.v);
      transpose(s.tokens, s.head_dim, at.v.first, at.v.row, scratch, lanes);
      product(s.queries, s.head_dim, lanes, above, {scratch, lanes}, {score_grad, lanes});
      for (int64_t i = 0; i < s.queries; ++i)
        TESSERA_BY_WIDTH(lanes, softmax_backward, lanes, scale, shares + i * lanes,
                         score_grad + i * lanes);
      product(s.queries, s.tokens, s.head_dim, score, at.k, grad.q);
      product_of_transposed(s.tokens, s.queries, s.head_dim, score, at.q, grad.k);
    }
}
