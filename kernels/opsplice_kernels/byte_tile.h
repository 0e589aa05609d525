// The tile of tile.h for bytes: each step multiplies four bytes of k at once. And sums as bytes again.
#ifndef OPSPLICE_KERNELS_BYTE_TILE_H
#define OPSPLICE_KERNELS_BYTE_TILE_H

#include "tile.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

typedef uint8_t bytes_anywhere __attribute__((vector_size(LANES), aligned(1), may_alias));

INLINE ints load_whole(const void *from) { return *(const ints_anywhere *)from; }

// Up to LANES bytes, with a sign or without, as integers.
INLINE ints integers_of(const uint8_t *x, size_t count, int32_t is_signed) {
  bytes_anywhere each = {0};
  if (count >= LANES) each = *(const bytes_anywhere *)x;
  else for (size_t i = 0; i < count; i++) each[i] = x[i];
  const ints whole = __builtin_convertvector(each, ints);
  return is_signed ? (whole ^ 128) - 128 : whole;
}

// Four bytes of each lane as dot() multiplies them: those of weights have signs, others where SIGNED_DOT says so. dot() is
// sum + the products of four bytes with four weights, in each lane.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
typedef ints factors;
INLINE factors of_weights(ints four) { return four; }
INLINE factors of_bytes(ints four) { return four; }
#ifdef __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
enum { SIGNED_DOT = 1, BYTE_ROWS = ROWS };
#else
enum { SIGNED_DOT = 0, BYTE_ROWS = ROWS };
#endif
INLINE ints dot(ints sum, factors bytes, factors weights) {
#if LANES == 16
  return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)bytes, (__m512i)weights);
#elif LANES == 8
  return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)bytes, (__m256i)weights);
#else
  return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)bytes, (int8x16_t)weights);
#endif
}
#else
// Numbers of 16 bits, two in a lane, whose products cannot overflow: the even bytes and the odd ones.
#define HAS_PAIRS
enum { SIGNED_DOT = 0, BYTE_ROWS = 4 };
typedef int16_t shorts __attribute__((vector_size(4 * LANES)));
typedef uint16_t naturals __attribute__((vector_size(4 * LANES)));
typedef struct {
  shorts even, odd;
} factors;
INLINE factors of_weights(ints four) { return (factors){((shorts)four << 8) >> 8, (shorts)four >> 8}; }
INLINE factors of_bytes(ints four) { return (factors){(shorts)four & 255, (shorts)((naturals)four >> 8)}; }
INLINE ints pairs(shorts a, shorts b) {
#if LANES == 16
  return (ints)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif LANES == 8
  return (ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (ints)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  ints x = (ints)a, y = (ints)b;
  return ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16);
#endif
}
INLINE ints dot(ints sum, factors bytes, factors weights) {
  return sum + pairs(bytes.even, weights.even) + pairs(bytes.odd, weights.odd);
}
#endif

// By how much the bytes that dot() takes are greater than those of x.
INLINE int32_t moved(int is_signed) { return is_signed == SIGNED_DOT ? 0 : SIGNED_DOT ? -128 : 128; }

// sums[p] += the products of up to four bytes of row p with `vectors` of w, as [PANEL][4]. from[p / 3] is row p or one of the two before
// it.
INLINE void multiply_four(const int rows, const int vectors, const int is_moved, ints sums[][VECTORS], const uint8_t *const from[],
                          size_t row, const int8_t *w, const size_t count) {
  factors weights[VECTORS];
  UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) weights[v] = of_weights(load_whole(w + 4 * v * LANES));
  UNROLL for (int p = 0; p < rows; p++) {
    const uint8_t *x = from[p / 3] + p % 3 * row;
    uint32_t word = 0;
    if (count == 4) __builtin_memcpy(&word, x, 4);
    else for (size_t i = 0; i < count; i++) word |= (uint32_t)x[i] << 8 * i;
    ints bytes = (int32_t)word - (ints){0};
    if (is_moved) bytes ^= (int32_t)0x80808080;
    const factors each = of_bytes(bytes);
    UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) sums[p][v] = dot(sums[p][v], each, weights[v]);
  }
}

// The same of `k` bytes, `row` bytes from one row of x to the next, with w as [ceil(k / 4)][PANEL][4], filled up with zeros.
// is_moved: dot() takes the bytes of x with their highest bit turned. Each step fetches `step` bytes of what is needed `later`; that may be null.
INLINE void multiply_bytes(const int rows, const int vectors, const int is_moved, ints sums[][VECTORS], const uint8_t *x,
                           size_t row, const int8_t *w, size_t k, const int8_t *later, size_t step) {
  const int fetches = !(__builtin_constant_p(later == 0) && later == 0);
  if (!later) later = w, step = 0;
  const uint8_t *from[(ROWS + 2) / 3];
  begin_threes(rows, x, row, from);
  for (; k >= 4; k -= 4, w += 4 * PANEL, later += step) {
    if (fetches) __builtin_prefetch(later, 0, 2);
    multiply_four(rows, vectors, is_moved, sums, from, row, w, 4);
    advance_threes(rows, from, 4);
  }
  if (k) multiply_four(rows, vectors, is_moved, sums, from, row, w, k);
}

#include "byte_pairs.h"

// How numbers become bytes: round(x / step) + middle, as QuantizeLinear of ONNX, from `low` to `low` + 255. inverse: 1 / step, or 0
// where quotients are not to be had of it.
typedef struct {
  float step, inverse, middle, low;
} rounding;

INLINE rounding rounding_by(float step, float middle, int32_t is_signed) {
#if defined(__FMA__) || defined(__aarch64__)
  const float inverse = step > 0x1p-100f && step < 0x1p100f ? 1.0f / step : 0.0f;
#else
  const float inverse = 0.0f;
#endif
  return (rounding){step, inverse, middle, is_signed ? -128.0f : 0.0f};
}

// Each number's byte is the lowest one of its lane. A quotient is a product with the inverse, and what the remainder adds to it
// (Markstein, IBM Journal of Research and Development 34, 1990): a division takes as long as ten products.
INLINE ints as_bytes(floats value, rounding by) {
  const float low = by.low - by.middle, high = low + 255.0f;
  floats whole;
  if (by.inverse != 0.0f) {
    const floats inside = smaller(splat(high * by.step), larger(splat(low * by.step), value)), quotient = inside * by.inverse;
    const floats rest = inside - quotient * by.step;
    whole = quotient + rest * by.inverse;
  } else whole = smaller(splat(high), larger(splat(low), value / by.step));
  // Next to 1.5 * 2^23 there are whole numbers alone: to the nearest, to the even one of two.
  return (ints)(whole + 12582912.0f + by.middle);
}

// Up to LANES numbers.
INLINE void store_as_bytes(uint8_t *to, floats value, rounding by, size_t count) {
  const ints whole = as_bytes(value, by);
#if LANES == 16
  _mm512_mask_cvtepi32_storeu_epi8(to, count >= LANES ? 0xffff : first(count), (__m512i)whole);
#else
  if (count >= LANES) *(bytes_anywhere *)to = __builtin_convertvector(whole, bytes_anywhere);
  else UNROLL for (size_t l = 0; l < LANES; l++) if (l < count) to[l] = (uint8_t)whole[l];
#endif
}
#endif
