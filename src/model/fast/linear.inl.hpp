// Fully connected layers on out×in weights as they are: nothing is packed but the batch.

TESSERA_INLINE float sum_of(const Vec& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
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

/// B samples × O outputs, each a dot product along adjacent floats of both operands.
template <int B, int O>
void dot_tile(const DotTile& t) {
  Vec acc[B][O] = {};
  const int64_t in = t.in, whole = in / kVector * kVector;
  for (int64_t k = 0; k < whole; k += kVector) {
    Vec x[B];
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) x[b] = vec(t.x + b * in + k);
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) {
      const Vec w = vec(t.weight + o * in + k);
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) acc[b][o] += x[b] * w;
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) {
      float sum = sum_of(acc[b][o]);
      for (int64_t k = whole; k < in; ++k) sum += t.x[b * in + k] * t.weight[o * in + k];
      sum += t.bias[o];
      t.y[b * t.y_row + o] = t.relu && sum <= 0 ? 0.0f : sum;
    }
}

template <int B>
void dot_tile_of(int64_t outputs, const DotTile& t) {
  switch (outputs) {
    case 1:
      return dot_tile<B, 1>(t);
    case 2:
      return dot_tile<B, 2>(t);
    case 3:
      return dot_tile<B, 3>(t);
    default:
      return dot_tile<B, 4>(t);
  }
}

void linear_forward(int64_t n, int64_t in, int64_t out, const float* x, const float* weight,
                    const float* bias, bool relu, float* y) {
  constexpr int64_t kCache = 32 * 1024;  // floats of the batch that stay close while weights pass
  const Pieces blocks(n, std::max<int64_t>(12, kCache / in)), outputs(out, 4);
  for (int64_t block = 0; block < blocks.count; ++block) {
    const Pieces samples(blocks.size(block), 3);
    for (int64_t j = 0; j < outputs.count; ++j)
      for (int64_t i = 0; i < samples.count; ++i) {
        const int64_t b = blocks.begin(block) + samples.begin(i), o = outputs.begin(j);
        const DotTile t{in, x + b * in, weight + o * in, bias + o, relu, y + b * out + o, out};
        if (samples.size(i) == 1)
          dot_tile_of<1>(outputs.size(j), t);
        else if (samples.size(i) == 2)
          dot_tile_of<2>(outputs.size(j), t);
        else
          dot_tile_of<3>(outputs.size(j), t);
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
        vec(scratch + k * n + b * width + v) = vec(x + b * in + k + v);
  }
  const Pieces rows(out, whole == kVector ? kMostRows[1] : 6);
  for (int64_t i = 0; i < rows.count; ++i)
    for (int64_t k = 0, width; k < whole; k += width) {
      width = panel_width(whole, k);
      const Pieces parts(rows.size(i), kMostRows[width / kVector]);
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
  const Pieces samples(n, 6), blocks(out, 16);  // 16 rows of weights at a time, read once, in order
  for (int64_t block = 0; block < blocks.count; ++block) {
    const int64_t o = blocks.begin(block);
    for (int64_t k = 0, width; k < whole; k += width) {
      width = panel_width(whole, k);
      for (int64_t i = 0; i < samples.count; ++i) {
        const Pieces parts(samples.size(i), std::min(6, kMostRows[width / kVector]));
        for (int64_t j = 0; j < parts.count; ++j) {
          const int64_t b = samples.begin(i) + parts.begin(j);
          RowTile t{{}, 1, blocks.size(block), 0, weight + o * in + k, in, {}, block > 0};
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
