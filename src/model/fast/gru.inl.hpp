// Gated recurrent units, a step at a time; h, the units, is a multiple of 8.

/// tanh x to about 2e-7 as a quotient of polynomials, which is cheaper than an exponential (the
/// coefficients are Eigen's); NaN stays NaN.
template <int W>
TESSERA_INLINE void tangent(Vec<W>& x) {
  const Vec<W> most = Vec<W>{} + 7.90531110763549805f;  // 1 from here on
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Vec<W> s = x * x;
  Vec<W> p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = p * s - 8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  Vec<W> q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  x = p * x / q;
}
/// 1 / (1 + e^−x), in place.
template <int W>
TESSERA_INLINE void sigmoid(Vec<W>& x) {
  x = 0.5f * x;
  tangent<W>(x);
  x = 0.5f * x + 0.5f;
}

// Weights lie in blocks of W units: for every input, then for every state, a row of W floats for
// each gate. So a tile holds all three gates of its units and can finish them in registers.
template <int W>
void gru_pack_by(int64_t inputs, int64_t h, const float* weight_ih, const float* weight_hh,
                 float* packed) {
  for (int64_t k = 0; k < h; k += W, packed += (inputs + h) * 3 * W)
    for (int64_t gate = 0; gate < 3; ++gate) {
      transpose(W, inputs, weight_ih + (gate * h + k) * inputs, inputs, packed + gate * W, 3 * W);
      transpose(W, h, weight_hh + (gate * h + k) * h, h, packed + inputs * 3 * W + gate * W, 3 * W);
    }
}
void gru_pack_forward(int64_t inputs, int64_t h, const float* weight_ih, const float* weight_hh,
                      float* packed) {
  TESSERA_BY_WIDTH(h, gru_pack_by, inputs, h, weight_ih, weight_hh, packed);
}

/// Some samples through one block of units.
struct GruTile {
  int64_t inputs, h;
  const float* x;
  int64_t x_row;
  const float* packed;  // the block's
  const float* bias;    // the block's first; gates are h apart
  const float* before;  // whole rows
  int64_t unit;         // the block's first
  float* trace;
  float* after;
};

template <int W, int R>
TESSERA_INLINE void gru_reduce(Vec<W> (&acc)[R][3], const float* x, int64_t x_row, int64_t depth,
                               const float* b) {
  const float* a[R];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) a[i] = x + i * x_row;
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k, b += 3 * W) {
    Vec<W> column[3];
#pragma GCC unroll 3
    for (int v = 0; v < 3; ++v) column[v] = vec<W>(b + W * v);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) acc[i][v] += a[i][k] * column[v];
  }
}

template <int W, int R>
void gru_tile(const GruTile& t) {
  const int64_t h = t.h;
  Vec<W> acc[R][3], input[R];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < 3; ++v) acc[i][v] = vec<W>(t.bias + v * h);
  gru_reduce<W, R>(acc, t.x, t.x_row, t.inputs, t.packed);
  // The reset gate scales the states' part of the new one, so that is summed apart.
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) input[i] = acc[i][2], acc[i][2] = vec<W>(t.bias + 3 * h);
  gru_reduce<W, R>(acc, t.before, h, h, t.packed + t.inputs * 3 * W);
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    Vec<W> reset = acc[i][0], update = acc[i][1];
    sigmoid<W>(reset), sigmoid<W>(update);
    Vec<W> proposal = input[i] + reset * acc[i][2];
    tangent<W>(proposal);
    if (t.trace) {
      float* trace = t.trace + i * 4 * h;
      vec<W>(trace) = reset, vec<W>(trace + W) = update;
      vec<W>(trace + 2 * W) = proposal, vec<W>(trace + 3 * W) = acc[i][2];
    }
    const Vec<W> before = vec<W>(t.before + i * h + t.unit);
    vec<W>(t.after + i * h) = proposal + update * (before - proposal);
  }
}

template <int W, int... R>
void gru_tile_of(int64_t rows, const GruTile& t, std::integer_sequence<int, R...>) {
  static constexpr void (*kTiles[])(const GruTile&) = {gru_tile<W, R + 1>...};
  kTiles[rows - 1](t);
}

template <int W>
void gru_forward_by(int64_t n, int64_t inputs, int64_t h, const float* packed, const float* bias,
                    const float* x, int64_t x_row, const float* before, float* trace,
                    float* after) {
  const Pieces parts(n, kMostRows[3]);
  for (int64_t k = 0; k < h; k += W, packed += (inputs + h) * 3 * W)
    for (int64_t j = 0; j < parts.count; ++j) {
      const int64_t i = parts.begin(j);
      gru_tile_of<W>(parts.size(j),
                     GruTile{inputs, h, x + i * x_row, x_row, packed, bias + k, before + i * h, k,
                             trace ? trace + (i * h + k) * 4 : nullptr, after + i * h + k},
                     RowsOf<3>());
    }
}
void gru_forward_step(int64_t n, int64_t inputs, int64_t h, const float* packed, const float* bias,
                      const float* x, int64_t x_row, const float* before, float* trace,
                      float* after) {
  TESSERA_BY_WIDTH(h, gru_forward_by, n, inputs, h, packed, bias, x, x_row, before, trace, after);
}

/// The slopes of all gates of some steps lie in panels so wide, one after the other: there they are
/// rows of vectors for the weights' gradients and runs of factors for those of states and inputs.
inline int64_t gru_panel(int64_t h) {
  return h % (2 * kWide) == 0 ? 2 * kWide : h % kWide == 0 ? kWide : kVector;
}

void gru_pack_backward(int64_t h, int64_t columns, const float* weight, bool new_first,
                       float* packed) {
  for (int64_t begin = 0, width; begin < columns; begin += width) {
    width = panel_width(columns, begin);
    for (int64_t i = 0; i < 3 * h; ++i, packed += width) {
      const int64_t row = new_first ? (i + 2 * h) % (3 * h) : i;
      std::copy_n(weight + row * columns + begin, width, packed);
    }
  }
}

template <int W>
void gru_gates_back_by(int64_t n, int64_t h, const float* trace, const float* before,
                       const float* above, float* state, int64_t rows, int64_t first,
                       float* slopes) {
  const int64_t panel = gru_panel(h);
  for (int64_t i = 0; i < n; ++i, trace += 4 * h, before += h, state += h)
    for (int64_t k = 0; k < h; k += W) {
      const float* gates = trace + 4 * k;
      const Vec<W> reset = vec<W>(gates), update = vec<W>(gates + W);
      const Vec<W> proposal = vec<W>(gates + 2 * W), recurrent = vec<W>(gates + 3 * W);
      Vec<W> grad = vec<W>(state + k);
      if (above) grad += vec<W>(above + i * h + k);
      const Vec<W> inner = grad * (1.0f - update) * (1.0f - proposal * proposal);
      float* to = slopes + k / panel * panel * rows + (first + i) * panel + k % panel;
      vec<W>(to) = inner;
      vec<W>(to + h * rows) = inner * recurrent * reset * (1.0f - reset);
      vec<W>(to + 2 * h * rows) = grad * (vec<W>(before + k) - proposal) * update * (1.0f - update);
      vec<W>(to + 3 * h * rows) = inner * reset;
      vec<W>(state + k) = grad * update;
    }
}

/// c [n, columns] from the slopes that begin at gate `gate`, rows from `first` on, times weights.
inline void gru_slopes_times(int64_t n, int64_t h, int64_t columns, const float* slopes,
                             int64_t rows, int64_t first, int64_t gate, const float* packed,
                             float* c, bool add) {
  const int64_t panel = gru_panel(h);
  RowTile t;
  t.runs = 3 * h / panel, t.run_length = panel, t.run_stride = rows * panel, t.add = add;
  for (int64_t begin = 0, width; begin < columns; begin += width) {
    width = panel_width(columns, begin);
    t.b = packed + begin * 3 * h, t.b_row = width;
    const Pieces parts(n, most_rows(width));
    for (int64_t j = 0; j < parts.count; ++j) {
      for (int64_t r = 0, i = parts.begin(j); r < parts.size(j); ++r, ++i)
        t.a[r] = slopes + gate * h * rows + (first + i) * panel, t.c[r] = c + i * columns + begin;
      tile_of(width, parts.size(j), t, panel);
    }
  }
}

void gru_backward_step(int64_t n, int64_t h, const float* packed, const float* trace,
                       const float* before, const float* above, float* state, int64_t rows,
                       int64_t first, float* slopes) {
  TESSERA_BY_WIDTH(h, gru_gates_back_by, n, h, trace, before, above, state, rows, first, slopes);
  if (packed) gru_slopes_times(n, h, h, slopes, rows, first, 1, packed, state, true);
}

void gru_input_grad(int64_t rows, int64_t h, int64_t inputs, const float* slopes,
                    const float* packed, float* x_grad) {
  gru_slopes_times(rows, h, inputs, slopes, rows, 0, 0, packed, x_grad, false);
}

void gru_weight_grad(int64_t rows, int64_t h, int64_t inputs, const float* slopes, const float* x,
                     bool states, float* weight_grad) {
  const int64_t panel = gru_panel(h);
  const Pieces parts(inputs, most_rows(panel));
  const float* b = slopes + (states ? h * rows : 0);
  for (int64_t begin = 0; begin < 3 * h; begin += panel, b += panel * rows)
    for (int64_t j = 0; j < parts.count; ++j) {
      const int64_t i = parts.begin(j);
      tile_of(panel, parts.size(j),
              ColumnTile{x + i, 1, 0, 1, 0, rows, inputs, b, panel, weight_grad + i * 3 * h + begin,
                         3 * h, true});
    }
}

/// Even and odd rows apart: one sum would wait for itself.
template <int W>
void gru_bias_grad_by(int64_t rows, int64_t panel, const float* slopes, float* bias_grad) {
  for (int64_t k = 0; k < panel; k += W) {
    Vec<W> even{}, odd{};
    int64_t i = 0;
    for (; i + 1 < rows; i += 2)
      even += vec<W>(slopes + i * panel + k), odd += vec<W>(slopes + (i + 1) * panel + k);
    if (i < rows) even += vec<W>(slopes + i * panel + k);
    vec<W>(bias_grad + k) += even + odd;
  }
}
void gru_bias_grad(int64_t rows, int64_t h, const float* slopes, float* bias_grad) {
  const int64_t panel = gru_panel(h);
  for (int64_t begin = 0; begin < 4 * h; begin += panel)
    TESSERA_BY_WIDTH(panel, gru_bias_grad_by, rows, panel, slopes + begin * rows,
                     bias_grad + begin);
}
