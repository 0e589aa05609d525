// f16 and bf16 as f32 and back, rounded to the nearest number, to the even one of two. A number of 16 bits is in the low
// bits of a lane of ints.
#ifndef OPSPLICE_KERNELS_HALVES_H
#define OPSPLICE_KERNELS_HALVES_H

#include "vector.h"

enum { F16, BF16, F32 };

typedef uint16_t halves_anywhere __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

INLINE floats widened_f16(ints bits) {
#if LANES == 16
  return (floats)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)bits));
#elif defined(__F16C__)
  return (floats)_mm256_cvtph_ps((__m128i)__builtin_convertvector(bits, halves_anywhere));
#else
  const int32_t rebias = 112 << 23, least_normal = 1 << 23, infinite = 31 << 23;
  ints magnitude = (bits & 0x7fff) << 13;
  floats small = (floats)(magnitude + rebias + least_normal) - 0x1p-14f;  // denormal, or 0
  ints wide = (ints)choose(magnitude < least_normal, small, (floats)(magnitude + rebias));
  return (floats)(wide | ((magnitude >= infinite) & 0x7f800000) | (bits & 0x8000) << 16);
#endif
}

INLINE ints narrowed_f16(floats value) {
#if LANES == 16
  return (ints)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  return (ints)_mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
#else
  const int32_t least_normal = 113 << 23, overflow = 143 << 23;
  ints bits = (ints)value, magnitude = bits & 0x7fffffff;
  ints normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  ints small = (ints)((floats)magnitude + 0.5f) - (126 << 23);  // the last bit of 0.5 is that of a denormal f16
  ints narrow = (ints)choose(magnitude < least_normal, (floats)small, (floats)normal);
  narrow = (ints)choose(magnitude >= overflow, splat(0.0f), (floats)narrow) | ((magnitude >= overflow) & 0x7c00);
  return narrow | ((value != value) & 0x7e00) | ((bits >> 16) & 0x8000);
#endif
}

INLINE floats widened(const int kind, ints bits) { return kind == BF16 ? (floats)(bits << 16) : widened_f16(bits); }

INLINE ints narrowed(const int kind, floats value) {
  if (kind == F16) return narrowed_f16(value);
  ints bits = (ints)value;
  ints rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) & 0xffff;
  return (ints)choose(value != value, (floats)((bits >> 16 & 0xffff) | 0x40), (floats)rounded);
}

// Up to LANES numbers, and 0 behind them.
INLINE floats load_halves(const int kind, const uint16_t *from, size_t count) {
  if (count >= LANES) return widened(kind, __builtin_convertvector(*(const halves_anywhere *)from, ints));
  ints bits = {0};
  UNROLL for (size_t i = 0; i < LANES; i++) if (i < count) bits[i] = from[i];
  return widened(kind, bits);
}

INLINE void store_halves(const int kind, uint16_t *to, floats value, size_t count) {
  ints bits = narrowed(kind, value);
  if (count >= LANES) *(halves_anywhere *)to = __builtin_convertvector(bits, halves_anywhere);
  else UNROLL for (size_t i = 0; i < LANES; i++) if (i < count) to[i] = (uint16_t)bits[i];
}

// Where a number of any kind is.
INLINE const void *element(const int kind, const void *base, size_t index) {
  return (const char *)base + (kind == F32 ? 4 : 2) * index;
}

// Up to LANES numbers of any kind from number `index` on, and `rest` behind them.
INLINE floats load_numbers(const int kind, const void *base, size_t index, size_t count, float rest) {
  if (kind == F32) return load_up_to((const float *)base + index, count, rest);
  floats value = load_halves(kind, (const uint16_t *)base + index, count);
  if (count < LANES) UNROLL for (size_t i = 0; i < LANES; i++) if (i >= count) value[i] = rest;
  return value;
}

INLINE float number(const int kind, const void *base, size_t index) {
  return kind == F32 ? ((const float *)base)[index] : load_numbers(kind, base, index, 1, 0.0f)[0];
}

INLINE void store_numbers(const int kind, void *base, size_t index, floats value, size_t count) {
  if (kind == F32) store_up_to((float *)base + index, value, count);
  else store_halves(kind, (uint16_t *)base + index, value, count);
}

INLINE void set_number(const int kind, void *base, size_t index, float value) {
  if (kind == F32) ((float *)base)[index] = value;
  else store_halves(kind, (uint16_t *)base + index, splat(value), 1);
}
#endif
