// The kernels' text, included by kernels_*.cpp inside a namespace of their own (hence no #pragma
// once and no include here). Such a file says before what it compiles for:
//
//   kWide         floats of a vector: 8, or 16
//   kMostRows[v]  rows of a tile that is v vectors wide, 0 if there are none: their product is the
//                 number of accumulators, which should fill the registers and leave some for the
//                 operands
//   kDotRows      samples of a tile of dot products, which is four outputs wide
//
// Every product is a register tile of rows × whole vectors of outputs held over the whole
// reduction; nothing is gathered into an im2col buffer, because in NHWC the kernel_w × channels
// inputs of an output lie side by side. Buffers have whole vectors of 8 (kVector) in any case; what
// is no multiple of kWide ends in a vector of 8.

#define TESSERA_INLINE inline __attribute__((always_inline))

template <int W>
struct Lanes;
template <>
struct Lanes<8> {
  typedef float Vec __attribute__((vector_size(32)));
  typedef float VecAt __attribute__((vector_size(32), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(32)));
  typedef int32_t IntAt __attribute__((vector_size(32), aligned(4), may_alias));
  static constexpr Int kIndex{0, 1, 2, 3, 4, 5, 6, 7};
};
template <>
struct Lanes<16> {
  typedef float Vec __attribute__((vector_size(64)));
  typedef float VecAt __attribute__((vector_size(64), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(64)));
  typedef int32_t IntAt __attribute__((vector_size(64), aligned(4), may_alias));
  static constexpr Int kIndex{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};
template <int W>
using Vec = typename Lanes<W>::Vec;
template <int W>
using VecInt = typename Lanes<W>::Int;
typedef float Vec4 __attribute__((vector_size(16)));
typedef float Vec4At __attribute__((vector_size(16), aligned(4), may_alias));

template <int W>
TESSERA_INLINE const typename Lanes<W>::VecAt& vec(const float* p) {
  return *reinterpret_cast<const typename Lanes<W>::VecAt*>(p);
}
template <int W>
TESSERA_INLINE typename Lanes<W>::VecAt& vec(float* p) {
  return *reinterpret_cast<typename Lanes<W>::VecAt*>(p);
}

/// f with the widest vectors that n is a multiple of; n is one of 8 in any case.
#define TESSERA_BY_WIDTH(n, f, ...) \
  ((n) % kWide == 0 ? f<kWide>(__VA_ARGS__) : f<kVector>(__VA_ARGS__))

/// n cut into pieces of at most `most`, as equal as can be: short tiles waste registers.
struct Pieces {
  int64_t n, count;
  Pieces(int64_t total, int64_t most) : n(total), count((total + most - 1) / most) {}
  int64_t begin(int64_t i) const { return i * n / count; }
  int64_t size(int64_t i) const { return begin(i + 1) - begin(i); }
};

/// Column panels, as wide as tiles can be without leaving a single vector over if that can be
/// avoided: a tile of one vector is bound by its loads.
inline int64_t panel_width(int64_t lanes, int64_t begin) {
  const int64_t left = lanes - begin;
  if constexpr (kMostRows[4] == 0) return left % 16 == 0 ? 16 : (left >= 24 ? 24 : 8);
  const int64_t vectors = left / kWide;
  if (vectors == 0) return kVector;
  return (vectors < 4 ? vectors : vectors == 5 ? 3 : 4) * kWide;
}
/// Rows of a tile on a panel.
constexpr int64_t most_rows(int64_t width) {
  return width < kWide ? kMostRows[1] : kMostRows[width / kWide];
}

template <int W, int R, int V>
TESSERA_INLINE void load_tile(Vec<W> (&acc)[R][V], float* const* c, int64_t shift, bool add) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[i][v] = add ? Vec<W>(vec<W>(c[i] + shift + W * v)) : Vec<W>{};
}
template <int W, int R, int V>
TESSERA_INLINE void store_tile(const Vec<W> (&acc)[R][V], float* const* c, int64_t shift) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) vec<W>(c[i] + shift + W * v) = acc[i][v];
}

/// One tile's operands. Rows of A start anywhere; `b` advances by `b_row` floats a step.
struct RowTile {
  const float* a[12];
  int64_t runs, run_length, run_stride;  // A is read in `runs` runs of adjacent floats
  const float* b;
  int64_t b_row;
  float* c[12];
  bool add;
  int64_t shift = 0;  // of all rows of C, in floats
};

template <int W, int R, int V>
void row_tile(const RowTile& t) {
  Vec<W> acc[R][V];
  load_tile<W, R, V>(acc, t.c, t.shift, t.add);
  const float* b = t.b;
  const int64_t b_row = t.b_row, length = t.run_length;
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* a[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) a[i] = t.a[i] + run * t.run_stride;
#pragma GCC unroll 2
    for (int64_t k = 0; k < length; ++k) {
      Vec<W> column[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) column[v] = vec<W>(b + W * v);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[i][v] += a[i][k] * column[v];
      b += b_row;
    }
  }
  store_tile<W, R, V>(acc, t.c, t.shift);
}

/// A single vector of columns needs up to 12 rows to keep the multipliers busy, more pointers than
/// there are registers; so here the rows of A are `a_row` floats apart and share four of them.
template <int W, int R>
void narrow_tile(const RowTile& t, int64_t a_row) {
  Vec<W> acc[R][1];
  load_tile<W, R, 1>(acc, t.c, t.shift, t.add);
  const float* b = t.b;
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* a0 = t.a[0] + run * t.run_stride;
    const float* const end = a0 + t.run_length;
    const float* a3 = a0 + 3 * a_row;
    const float* a6 = a0 + 6 * a_row;
    const float* a9 = a0 + 9 * a_row;
    for (; a0 != end; ++a0, ++a3, ++a6, ++a9, b += t.b_row) {
      const Vec<W> column = vec<W>(b);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const float* a = i < 3 ? a0 : i < 6 ? a3 : i < 9 ? a6 : a9;
        acc[i][0] += a[(i % 3) * a_row] * column;
      }
    }
  }
  store_tile<W, R, 1>(acc, t.c, t.shift);
}

/// A tile whose rows are adjacent floats of A, reduced over images × lines × steps.
struct ColumnTile {
  const float* a;
  int64_t images, image_stride, lines, line_stride, steps, step;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;
};

template <int W, int R, int V>
void column_tile(const ColumnTile& t) {
  Vec<W> acc[R][V];
  float* c[R];
  for (int i = 0; i < R; ++i) c[i] = t.c + i * t.c_row;
  load_tile<W, R, V>(acc, c, 0, t.add);
  const float* b = t.b;
  const int64_t b_row = t.b_row, step = t.step;
  for (int64_t image = 0; image < t.images; ++image)
    for (int64_t line = 0; line < t.lines; ++line) {
      const float* a = t.a + image * t.image_stride + line * t.line_stride;
#pragma GCC unroll 2
      for (int64_t s = 0; s < t.steps; ++s, a += step, b += b_row) {
        Vec<W> column[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) column[v] = vec<W>(b + W * v);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) acc[i][v] += a[i] * column[v];
      }
    }
  store_tile<W, R, V>(acc, c, 0);
}

/// The same tile for 1, 2, … rows: entry r of a table is for r + 1 of them.
template <int W, int V, int... R>
void row_tile_of(int64_t rows, const RowTile& t, std::integer_sequence<int, R...>) {
  static constexpr void (*kTiles[])(const RowTile&) = {row_tile<W, R + 1, V>...};
  kTiles[rows - 1](t);
}
template <int W, int... R>
void narrow_tile_of(int64_t rows, const RowTile& t, int64_t a_row,
                    std::integer_sequence<int, R...>) {
  static constexpr void (*kTiles[])(const RowTile&, int64_t) = {narrow_tile<W, R + 1>...};
  kTiles[rows - 1](t, a_row);
}
template <int W, int V, int... R>
void column_tile_of(int64_t rows, const ColumnTile& t, std::integer_sequence<int, R...>) {
  static constexpr void (*kTiles[])(const ColumnTile&) = {column_tile<W, R + 1, V>...};
  kTiles[rows - 1](t);
}
template <int V>
using RowsOf = std::make_integer_sequence<int, kMostRows[V]>;

/// With a_row 0 the rows of A may start anywhere.
inline void tile_of(int64_t width, int64_t rows, const RowTile& t, int64_t a_row) {
  if constexpr (kMostRows[4] > 0)
    if (width == 4 * kWide) return row_tile_of<kWide, 4>(rows, t, RowsOf<4>());
  if (width == 3 * kWide) return row_tile_of<kWide, 3>(rows, t, RowsOf<3>());
  if (width == 2 * kWide) return row_tile_of<kWide, 2>(rows, t, RowsOf<2>());
  if constexpr (kWide > kVector) {
    if (width == kWide)
      return a_row > 0 ? narrow_tile_of<kWide>(rows, t, a_row, RowsOf<1>())
                       : row_tile_of<kWide, 1>(rows, t, RowsOf<1>());
    if (a_row == 0) return row_tile_of<kVector, 1>(rows, t, RowsOf<1>());
  }
  return narrow_tile_of<kVector>(rows, t, a_row, RowsOf<1>());
}
inline void tile_of(int64_t width, int64_t rows, const ColumnTile& t) {
  if constexpr (kMostRows[4] > 0)
    if (width == 4 * kWide) return column_tile_of<kWide, 4>(rows, t, RowsOf<4>());
  if (width == 3 * kWide) return column_tile_of<kWide, 3>(rows, t, RowsOf<3>());
  if (width == 2 * kWide) return column_tile_of<kWide, 2>(rows, t, RowsOf<2>());
  if constexpr (kWide > kVector)
    if (width == kWide) return column_tile_of<kWide, 1>(rows, t, RowsOf<1>());
  return column_tile_of<kVector, 1>(rows, t, RowsOf<1>());
}
