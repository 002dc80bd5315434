// Convolutions and pooling; included like tiles.inl.hpp, after it.

TESSERA_INLINE void transpose_8x8(const float* in, int64_t in_row, float* out, int64_t out_row) {
  Vec<8> a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) a[i] = vec<8>(in + i * in_row);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 8; half += 4)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Vec<8>&low = b[half + i], &high = b[half + i + 2];
      a[half + 2 * i] = __builtin_shufflevector(low, high, 0, 1, 8, 9, 4, 5, 12, 13);
      a[half + 2 * i + 1] = __builtin_shufflevector(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    vec<8>(out + i * out_row) = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    vec<8>(out + (i + 4) * out_row) =
        __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

void transpose(int64_t rows, int64_t cols, const float* in, int64_t in_row, float* out,
               int64_t out_row) {
  const int64_t whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
  for (int64_t r = 0; r < whole_rows; r += 8) {
    for (int64_t c = 0; c < whole_cols; c += 8)
      transpose_8x8(in + r * in_row + c, in_row, out + c * out_row + r, out_row);
    for (int64_t c = whole_cols; c < cols; ++c)
      for (int64_t i = r; i < r + 8; ++i) out[c * out_row + i] = in[i * in_row + c];
  }
  for (int64_t r = whole_rows; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) out[c * out_row + r] = in[r * in_row + c];
}

// Panel after panel; inside one, depth rows (kernel row, kernel column, channel) of `width` floats.
void pack_forward(const ConvShape& s, const float* weight, float* packed) {
  const int64_t area = s.kernel * s.kernel, depth = s.depth();
  for (int64_t begin = 0, width; begin < s.out_lanes(); begin += width) {
    width = panel_width(s.out_lanes(), begin);
    float* panel = packed + begin * depth;
    const int64_t real = std::min(width, s.out - begin);
    for (int64_t channel = 0; channel < s.in; ++channel)
      for (int64_t at = 0; at < area; ++at) {
        float* row = panel + (at * s.in + channel) * width;
        const float* from = weight + begin * depth + channel * area + at;
        for (int64_t o = 0; o < real; ++o) row[o] = from[o * depth];
        for (int64_t o = real; o < width; ++o) row[o] = 0;
      }
  }
}

// For each kernel position, panel after panel of input channels: `out` rows of `width` floats.
void pack_backward(const ConvShape& s, const float* weight, float* packed) {
  const int64_t area = s.kernel * s.kernel, lanes = s.in_lanes();
  for (int64_t begin = 0, width; begin < lanes; begin += width) {
    width = panel_width(lanes, begin);
    const int64_t real = std::min(width, s.in - begin);
    for (int64_t o = 0; o < s.out; ++o) {
      const float* from = weight + (o * s.in + begin) * area;
      float* row = packed + begin * s.out + o * width;
      for (int64_t at = 0; at < area; ++at, row += s.out * lanes) {
        for (int64_t i = 0; i < real; ++i) row[i] = from[i * area + at];
        for (int64_t i = real; i < width; ++i) row[i] = 0;
      }
    }
  }
}

void unpack_grad(const ConvShape& s, const float* weight_grad, float* weight) {
  const int64_t area = s.kernel * s.kernel, depth = s.depth(), lanes = s.out_lanes();
  for (int64_t channel = 0; channel < s.in; ++channel)
    for (int64_t at = 0; at < area; ++at) {
      const float* row = weight_grad + (at * s.in + channel) * lanes;
      float* to = weight + channel * area + at;
      for (int64_t o = 0; o < s.out; ++o) to[o * depth] = row[o];
    }
}

/// Walks over output pixels of several images: where its window starts in the input.
struct PixelWalk {
  const ConvShape& s;
  int64_t unit;  // floats a pixel of the buffer walked over
  int64_t row = 0, column = 0, offset = 0;
  PixelWalk(const ConvShape& shape, int64_t floats) : s(shape), unit(floats) {}
  int64_t next() {
    const int64_t here = offset;
    offset += unit;
    if (++column == s.out_w) {
      column = 0, offset += (s.width - s.out_w) * unit;
      if (++row == s.out_h) row = 0, offset += (s.height - s.out_h) * s.width * unit;
    }
    return here;
  }
};

// One vector of columns: tiles stay within a row of pixels, whose windows are `in` floats apart.
void conv_forward_narrow(const ConvShape& s, int64_t images, const float* x, const float* packed,
                         float* y) {
  const int64_t lanes = s.out_lanes();
  const Pieces pieces(s.out_w, kMostRows[1]);
  RowTile t{{}, s.kernel, s.kernel * s.in, s.width * s.in, packed, lanes, {}, false};
  for (int64_t line = 0; line < images * s.out_h; ++line) {
    const int64_t image = line / s.out_h, row = line % s.out_h;
    const float* start = x + image * s.input_size() + row * s.width * s.in;
    for (int64_t i = 0; i < pieces.count; ++i) {
      t.a[0] = start + pieces.begin(i) * s.in;
      float* out = y + (line * s.out_w + pieces.begin(i)) * lanes;
      for (int64_t j = 0; j < pieces.size(i); ++j) t.c[j] = out + j * lanes;
      tile_of(lanes, pieces.size(i), t, s.in);
    }
  }
}

void conv_forward(const ConvShape& s, int64_t images, const float* x, const float* packed,
                  float* y) {
  const int64_t lanes = s.out_lanes(), pixels = images * s.out_h * s.out_w;
  if (lanes <= kWide) return conv_forward_narrow(s, images, x, packed, y);
  for (int64_t begin = 0, width; begin < lanes; begin += width) {
    width = panel_width(lanes, begin);
    const Pieces pieces(pixels, most_rows(width));
    RowTile t{{}, s.kernel, s.kernel * s.in, s.width * s.in, packed + begin * s.depth(), width,
              {}, false};
    PixelWalk walk(s, s.in);
    for (int64_t i = 0; i < pieces.count; ++i) {
      float* out = y + pieces.begin(i) * lanes + begin;
      for (int64_t j = 0; j < pieces.size(i); ++j)
        t.a[j] = x + walk.next(), t.c[j] = out + j * lanes;
      tile_of(width, pieces.size(i), t, 0);
    }
  }
}

void conv_weight_grad(const ConvShape& s, int64_t images, const float* x, const float* y_grad,
                      float* weight_grad) {
  const int64_t lanes = s.out_lanes(), run = s.kernel * s.in;
  const Pieces pieces(run, most_rows(panel_width(lanes, 0)));
  for (int64_t k = 0; k < s.kernel; ++k) {
    for (int64_t i = 0; i < pieces.count; ++i)
      for (int64_t begin = 0, width; begin < lanes; begin += width) {
        width = panel_width(lanes, begin);
        const int64_t first = pieces.begin(i);
        tile_of(width, pieces.size(i),
                ColumnTile{x + k * s.width * s.in + first, images, s.input_size(), s.out_h,
                           s.width * s.in, s.out_w, s.in, y_grad + begin, lanes,
                           weight_grad + (k * run + first) * lanes + begin, lanes, true});
      }
  }
}

void conv_input_grad(const ConvShape& s, int64_t images, const float* y_grad, const float* packed,
                     float* x_grad) {
  const int64_t in_lanes = s.in_lanes(), out_lanes = s.out_lanes();
  for (int64_t begin = 0, width; begin < in_lanes; begin += width) {
    width = panel_width(in_lanes, begin);
    const Pieces pieces(images * s.out_h * s.out_w, most_rows(width));
    RowTile t{{}, 1, s.out, 0, nullptr, width, {}, true};
    PixelWalk walk(s, in_lanes);
    for (int64_t i = 0; i < pieces.count; ++i) {
      const float* from = y_grad + pieces.begin(i) * out_lanes;
      for (int64_t j = 0; j < pieces.size(i); ++j)
        t.a[j] = from + j * out_lanes, t.c[j] = x_grad + walk.next() + begin;
      for (int64_t at = 0; at < s.kernel * s.kernel; ++at) {
        t.b = packed + (at * in_lanes + begin) * s.out;
        t.shift = (at / s.kernel * s.width + at % s.kernel) * in_lanes;
        tile_of(width, pieces.size(i), t, out_lanes);
      }
    }
  }
}

template <int W, int P, bool kNorm>
void pool_forward_of(const ConvShape& s, int64_t images, const float* y, const BatchScale& norm,
                     const float* bias, const Plane<float>& out, int32_t* winner) {
  const int64_t lanes = s.out_lanes();
  for (int64_t image = 0; image < images; ++image)
    for (int64_t row = 0; row < s.pooled_h; ++row)
      for (int64_t column = 0; column < s.pooled_w; ++column, winner += lanes) {
        const int64_t corner = (row * s.out_w + column) * s.pool_stride;
        const float* from = y + image * s.output_size() + corner * lanes;
        float* to = out.first + image * out.image + row * out.row + column * out.pixel;
        for (int64_t c = 0; c < lanes; c += W) {
          Vec<W> best = vec<W>(from + c), mean, scale;
          if constexpr (kNorm) {
            mean = vec<W>(norm.mean + c), scale = vec<W>(norm.scale + c);
            best = (best - mean) * scale;
          }
          VecInt<W> where{};
#pragma GCC unroll 9
          for (int j = 1; j < P * P; ++j) {
            Vec<W> v = vec<W>(from + (j / P * s.out_w + j % P) * lanes + c);
            if constexpr (kNorm) v = (v - mean) * scale;
            const VecInt<W> keep = v <= best;
            best = keep ? best : v;
            where = keep ? where : VecInt<W>{} + j;
          }
          best += vec<W>(bias + c);
          const VecInt<W> off = best <= 0.0f;
          *reinterpret_cast<typename Lanes<W>::IntAt*>(winner + c) = off ? VecInt<W>{} - 1 : where;
          best = off ? Vec<W>{} : best;
          // Lanes beyond the last channel fall on pixels of this row that are still to be written.
          const int64_t beyond = c + W - s.out;
          if (beyond <= (s.pooled_w - 1 - column) * out.pixel) {
            vec<W>(to + c) = best;
          } else {
            for (int64_t i = 0; i < s.out - c; ++i) to[c + i] = best[i];
          }
        }
      }
}

template <int W, bool kNorm>
void pool_forward_by(const ConvShape& s, int64_t images, const float* y, const BatchScale& norm,
                     const float* bias, const Plane<float>& out, int32_t* winner) {
  if (s.pool == 1) return pool_forward_of<W, 1, kNorm>(s, images, y, norm, bias, out, winner);
  if (s.pool == 2) return pool_forward_of<W, 2, kNorm>(s, images, y, norm, bias, out, winner);
  pool_forward_of<W, 3, kNorm>(s, images, y, norm, bias, out, winner);
}
void pool_forward(const ConvShape& s, int64_t images, const float* y, const float* bias,
                  const Plane<float>& out, int32_t* winner) {
  if (s.out_lanes() % kWide == 0)
    return pool_forward_by<kWide, false>(s, images, y, {}, bias, out, winner);
  pool_forward_by<kVector, false>(s, images, y, {}, bias, out, winner);
}
void batch_pool_forward(const ConvShape& s, int64_t images, const float* y, const BatchScale& norm,
                        const float* bias, const Plane<float>& out, int32_t* winner) {
  if (s.out_lanes() % kWide == 0)
    return pool_forward_by<kWide, true>(s, images, y, norm, bias, out, winner);
  pool_forward_by<kVector, true>(s, images, y, norm, bias, out, winner);
}

template <int W, int P, bool kOverlap>
void pool_backward_of(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                      const int32_t* winner, float* y_grad, float* bias_grad) {
  const int64_t lanes = s.out_lanes();
  for (int64_t image = 0; image < images; ++image)
    for (int64_t row = 0; row < s.pooled_h; ++row)
      for (int64_t column = 0; column < s.pooled_w; ++column, winner += lanes) {
        const int64_t corner = (row * s.out_w + column) * s.pool_stride;
        float* to = y_grad + image * s.output_size() + corner * lanes;
        const float* from = grad.first + image * grad.image + row * grad.row + column * grad.pixel;
        for (int64_t c = 0; c < lanes; c += W) {
          const VecInt<W> where = *reinterpret_cast<const typename Lanes<W>::IntAt*>(winner + c);
          const Vec<W> g = where < 0 ? Vec<W>{} : Vec<W>(vec<W>(from + c));
          vec<W>(bias_grad + c) += g;
#pragma GCC unroll 9
          for (int j = 0; j < P * P; ++j) {
            float* at = to + (j / P * s.out_w + j % P) * lanes + c;
            const Vec<W> share = where == j ? g : Vec<W>{};
            vec<W>(at) = kOverlap ? Vec<W>(vec<W>(at) + share) : share;
          }
        }
      }
}

template <int W>
void pool_backward_by(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                      const int32_t* winner, float* y_grad, float* bias_grad) {
  const bool overlap = s.pool_stride < s.pool;
  if (s.pool == 1) return pool_backward_of<W, 1, false>(s, images, grad, winner, y_grad, bias_grad);
  if (s.pool == 2) {
    return overlap ? pool_backward_of<W, 2, true>(s, images, grad, winner, y_grad, bias_grad)
                   : pool_backward_of<W, 2, false>(s, images, grad, winner, y_grad, bias_grad);
  }
  return overlap ? pool_backward_of<W, 3, true>(s, images, grad, winner, y_grad, bias_grad)
                 : pool_backward_of<W, 3, false>(s, images, grad, winner, y_grad, bias_grad);
}
void pool_backward(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                   const int32_t* winner, float* y_grad, float* bias_grad) {
  const bool covered =
      s.pool_stride == s.pool && s.pooled_h * s.pool == s.out_h && s.pooled_w * s.pool == s.out_w;
  if (!covered) std::fill_n(y_grad, images * s.output_size(), 0.0f);
  TESSERA_BY_WIDTH(s.out_lanes(), pool_backward_by, s, images, grad, winner, y_grad, bias_grad);
}

template <int W>
void batch_moments_by(int64_t pixels, int64_t lanes, const float* y, float* mean, float* squares) {
  const float share = 1.0f / static_cast<float>(pixels);
  const int64_t whole = pixels / 4 * 4;
  for (int64_t c = 0; c < lanes; c += W) {
    Vec<W> sum[4] = {}, square[4] = {};  // one sum would wait for itself
    for (int64_t i = 0; i < whole; i += 4)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] += vec<W>(y + (i + j) * lanes + c);
    for (int64_t i = whole; i < pixels; ++i) sum[0] += vec<W>(y + i * lanes + c);
    const Vec<W> middle = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * share;
    for (int64_t i = 0; i < whole; i += 4)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Vec<W> off = vec<W>(y + (i + j) * lanes + c) - middle;
        square[j] += off * off;
      }
    for (int64_t i = whole; i < pixels; ++i) {
      const Vec<W> off = vec<W>(y + i * lanes + c) - middle;
      square[0] += off * off;
    }
    vec<W>(mean + c) = middle;
    vec<W>(squares + c) = (square[0] + square[1]) + (square[2] + square[3]);
  }
}
void batch_moments(int64_t pixels, int64_t lanes, const float* y, float* mean, float* squares) {
  TESSERA_BY_WIDTH(lanes, batch_moments_by, pixels, lanes, y, mean, squares);
}

template <int W, int P>
void batch_pool_sums_of(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                        const int32_t* winner, const float* y, const float* mean, float* plain,
                        float* along) {
  const int64_t lanes = s.out_lanes();
  std::fill_n(plain, lanes, 0.0f), std::fill_n(along, lanes, 0.0f);
  for (int64_t image = 0; image < images; ++image)
    for (int64_t row = 0; row < s.pooled_h; ++row)
      for (int64_t column = 0; column < s.pooled_w; ++column, winner += lanes) {
        const int64_t corner = (row * s.out_w + column) * s.pool_stride;
        const float* window = y + image * s.output_size() + corner * lanes;
        const float* from = grad.first + image * grad.image + row * grad.row + column * grad.pixel;
        for (int64_t c = 0; c < lanes; c += W) {
          const VecInt<W> where = *reinterpret_cast<const typename Lanes<W>::IntAt*>(winner + c);
          const Vec<W> g = where < 0 ? Vec<W>{} : Vec<W>(vec<W>(from + c));
          Vec<W> best = vec<W>(window + c);
#pragma GCC unroll 9
          for (int j = 1; j < P * P; ++j) {
            const Vec<W> v = vec<W>(window + (j / P * s.out_w + j % P) * lanes + c);
            best = where == j ? v : best;
          }
          vec<W>(plain + c) += g;
          vec<W>(along + c) += g * (best - vec<W>(mean + c));
        }
      }
}
template <int W>
void batch_pool_sums_by(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                        const int32_t* winner, const float* y, const float* mean, float* plain,
                        float* along) {
  if (s.pool == 1) return batch_pool_sums_of<W, 1>(s, images, grad, winner, y, mean, plain, along);
  if (s.pool == 2) return batch_pool_sums_of<W, 2>(s, images, grad, winner, y, mean, plain, along);
  batch_pool_sums_of<W, 3>(s, images, grad, winner, y, mean, plain, along);
}
void batch_pool_sums(const ConvShape& s, int64_t images, const Plane<const float>& grad,
                     const int32_t* winner, const float* y, const float* mean, float* plain,
                     float* along) {
  TESSERA_BY_WIDTH(s.out_lanes(), batch_pool_sums_by, s, images, grad, winner, y, mean, plain,
                   along);
}

template <int W>
void batch_input_grad_by(int64_t pixels, int64_t lanes, const float* y, const BatchScale& norm,
                         const float* plain, const float* along, float* grad) {
  for (int64_t c = 0; c < lanes; c += W) {
    const Vec<W> mean = vec<W>(norm.mean + c), scale = vec<W>(norm.scale + c);
    const Vec<W> level = vec<W>(plain + c), tilt = vec<W>(along + c);
    for (int64_t i = c; i < pixels * lanes; i += lanes)
      vec<W>(grad + i) = scale * (vec<W>(grad + i) - level - (vec<W>(y + i) - mean) * tilt);
  }
}
void batch_input_grad(int64_t pixels, int64_t lanes, const float* y, const BatchScale& norm,
                      const float* plain, const float* along, float* grad) {
  TESSERA_BY_WIDTH(lanes, batch_input_grad_by, pixels, lanes, y, norm, plain, along, grad);
}
