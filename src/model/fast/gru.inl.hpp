// Gated recurrent units, a step at a time; every h is a multiple of 8.

/// 1 / (1 + e^−x), in place.
template <int W>
TESSERA_INLINE void sigmoid(Vec<W>& x) {
  Vec<W> e = -x;
  exponential<W>(e);
  x = 1.0f / (1.0f + e);
}
/// In place; to about 1e-7 absolutely, which is what the sum behind it needs.
template <int W>
TESSERA_INLINE void tangent(Vec<W>& x) {
  Vec<W> e = -2.0f * x;
  exponential<W>(e);
  x = (1.0f - e) / (1.0f + e);
}

template <int W>
void gru_gates_by(int64_t n, int64_t h, float* gates, const float* recurrent, const float* before,
                  float* after) {
  for (int64_t i = 0; i < n; ++i, gates += 3 * h, recurrent += h, before += h, after += h)
    for (int64_t k = 0; k < h; k += W) {
      Vec<W> reset = vec<W>(gates + k), update = vec<W>(gates + h + k);
      sigmoid<W>(reset), sigmoid<W>(update);
      Vec<W> proposal = vec<W>(gates + 2 * h + k) + reset * vec<W>(recurrent + k);
      tangent<W>(proposal);
      vec<W>(gates + k) = reset, vec<W>(gates + h + k) = update;
      vec<W>(gates + 2 * h + k) = proposal;
      vec<W>(after + k) = proposal + update * (vec<W>(before + k) - proposal);
    }
}

void gru_forward_step(int64_t n, int64_t h, const float* weight, const float* bias,
                      const float* before, float* gates, float* recurrent, float* after) {
  for (int64_t i = 0; i < n; ++i) std::copy_n(bias, h, recurrent + i * h);
  product(n, h, 2 * h, {before, h}, {weight, 3 * h}, {gates, 3 * h}, true);
  product(n, h, h, {before, h}, {weight + 2 * h, 3 * h}, {recurrent, h}, true);
  TESSERA_BY_WIDTH(h, gru_gates_by, n, h, gates, recurrent, before, after);
}

template <int W>
void gru_gates_back_by(int64_t n, int64_t h, const float* gates, const float* recurrent,
                       const float* before, float* state, float* from_input, float* from_state) {
  for (int64_t i = 0; i < n; ++i, gates += 3 * h, recurrent += h, before += h, state += h,
               from_input += 3 * h, from_state += 3 * h)
    for (int64_t k = 0; k < h; k += W) {
      const Vec<W> reset = vec<W>(gates + k), update = vec<W>(gates + h + k);
      const Vec<W> proposal = vec<W>(gates + 2 * h + k), grad = vec<W>(state + k);
      const Vec<W> inner = grad * (1.0f - update) * (1.0f - proposal * proposal);
      const Vec<W> to_reset = inner * vec<W>(recurrent + k) * reset * (1.0f - reset);
      const Vec<W> to_update = grad * (vec<W>(before + k) - proposal) * update * (1.0f - update);
      vec<W>(from_input + k) = to_reset, vec<W>(from_state + k) = to_reset;
      vec<W>(from_input + h + k) = to_update, vec<W>(from_state + h + k) = to_update;
      vec<W>(from_input + 2 * h + k) = inner, vec<W>(from_state + 2 * h + k) = inner * reset;
      vec<W>(state + k) = grad * update;
    }
}

void gru_backward_step(int64_t n, int64_t h, const float* weight, const float* gates,
                       const float* recurrent, const float* before, float* state, float* from_input,
                       float* from_state) {
  TESSERA_BY_WIDTH(h, gru_gates_back_by, n, h, gates, recurrent, before, state, from_input,
                   from_state);
  if (weight) product(n, 3 * h, h, {from_state, 3 * h}, {weight, h}, {state, h}, true);
}
