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

// Floats of a line of the cache.
enum { LINE = 16 };

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#endif

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float floats_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }

// Where share `number` of `count` things begins if each has at most `most` of them: all are as large as the others.
INLINE size_t share_from(size_t count, size_t most, size_t number) {
  return number * count / ((count + most - 1) / most);
}

// How many parts of `each` numbers a workgroup does, so that they have `most` together: at least one.
INLINE size_t parts_together(size_t most, size_t each) { return each == 0 ? most : (most + each - 1) / each; }

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
  const floats value = (floats)_mm256_maskload_ps(from, (__m256i)there);
  return rest == 0.0f ? value : choose(there, value, splat(rest));
}
#else
static __attribute__((noinline, unused)) floats load_lanes(const float *from, lanes there, float rest) {
  floats value = splat(rest);
  UNROLL for (int i = 0; i < LANES; i++) if (there[i]) value[i] = from[i];
  return value;
}
#endif
#endif

// Whether `mask` is all ones in any lane.
INLINE int any_lane(ints mask) {
#if LANES == 16
  return lanes_where(mask) != 0;
#elif LANES == 8
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  typedef int64_t pairs __attribute__((vector_size(16)));
  return (((pairs)mask)[0] | ((pairs)mask)[1]) != 0;
#endif
}

// The upper half of a vector.
INLINE void store_upper(float *to, floats value) {
#if LANES == 16
  typedef float half_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
  *(half_anywhere *)to = __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  UNROLL for (int i = 0; i < LANES / 2; i++) to[i] = value[LANES / 2 + i];
#endif
}

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

// The first halves of two vectors, a lane of the one after a lane of the other.
#if LANES == 16
#define EACH_IN_TURN 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#elif LANES == 8
#define EACH_IN_TURN 0, 8, 1, 9, 2, 10, 3, 11
#else
#define EACH_IN_TURN 0, 4, 1, 5
#endif
INLINE floats in_turn(floats a, floats b) { return __builtin_shufflevector(a, b, EACH_IN_TURN); }

// The lanes of the upper half of a vector of `2 * half` lanes, and any in the others.
#define LOWERED(value, half) __builtin_shufflevector(value, value, EACH_FROM(half))
#if LANES == 16
#define EACH_FROM(at) at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define EACH_FROM(at) at, at + 1, at + 2, at + 3, 4, 5, 6, 7
#else
#define EACH_FROM(at) at, at + 1, 2, 3
#endif

INLINE float sum_of_lanes(floats value) {
#if LANES == 16
  value += LOWERED(value, 8);
#endif
#if LANES >= 8
  value += LOWERED(value, 4);
#endif
  value += LOWERED(value, 2);
  value += LOWERED(value, 1);
  return value[0];
}

INLINE float largest_of_lanes(floats value) {
#if LANES == 16
  value = larger(value, LOWERED(value, 8));
#endif
#if LANES >= 8
  value = larger(value, LOWERED(value, 4));
#endif
  value = larger(value, LOWERED(value, 2));
  value = larger(value, LOWERED(value, 1));
  return value[0];
}
#endif
