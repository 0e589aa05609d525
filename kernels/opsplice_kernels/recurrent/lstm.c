// All steps of a recurrent layer with long short-term memory (LSTM), in one dispatch:
//   i, o, f = sigmoid of, g = tanh of:  given[t, row, gate] + sum over j of h[t - 1, row, j] * r[gate, j] + b[gate] + b[4 n + gate],
//   c[t] = f * c[t - 1] + i * g,  h[t] = o * tanh(c[t]).
// given[d, t, row, gate] is what the input adds, for each direction: the first goes forward, the second backward. r is
// [d][4 n / 16][n][16]; n is a multiple of 16. y[t, d, row, n] has all h, last_h and last_c those of the last step.
//
// A block of columns has its gates in registers, for a few rows at once, so nothing but h and c is stored. With AVX2 three rows have two of
// the gates at once, and one row and three have two vectors of each: sums of fewer would wait for the ones before them.
//
// Grid: (ceildiv(m, 5), d); a workgroup does 5 rows.
#include "gates.h"

enum { SHARE = 5, GATES = 4, WIDTH = 16, PLACES = 252, SIDE = LANES == 8 ? 2 : 1 };
#if LANES == 16 || defined(__aarch64__)
enum { AT_ONCE = SHARE };
#else
enum { AT_ONCE = LANES == 8 ? 3 : 2 };
#endif

typedef struct {
  const float *given, *r, *b, *h, *c;  // h and c of the step before
  float *h_out, *c_out;
  size_t n;
} step;

// sums[p][q][v] of gate q of row p and vector v of a block of columns, for `count` gates from one on.
INLINE void some_gates(const int rows, const int first, const int count, const int side, const step *of, size_t column,
                       floats sums[][GATES][SIDE]) {
  const size_t n = of->n, gate = n * n;
  floats each[AT_ONCE][GATES][SIDE];
  UNROLL for (int q = 0; q < count; q++) UNROLL for (int v = 0; v < side; v++) {
    const size_t at = (first + q) * n + column + v * LANES;
    const floats bias = load(of->b + at) + load(of->b + at + GATES * n);
    UNROLL for (int p = 0; p < rows; p++) each[p][q][v] = load(of->given + p * GATES * n + at) + bias;
  }
  const float *w = of->r + first * gate + column / WIDTH * WIDTH * n + column % WIDTH;
  for (size_t j = 0; j < n; j++, w += WIDTH)
    UNROLL for (int q = 0; q < count; q++) UNROLL for (int v = 0; v < side; v++) {
      const floats weights = load(w + q * gate + v * LANES);
      UNROLL for (int p = 0; p < rows; p++) each[p][q][v] += weights * of->h[p * n + j];
    }
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int q = 0; q < count; q++)
    UNROLL for (int v = 0; v < side; v++) sums[p][first + q][v] = each[p][q][v];
}

INLINE void block(const int rows, const int together, const int side, const step *of, size_t column) {
  floats sums[AT_ONCE][GATES][SIDE];
  UNROLL for (int first = 0; first < GATES; first += together) some_gates(rows, first, together, side, of, column, sums);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < side; v++) {
    const size_t at = p * of->n + column + v * LANES;
    const floats in = sigmoid(sums[p][0][v]) * hyperbolic_tangent(sums[p][3][v]);
    const floats c = sigmoid(sums[p][2][v]) * load(of->c + at) + in;
    store(of->c_out + at, c);
    store(of->h_out + at, sigmoid(sums[p][1][v]) * hyperbolic_tangent(c));
  }
}

// A few rows at once do a block of columns, then the next rows, whose weights are in the nearest cache then.
static void some_rows(const step *of, size_t rows) {
  const size_t n = of->n;
  for (size_t column = 0; column < n; column += SIDE * LANES)
    for (size_t row = 0, count; row < rows; row += count) {
      const size_t left = rows - row;
      count = left / ((left + AT_ONCE - 1) / AT_ONCE);
      const step some = {of->given + row * GATES * n, of->r, of->b, of->h + row * n, of->c + row * n,
                         of->h_out + row * n, of->c_out + row * n, n};
#define BLOCK(rows, together, side) \
  case rows: for (size_t v = 0; v < SIDE; v += side) block(rows, together, side, &some, column + v * LANES); break;
      switch (count) {
        BLOCK(1, GATES, SIDE)
        BLOCK(2, GATES, 1)
#if LANES >= 8 || defined(__aarch64__)
        BLOCK(3, GATES / SIDE, SIDE)
#endif
#if LANES == 16 || defined(__aarch64__)
        BLOCK(4, GATES, 1)
        BLOCK(5, GATES, 1)
#endif
      }
    }
}

void opsplice_lstm(const float *given, const float *r, const float *b, const float *h, const float *c, float *y,
                   float *last_h, float *last_c, size_t d, size_t t, size_t m, size_t g, size_t p, size_t n, size_t gg,
                   size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  const size_t row = workgroup_x * SHARE, rows = least(SHARE, m - row), state = (workgroup_y * m + row) * n;
  r += workgroup_y * g * n, b += workgroup_y * gg, given += workgroup_y * t * m * g;
  step of = {given, r, b, h + state, c + state, last_h + state, last_c + state, n};
  for (size_t i = 0; i < t; i++) {
    const size_t at = workgroup_y ? t - 1 - i : i;
    of.given = given + (at * m + row) * g, of.h_out = y + ((at * d + workgroup_y) * m + row) * n;
    some_rows(&of, rows);
    of.h = of.h_out, of.c = of.c_out;
  }
  for (size_t i = 0; i < rows * n; i += LANES) {
    store(last_h + state + i, load(of.h + i));
    if (t == 0) store(last_c + state + i, load(of.c + i));
  }
}

// What the input adds to the gates of all steps: out[d, row, gate] = the sum over j of x[row, j] * w[d, gate, j], with w as
// [d][4 n / 32][k][32]. Grid: (p, ceildiv(t * m, 252), d).
void opsplice_lstm_input(const float *x, const float *w, float *out, size_t t, size_t m, size_t k, size_t d, size_t p,
                         size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) {
  (void)d;
  const size_t all = t * m, row = workgroup_y * PLACES, g = p * PANEL;
  product_with_panel(x + row * k, k, 1, k, w + (workgroup_z * p + workgroup_x) * k * PANEL, 0, 0,
                     out + (workgroup_z * all + row) * g + workgroup_x * PANEL, g, least(PLACES, all - row), PANEL);
}
