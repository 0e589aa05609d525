// Vectors of floats for the kernels of this sample, in GNU C, as wide as the flags allow: 16 lanes with -mavx512f,
// 8 with -mavx, else 4, which every other architecture takes (or splits, where it has no vectors at all).
//
// Freestanding: nothing here calls libm or libc. Loops over lanes have constant bounds, so that no compiler turns one
// into a call of memcpy or memset, which an object that IREE links must not need.
#ifndef OPSPLICE_SAMPLES_TRANSFORMER_VECTOR_H
#define OPSPLICE_SAMPLES_TRANSFORMER_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
// The same lanes at any address that a float may have.
typedef float floats_in_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE floats splat(float value) { return value - (floats){0}; }

INLINE floats load(const float *from) { return *(const floats_in_memory *)from; }

INLINE void store(float *to, floats value) { *(floats_in_memory *)to = value; }

// The first `count` < LANES floats, and `rest` in the lanes after them.
INLINE floats load_some(const float *from, size_t count, float rest) {
  floats value = splat(rest);
  for (size_t i = 0; i < LANES; i++)
    if (i < count) value[i] = from[i];
  return value;
}

INLINE void store_some(float *to, floats value, size_t count) {
  for (size_t i = 0; i < LANES; i++)
    if (i < count) to[i] = value[i];
}

// to[j * to_stride + i] = from[i * from_stride + j] for i and j below 4.
INLINE void transpose_4_by_4(const float *from, size_t from_stride, float *to, size_t to_stride) {
  typedef float four __attribute__((vector_size(16)));
  typedef float four_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
  four a = *(const four_in_memory *)from;
  four b = *(const four_in_memory *)(from + from_stride);
  four c = *(const four_in_memory *)(from + 2 * from_stride);
  four d = *(const four_in_memory *)(from + 3 * from_stride);
  four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(four_in_memory *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  *(four_in_memory *)(to + to_stride) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  *(four_in_memory *)(to + 2 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  *(four_in_memory *)(to + 3 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// `mask` is the result of a comparison: all ones or all zeros in each lane.
INLINE floats choose(ints mask, floats yes, floats no) { return (floats)((mask & (ints)yes) | (~mask & (ints)no)); }

INLINE floats larger(floats a, floats b) { return choose(a > b, a, b); }

INLINE float sum_of_lanes(floats value) {
  float part[LANES];
  for (size_t i = 0; i < LANES; i++) part[i] = value[i];
  for (size_t half = LANES / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}

INLINE float largest_of_lanes(floats value) {
  float part[LANES];
  for (size_t i = 0; i < LANES; i++) part[i] = value[i];
  for (size_t half = LANES / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; i++) part[i] = part[i] > part[i + half] ? part[i] : part[i + half];
  return part[0];
}

// e^x in every lane, within 2 ulp. Below -87.33 (where the result would be denormal) it is 0, above 88.72 infinity;
// NaN stays NaN.
//
// x = n ln2 + r with n whole and |r| <= ln2 / 2, so e^x = 2^n e^r. n comes from adding 1.5 * 2^23, which leaves it in
// the low bits of the sum; ln2 is split in two so that n times its first part is exact; e^r is 1 + r + r^2 q(r) with q
// the minimax fit of degree 4, which is off by 3.2e-9 relative to e^r.
INLINE floats exponential(floats x) {
  const float shift = 12582912.0f;
  floats shifted = x * 1.44269504f + shift;
  floats n = shifted - shift;
  floats r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  floats q = r * 1.3814174e-3f + 8.3689215e-3f;
  q = q * r + 4.1668408e-2f;
  q = q * r + 1.6666520e-1f;
  q = q * r + 4.9999994e-1f;
  floats e = (r * r) * q + r + 1.0f;
  // Added to the exponent's bits rather than multiplied, which would need 2^128 at the upper end.
  floats result = (floats)((ints)e + ((ints)shifted << 23));
  result = choose(x < -87.33f, splat(0.0f), result);
  result = choose(x > 88.72f, splat(__builtin_inff()), result);
  return choose(x != x, x, result);
}

#endif
