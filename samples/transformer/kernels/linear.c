// Linear layers: out[m, n] = x[m, k] @ w + bias for k > 0, and the same followed by gelu in its tanh approximation.
//
// Each comes with two entry points for the two ways to keep weights: ..._kn takes w[k, n], as JAX has it, and ..._nk
// takes w[n, k], as PyTorch has it.
//
// Grid: (ceildiv(n, 32), ceildiv(m, 128)); a workgroup does a tile of 128 rows by 32 columns. It walks the tile by
// panels of a few columns: a slice of w of that width is first copied to the stack, where its rows lie side by side,
// and then every row of x in the tile is multiplied by it, a few rows at a time so that their sums stay in registers.
// Sums over slices of k are kept in `out`. The stack holds one slice, 16 KiB at most.
#include "vector.h"

enum { TILE_ROWS = 128, TILE_COLUMNS = 32, DEPTH = 128 };

// Sums in registers: ROWS x VECTORS of them, next to VECTORS of w and one of x.
#if LANES == 16
enum { ROWS = 8, VECTORS = 2 };
#elif LANES == 8
enum { ROWS = 6, VECTORS = 2 };
#elif defined(__aarch64__)
enum { ROWS = 8, VECTORS = 2 };
#else
enum { ROWS = 4, VECTORS = 2 };
#endif

enum { PANEL = VECTORS * LANES };

INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// gelu(x) = x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), and (1 + tanh(u)) / 2 = 1 / (1 + e^-2u),
// which loses no digits where tanh is near -1.
INLINE floats gelu(floats x) {
  floats minus_2u = x * (x * x * -0.0713548163f + -1.59576912f);
  return x / (exponential(minus_2u) + 1.0f);
}

// A slice of k within a panel of `columns` columns: the first one starts the sums, the last one finishes them.
typedef struct {
  const float *bias;
  size_t columns;
  int first;
  int last;
  int activate;
} stage;

// out[rows, columns] += x[rows, depth] @ panel[depth, PANEL]; n and k are the distances between rows of out and of x.
INLINE void multiply_rows(size_t rows, const float *x, size_t k, const float *panel, size_t depth, stage at, float *out,
                          size_t n) {
  floats sums[ROWS][VECTORS];
  for (size_t r = 0; r < rows; r++)
    for (size_t v = 0; v < VECTORS; v++) sums[r][v] = splat(0.0f);

  for (size_t p = 0; p < depth; p++) {
    floats w[VECTORS];
    for (size_t v = 0; v < VECTORS; v++) w[v] = load(panel + p * PANEL + v * LANES);
    for (size_t r = 0; r < rows; r++)
      for (size_t v = 0; v < VECTORS; v++) sums[r][v] += w[v] * x[r * k + p];
  }

  for (size_t v = 0; v < VECTORS && v * LANES < at.columns; v++) {
    size_t left = smaller(at.columns - v * LANES, LANES);
    floats bias = left == LANES ? load(at.bias + v * LANES) : load_some(at.bias + v * LANES, left, 0.0f);
    for (size_t r = 0; r < rows; r++) {
      float *to = out + r * n + v * LANES;
      floats sum = sums[r][v];
      if (!at.first) sum += left == LANES ? load(to) : load_some(to, left, 0.0f);
      if (at.last) sum += bias;
      if (at.last && at.activate) sum = gelu(sum);
      if (left == LANES) store(to, sum);
      else store_some(to, sum, left);
    }
  }
}

static void multiply_panel(const float *x, size_t m, size_t k, const float *panel, size_t depth, stage at, float *out,
                           size_t n) {
  size_t row = 0;
  for (; row + ROWS <= m; row += ROWS) multiply_rows(ROWS, x + row * k, k, panel, depth, at, out + row * n, n);
  for (; row + 4 <= m; row += 4) multiply_rows(4, x + row * k, k, panel, depth, at, out + row * n, n);
  for (; row < m; row++) multiply_rows(1, x + row * k, k, panel, depth, at, out + row * n, n);
}

// panel[depth, PANEL] = w[depth, columns], columns beyond the last are 0. n is the distance between rows of w.
static void copy_panel(const float *w, size_t n, size_t depth, size_t columns, float *panel) {
  for (size_t p = 0; p < depth; p++)
    for (size_t v = 0; v < VECTORS; v++) {
      const float *from = w + p * n + v * LANES;
      size_t left = columns > v * LANES ? columns - v * LANES : 0;
      store(panel + p * PANEL + v * LANES, left >= LANES ? load(from) : load_some(from, left, 0.0f));
    }
}

// panel[depth, PANEL] = w[columns, depth] transposed, columns beyond the last are 0. k is the distance between rows of
// w. Four by four at a time: one float after another would take a fifth of the time of the product.
static void transpose_panel(const float *w, size_t k, size_t depth, size_t columns, float *panel) {
  size_t square_columns = columns - columns % 4, square_depth = depth - depth % 4;
  for (size_t c = 0; c < square_columns; c += 4)
    for (size_t p = 0; p < square_depth; p += 4) transpose_4_by_4(w + c * k + p, k, panel + p * PANEL + c, PANEL);
  for (size_t c = 0; c < PANEL; c++)
    for (size_t p = c < square_columns ? square_depth : 0; p < depth; p++)
      panel[p * PANEL + c] = c < columns ? w[c * k + p] : 0.0f;
}

static void linear(int transposed, int activate, const float *x, const float *w, const float *bias, float *out,
                   size_t m, size_t k, size_t n, size_t workgroup_x, size_t workgroup_y) {
  float panel[DEPTH * PANEL] __attribute__((aligned(64)));
  size_t row = workgroup_y * TILE_ROWS, rows = smaller(TILE_ROWS, m - row);
  size_t end = smaller((workgroup_x + 1) * TILE_COLUMNS, n);
  for (size_t column = workgroup_x * TILE_COLUMNS; column < end; column += PANEL) {
    size_t columns = smaller(PANEL, end - column);
    for (size_t p = 0; p < k; p += DEPTH) {
      size_t depth = smaller(DEPTH, k - p);
      if (transposed) transpose_panel(w + column * k + p, k, depth, columns, panel);
      else copy_panel(w + p * n + column, n, depth, columns, panel);
      stage at = {bias + column, columns, p == 0, p + depth == k, activate};
      multiply_panel(x + row * k + p, rows, k, panel, depth, at, out + row * n + column, n);
    }
  }
}

void linear_bias_kn(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n,
                    size_t workgroup_x, size_t workgroup_y) {
  linear(0, 0, x, w, bias, out, m, k, n, workgroup_x, workgroup_y);
}

void linear_bias_nk(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n,
                    size_t workgroup_x, size_t workgroup_y) {
  linear(1, 0, x, w, bias, out, m, k, n, workgroup_x, workgroup_y);
}

void linear_bias_gelu_kn(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n,
                         size_t workgroup_x, size_t workgroup_y) {
  linear(0, 1, x, w, bias, out, m, k, n, workgroup_x, workgroup_y);
}

void linear_bias_gelu_nk(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n,
                         size_t workgroup_x, size_t workgroup_y) {
  linear(1, 1, x, w, bias, out, m, k, n, workgroup_x, workgroup_y);
}
