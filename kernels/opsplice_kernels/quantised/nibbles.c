// Products with weights of four bits in blocks of k, which share a scale and may share a zero point:
//   out[m, n] = sum of x[m, k] * (w[k, n] - zero[k's block, n]) * scale[k's block, n] + bias[n],
// with w as [n / 32][k / 8][32] words of eight numbers, the lowest bits first, and scale and zero as [n / 32][blocks][32].
// zero is 8 where there is none; bias may be null. A block is a multiple of 8.
//
// Grid: (p, ceildiv(m, 252)); a workgroup does a panel of 32 columns by 252 rows.
#include "../tile.h"

enum { SHARE = 252, AHEAD = 512, GROUP = 8, DEPTH = 16 * GROUP, WIDTH = PANEL / LANES, PARTS = WIDTH > 2 ? 1 : 2 };

typedef struct {
  const uint32_t *w;
  const float *scale;
  const int8_t *zero;
  size_t block, k;
} weights;

INLINE ints load_words(const uint32_t *from) { return *(const ints_anywhere *)from; }

// Eight less than the number at a place of each word.
INLINE floats number(ints words, const int place) {
#if LANES == 16
  const floats each = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return (floats)_mm512_permutexvar_ps((__m512i)(words >> (4 * place)), (__m512)each);
#else
  return __builtin_convertvector((words >> (4 * place)) & 15, floats) - 8.0f;
#endif
}

// What is taken from those, of up to LANES columns.
INLINE floats zero_point(const int8_t *zero) {
  ints wide;
  UNROLL for (int i = 0; i < LANES; i++) wide[i] = zero[i];
  return __builtin_convertvector(wide - 8, floats);
}

INLINE void nibble_row(const int has_zero, const float *x, const weights *of, const float *bias, float *out,
                       size_t columns) {
  const uint32_t *w = of->w;
  floats sums[WIDTH];
  UNROLL for (int v = 0; v < WIDTH; v++) sums[v] = splat(0.0f);
  for (size_t i = 0, b = 0; i < of->k; b += PANEL) {
    floats parts[PARTS][WIDTH], zero[WIDTH];
    UNROLL for (int v = 0; v < WIDTH; v++) {
      if (has_zero) zero[v] = zero_point(of->zero + b + v * LANES);
      UNROLL for (int p = 0; p < PARTS; p++) parts[p][v] = splat(0.0f);
    }
    for (size_t end = i + of->block; i < end; i += GROUP, w += PANEL) {
      ints words[WIDTH];
      UNROLL for (int v = 0; v < WIDTH; v++) {
        __builtin_prefetch(w + AHEAD + v * LANES);
        words[v] = load_words(w + v * LANES);
      }
      UNROLL for (int e = 0; e < GROUP; e++) UNROLL for (int v = 0; v < WIDTH; v++) {
        floats value = number(words[v], e);
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
static void decode(const weights *of, size_t start, size_t depth, float *to) {
  const uint32_t *w = of->w + start / GROUP * PANEL;
  for (size_t i = start; i < start + depth; i += GROUP, w += PANEL, to += GROUP * PANEL) {
    size_t b = i / of->block * PANEL;
    UNROLL for (int v = 0; v < WIDTH; v++) {
      ints words = load_words(w + v * LANES);
      floats scale = load(of->scale + b + v * LANES), zero = splat(0.0f);
      if (of->zero) zero = zero_point(of->zero + b + v * LANES);
      UNROLL for (int e = 0; e < GROUP; e++) store(to + e * PANEL + v * LANES, (number(words, e) - zero) * scale);
    }
  }
}

static void nibble_linear(const float *x, const uint32_t *w, const float *scale, const int8_t *zero, const float *bias,
                          float *out, size_t m, size_t blocks, size_t block, size_t groups, size_t n,
                          size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column), k = blocks * block;
  size_t row = workgroup_y * SHARE, end = least(m, row + SHARE), each = workgroup_x * blocks * PANEL;
  weights of = {w + each * groups, scale + each, zero ? zero + each : 0, block, k};
  if (bias) bias += column;
  if (end - row == 1) {
    if (zero) nibble_row(1, x + row * k, &of, bias, out + row * n + column, columns);
    else nibble_row(0, x + row * k, &of, bias, out + row * n + column, columns);
    return;
  }
  float panel[DEPTH * PANEL];
  for (size_t start = 0; start < k; start += DEPTH) {
    size_t depth = least(DEPTH, k - start);
    decode(&of, start, depth, panel);
    float *to = out + row * n + column;
    product_with_panel(x + row * k + start, k, 1, depth, panel, start ? to : bias, start ? n : 0, to, n, end - row, columns);
  }
}

void opsplice_nibble_linear(const float *x, const uint32_t *w, const float *scale, const float *bias, float *out,
                            size_t m, size_t blocks, size_t block, size_t p, size_t groups, size_t n,
                            size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  nibble_linear(x, w, scale, 0, bias, out, m, blocks, block, groups, n, workgroup_x, workgroup_y);
}

void opsplice_nibble_linear_from_zero(const float *x, const uint32_t *w, const float *scale, const int8_t *zero,
                                      const float *bias, float *out, size_t m, size_t blocks, size_t block, size_t p,
                                      size_t groups, size_t n, size_t workgroup_x, size_t workgroup_y) {
  (void)p;
  nibble_linear(x, w, scale, zero, bias, out, m, blocks, block, groups, n, workgroup_x, workgroup_y);
}
