// Vectors of f32 for all kernels of this library, as wide as the flags allow: 16 lanes with -mavx512f, 8 with -mavx2,
// else 4. The vectors are those of clang and gcc; only what these do badly is written with intrinsics.
//
// Freestanding: nothing here calls a library. Arrays of vectors stay in registers only where every loop over them is
// unrolled before the optimiser looks at them, which UNROLL says.
#ifndef OPSPLICE_KERNELS_VECTOR_H
#define OPSPLICE_KERNELS_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float floats_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }

INLINE floats splat(float value) { return value - (floats){0}; }

INLINE floats load(const float *from) { return *(const floats_anywhere *)from; }

INLINE void store(float *to, floats value) { *(floats_anywhere *)to = value; }

// Each lane of `yes` where `mask` is all ones, of `no` where it is all zeros.
INLINE floats choose(ints mask, floats yes, floats no) { return (floats)((mask & (ints)yes) | (~mask & (ints)no)); }

INLINE floats absolute(floats a) { return (floats)((ints)a & 0x7fffffff); }

#if LANES == 16
INLINE floats larger(floats a, floats b) { return (floats)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE floats smaller(floats a, floats b) { return (floats)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE __mmask16 first(size_t count) { return (__mmask16)((1u << count) - 1); }
// The first `count` < LANES floats, and `rest` in the lanes behind them, whose memory is not touched.
INLINE floats load_some(const float *from, size_t count, float rest) {
  return (floats)_mm512_mask_loadu_ps((__m512)splat(rest), first(count), from);
}
INLINE void store_some(float *to, floats value, size_t count) {
  _mm512_mask_storeu_ps(to, first(count), (__m512)value);
}
#else
#if LANES == 8
INLINE floats larger(floats a, floats b) { return (floats)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE floats smaller(floats a, floats b) { return (floats)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE floats larger(floats a, floats b) { return choose(a > b, a, b); }
INLINE floats smaller(floats a, floats b) { return choose(a < b, a, b); }
#endif
INLINE floats load_some(const float *from, size_t count, float rest) {
  floats value = splat(rest);
  UNROLL for (size_t i = 0; i < LANES; i++) if (i < count) value[i] = from[i];
  return value;
}
INLINE void store_some(float *to, floats value, size_t count) {
  UNROLL for (size_t i = 0; i < LANES; i++) if (i < count) to[i] = value[i];
}
#endif

// As above, for up to LANES.
INLINE floats load_up_to(const float *from, size_t count, float rest) {
  return count >= LANES ? load(from) : load_some(from, count, rest);
}
INLINE void store_up_to(float *to, floats value, size_t count) {
  if (count >= LANES) store(to, value);
  else store_some(to, value, count);
}

// The lanes from `low` up to `high`, either of which may lie outside of a vector.
#if LANES == 16
typedef __mmask16 lanes;
INLINE lanes lanes_between(ptrdiff_t low, ptrdiff_t high) {
  uint32_t begin = low <= 0 ? 0xffff : low >= LANES ? 0 : 0xffffu << low;
  return (lanes)(begin & (high >= LANES ? 0xffff : high <= 0 ? 0 : (1u << high) - 1));
}
// Those where `mask` is all ones.
INLINE lanes lanes_where(ints mask) { return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask); }
// What is there, and `rest` in other lanes, whose memory is not touched.
INLINE floats load_lanes(const float *from, lanes there, float rest) {
  return (floats)_mm512_mask_loadu_ps((__m512)splat(rest), there, from);
}
#else
typedef ints lanes;
INLINE lanes lanes_where(ints mask) { return mask; }
INLINE lanes lanes_between(ptrdiff_t low, ptrdiff_t high) {
  int32_t begin = low <= 0 ? 0 : low >= LANES ? LANES : (int32_t)low;
  int32_t end = high >= LANES ? LANES : high <= 0 ? 0 : (int32_t)high;
  ints lane;
  UNROLL for (int i = 0; i < LANES; i++) lane[i] = i;
  return (lane >= begin) & (lane < end);
}
#if LANES == 8
INLINE floats load_lanes(const float *from, lanes there, float rest) {
  return choose(there, (floats)_mm256_maskload_ps(from, (__m256i)there), splat(rest));
}
#else
static __attribute__((noinline, unused)) floats load_lanes(const float *from, lanes there, float rest) {
  floats value = splat(rest);
  UNROLL for (int i = 0; i < LANES; i++) if (there[i]) value[i] = from[i];
  return value;
}
#endif
#endif

// Every other lane of two vectors in a row, from the first or the second on.
INLINE floats every_other(floats a, floats b, const int is_odd) {
#if LANES == 16
#define EVERY_OTHER(at) \
  __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6, at + 8, at + 10, at + 12, at + 14, at + 16, at + 18, \
                          at + 20, at + 22, at + 24, at + 26, at + 28, at + 30)
#elif LANES == 8
#define EVERY_OTHER(at) __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6, at + 8, at + 10, at + 12, at + 14)
#else
#define EVERY_OTHER(at) __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6)
#endif
  return is_odd ? EVERY_OTHER(1) : EVERY_OTHER(0);
}

INLINE float sum_of_lanes(floats value) {
  float part[LANES];
  UNROLL for (int i = 0; i < LANES; i++) part[i] = value[i];
  UNROLL for (int half = LANES / 2; half > 0; half /= 2)
    UNROLL for (int i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}

INLINE float largest_of_lanes(floats value) {
  float part[LANES];
  UNROLL for (int i = 0; i < LANES; i++) part[i] = value[i];
  UNROLL for (int half = LANES / 2; half > 0; half /= 2)
    UNROLL for (int i = 0; i < half; i++) part[i] = part[i] > part[i + half] ? part[i] : part[i + half];
  return part[0];
}

// e^x for x <= 0, within 2 ulp. Below -87.3, where e^x is denormal, it is e^-87.3; NaN stays NaN.
//
// x = n ln2 + r with n whole, so e^x = 2^n e^r. Adding 1.5 * 2^23 + 127 leaves n + 127 in the low bits of the sum, which
// are the exponent of 2^n. ln2 is split in two, so that n times its first part is exact. e^r is 1 + r + r^2 q(r), where q
// is the best polynomial of degree 4 for |r| <= ln2 / 2 (off by 3.1e-9 of e^r).
INLINE floats exponential_below(floats x) {
  const float shift = 12583039.0f;
  x = larger(splat(-87.3f), x);
  floats shifted = x * 1.44269504f + shift, n = shifted - shift;
  floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
  floats q = r * 1.38144672e-3f + 8.36878084e-3f;
  q = q * r + 4.16683927e-2f;
  q = q * r + 1.66665196e-1f;
  q = q * r + 4.99999940e-1f;
  return ((r * r) * q + r + 1.0f) * (floats)((ints)shifted << 23);
}

// e^x, which is infinity above some x of at most 88.3.
INLINE floats exponential_up_to(float most, floats x) {
  floats e = exponential_below(smaller(splat(most), x));
  return choose(x > most, splat(__builtin_inff()), e);
}

// e^x for all x: infinity above 88.3 (a little too early).
INLINE floats exponential(floats x) { return exponential_up_to(88.3f, x); }

// erf within 4e-7: x P(x^2) / Q(x^2) for |x| <= 3.925, beyond which it is 1 in f32.
INLINE floats error_function(floats x) {
  x = smaller(splat(3.925f), larger(splat(-3.925f), x));
  floats y = x * x;
  floats p = y * 2.03085938e-6f + 2.87492498e-4f;
  p = p * y + 3.87635455e-3f;
  p = p * y + 5.30844331e-2f;
  p = p * y + 1.92973226e-1f;
  p = p * y + 1.12837899f;
  floats q = y * 3.80313650e-5f + 1.18975621e-3f;
  q = q * y + 1.51884090e-2f;
  q = q * y + 1.15167730e-1f;
  q = q * y + 5.04349709e-1f;
  q = q * y + 1.0f;
  return x * p / q;
}

// What follows a product, as the rule that calls the kernel says.
enum { NOTHING, RELU, GELU, GELU_TANH, SILU, RELU6, HARD_SWISH };

INLINE floats activate(const int which, floats x) {
  switch (which) {
    case RELU:
      return larger(splat(0.0f), x);
    case GELU:
      return x * 0.5f * (error_function(x * 0.707106781f) + 1.0f);
    case GELU_TANH:  // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u), which loses nothing where tanh is near -1
      // Where tanh is -1 even in f64 it is 0, so that its product with an infinite gate is NaN as it is elsewhere.
      return x / (exponential_up_to(37.0f, x * (x * x * -0.0713548163f - 1.59576912f)) + 1.0f);
    case SILU:
      return x / (exponential(-x) + 1.0f);
    case RELU6:
      return smaller(splat(6.0f), larger(splat(0.0f), x));
    case HARD_SWISH:
      return x * (smaller(splat(6.0f), larger(splat(0.0f), x + 3.0f)) * 0.166666667f);
    default:
      return x;
  }
}

static __attribute__((noinline, unused)) floats activate_slowly(size_t which, floats x) {
  switch (which) {
    case GELU:
      return activate(GELU, x);
    case GELU_TANH:
      return activate(GELU_TANH, x);
    case SILU:
      return activate(SILU, x);
    case HARD_SWISH:
      return activate(HARD_SWISH, x);
    default:
      return x;
  }
}

// The same where it is known at run time only, which activation it is.
INLINE floats activated(size_t which, floats x) {
  if (which == NOTHING) return x;
  if (which == RELU6) return activate(RELU6, x);
  return which == RELU ? activate(RELU, x) : activate_slowly(which, x);
}
#endif
