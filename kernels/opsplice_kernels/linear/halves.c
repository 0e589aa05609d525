// Products of f16 or of bf16 with packed weights, or with weights in any layout, summed in f32 and rounded once:
//   out[m, n] = activation(x[m, k] @ w + bias) * factor + rest,
// where bias, factor and rest may be null. A packed w is [n / 32][k / 2][32][2], the last panel and pair filled up with zeros.
//
// Grid: (ceildiv(n, 64), ceildiv(m, 168)); a workgroup does two panels of 32 columns by up to 168 rows. It widens a slice of all
// its rows for both panels, and of a panel for all rows. With AMX, 16 rows and more of bf16 with a k that 32 divides are
// multiplied in its registers where the system gives them. With a weight that is not packed a workgroup does one panel:
// (ceildiv(n, 32), ceildiv(m, 168)).
#include "../any_layout.h"
#include "../matrix_tiles.h"
#include "../vector_math.h"

enum { SHARE = 168, DEPTH = 64, PANELS = 2, AHEAD = 1024, WIDTH = PANEL / LANES };

typedef struct {
  const uint16_t *bias, *factor, *rest;
  int32_t which;
  size_t n, column, columns;  // of out, and of this panel
} epilogue;

INLINE ints load_pairs(const uint32_t *from) { return *(const ints_anywhere *)from; }

INLINE floats first_of_pair(const int kind, ints pairs) { return widened(kind, pairs & 0xffff); }

INLINE floats second_of_pair(const int kind, ints pairs) {
  return kind == BF16 ? (floats)(pairs & (int32_t)0xffff0000) : widened(kind, (pairs >> 16) & 0xffff);
}

// to[i * DEPTH + p] = x[i * k + p] for p < depth, 0 up to the end of the last vector.
INLINE void widen_rows(const int kind, const uint16_t *x, size_t k, size_t rows, size_t depth, float *to) {
  for (size_t i = 0; i < rows; i++, x += k, to += DEPTH)
    for (size_t p = 0; p < depth; p += LANES) store(to + p, load_halves(kind, x + p, depth - p));
}

INLINE void widen_panel(const int kind, const uint32_t *w, size_t pairs, float *to) {
  for (size_t p = 0; p < pairs; p++, w += PANEL, to += 2 * PANEL)
    UNROLL for (int v = 0; v < WIDTH; v++) {
      ints both = load_pairs(w + v * LANES);
      __builtin_prefetch(w + AHEAD + v * LANES);
      store(to + v * LANES, first_of_pair(kind, both));
      store(to + PANEL + v * LANES, second_of_pair(kind, both));
    }
}

// One row of sums: a panel is read from its beginning to its end.
INLINE void multiply_row(const int kind, const uint16_t *x, size_t k, const uint32_t *w, float *sums) {
  float wide[2 * DEPTH];
  floats first[WIDTH], second[WIDTH];
  UNROLL for (int v = 0; v < WIDTH; v++) first[v] = splat(0.0f);
  for (size_t at = 0; at < k; at += 2 * DEPTH) {
    const size_t depth = least(2 * DEPTH, k - at), pairs = (depth + 1) / 2;
    widen_rows(kind, x + at, k, 1, depth, wide);
    UNROLL for (int v = 0; v < WIDTH; v++) second[v] = splat(0.0f);
    for (size_t p = 0; p < pairs; p++, w += PANEL)
      UNROLL for (int v = 0; v < WIDTH; v++) {
        ints both = load_pairs(w + v * LANES);
        __builtin_prefetch(w + AHEAD + v * LANES);
        first[v] += first_of_pair(kind, both) * wide[2 * p];
        second[v] += second_of_pair(kind, both) * wide[2 * p + 1];
      }
    UNROLL for (int v = 0; v < WIDTH; v++) first[v] += second[v];
  }
  UNROLL for (int v = 0; v < WIDTH; v++) store(sums + v * LANES, first[v]);
}

// sums[p][i * PANEL + c] of row i and column c of panel p.
INLINE void multiply_rows(const int kind, const uint16_t *x, size_t k, const uint32_t *w, size_t k2, float *sums, size_t rows,
                          size_t panels) {
  // Vectors that lie across two lines of the cache would be read and written in twice the time.
  float panel[DEPTH * PANEL] __attribute__((aligned(64))), wide[SHARE * DEPTH] __attribute__((aligned(64)));
  for (size_t p = 0; p < panels; p++)
    for (size_t i = 0; i < rows * PANEL; i += LANES) store(sums + p * SHARE * PANEL + i, splat(0.0f));
  for (size_t at = 0; at < k; at += DEPTH) {
    const size_t depth = least(DEPTH, k - at), pairs = (depth + 1) / 2;
    widen_rows(kind, x + at, k, rows, depth, wide);
    for (size_t p = 0; p < panels; p++) {
      float *to = sums + p * SHARE * PANEL;
      widen_panel(kind, w + (p * k2 + at / 2) * PANEL, pairs, panel);
      product_with_panel(wide, DEPTH, 1, depth, panel, to, PANEL, to, PANEL, rows, PANEL);
    }
  }
}

INLINE void finish(const int kind, const epilogue *by, const float *sums, uint16_t *out, size_t row, size_t rows) {
  for (size_t i = 0; i < rows; i++, sums += PANEL)
    for (size_t c = 0; c < by->columns; c += LANES) {
      size_t column = by->column + c, at = (row + i) * by->n + column, left = by->columns - c;
      floats value = load(sums + c);
      if (by->bias) value += load_halves(kind, by->bias + column, left);
      value = activated((size_t)by->which, value);
      if (by->factor) value *= load_halves(kind, by->factor + at, left);
      if (by->rest) value += load_halves(kind, by->rest + at, left);
      store_halves(kind, out + at, value, left);
    }
}

#ifdef HAS_MATRICES_OF_BF16
static void half_matrices(const epilogue *by, const uint16_t *x, size_t k, const uint32_t *w, uint16_t *out, size_t row,
                          size_t rows) {
  float sums[2 * MATRIX_ROWS * PANEL] __attribute__((aligned(64))), start[PANEL] __attribute__((aligned(64)));
  for (size_t c = 0; c < PANEL; c += LANES) store(start + c, splat(0.0f));
  for (size_t i = 0; i < rows; i += 2 * MATRIX_ROWS) {
    // The last ones again, where fewer are left.
    size_t first = row + least(i, rows - MATRIX_ROWS), second = row + least(i + MATRIX_ROWS, rows - MATRIX_ROWS);
    multiply_matrices(BF16_BY_BF16, x + first * k, x + second * k, 2 * k, w, 2 * k, 1, 0, start, sums);
    finish(BF16, by, sums, out, first, MATRIX_ROWS);
    finish(BF16, by, sums + MATRIX_ROWS * PANEL, out, second, MATRIX_ROWS);
  }
}
#endif

#ifdef __AVX512BF16__
// Two products at once, of pairs as these lie: sums[i * PANEL + c] of up to ROWS rows, to which it `adds`. Numbers with a denormal are 0, as
// with AMX.
INLINE void pairs_tile(const int rows, const int adds, const uint16_t *x, size_t row, const uint32_t *w, size_t pairs, float *to) {
  floats sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++)
    sums[p][v] = adds ? load(to + p * PANEL + v * LANES) : splat(0.0f);
  const uint8_t *from[(ROWS + 2) / 3];
  row *= sizeof(uint16_t);
  begin_threes(rows, x, row, from);
  ROLLED for (size_t i = 0; i < pairs; i++, w += PANEL) {
    ints weights[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load_pairs(w + v * LANES);
    UNROLL for (int p = 0; p < rows; p++) {
      int32_t pair;
      __builtin_memcpy(&pair, from[p / 3] + p % 3 * row, 4);
      const ints both = pair - (ints){0};
      UNROLL for (int v = 0; v < VECTORS; v++)
        sums[p][v] = (floats)_mm512_dpbf16_ps((__m512)sums[p][v], (__m512bh)both, (__m512bh)weights[v]);
    }
    advance_threes(rows, from, 4);
  }
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) store(to + p * PANEL + v * LANES, sums[p][v]);
}

static int has_pairs(int kind, size_t rows, size_t k) { return kind == BF16 && rows > 1 && k % (2 * LANES) == 0; }

static void multiply_pairs(const int adds, const uint16_t *x, size_t k, const uint32_t *w, size_t pairs, float *sums, size_t rows) {
  for (size_t i = 0, count; i < rows; i += count) {
    const size_t left = rows - i;
    count = left / ((left + ROWS - 1) / ROWS);
#define PAIRS_TILE(p) pairs_tile(p, adds, x + i * k, k, w, pairs, sums + i * PANEL)
    FOR_ROWS(count, PAIRS_TILE)
  }
}
#endif

INLINE void half_linear(const int kind, const uint16_t *x, const uint32_t *w, const uint16_t *bias,
                        const uint16_t *factor, const uint16_t *rest, int32_t which, uint16_t *out, size_t m, size_t k,
                        size_t p, size_t k2, size_t n, size_t workgroup_x, size_t workgroup_y) {
  const size_t from = workgroup_x * PANELS, panels = least(PANELS, p - from), row = share_from(m, SHARE, workgroup_y);
  const size_t rows = share_from(m, SHARE, workgroup_y + 1) - row;
  epilogue by[PANELS];
  for (size_t i = 0, column = from * PANEL; i < panels; i++, column += PANEL)
    by[i] = (epilogue){bias, factor, rest, which, n, column, least(PANEL, n - column)};
  w += from * k2 * PANEL;
#ifdef HAS_MATRICES_OF_BF16
  if (kind == BF16 && rows >= MATRIX_ROWS && 2 * k % MATRIX_BYTES == 0 && begin_matrices()) {
    for (size_t i = 0; i < panels; i++) half_matrices(by + i, x, k, w + i * k2 * PANEL, out, row, rows);
    end_matrices();
    return;
  }
#endif
  float sums[PANELS * SHARE * PANEL] __attribute__((aligned(64)));
#ifdef __AVX512BF16__
  if (has_pairs(kind, rows, k))
    for (size_t i = 0; i < panels; i++) multiply_pairs(0, x + row * k, k, w + i * k2 * PANEL, k2, sums + i * SHARE * PANEL, rows);
  else
#endif
  if (rows == 1)
    for (size_t i = 0; i < panels; i++) multiply_row(kind, x + row * k, k, w + i * k2 * PANEL, sums + i * SHARE * PANEL);
  else multiply_rows(kind, x + row * k, k, w, k2, sums, rows, panels);
  for (size_t i = 0; i < panels; i++) finish(kind, by + i, sums + i * SHARE * PANEL, out, row, rows);
}

#define HALF_LINEAR(name, kind) \
  void name(const uint16_t *x, const uint32_t *w, const uint16_t *bias, const uint16_t *factor, const uint16_t *rest, \
            int32_t which, uint16_t *out, size_t m, size_t k, size_t p, size_t k2, size_t n, size_t workgroup_x, \
            size_t workgroup_y) { \
    half_linear(kind, x, w, bias, factor, rest, which, out, m, k, p, k2, n, workgroup_x, workgroup_y); \
  }
HALF_LINEAR(opsplice_half_linear_f16, F16)
HALF_LINEAR(opsplice_half_linear_bf16, BF16)

// One row by weights whose k lie side by side: `columns` of them, up to LANES, each a row of w.
INLINE void multiply_columns(const int kind, const uint16_t *x, const uint16_t *w, size_t column, size_t columns, size_t k, float *sums) {
  floats each[LANES];
  const uint16_t *from[LANES];
  UNROLL for (size_t c = 0; c < LANES; c++) from[c] = w + least(c, columns - 1) * column, each[c] = splat(0.0f);
  size_t at = 0;
  for (; at + LANES <= k; at += LANES) {
    const floats value = load_halves(kind, x + at, LANES);
    UNROLL for (int c = 0; c < LANES; c++) each[c] += load_halves(kind, from[c] + at, LANES) * value;
  }
  if (at < k) {
    const floats value = load_halves(kind, x + at, k - at);
    UNROLL for (int c = 0; c < LANES; c++) each[c] += load_halves(kind, from[c] + at, k - at) * value;
  }
  store(sums, sums_of_rows(each));
}

INLINE void half_linear_unpacked(const int kind, const uint16_t *x, const uint16_t *w, const epilogue *by, uint16_t *out, size_t row,
                                 size_t rows, size_t k, size_t w_k, size_t w_n) {
  float panel[DEPTH * PANEL] __attribute__((aligned(64))), wide[SHARE * DEPTH] __attribute__((aligned(64)));
  float sums[SHARE * PANEL] __attribute__((aligned(64)));
  x += row * k, w += by->column * w_n;
#ifdef __AVX512BF16__
  if (has_pairs(kind, rows, k) && w_k == 1 && w_n % 2 == 0) {
    for (size_t at = 0; at < k; at += 2 * DEPTH) {
      const size_t pairs = least(2 * DEPTH, k - at) / 2;
      pack_panel((const float *)(w + at), w_n / 2, 1, by->columns, pairs, panel);
      multiply_pairs(at > 0, x + at, k, (const uint32_t *)panel, pairs, sums, rows);
    }
  } else
#endif
  if (rows == 1 && w_k == 1)
    for (size_t c = 0; c < by->columns; c += LANES)
      multiply_columns(kind, x, w + c * w_n, w_n, least(LANES, by->columns - c), k, sums + c);
  else
    for (size_t at = 0; at < k; at += DEPTH) {
      const size_t depth = least(DEPTH, k - at);
      pack(kind, w + at * w_k, w_n, w_k, by->columns, depth, panel);
      widen_rows(kind, x + at, k, rows, depth, wide);
      product_with_panel(wide, DEPTH, 1, depth, panel, at ? sums : 0, PANEL, sums, PANEL, rows, by->columns);
    }
  finish(kind, by, sums, out, row, rows);
}

#define HALF_LINEAR_UNPACKED(name, kind) \
  void name(const uint16_t *x, const uint16_t *w, const uint16_t *bias, const uint16_t *factor, const uint16_t *rest, \
            int32_t which, uint16_t *out, size_t m, size_t k, size_t n, size_t w_k, size_t w_n, size_t workgroup_x, \
            size_t workgroup_y) { \
    const size_t column = workgroup_x * PANEL, row = share_from(m, SHARE, workgroup_y); \
    const epilogue by = {bias, factor, rest, which, n, column, least(PANEL, n - column)}; \
    half_linear_unpacked(kind, x, w, &by, out, row, share_from(m, SHARE, workgroup_y + 1) - row, k, w_k, w_n); \
  }
HALF_LINEAR_UNPACKED(opsplice_half_linear_unpacked_f16, F16)
HALF_LINEAR_UNPACKED(opsplice_half_linear_unpacked_bf16, BF16)
