// All steps of a layer of gated recurrent units (GRU), in one dispatch, whose reset gate multiplies what the state adds:
//   with in(q) = given[t, row, q] + b[q] and of(q) = sum over j of h[t - 1, row, j] * r[q, j] + b[3 n + q] for each gate q,
//   z, s = sigmoid(in + of),  new = tanh(in + s * of),  h[t] = z * h[t - 1] + (1 - z) * new.
// given[d, t, row, g] is what the input adds, for each direction: the first goes forward, the second backward; g is 3 n or
// more. r is [d][3 n / 16][n][16]; n is a multiple of 16. y[t, d, row, n] has all h, last_h those of the last step.
//
// Grid: (ceildiv(m, 4), d); a workgroup does 4 rows.
#include "gates.h"

enum { SHARE = 4, GATES = 3, WIDTH = 16, AT_ONCE = LANES == 16 ? SHARE : 2, SIDE = LANES == 16 ? 1 : 2 };

typedef struct {
  const float *given, *r, *b, *h;  // h of the step before
  float *out;
  size_t g, n;
} step;

INLINE void block(const int rows, const step *of, size_t column) {
  const size_t n = of->n, gate = n * n;
  floats sums[AT_ONCE][GATES][SIDE];
  UNROLL for (int q = 0; q < GATES; q++) UNROLL for (int v = 0; v < SIDE; v++)
    UNROLL for (int p = 0; p < rows; p++) sums[p][q][v] = load(of->b + (GATES + q) * n + column + v * LANES);
  const float *w = of->r + column / WIDTH * WIDTH * n + column % WIDTH;
  for (size_t j = 0; j < n; j++, w += WIDTH)
    UNROLL for (int q = 0; q < GATES; q++) UNROLL for (int v = 0; v < SIDE; v++) {
      const floats weights = load(w + q * gate + v * LANES);
      UNROLL for (int p = 0; p < rows; p++) sums[p][q][v] += weights * of->h[p * n + j];
    }
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < SIDE; v++) {
    const size_t at = column + v * LANES;
    floats in[GATES];
    UNROLL for (int q = 0; q < GATES; q++) in[q] = load(of->given + p * of->g + q * n + at) + load(of->b + q * n + at);
    const floats update = sigmoid(in[0] + sums[p][0][v]), reset = sigmoid(in[1] + sums[p][1][v]);
    const floats new = hyperbolic_tangent(in[2] + reset * sums[p][2][v]);
    store(of->out + p * n + at, update * load(of->h + p * n + at) + (1.0f - update) * new);
  }
}

#define EACH_BLOCK(rows) \
  for (size_t column = 0; column < of->n; column += SIDE * LANES) block(rows, of, column)
static void some_rows(const step *of, size_t rows) {
  switch (rows) {
    case 1: EACH_BLOCK(1); break;
    case 2: EACH_BLOCK(2); break;
#if LANES == 16
    case 3: EACH_BLOCK(3); break;
    case 4: EACH_BLOCK(4); break;
#endif
  }
}

void opsplice_gru(const float *given, const float *r, const float *b, const float *h, float *y, float *last_h, size_t d,
                  size_t t, size_t m, size_t g, size_t p, size_t n, size_t gg, size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  const size_t end = least(m, (workgroup_x + 1) * SHARE);
  r += workgroup_y * GATES * n * n, b += workgroup_y * gg, given += workgroup_y * t * m * g;
  for (size_t row = workgroup_x * SHARE, rows; row < end; row += rows) {
    rows = least(AT_ONCE, end - row);
    const size_t state = (workgroup_y * m + row) * n;
    step of = {given, r, b, h + state, 0, g, n};
    for (size_t i = 0; i < t; i++) {
      const size_t at = workgroup_y ? t - 1 - i : i;
      of.given = given + (at * m + row) * g, of.out = y + ((at * d + workgroup_y) * m + row) * n;
      some_rows(&of, rows);
      of.h = of.out;
    }
    for (size_t i = 0; i < rows * n; i += LANES) store(last_h + state + i, load(of.h + i));
  }
}
