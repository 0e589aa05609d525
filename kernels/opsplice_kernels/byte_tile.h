// The tile of tile.h for bytes: each step multiplies four bytes of k at once, which needs VNNI. And sums as bytes again.
#ifndef OPSPLICE_KERNELS_BYTE_TILE_H
#define OPSPLICE_KERNELS_BYTE_TILE_H

#include "tile.h"

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

INLINE ints load_whole(const void *from) { return *(const ints_anywhere *)from; }

// sums[p] += the products of `k` bytes of row p of x, `row` bytes apart, with w, as [k / 4][PANEL][4]. is_signed: x is.
// Each step fetches `step` bytes of what is needed `later`; that may be null.
INLINE void multiply_bytes(const int rows, const int is_signed, ints sums[][VECTORS], const uint8_t *x, size_t row,
                           const int8_t *w, size_t k, const int8_t *later, size_t step) {
  for (size_t i = 0; i < k; i += 4, w += 4 * PANEL) {
    ints weights[VECTORS];
    if (later) {
      __builtin_prefetch(later, 0, 2);
      later += step;
    }
    UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load_whole(w + 4 * v * LANES);
    UNROLL for (int p = 0; p < rows; p++) {
      int32_t word;
      __builtin_memcpy(&word, x + (size_t)p * row + i, 4);
      ints bytes = word - (ints){0};
      if (is_signed) bytes ^= (int32_t)0x80808080;  // signed + 128
      UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = dot(sums[p][v], bytes, weights[v]);
    }
  }
}

// How numbers become bytes: round(x / step) + middle, as QuantizeLinear of ONNX, from `low` to `low` + 255.
typedef struct {
  float step, middle, low;
} rounding;

// Up to LANES numbers.
INLINE void store_as_bytes(uint8_t *to, floats value, rounding by, size_t count) {
  value = smaller(splat(1024.0f), larger(splat(-1024.0f), value / by.step));
  value = (value + 12582912.0f) - 12582912.0f + by.middle;  // to the nearest, to the even one of two
  ints whole = __builtin_convertvector(smaller(splat(by.low + 255.0f), larger(splat(by.low), value)), ints);
#if LANES == 16
  _mm512_mask_cvtepi32_storeu_epi8(to, count >= LANES ? 0xffff : first(count), (__m512i)whole);
#else
  if (count >= LANES) *(bytes_anywhere *)to = __builtin_convertvector(whole, bytes_anywhere);
  else UNROLL for (size_t l = 0; l < LANES; l++) if (l < count) to[l] = (uint8_t)whole[l];
#endif
}
#endif
