// Products of f32 with weights of four bits or of bytes in blocks of k, which share a scale and may share a zero point:
//   out[m, n] = sum of x[m, k] * (w[k, n] - zero[k's block, n]) * scale[k's block, n] + bias[n].
// Weights of four bits are [n / 32][k / 8][32] words of eight numbers, the lowest bits first, and their zero is 8 where
// there is none; bytes are [n / 32][k][32] with signs, and theirs is 0. scale and zero are [n / 32][blocks][32]; zero and
// bias may be null. A block is a multiple of 8.
//
// Grid: (p, ceildiv(m, 252)); a workgroup does a panel of 32 columns by 252 rows.
#include "../tile.h"

enum { SHARE = 252, AHEAD = 2048, GROUP = 8, DEPTH = 16 * GROUP, WIDTH = PANEL / LANES, PARTS = WIDTH > 2 ? 1 : 2 };

typedef int8_t signed_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

typedef struct {
  const char *w;
  const float *scale;
  const int8_t *zero;
  size_t block, k;
} weights;

INLINE floats wide(const int8_t *from) {
  return __builtin_convertvector(__builtin_convertvector(*(const signed_bytes *)from, ints), floats);
}

// The numbers at place `e` of a group of k, of the LANES columns from `c` on; less 8 where they have four bits.
INLINE floats number(const int bits, const char *group, const int e, size_t c) {
  if (bits == 8) return wide((const int8_t *)group + e * PANEL + c);
  ints words = *(const ints_anywhere *)((const int32_t *)group + c);
#if LANES == 16
  const floats each = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return (floats)_mm512_permutexvar_ps((__m512i)(words >> (4 * e)), (__m512)each);
#else
  return __builtin_convertvector((words >> (4 * e)) & 15, floats) - 8.0f;
#endif
}

// What is taken from those.
INLINE floats zero_point(const int bits, const int8_t *zero) { return wide(zero) - (bits == 4 ? 8.0f : 0.0f); }

INLINE void weight_row(const int bits, const int has_zero, const float *x, const weights *of, const float *bias,
                       float *out, size_t columns) {
  const char *w = of->w;
  floats sums[WIDTH];
  UNROLL for (int v = 0; v < WIDTH; v++) sums[v] = splat(0.0f);
  for (size_t i = 0, b = 0; i < of->k; b += PANEL) {
    floats parts[PARTS][WIDTH], zero[WIDTH];
    UNROLL for (int v = 0; v < WIDTH; v++) {
      if (has_zero) zero[v] = zero_point(bits, of->zero + b + v * LANES);
      UNROLL for (int p = 0; p < PARTS; p++) parts[p][v] = splat(0.0f);
    }
    for (size_t end = i + of->block; i < end; i += GROUP, w += bits * PANEL) {
      UNROLL for (int at = 0; at < bits * PANEL; at += 4 * LINE) __builtin_prefetch(w + AHEAD + at);
      UNROLL for (int e = 0; e < GROUP; e++) UNROLL for (int v = 0; v < WIDTH; v++) {
        floats value = number(bits, w, e, v * LANES);
        if (has_zero) value -= zero[v];
        parts[e % PARTS][v] += value * x[i + e];
      }
    }
    UNROLL for (int v = 0; v < WIDTH; v++) {
      floats sum = parts[0][v];
      if (PARTS > 1) sum += parts[PARTS - 1][v];
      sums[v] += sum * load(of->scale + b + v * LANES);
    }
  }
  UNROLL for (int v = 0; v < WIDTH; v++) {
    size_t c = v * LANES;
    if (c >= columns) break;
    if (bias) sums[v] += load_up_to(bias + c, columns - c, 0.0f);
    store_up_to(out + c, sums[v], columns - c);
  }
}

// to[k * PANEL + c] is the weight of a column, of `depth` k from `start` on.
INLINE void decode(const int bits, const weights *of, size_t start, size_t depth, float *to) {
  const char *w = of->w + start / GROUP * bits * PANEL;
  for (size_t i = start; i < start + depth; i += GROUP, w += bits * PANEL, to += GROUP * PANEL) {
    size_t b = i / of->block * PANEL;
    UNROLL for (int v = 0; v < WIDTH; v++) {
      floats scale = load(of->scale + b + v * LANES), zero = splat(0.0f);
      if (of->zero) zero = zero_point(bits, of->zero + b + v * LANES);
      UNROLL for (int e = 0; e < GROUP; e++)
        store(to + e * PANEL + v * LANES, (number(bits, w, e, v * LANES) - zero) * scale);
    }
  }
}

// scale: that of each block, or null for `all`.
INLINE void few_bits_linear(const int bits, const float *x, const void *w, const float *scale, float all, const int8_t *zero,
                            const float *bias, float *out, size_t m, size_t blocks, size_t block, size_t n,
                            size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column), k = blocks * block;
  size_t row = workgroup_y * SHARE, end = least(m, row + SHARE), each = workgroup_x * blocks * PANEL;
  float same[PANEL];
  UNROLL for (size_t c = 0; c < PANEL; c += LANES) store(same + c, splat(all));
  weights of = {(const char *)w + each * block * bits / 8, scale ? scale + each : same, zero ? zero + each : 0, block, k};
  if (bias) bias += column;
  if (end - row == 1) {
    if (zero) weight_row(bits, 1, x + row * k, &of, bias, out + row * n + column, columns);
    else weight_row(bits, 0, x + row * k, &of, bias, out + row * n + column, columns);
    return;
  }
  float panel[DEPTH * PANEL] __attribute__((aligned(64)));
  for (size_t start = 0; start < k; start += DEPTH) {
    size_t depth = least(DEPTH, k - start);
    decode(bits, &of, start, depth, panel);
    float *to = out + row * n + column;
    product_with_panel(x + row * k + start, k, 1, depth, panel, start ? to : bias, start ? n : 0, to, n, end - row, columns);
  }
}

void opsplice_nibble_linear(const float *x, const uint32_t *w, const float *scale, const int8_t *zero,
                            const float *bias, float *out, size_t m, size_t blocks, size_t block, size_t p,
                            size_t groups, size_t n, size_t workgroup_x, size_t workgroup_y) {
  (void)p, (void)groups;
  few_bits_linear(4, x, w, scale, 1.0f, zero, bias, out, m, blocks, block, n, workgroup_x, workgroup_y);
}

void opsplice_byte_blocks(const float *x, const int8_t *w, const float *scale, const int8_t *zero, const float *bias,
                          float *out, size_t m, size_t blocks, size_t block, size_t p, size_t n, size_t workgroup_x,
                          size_t workgroup_y) {
  (void)p;
  few_bits_linear(8, x, w, scale, 1.0f, zero, bias, out, m, blocks, block, n, workgroup_x, workgroup_y);
}

// One block is all of k.
void opsplice_byte_columns(const float *x, const int8_t *w, const float *scale, const float *bias, float all, float *out,
                           size_t m, size_t k, size_t p, size_t n, size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  few_bits_linear(8, x, w, scale, all, 0, bias, out, m, 1, k, n, workgroup_x, workgroup_y);
}
