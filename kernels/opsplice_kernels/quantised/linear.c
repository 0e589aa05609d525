// Products of bytes with packed weights, scaled back to f32:
//   out[m, n] = (sum of (x[m, k] - zero) * (w[k, n] - middles[n] - middle)) * rows[m] * columns[n] * scale + bias[n],
// with x unsigned, or signed where `is_signed`, w as [n / 32][k / 4][32][4], filled up with zeros, and sums[n] the sum
// over k of w. middles, rows, columns and bias may be null. Or back to bytes, as QuantizeLinear of ONNX: out[m, n] =
// round(that / step) + middle within the numbers of a byte. With `positive` what is below 0 is 0 before. Or the sums
// themselves, which wrap around.
//
// With AMX, 16 rows and more of a k that 64 divides are multiplied in its registers where the system gives them.
//
// Grid: (p, ceildiv(m, 252)); a workgroup does a panel of 32 columns by 252 rows.
#include "../byte_tile.h"
#include "../matrix_tiles.h"

enum { SHARE = 252 };

typedef struct {
  const float *rows, *columns, *bias;
  float scale;
  int32_t positive;
  const int8_t *middles;
  int32_t middle;
  const int32_t *totals;  // of each row of this workgroup, what its middles are to be multiplied by; or null
  size_t m, k, k4, n;
  float *out;
  uint8_t *bytes;  // instead of `out`
  int32_t *sums;   // or this
  rounding by;
} product;

INLINE void finish(const product *of, floats value, size_t at, size_t count) {
  if (of->out) store_up_to(of->out + at, value, count);
  else store_as_bytes(of->bytes + at, value, of->by, count);
}

// The sums of `rows` rows of up to PANEL columns from one on, `step` vectors apart.
static __attribute__((noinline)) void scale_back(size_t rows, size_t columns, const product *of, const ints *sums, size_t step,
                                                 size_t row, size_t column) {
  columns = least(columns, of->n - column);
  if (of->sums) {
    for (size_t p = 0; p < rows; p++) for (size_t c = 0; c < columns; c += LANES)
      store_up_to((float *)of->sums + (row + p) * of->n + column + c, (floats)sums[p * step + c / LANES], columns - c);
    return;
  }
  float scale[PANEL], bias[PANEL];
  for (size_t c = 0; c < columns; c += LANES) {
    const floats by = of->columns ? load_up_to(of->columns + column + c, columns - c, 0.0f) : splat(1.0f);
    store(scale + c, splat(of->scale) * by);
    store(bias + c, of->bias ? load_up_to(of->bias + column + c, columns - c, 0.0f) : splat(0.0f));
  }
  for (size_t p = 0; p < rows; p++)
    for (size_t c = 0; c < columns; c += LANES) {
      floats value = __builtin_convertvector(sums[p * step + c / LANES], floats);
      if (of->rows) value *= of->rows[row + p];
      value = value * load(scale + c) + load(bias + c);
      finish(of, of->positive ? larger(splat(0.0f), value) : value, (row + p) * of->n + column + c, columns - c);
    }
}

// A sum less what its column's middle adds. start: PANEL numbers that sums begin with, then PANEL middles.
INLINE ints centred(const product *of, ints sum, const int32_t *start, size_t row) {
  return of->totals ? sum - of->totals[row % SHARE] * load_whole(start + PANEL) : sum;
}

INLINE void byte_tile(const int rows, const int is_moved, ints (*kept)[VECTORS], const uint8_t *x, size_t k, const int8_t *w,
                      const int8_t *later, size_t step) {
  ints sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = kept[p][v];
  multiply_bytes(rows, VECTORS, is_moved, sums, x, k, w, k, later, step);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) kept[p][v] = sums[p][v];
}

// One row by a whole panel, from the beginning of three parts of k at once: memory gives more from several places (measured with AVX2, and
// done with it alone).
enum { PARTS = LANES == 8 ? 3 : 1, HALVES = PANEL / TILE };
INLINE void byte_row(const int is_moved, ints (*kept)[VECTORS], const uint8_t *x, size_t k, const int8_t *w) {
  ints sums[PARTS][HALVES][VECTORS];
  UNROLL for (int j = 0; j < PARTS; j++) UNROLL for (int h = 0; h < HALVES; h++) UNROLL for (int v = 0; v < VECTORS; v++)
    sums[j][h][v] = j ? (ints){0} : kept[h][v];
  const size_t words = k / 4, part = words / PARTS;
#define WORD_OF(j, i, count) \
  { \
    const uint8_t *from = x + 4 * (i); \
    UNROLL for (int h = 0; h < HALVES; h++) \
      multiply_four(1, VECTORS, is_moved, &sums[j][h], &from, 0, w + 4 * ((i) * PANEL + h * TILE), count); \
  }
  for (size_t i = 0; i < part; i++) UNROLL for (int j = 0; j < PARTS; j++) WORD_OF(j, j * part + i, 4)
  for (size_t i = PARTS * part; i < words; i++) WORD_OF(0, i, 4)
  if (k % 4) WORD_OF(0, words, k % 4)
  UNROLL for (int h = 0; h < HALVES; h++) UNROLL for (int v = 0; v < VECTORS; v++) {
    kept[h][v] = sums[0][h][v];
    UNROLL for (int j = 1; j < PARTS; j++) kept[h][v] += sums[j][h][v];
  }
}

#ifdef HAS_MATRICES_OF_BYTES
static void byte_matrices(const product *of, const uint8_t *x, const int8_t *w, const int32_t *start, int32_t is_signed,
                          size_t row, size_t rows, size_t column) {
  ints sums[2 * MATRIX_ROWS][PANEL / LANES];
  for (size_t i = 0; i < rows; i += 2 * MATRIX_ROWS) {
    // The last ones again, where fewer are left.
    size_t first = row + least(i, rows - MATRIX_ROWS), second = row + least(i + MATRIX_ROWS, rows - MATRIX_ROWS);
    const uint8_t *above = x + first * of->k, *below = x + second * of->k;
    if (is_signed) multiply_matrices(S8_BY_S8, above, below, of->k, w, of->k, 1, 0, start, sums);
    else multiply_matrices(U8_BY_S8, above, below, of->k, w, of->k, 1, 0, start, sums);
    for (size_t p = 0; p < 2 * MATRIX_ROWS; p++) UNROLL for (int v = 0; v < PANEL / LANES; v++)
      sums[p][v] = centred(of, sums[p][v], start + v * LANES, p < MATRIX_ROWS ? first + p : second + p - MATRIX_ROWS);
    scale_back(MATRIX_ROWS, PANEL, of, sums[0], PANEL / LANES, first, column);
    scale_back(MATRIX_ROWS, PANEL, of, sums[MATRIX_ROWS], PANEL / LANES, second, column);
  }
}
#endif

#ifdef HAS_PAIRS
typedef struct {
  const product *of;
  size_t row, column;
} place;

static void finish_rows(const void *at, ints (*sums)[PANEL / LANES], size_t row, size_t rows) {
  const place *from = at;
  scale_back(rows, PANEL, from->of, &sums[0][0], PANEL / LANES, from->row + row, from->column);
}

static void many_rows(const product *of, const uint8_t *x, const int8_t *w, const int32_t *start, int32_t by, size_t row,
                      size_t rows, size_t column) {
  ints sums[SHARE][PANEL / LANES];
  for (size_t p = 0; p < rows; p++) UNROLL for (int v = 0; v < PANEL / LANES; v++)
    sums[p][v] = centred(of, load_whole(start + v * LANES), start + v * LANES, row + p);
  const place at = {of, row, column};
  multiply_panel(rows, least(TILES, (of->n - column + TILE - 1) / TILE), sums, x + row * of->k, of->k, of->k, 1, 0, w,
                 x + of->m * of->k, by ? (int32_t)0x80808080 : 0, finish_rows, &at);
}
#endif

static void byte_linear(product *of, const uint8_t *x, const int8_t *w, const int32_t *sums, int32_t zero,
                        int32_t is_signed, size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, row = workgroup_y * SHARE, left = least(SHARE, of->m - row);
  int32_t start[2 * PANEL];
  for (size_t c = 0; c < PANEL; c++) start[c] = column + c < of->n ? -zero * sums[column + c] : 0;
  w += workgroup_x * of->k4 * 4 * PANEL;
  int32_t totals[SHARE];
  if (of->middles || of->middle) of->totals = totals;
  for (size_t c = 0; of->totals && c < PANEL; c++)
    start[PANEL + c] = of->middle + (of->middles && column + c < of->n ? of->middles[column + c] : 0);
  for (size_t p = 0; of->totals && p < left; p++) {
    const uint8_t *from = x + (row + p) * of->k;
    int32_t total = -zero * (int32_t)of->k;
    if (is_signed) for (size_t i = 0; i < of->k; i++) total += (int8_t)from[i];
    else for (size_t i = 0; i < of->k; i++) total += from[i];
    totals[p] = total;
  }
#ifdef HAS_MATRICES_OF_BYTES
  if (left >= MATRIX_ROWS && of->k % MATRIX_BYTES == 0 && begin_matrices()) {
    byte_matrices(of, x, w, start, is_signed, row, left, column);
    end_matrices();
    return;
  }
#endif
  const int32_t by = moved(is_signed);
  for (size_t c = 0; by && c < PANEL; c++) start[c] -= column + c < of->n ? by * sums[column + c] : 0;
#ifdef HAS_PAIRS
  if (left >= MANY_ROWS) {
    many_rows(of, x, w, start, by, row, left, column);
    return;
  }
#endif
  if (PARTS > 1 && left == 1) {
    ints sums_of_row[HALVES][VECTORS];
    for (int v = 0; v < PANEL / LANES; v++)
      sums_of_row[v / VECTORS][v % VECTORS] = centred(of, load_whole(start + v * LANES), start + v * LANES, row);
    if (by) byte_row(1, sums_of_row, x + row * of->k, of->k, w);
    else byte_row(0, sums_of_row, x + row * of->k, of->k, w);
    scale_back(1, PANEL, of, &sums_of_row[0][0], PANEL / LANES, row, column);
    return;
  }
  // Each tile fetches its part of the next panel.
  size_t tiles = (left + BYTE_ROWS - 1) / BYTE_ROWS, part = of->k4 * 4 * PANEL / tiles, step = 4 * PANEL / tiles;
  const int8_t *later = w + of->k4 * 4 * PANEL;
  while (left > 0) {
    size_t count = left / ((left + BYTE_ROWS - 1) / BYTE_ROWS);
    for (size_t c = 0; c < PANEL && column + c < of->n; c += TILE) {
      ints tile[ROWS][VECTORS];
      for (size_t p = 0; p < count; p++) UNROLL for (int v = 0; v < VECTORS; v++)
        tile[p][v] = centred(of, load_whole(start + c + v * LANES), start + c + v * LANES, row + p);
#define BYTE_TILE(p) if (p <= BYTE_ROWS) byte_tile(p, 0, tile, x + row * of->k, of->k, w + 4 * c, later, step)
#define MOVED_TILE(p) if (p <= BYTE_ROWS) byte_tile(p, 1, tile, x + row * of->k, of->k, w + 4 * c, later, step)
      if (by) FOR_ROWS(count, MOVED_TILE)
      else FOR_ROWS(count, BYTE_TILE)
      scale_back(count, TILE, of, &tile[0][0], VECTORS, row, column + c);
    }
    row += count, left -= count, later += part;
  }
}

#define BYTE_LINEAR(name, type, where) \
  void name(const uint8_t *x, const int8_t *w, const int32_t *sums, const int8_t *w_zeros, const float *rows, \
            const float *columns, const float *bias, float x_scale, float w_scale, int32_t w_zero, int32_t zero, \
            int32_t is_signed, int32_t positive, float step, float middle, int32_t is_out_signed, type *out, size_t m, \
            size_t k, size_t p, size_t k4, size_t n, size_t workgroup_x, size_t workgroup_y) { \
    (void)p; \
    product of = {.middles = w_zeros, .middle = w_zero, .rows = rows, .columns = columns, .bias = bias, \
                  .scale = x_scale * w_scale, .positive = positive, .m = m, .k = k, .k4 = k4, .n = n, .where = out, \
                  .by = rounding_by(step, middle, is_out_signed)}; \
    byte_linear(&of, x, w, sums, zero, is_signed, workgroup_x, workgroup_y); \
  }
BYTE_LINEAR(opsplice_byte_linear_f32, float, out)
BYTE_LINEAR(opsplice_byte_linear_i8, uint8_t, bytes)
BYTE_LINEAR(opsplice_byte_linear_i32, int32_t, sums)
