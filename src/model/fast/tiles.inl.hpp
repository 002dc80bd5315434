// The kernels' text, included by kernels_avx2.cpp and kernels_portable.cpp inside a namespace of
// their own (hence no #pragma once and no include here). Every product is a register tile of
// rows × 8·vectors outputs held over the whole reduction; nothing is gathered into an im2col
// buffer, because in NHWC the kernel_w × channels inputs of an output lie side by side.

typedef float Vec __attribute__((vector_size(32)));
typedef float VecAt __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t VecInt __attribute__((vector_size(32)));
typedef int32_t VecIntAt __attribute__((vector_size(32), aligned(4), may_alias));

#define TESSERA_INLINE inline __attribute__((always_inline))

TESSERA_INLINE const VecAt& vec(const float* p) { return *reinterpret_cast<const VecAt*>(p); }
TESSERA_INLINE VecAt& vec(float* p) { return *reinterpret_cast<VecAt*>(p); }

/// n cut into pieces of at most `most`, as equal as can be: short tiles waste registers.
struct Pieces {
  int64_t n, count;
  Pieces(int64_t total, int64_t most) : n(total), count((total + most - 1) / most) {}
  int64_t begin(int64_t i) const { return i * n / count; }
  int64_t size(int64_t i) const { return begin(i + 1) - begin(i); }
};

/// Column panels: 16 wide, one of 24 when 16 does not divide, 8 only when there is nothing else
/// (a tile of 8 columns is bound by its loads).
inline int64_t panel_width(int64_t lanes, int64_t begin) {
  const int64_t left = lanes - begin;
  return left % 16 == 0 ? 16 : (left >= 24 ? 24 : 8);
}
constexpr int kMostRows[4] = {0, 12, 6, 4};  // by vectors of a panel: at most 12 accumulators

template <int R, int V>
TESSERA_INLINE void load_tile(Vec (&acc)[R][V], float* const* c, int64_t shift, bool add) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[i][v] = add ? vec(c[i] + shift + 8 * v) : Vec{};
}
template <int R, int V>
TESSERA_INLINE void store_tile(const Vec (&acc)[R][V], float* const* c, int64_t shift) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) vec(c[i] + shift + 8 * v) = acc[i][v];
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

template <int R, int V>
void row_tile(const RowTile& t) {
  Vec acc[R][V];
  load_tile<R, V>(acc, t.c, t.shift, t.add);
  const float* b = t.b;
  const int64_t b_row = t.b_row, length = t.run_length;
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* a[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) a[i] = t.a[i] + run * t.run_stride;
#pragma GCC unroll 2
    for (int64_t k = 0; k < length; ++k) {
      Vec column[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) column[v] = vec(b + 8 * v);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[i][v] += a[i][k] * column[v];
      b += b_row;
    }
  }
  store_tile<R, V>(acc, t.c, t.shift);
}

/// A single vector of columns needs up to 12 rows to keep the multipliers busy, more pointers than
/// there are registers; so here the rows of A are `a_row` floats apart and share four of them.
template <int R>
void narrow_tile(const RowTile& t, int64_t a_row) {
  Vec acc[R][1];
  load_tile<R, 1>(acc, t.c, t.shift, t.add);
  const float* b = t.b;
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* a0 = t.a[0] + run * t.run_stride;
    const float* const end = a0 + t.run_length;
    const float* a3 = a0 + 3 * a_row;
    const float* a6 = a0 + 6 * a_row;
    const float* a9 = a0 + 9 * a_row;
    for (; a0 != end; ++a0, ++a3, ++a6, ++a9, b += t.b_row) {
      const Vec column = vec(b);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const float* a = i < 3 ? a0 : i < 6 ? a3 : i < 9 ? a6 : a9;
        acc[i][0] += a[(i % 3) * a_row] * column;
      }
    }
  }
  store_tile<R, 1>(acc, t.c, t.shift);
}

template <int V>
void row_tile_of(int64_t rows, const RowTile& t) {
  switch (rows) {
    case 1:
      return row_tile<1, V>(t);
    case 2:
      return row_tile<2, V>(t);
    case 3:
      return row_tile<3, V>(t);
    case 4:
      return row_tile<4, V>(t);
    case 5:
      return row_tile<5, V>(t);
    default:
      return row_tile<6, V>(t);
  }
}
inline void narrow_tile_of(int64_t rows, const RowTile& t, int64_t a_row) {
  switch (rows) {
    case 1:
      return narrow_tile<1>(t, a_row);
    case 2:
      return narrow_tile<2>(t, a_row);
    case 3:
      return narrow_tile<3>(t, a_row);
    case 4:
      return narrow_tile<4>(t, a_row);
    case 5:
      return narrow_tile<5>(t, a_row);
    case 6:
      return narrow_tile<6>(t, a_row);
    case 7:
      return narrow_tile<7>(t, a_row);
    case 8:
      return narrow_tile<8>(t, a_row);
    case 9:
      return narrow_tile<9>(t, a_row);
    case 10:
      return narrow_tile<10>(t, a_row);
    case 11:
      return narrow_tile<11>(t, a_row);
    default:
      return narrow_tile<12>(t, a_row);
  }
}
inline void tile_of(int64_t width, int64_t rows, const RowTile& t, int64_t a_row) {
  if (width == 24) return row_tile_of<3>(rows, t);
  if (width == 16) return row_tile_of<2>(rows, t);
  return narrow_tile_of(rows, t, a_row);
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

template <int R, int V>
void column_tile(const ColumnTile& t) {
  Vec acc[R][V];
  float* c[R];
  for (int i = 0; i < R; ++i) c[i] = t.c + i * t.c_row;
  load_tile<R, V>(acc, c, 0, t.add);
  const float* b = t.b;
  const int64_t b_row = t.b_row, step = t.step;
  for (int64_t image = 0; image < t.images; ++image)
    for (int64_t line = 0; line < t.lines; ++line) {
      const float* a = t.a + image * t.image_stride + line * t.line_stride;
#pragma GCC unroll 2
      for (int64_t s = 0; s < t.steps; ++s, a += step, b += b_row) {
        Vec column[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) column[v] = vec(b + 8 * v);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) acc[i][v] += a[i] * column[v];
      }
    }
  store_tile<R, V>(acc, c, 0);
}

template <int V>
void column_tile_of(int64_t rows, const ColumnTile& t) {
  if constexpr (V == 1) {
    switch (rows) {
      case 7:
        return column_tile<7, V>(t);
      case 8:
        return column_tile<8, V>(t);
      case 9:
        return column_tile<9, V>(t);
      case 10:
        return column_tile<10, V>(t);
      case 11:
        return column_tile<11, V>(t);
      case 12:
        return column_tile<12, V>(t);
      default:
        break;
    }
  }
  switch (rows) {
    case 1:
      return column_tile<1, V>(t);
    case 2:
      return column_tile<2, V>(t);
    case 3:
      return column_tile<3, V>(t);
    case 4:
      return column_tile<4, V>(t);
    case 5:
      return column_tile<5, V>(t);
    default:
      return column_tile<6, V>(t);
  }
}
inline void tile_of(int64_t width, int64_t rows, const ColumnTile& t) {
  if (width == 24) return column_tile_of<3>(rows, t);
  if (width == 16) return column_tile_of<2>(rows, t);
  return column_tile_of<1>(rows, t);
}
