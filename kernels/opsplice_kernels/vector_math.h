// Mathematics on vectors of f32, each within 2 ulp of the true value for every number unless its comment says otherwise,
// and the activations that are made of it. Infinities, NaN and signed zeros give what C's functions give.
//
// Nothing here needs fused products: sums are written so that rounding each step is within what is promised. Polynomials
// are the best ones of their degree, found by Remez' exchange.
#ifndef OPSPLICE_KERNELS_VECTOR_MATH_H
#define OPSPLICE_KERNELS_VECTOR_MATH_H

#include "vector.h"

// ---- exponentials -------------------------------------------------------------------------------------------------------

// x = n ln2 + r with n whole and |r| <= ln2 / 2, so e^x = 2^n e^r, where the polynomial for e^r is off by 3.1e-9 of it. ln2 is
// split in two, so that n times its first part is exact. Adding 1.5 * 2^23 to a number rounds it.
#define ROUNDING 12582912.0f
INLINE floats remainder_of_ln2(floats x, floats n) { return x - n * 0.693359375f + n * 2.12194440e-4f; }
INLINE floats exponential_rest(floats r) {
  floats e = r * 1.39504799e-3f + 8.36888235e-3f;
  e = e * r + 4.16662060e-2f;
  e = e * r + 1.66665196e-1f;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  return e * r + 1.0f;
}

// e^x for x <= 88. Below -87.7, where e^x is denormal, it is 0; NaN stays NaN.
INLINE floats exponential_below(floats x) {
  const float shift = ROUNDING + 127.0f;  // leaves n + 127 in the low bits of the sum, which are the exponent of 2^n
  x = larger(splat(-88.0f), x);           // n is -127 there, and 2^n is made zero
  floats shifted = x * 1.44269504f + shift, r = remainder_of_ln2(x, shifted - shift);
  return exponential_rest(r) * (floats)((ints)shifted << 23);
}

// value * 2^n for whole n from -252 to 254, rounded once.
INLINE floats times_power_of_two(floats value, floats n) {
#if LANES == 16
  return (floats)_mm512_scalef_ps((__m512)value, (__m512)n);
#else
  ints whole = __builtin_convertvector(n, ints), half = whole >> 1;
  return value * (floats)((half + 127) << 23) * (floats)((whole - half + 127) << 23);
#endif
}

// e^x.
INLINE floats exponential(floats x) {
  x = smaller(splat(89.0f), larger(splat(-104.0f), x));
  floats n = (x * 1.44269504f + ROUNDING) - ROUNDING, r = remainder_of_ln2(x, n);
  return times_power_of_two(exponential_rest(r), n);
}

// e^x, and infinity for x above `most`, which is 88 or less.
INLINE floats exponential_up_to(float most, floats x) {
  floats e = exponential_below(smaller(splat(most), x));
  return choose(x > most, splat(__builtin_inff()), e);
}

INLINE floats with_sign_of(floats sign, floats size) {
  return (floats)((ints)size | ((ints)sign & (ints)splat(-0.0f)));
}

// x + x^3 p(x^2) below 0.625, and 1 - 2e / (1 + e) with e = e^-2|x| above.
INLINE floats hyperbolic_tangent(floats x) {
  floats y = x * x, e = exponential_below(absolute(x) * -2.0f);
  floats p = y * -5.71704330e-3f + 2.06505861e-2f;
  p = p * y - 5.37434965e-2f;
  p = p * y + 1.33314908e-1f;
  p = p * y - 3.33332837e-1f;
  floats near = y * x * p + x, far = 1.0f - (e + e) / (e + 1.0f);
  return with_sign_of(x, choose(absolute(x) < 0.625f, near, far));
}

// ---- logarithms ---------------------------------------------------------------------------------------------------------

// n ln2 + log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1. With s = f / (2 + f) it is 2s + s^3 r(s^2), of which 2s is
// written as f - s f.
INLINE floats logarithm_of_sum(floats n, floats f) {
  floats s = f / (f + 2.0f), z = s * s, half = f * f * 0.5f;
  floats r = z * 2.35835686e-1f + 2.85372376e-1f;
  r = r * z + 4.00003374e-1f;
  r = (r * z + 6.66666627e-1f) * z;
  return n * 0.693359375f - ((half - (s * (half + r) + n * -2.12194440e-4f)) - f);
}

// log(x); NaN below zero.
INLINE floats logarithm(floats x) {
  ints is_denormal = x < 1.17549435e-38f;
  ints bits = (ints)choose(is_denormal, x * 8388608.0f, x) - 0x3f3504f3;  // 0x3f3504f3 is sqrt(1/2)
  floats n = __builtin_convertvector((bits >> 23) - (is_denormal & 23), floats);
  floats y = logarithm_of_sum(n, (floats)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f);
  y = choose(x == 0.0f, splat(-__builtin_inff()), y);
  y = choose(x < __builtin_inff(), y, x);
  return choose(x < 0.0f, splat(__builtin_nanf("")), y);
}

// log(1 + x) for x from 0 to 1.
INLINE floats logarithm_above_one(floats x) {
  ints is_far = x > 0.414213562f;
  floats y = logarithm_of_sum(choose(is_far, splat(1.0f), splat(0.0f)), choose(is_far, (x - 1.0f) * 0.5f, x));
  return choose(x == x, y, x);
}

// ---- erf ----------------------------------------------------------------------------------------------------------------

// x + x p(x^2) below 1, and 1 - e^q(|x|) above.
INLINE floats error_function(floats x) {
  floats a = smaller(splat(3.95f), absolute(x)), y = x * x;
  floats p = y * 7.85386437e-5f - 8.01019429e-4f;
  p = p * y + 5.18832775e-3f;
  p = p * y - 2.68538129e-2f;
  p = p * y + 1.12835854e-1f;
  p = p * y - 3.76126260e-1f;
  p = p * y + 1.28379166e-1f;
  floats q = a * -2.16867394e-5f + 4.41334996e-4f;
  q = q * a - 4.20455495e-3f;
  q = q * a + 2.52082366e-2f;
  q = q * a - 1.08418547e-1f;
  q = q * a - 6.33219898e-1f;
  q = q * a - 1.12957835f;
  q = q * a + 1.88036240e-4f;
  return choose(absolute(x) < 1.0f, x * p + x, with_sign_of(x, 1.0f - exponential_below(q)));
}

// erf within 4e-7 in half the time, for what is added to 1: x P(x^2) / Q(x^2) for |x| <= 3.925, beyond which it is 1.
INLINE floats error_function_roughly(floats x) {
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

// ---- sines --------------------------------------------------------------------------------------------------------------

// x - n pi/2 for the nearest n, of which two bits are kept, for 1 <= x < infinity. Of 2 / pi it takes the 96 bits from the
// one on that x = whole * 2^scale makes a 2 of: those before give multiples of four.
static __attribute__((noinline, unused)) float far_remainder(float x, int32_t *n) {
  static const uint32_t part[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                  0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  uint64_t whole = (bits & 0x7fffff) | 0x800000;
  uint32_t from = ((bits >> 23) & 0xff) - 120, skipped = from % 32;
  const uint32_t *at = part + from / 32;
  uint64_t high = (uint64_t)at[0] << 32 | at[1], low = (uint64_t)at[2] << 32 | at[3];
  high = skipped ? high << skipped | low >> (64 - skipped) : high;
  uint64_t turns = whole * high + (whole * (low << skipped >> 32) >> 32), nearest = (turns + (1ull << 61)) >> 62;
  *n = (int32_t)nearest;
  return (float)((double)(int64_t)(turns - (nearest << 62)) * 3.4061215800865545e-19);
}

// sin(x + turned pi/2). pi/2 is split so that n times each part but the last is exact, and so is `before`. What rounding
// `r` leaves is added with the last.
INLINE floats sine_turned(const int turned, floats x) {
  floats shifted = x * 0.636619772f + ROUNDING, n = shifted - ROUNDING;
  floats before = x - n * 1.5703125f - n * 4.837512969970703e-4f, part = n * 7.549533620476723e-8f, r = before - part;
  r += ((before - r) - part) - n * 2.563344151594519e-12f;
  ints quarters = (ints)shifted, is_far = absolute(x) >= 12800.0f;
  if (__builtin_expect(any_lane(is_far), 0))
    for (int i = 0; i < LANES; i++)
      if (is_far[i]) {
        int32_t quarter;
        float rest = far_remainder(x[i] < 0 ? -x[i] : x[i], &quarter);
        r[i] = x[i] < 0 ? -rest : rest;
        quarters[i] = x[i] < 0 ? -quarter : quarter;
      }
  quarters += turned;
  floats z = r * r;
  floats s = (z * -1.95172353e-4f + 8.33217800e-3f) * z - 1.66666552e-1f;
  floats c = (z * 2.44381791e-5f - 1.38873665e-3f) * z + 4.16666456e-2f;
  s = r * z * s + r;
  c = c * z * z - (z * 0.5f - 1.0f);
  floats y = choose((quarters & 1) == 1, c, s);
  y = (floats)((ints)y ^ (quarters << 30 & (ints)splat(-0.0f)));
  return choose(absolute(x) < __builtin_inff(), y, x - x);
}

INLINE floats sine(floats x) { return choose(x == 0.0f, x, sine_turned(0, x)); }

INLINE floats cosine(floats x) { return sine_turned(1, x); }

// ---- activations --------------------------------------------------------------------------------------------------------

// Which function it is, as the rule that calls the kernel says. Those from MISH on follow no product.
enum { NOTHING, RELU, GELU, GELU_TANH, SILU, RELU6, HARD_SWISH, MISH, SOFTPLUS, ERF, SINE, COSINE };

// log(1 + e^x).
INLINE floats softplus(floats x) {
  return larger(splat(0.0f), x) + logarithm_above_one(exponential(-absolute(x)));
}

INLINE floats activate(const int which, floats x) {
  switch (which) {
    case RELU:
      return larger(splat(0.0f), x);
    case GELU:
      return x * 0.5f * (error_function_roughly(x * 0.707106781f) + 1.0f);
    case GELU_TANH:  // (1 + tanh(u)) / 2 is 1 / (1 + e^-2u), which loses nothing where tanh is near -1
      // Where tanh is -1 even in f64 it is 0, so that its product with an infinite gate is NaN as it is elsewhere.
      return x / (exponential_up_to(37.0f, x * (x * x * -0.0713548163f - 1.59576912f)) + 1.0f);
    case SILU:
      return x / (exponential(-x) + 1.0f);
    case RELU6:
      return smaller(splat(6.0f), larger(splat(0.0f), x));
    case HARD_SWISH:
      return x * (smaller(splat(6.0f), larger(splat(0.0f), x + 3.0f)) * 0.166666667f);
    case MISH: {  // tanh(log(1 + t)) is s / (s + 2) with s = t (t + 2); it is 1 in f32 from t = e^10 on
      floats t = exponential(smaller(splat(10.0f), x)), s = t * (t + 2.0f);
      return x * (s / (s + 2.0f));
    }
    case SOFTPLUS:
      return softplus(x);
    case ERF:
      return error_function(x);
    case SINE:
      return sine(x);
    case COSINE:
      return cosine(x);
    default:
      return x;
  }
}

// Those of many instructions are not written out where they are called.
#define LONG_ACTIVATIONS(CASE_OF) CASE_OF(GELU) CASE_OF(GELU_TANH) CASE_OF(SILU) CASE_OF(HARD_SWISH)
#define IS_KIND(kind) || which == kind
INLINE int is_long(size_t which) { return 0 LONG_ACTIVATIONS(IS_KIND); }

static __attribute__((noinline, unused)) floats activate_slowly(size_t which, floats x) {
#define ACTIVATE(kind) case kind: return activate(kind, x);
  switch (which) { LONG_ACTIVATIONS(ACTIVATE) }
  return x;
}

// Of `count` vectors, of which a CPU computes some at once.
static __attribute__((noinline, unused)) void activate_many(size_t which, floats *values, size_t count) {
#define ACTIVATE_EACH(kind) \
  case kind: \
    ROLLED for (size_t i = 0; i < count; i++) values[i] = activate(kind, values[i]); \
    return;
  switch (which) { LONG_ACTIVATIONS(ACTIVATE_EACH) }
}

// The same where it is known at run time only, which activation it is.
INLINE floats activated(size_t which, floats x) {
  if (which == NOTHING) return x;
  if (which == RELU6) return activate(RELU6, x);
  return which == RELU ? activate(RELU, x) : activate_slowly(which, x);
}
#endif
