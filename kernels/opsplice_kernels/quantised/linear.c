// Products of bytes with packed weights, scaled back to f32:
//   out[m, n] = (sum of (x[m, k] - zero) * w[k, n]) * rows[m] * columns[n] * scale + bias[n],
// with x unsigned, or signed where `is_signed`, w as [n / 32][k / 4][32][4], the last panel filled up with zeros, and
// sums[n] the sum over k of w. rows, columns and bias may be null. k is a multiple of 4. Or back to bytes, as QuantizeLinear
// of ONNX: out[m, n] = round(that / step) + middle within the numbers of a byte.
//
// The tile is that of f32, but each step multiplies four bytes of k at once, which needs VNNI.
//
// Grid: (p, ceildiv(m, 252)); a workgroup does a panel of 32 columns by 252 rows.
#include "../tile.h"

enum { SHARE = 252 };

typedef uint8_t bytes_anywhere __attribute__((vector_size(LANES), aligned(1), may_alias));

// sum + the products of four unsigned bytes with four signed ones, in each lane.
#if LANES == 16
INLINE ints dot(ints sum, ints bytes, ints weights) {
  return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)bytes, (__m512i)weights);
}
#elif LANES == 8
INLINE ints dot(ints sum, ints bytes, ints weights) {
  return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)bytes, (__m256i)weights);
}
#endif

typedef struct {
  const float *rows, *columns, *bias;
  float scale;
  size_t m, k, k4, n;
  float *out;
  uint8_t *bytes;  // instead of `out`
  float step, middle, low;
} product;

INLINE ints load_whole(const void *from) { return *(const ints_anywhere *)from; }

INLINE void finish(const product *of, floats value, size_t at, size_t count) {
  if (of->out) {
    store_up_to(of->out + at, value, count);
    return;
  }
  value = smaller(splat(1024.0f), larger(splat(-1024.0f), value / of->step));
  value = (value + 12582912.0f) - 12582912.0f + of->middle;  // to the nearest, to the even one of two
  ints whole = __builtin_convertvector(smaller(splat(of->low + 255.0f), larger(splat(of->low), value)), ints);
  if (count >= LANES) *(bytes_anywhere *)(of->bytes + at) = __builtin_convertvector(whole, bytes_anywhere);
  else UNROLL for (size_t l = 0; l < LANES; l++) if (l < count) of->bytes[at + l] = (uint8_t)whole[l];
}

INLINE void byte_tile(const int rows, const int is_signed, const product *of, const uint8_t *x, const int8_t *w, const int32_t *start,
                      const int8_t *later, size_t step, size_t row, size_t column) {
  ints sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++)
    sums[p][v] = load_whole(start + v * LANES);
  for (size_t i = 0; i < of->k; i += 4, w += 4 * PANEL) {
    ints weights[VECTORS];
    __builtin_prefetch(later, 0, 2);
    later += step;
    UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load_whole(w + 4 * v * LANES);
    UNROLL for (int p = 0; p < rows; p++) {
      int32_t word;
      __builtin_memcpy(&word, x + (size_t)p * of->k + i, 4);
      ints bytes = word - (ints){0};
      if (is_signed) bytes ^= (int32_t)0x80808080;  // signed + 128
      UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = dot(sums[p][v], bytes, weights[v]);
    }
  }
  UNROLL for (int v = 0; v < VECTORS; v++) {
    size_t at = column + v * LANES;
    if (at >= of->n) break;
    floats scale = splat(of->scale), bias = splat(0.0f);
    if (of->columns) scale *= load_up_to(of->columns + at, of->n - at, 0.0f);
    if (of->bias) bias = load_up_to(of->bias + at, of->n - at, 0.0f);
    UNROLL for (int p = 0; p < rows; p++) {
      floats value = __builtin_convertvector(sums[p][v], floats);
      if (of->rows) value *= of->rows[row + p];
      finish(of, value * scale + bias, (row + p) * of->n + at, of->n - at);
    }
  }
}

static void byte_linear(const product *of, const uint8_t *x, const int8_t *w, const int32_t *sums, int32_t zero,
                        int32_t is_signed, size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, row = workgroup_y * SHARE, left = least(SHARE, of->m - row);
  int32_t nought = is_signed ? zero + 128 : zero;
  int32_t start[PANEL];
  for (size_t c = 0; c < PANEL; c++) start[c] = column + c < of->n ? -nought * sums[column + c] : 0;
  w += workgroup_x * of->k4 * 4 * PANEL;
  // Each tile fetches its part of the next panel.
  size_t tiles = (left + ROWS - 1) / ROWS, part = of->k * PANEL / tiles, step = 4 * PANEL / tiles;
  const int8_t *later = w + of->k * PANEL;
  while (left > 0) {
    size_t count = left / ((left + ROWS - 1) / ROWS);
    for (size_t c = 0; c < PANEL && column + c < of->n; c += TILE) {
#define BYTE_TILE(p) byte_tile(p, 0, of, x + row * of->k, w + 4 * c, start + c, later, step, row, column + c)
#define SIGNED_TILE(p) byte_tile(p, 1, of, x + row * of->k, w + 4 * c, start + c, later, step, row, column + c)
      if (is_signed) FOR_ROWS(count, SIGNED_TILE)
      else FOR_ROWS(count, BYTE_TILE)
    }
    row += count, left -= count, later += part;
  }
}

void opsplice_byte_linear(const uint8_t *x, const int8_t *w, const int32_t *sums, const float *rows,
                          const float *columns, const float *bias, int8_t zero, float scale, int32_t is_signed,
                          float *out, size_t m, size_t k, size_t p, size_t k4, size_t n, size_t workgroup_x,
                          size_t workgroup_y) {
  (void)p;
  product of = {.rows = rows, .columns = columns, .bias = bias, .scale = scale, .m = m, .k = k, .k4 = k4, .n = n,
                .out = out};
  byte_linear(&of, x, w, sums, is_signed ? zero : (uint8_t)zero, is_signed, workgroup_x, workgroup_y);
}

void opsplice_byte_linear_fixed(const uint8_t *x, const int8_t *w, const int32_t *sums, float x_scale, float w_scale,
                                int64_t zero, int32_t is_signed, float *out, size_t m, size_t k, size_t p, size_t k4,
                                size_t n, size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  product of = {.scale = x_scale * w_scale, .m = m, .k = k, .k4 = k4, .n = n, .out = out};
  byte_linear(&of, x, w, sums, (int32_t)zero, is_signed, workgroup_x, workgroup_y);
}

void opsplice_byte_linear_requantised(const uint8_t *x, const int8_t *w, const int32_t *sums, float x_scale,
                                      float w_scale, int64_t zero, int32_t is_signed, float step, int64_t middle,
                                      int32_t is_out_signed, uint8_t *bytes, size_t m, size_t k, size_t p, size_t k4,
                                      size_t n, size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  product of = {.scale = x_scale * w_scale, .m = m, .k = k, .k4 = k4, .n = n, .bytes = bytes, .step = step,
                .middle = (float)middle, .low = is_out_signed ? -128.0f : 0.0f};
  byte_linear(&of, x, w, sums, (int32_t)zero, is_signed, workgroup_x, workgroup_y);
}
