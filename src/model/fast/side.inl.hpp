// Convolutions in evaluation with samples side by side: a vector holds the same number of kWide
// samples, so that layers of any width fill it.

/// One window of a convolution, RR × CC pixels, for O outputs.
struct SideTile {
  const float* x;       // the window's first pixel
  int64_t row, plane;   // floats from row to row and from channel to channel
  const float* weight;  // the first output's, OIHW
  const float* bias;
  int64_t in, kernel, depth;
  float* y;        // the first output's first pixel
  int64_t y_next;  // floats from output to output
};

template <int W, int RR, int CC, int O>
void side_tile(const SideTile& t) {
  constexpr int P = RR * CC;
  Vec<W> acc[O][P] = {};
  const float* weight[O];
#pragma GCC unroll 6
  for (int o = 0; o < O; ++o) weight[o] = t.weight + o * t.depth;
  for (int64_t channel = 0; channel < t.in; ++channel)
    for (int64_t ky = 0; ky < t.kernel; ++ky) {
      const float* at[P];
#pragma GCC unroll 9
      for (int p = 0; p < P; ++p) {
        at[p] = t.x + channel * t.plane + (ky + p / CC) * t.row + p % CC * W;
        // So that the compiler does not see that pixels are read again: it would keep them, and
        // there is no register for that.
        asm("" : "+r"(at[p]));
      }
      for (int64_t kx = 0; kx < t.kernel; ++kx) {
        Vec<W> factor[O];
#pragma GCC unroll 6
        for (int o = 0; o < O; ++o) factor[o] = weight[o][kx] - Vec<W>{};
#pragma GCC unroll 9
        for (int p = 0; p < P; ++p) {
          const Vec<W> x = vec<W>(at[p] + kx * W);
#pragma GCC unroll 6
          for (int o = 0; o < O; ++o) acc[o][p] += factor[o] * x;
        }
      }
#pragma GCC unroll 6
      for (int o = 0; o < O; ++o) weight[o] += t.kernel;
    }
#pragma GCC unroll 6
  for (int o = 0; o < O; ++o) {
    if constexpr (RR > 1) {  // pooled; the comparisons are pool_forward's
#pragma GCC unroll 9
      for (int p = 1; p < P; ++p) acc[o][0] = acc[o][p] <= acc[o][0] ? acc[o][0] : acc[o][p];
    }
#pragma GCC unroll 9
    for (int p = 0; p < (RR > 1 ? 1 : P); ++p) {
      const Vec<W> value = acc[o][p] + t.bias[o];
      vec<W>(t.y + o * t.y_next + p * W) = value <= 0.0f ? Vec<W>{} : value;
    }
  }
}

constexpr int kAccumulators = 2 * kMostRows[2];
template <int RR, int CC>
using SideOutputs = std::make_integer_sequence<int, kAccumulators / (RR * CC)>;

template <int RR, int CC, int... O>
void side_tile_of(int64_t outputs, const SideTile& t, std::integer_sequence<int, O...>) {
  static constexpr void (*kTiles[])(const SideTile&) = {side_tile<kWide, RR, CC, O + 1>...};
  kTiles[outputs - 1](t);
}

/// `pixels`: of a row of outputs, where nothing is pooled.
inline void side_tile_of(int64_t pool, int64_t pixels, int64_t outputs, const SideTile& t) {
  if (pool == 3) return side_tile_of<3, 3>(outputs, t, SideOutputs<3, 3>());
  if (pool == 2) return side_tile_of<2, 2>(outputs, t, SideOutputs<2, 2>());
  if (pixels == 4) return side_tile_of<1, 4>(outputs, t, SideOutputs<1, 4>());
  if (pixels == 3) return side_tile_of<1, 3>(outputs, t, SideOutputs<1, 4>());
  if (pixels == 2) return side_tile_of<1, 2>(outputs, t, SideOutputs<1, 4>());
  side_tile_of<1, 1>(outputs, t, SideOutputs<1, 4>());
}

void side_conv(const ConvShape& s, const float* x, const float* weight, const float* bias,
               const Plane<float>& y) {
  const int64_t window = s.pool > 1 ? s.pool * s.pool : 4;
  const Pieces outputs(s.out, kAccumulators / window), columns(s.pooled_w, s.pool > 1 ? 1 : 4);
  SideTile t{};
  t.row = s.width * kWide, t.plane = s.height * t.row;
  t.in = s.in, t.kernel = s.kernel, t.depth = s.depth(), t.y_next = y.image;
  for (int64_t row = 0; row < s.pooled_h; ++row)
    for (int64_t i = 0; i < outputs.count; ++i) {
      const int64_t o = outputs.begin(i);
      t.weight = weight + o * t.depth, t.bias = bias + o;
      for (int64_t j = 0; j < columns.count; ++j) {
        const int64_t column = columns.begin(j);
        t.x = x + row * s.pool_stride * t.row + column * s.pool_stride * kWide;
        t.y = y.first + o * y.image + row * y.row + column * kWide;
        side_tile_of(s.pool, columns.size(j), outputs.size(i), t);
      }
    }
}
